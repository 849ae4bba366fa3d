//! Puts the rooms together: the store that was chosen, under an engine, behind listeners.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use kew_azure::{KeySet, Verifier};
use kew_console::{
    Board, Console, DiskSpace, InFlightLimits, News, NewsSink, Running, StoreDisk, StorePlace, UpkeepReport,
};
use kew_core::{AccountId, Entropy, Timestamp};
use kew_engine::{Options, TimeSource};
use kew_http::{Drain, Durations, Guard, Histogram, Limits, Replies, Tls, TlsFiles};
use kew_log_pg::{PgDisk, PgStore};
use kew_push::workers::Workers;
use kew_store::ledger::Bounds;
use kew_store::{MemoryStore, Store};
use kew_store_log::{Drive, LogOptions, SegmentOptions};

use crate::alarms::AlarmPosts;
use crate::backups::StoreBackups;
use crate::bind::{self, Bound, Sockets};
use crate::config::{Auth, Bearer, BearerSettings, Settings, StoreChoice, UrlStyle};
use crate::kept::KeptStore;
use crate::listen::{
    Admin, AdminLoop, AdminPlace, CertificateWatch, Certificates, Dialect, Entrance, EventLoop,
    FrontEndSettings, MayAnswer, Serves, Started, TokenKeysError, TokenKeysWatch,
};
use crate::log::{Area, Level, Log};
use crate::machine::{self, DatabaseTime, SystemEntropy, SystemTimeSource};
use crate::push::{Pushes, WorkersWanted};
use crate::refused::Failures;
use crate::start_error::StartError;
use crate::{credentials, message_notes, notices, opening, push};

/// Files that are not connections of clients: segments, checkpoints, the loops' own, the admin API's connections.
const OTHER_FILES: u64 = 512;
const CONNECTIONS_MAX: u64 = 100_000;
const ADMIN_CONNECTIONS_MAX: usize = 128;

/// A server that runs.
pub struct Server {
    /// Where it is served.
    pub bound: Bound,
    /// How many connections may be open.
    pub connections_max: usize,
    kept: Kept,
    backups: Option<Arc<StoreBackups>>,
    drain: Drain,
    pushes: Pushes,
    others_ended: Drain,
    running: Started,
    board: Arc<Board>,
    admin: Option<Admin>,
    alarm_posts: Arc<AlarmPosts>,
    certificates: Option<CertificateWatch>,
    token_keys: Option<TokenKeysWatch>,
    log: Log,
}

impl Server {
    /// Starts everything; when it returns, requests are served.
    pub fn start(settings: &Settings, log: Log) -> Result<Self, StartError> {
        let connections_max = connections_max(settings);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new().map_err(|error| {
            StartError::Machine { doing: "asking for random numbers", cause: std::io::Error::other(error) }
        })?);
        let mut certificates = Certificates::default();
        let admin_tls = certificates.load(settings.tls.admin.as_ref())?;
        let (keys, token_keys) = token_keys(settings, log.of(Area::Tls))?;
        let (sockets, mut bound) = bind::bind(&settings.server)?;
        let upkeep = upkeep_report(log.of(Area::Store));
        let alarm_posts = AlarmPosts::start(&settings.alarms, Arc::clone(&upkeep) as _);
        let alarm_posts =
            alarm_posts.map_err(|cause| StartError::Machine { doing: "starting the alarms", cause })?;
        let inner_token = format!("{:032x}", entropy.wide_bits()).into();
        let parts = Parts {
            settings,
            entropy,
            connections_max,
            drain: Drain::default(),
            others_ended: Drain::default(),
            durations: Arc::default(),
            replies: Replies::new(settings.limits.http.replies_bytes_max),
            syncs: Arc::default(),
            board: Arc::default(),
            upkeep,
            alarm_posts: Arc::new(alarm_posts),
            token_keys: keys,
            admin_place: bound.admin.map(|address| {
                let encrypted = settings.tls.admin.is_some();
                AdminPlace { address, encrypted }
            }),
            inner_token,
            workers: Arc::default(),
            failures: Arc::new(Failures::new(log, settings.server.store.to_string())),
            log,
        };
        let Sockets { mut entrances, admin } = sockets;
        // It answers while the store is being opened.
        let admin = admin.map(|socket| parts.admin(socket, admin_tls).start()).transpose();
        let admin = admin.map_err(|cause| StartError::Machine { doing: "starting the admin API", cause })?;
        let owned = parts.own_store(&mut entrances, &mut bound)?;
        let mut doors = Vec::new();
        for (serves, socket) in entrances {
            let tls = certificates.load(tls_files(settings, serves))?;
            doors.push(parts.entrance(serves, socket, tls));
        }
        let (kept, running) = parts.open_and_run(owned, doors)?;
        let pushes = parts.consumers(&bound, &running)?;
        let backups = parts.backups(&kept)?;
        let place = store_place(settings, &kept, running.engine.now());
        let disk = store_disk(&settings.server.store);
        parts.board.serving(on_board(&running, &pushes, (&kept, &backups), (place, disk)));
        let certificates = certificates.watch(log.of(Area::Tls));
        let certificates = certificates
            .map_err(|cause| StartError::Machine { doing: "watching the certificates", cause })?;
        let Parts { drain, others_ended, board, alarm_posts, .. } = parts;
        Ok(Self {
            bound,
            connections_max,
            kept,
            backups,
            drain,
            pushes,
            others_ended,
            running,
            board,
            admin,
            alarm_posts,
            certificates,
            token_keys,
            log,
        })
    }

    /// Where messages are kept, for people.
    pub fn store_line(&self) -> String {
        match &self.kept {
            Some(kept) => kept.place.clone(),
            None => "memory".to_owned(),
        }
    }

    /// Why everything is to be started again: another node owns the store in PostgreSQL by now, or the store stopped.
    pub fn lost(&self) -> Option<String> {
        let kept = self.kept.as_ref()?;
        let over = kept.owned.as_ref()?.tenure().over().map(ToOwned::to_owned);
        over.or_else(|| kept.store.health().err().map(|error| error.to_string()))
    }

    /// Why requests are refused for now, if they are.
    pub fn refusal(&self) -> Option<String> {
        self.kept.as_ref()?.owned.as_ref()?.tenure().refusal()
    }

    /// What resolves when nothing is served any more without an order to stop; it can be had once.
    pub fn ended(&mut self) -> impl Future<Output = ()> + use<> {
        self.running.ended()
    }

    /// Stops accepting, ends long polls, lets requests finish, and closes the store. Health checks are answered to the
    /// end.
    pub fn stop(self) -> Result<(), String> {
        self.board.stopping();
        self.pushes.begin_to_stop();
        self.drain.close();
        self.running.engine.shutdown();
        let pushed = self.pushes.join();
        self.others_ended.close();
        self.running.join().map_err(|error| error.to_string())?;
        if let Some(backups) = self.backups {
            backups.stop();
        }
        if let Some(kept) = self.kept {
            kept.close(self.log.of(Area::Store))?;
        }
        self.alarm_posts.stop();
        if let Some(admin) = self.admin {
            admin.stop().map_err(|error| error.to_string())?;
        }
        if let Some(certificates) = self.certificates {
            certificates.stop().map_err(|error| error.to_string())?;
        }
        if let Some(token_keys) = self.token_keys {
            token_keys.stop().map_err(|error| error.to_string())?;
        }
        pushed.map_err(|error| error.to_string())?;
        self.log.tell(Level::Info, "stopped", &[]);
        Ok(())
    }
}

/// What everything is made of.
struct Parts<'a> {
    settings: &'a Settings,
    entropy: Arc<dyn Entropy>,
    connections_max: usize,
    drain: Drain,
    others_ended: Drain,
    durations: Arc<Durations>,
    replies: Replies,
    syncs: Arc<Histogram>,
    board: Arc<Board>,
    upkeep: Arc<UpkeepReport>,
    alarm_posts: Arc<AlarmPosts>,
    token_keys: Arc<KeySet>,
    admin_place: Option<AdminPlace>,
    /// What Workers show when they send.
    inner_token: Arc<str>,
    /// The Workers, once they run.
    workers: Arc<OnceLock<Arc<Workers>>>,
    /// What failed of requests.
    failures: Arc<Failures>,
    log: Log,
}

/// A store that is kept.
type Kept = Option<KeptStore>;

impl Parts<'_> {
    /// Owns the store in PostgreSQL, if that is where it is. While another node does, nothing listens but the admin
    /// API: clients are refused at once and go to the other node.
    fn own_store(
        &self,
        entrances: &mut Vec<(Serves, TcpListener)>,
        bound: &mut Bound,
    ) -> Result<Option<PgDisk>, StartError> {
        let StoreChoice::Postgres(url) = &self.settings.server.store else { return Ok(None) };
        let (node, mut waited) = (self.settings.server.node.as_deref(), false);
        let disk = opening::own_postgres(url, node, &*self.entropy, self.log.of(Area::Store), |why| {
            entrances.clear();
            waited = true;
            self.board.waiting(why);
        })?;
        if waited {
            self.board.starting();
            *entrances = bind::bind_entrances(&self.settings.server, bound)?;
        }
        Ok(Some(disk))
    }

    fn open_and_run(
        &self,
        owned: Option<PgDisk>,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Started), StartError> {
        let limits = &self.settings.limits;
        let bounds = Bounds {
            deduplication_ids: limits.dedup_ids,
            events: limits.history_events,
            ..Bounds::default()
        };
        match &self.settings.server.store {
            StoreChoice::Memory => {
                let warning = "messages are kept in memory only and are gone when the server stops";
                self.log.tell(Level::Warn, warning, &[]);
                let store = MemoryStore::with_bounds(Arc::clone(&self.entropy), bounds);
                Ok((None, self.run(Arc::new(store), Arc::new(SystemTimeSource), None, entrances)?))
            }
            StoreChoice::Postgres(url) => {
                let disk = owned.expect("the store in PostgreSQL was owned before it is opened");
                let options = LogOptions {
                    drive: Drive::Loop,
                    durability: self.settings.server.durability,
                    // Ids that were put away would be read from the database while steps wait.
                    bounds: Bounds { deduplication_ids_max: limits.dedup_ids, ..bounds },
                    segments: segments(),
                    ..LogOptions::default()
                };
                let tenure = Arc::clone(disk.tenure());
                let entropy = Arc::clone(&self.entropy);
                let log =
                    opening::open_postgres(disk.clone(), url, options, entropy, self.log.of(Area::Store))?;
                log.report_to(Arc::clone(&self.upkeep) as _);
                let store = Arc::new(PgStore::new(Arc::clone(&log), Arc::clone(&tenure)));
                let held = Arc::clone(&tenure);
                let may_answer: MayAnswer = Arc::new(move || held.is_held());
                let time = Arc::new(DatabaseTime::new(tenure));
                let running = self.run(store, time, Some(may_answer), entrances)?;
                Ok((Some(KeptStore { store: log, place: url.to_string(), owned: Some(disk) }), running))
            }
            StoreChoice::Directory(path) => {
                let durability = self.settings.server.durability;
                let options = LogOptions {
                    drive: Drive::Loop,
                    durability,
                    bounds,
                    segments: segments(),
                    ..LogOptions::default()
                };
                let store =
                    opening::open(path, options, Arc::clone(&self.entropy), self.log.of(Area::Store))?;
                store.report_to(Arc::clone(&self.upkeep) as _);
                opening::scrub(&store, path, self.settings.scrub)?;
                let place = path.display().to_string();
                let kept = Some(KeptStore { store: Arc::clone(&store), place, owned: None });
                Ok((kept, self.run(store, Arc::new(SystemTimeSource), None, entrances)?))
            }
        }
    }

    fn run<S: Store + 'static>(
        &self,
        store: Arc<S>,
        source: Arc<dyn TimeSource>,
        may_answer: Option<MayAnswer>,
        entrances: Vec<Entrance>,
    ) -> Result<Started, StartError> {
        let (log, limits, upkeep) =
            (self.log.of(Area::Clock), &self.settings.limits, Arc::clone(&self.upkeep));
        let options = Options {
            clock: self.settings.server.clock,
            clock_leap_max: self.settings.server.clock_leap_max,
            clock_settle: self.settings.server.clock_settle,
            waiters_max: limits.waiters_max,
            waiters_per_queue_max: limits.waiters_per_queue_max,
            queues_max: limits.queues_max,
            notices: Arc::new(move |notice| notices::tell(log, &*upkeep, notice)),
            ..Options::default()
        };
        let event_loop = EventLoop {
            store,
            source,
            entropy: Arc::clone(&self.entropy),
            options,
            front_ends: self.front_ends(may_answer)?,
            entrances,
            syncs: Arc::clone(&self.syncs),
            limits: self.limits(self.connections_max),
            replies: self.replies.clone(),
            drain: self.drain.clone(),
            others_ended: self.others_ended.clone(),
        };
        event_loop.start().map_err(|cause| StartError::Machine { doing: "starting the event loop", cause })
    }

    fn consumers(&self, bound: &Bound, running: &Started) -> Result<Pushes, StartError> {
        let workers = WorkersWanted { bound, token: Arc::clone(&self.inner_token), place: &self.workers };
        let engine = Arc::clone(&running.engine);
        let told = (self.log.of(Area::Push), Arc::clone(&self.upkeep));
        let pushes = Pushes::start(engine, self.settings, Arc::clone(&self.entropy), workers, told);
        pushes.map_err(StartError::Consumers)
    }

    /// Backups of a store in a directory; other stores are backed up by other means.
    fn backups(&self, kept: &Kept) -> Result<Option<Arc<StoreBackups>>, StartError> {
        let (StoreChoice::Directory(path), Some(kept)) = (&self.settings.server.store, kept) else {
            return Ok(None);
        };
        let log = self.log.of(Area::Store);
        let backups = StoreBackups::new(Arc::clone(&kept.store), path, Arc::clone(&self.entropy), log);
        let backups = backups.map_err(|cause| StartError::Directory { path: path.clone(), cause })?;
        Ok(Some(Arc::new(backups)))
    }

    fn front_ends(&self, may_answer: Option<MayAnswer>) -> Result<FrontEndSettings, StartError> {
        let sqs = &self.settings.sqs;
        let sqs = kew_sqs::Settings {
            auth: credentials::sqs(self.settings)?,
            region: sqs.region.as_str().into(),
            external_url: sqs.external_url.as_deref().map(Into::into),
            url_style: self.url_style(),
            cors_origins: sqs.cors_origins.as_slice().into(),
            name_hold: sqs.name_hold,
            purge_interval: sqs.purge_interval,
            standard_in_flight_limit: sqs.standard_in_flight_limit,
            fifo_in_flight_limit: sqs.fifo_in_flight_limit,
            failures: Arc::new(self.failures()),
            ..kew_sqs::Settings::default()
        };
        Ok(FrontEndSettings {
            admin: self.admin_place,
            sqs,
            azure: self.azure(),
            cloudflare: self.cloudflare(),
            durations: Arc::clone(&self.durations),
            may_answer,
        })
    }

    /// What becomes of a failure that is ours. It may name files, which are the store's: so it tells which store.
    fn failures(&self) -> impl Fn(kew_http::RequestId, &str) + Send + Sync + use<> {
        let failures = Arc::clone(&self.failures);
        move |id, cause| failures.note(id, cause)
    }

    fn cloudflare(&self) -> kew_cloudflare::Settings {
        kew_cloudflare::Settings {
            accounts: credentials::cloudflare(self.settings),
            trust: match self.settings.server.auth {
                Auth::Open => kew_cloudflare::Trust::Open,
                Auth::Strict => kew_cloudflare::Trust::Strict,
            },
            in_flight_max: self.settings.limits.in_flight_max,
            inner_token: Some(Arc::clone(&self.inner_token)),
            scripts: kew_cloudflare::Scripts {
                workers: Arc::clone(&self.workers),
                wanted: self.settings.workers.run,
                exposed: self.settings.workers.exposed,
            },
            failures: Arc::new(self.failures()),
            ..kew_cloudflare::Settings::open(self.settings.sqs.region.as_str().into())
        }
    }

    fn url_style(&self) -> kew_sqs::UrlStyle {
        match self.settings.sqs.url_style {
            UrlStyle::Path => kew_sqs::UrlStyle::Path,
            UrlStyle::Standard => kew_sqs::UrlStyle::Standard,
        }
    }

    fn azure(&self) -> kew_azure::Settings {
        let azure = &self.settings.azure;
        let accounts = credentials::azure(self.settings);
        let region = self.settings.sqs.region.as_str().into();
        kew_azure::Settings {
            trust: match self.settings.server.auth {
                Auth::Open => kew_azure::Trust::Open,
                Auth::Strict => kew_azure::Trust::Strict,
            },
            bearer: self.bearer(),
            host_style: azure.host_style,
            host_parents: azure.host_parents.as_slice().into(),
            skew: azure.skew,
            in_flight_max: self.settings.limits.in_flight_max,
            queue_deletion_delay: azure.queue_deletion_delay,
            failures: Arc::new(self.failures()),
            ..kew_azure::Settings::open(
                accounts,
                region,
                Arc::new(machine::SystemClock),
                Arc::clone(&self.entropy),
            )
        }
    }

    fn bearer(&self) -> kew_azure::Bearer {
        match &self.settings.azure.bearer {
            Bearer::Off => kew_azure::Bearer::Off,
            Bearer::Basic => kew_azure::Bearer::Basic,
            Bearer::Strict(BearerSettings { issuers, audiences, skew, .. }) => {
                let keys = Arc::clone(&self.token_keys);
                let verifier = Verifier::new(issuers.clone(), audiences.clone(), *skew, keys);
                kew_azure::Bearer::Verified(Arc::new(verifier))
            }
        }
    }

    fn entrance(&self, serves: Serves, socket: TcpListener, tls: Option<Tls>) -> Entrance {
        let guard = match serves {
            Serves::Only(Dialect::Azure) => self.azure().guard(self.guard()),
            Serves::Only(Dialect::Sqs) => {
                let origins = self.settings.sqs.cors_origins.as_slice().into();
                self.url_style().guard(self.guard()).with_origins(&origins)
            }
            Serves::All => self.azure().hosts(self.url_style().guard(self.guard())),
            Serves::Only(Dialect::Cloudflare) if self.settings.workers.run => {
                self.guard().with_hosts_like(kew_cloudflare::is_workers_host)
            }
            Serves::Only(Dialect::Cloudflare) => self.guard(),
        };
        // Handlers of Workers that finish at the end still send through it.
        let is_last = self.settings.workers.run && serves == Serves::Only(Dialect::Cloudflare);
        let drain = if is_last { self.others_ended.clone() } else { self.drain.clone() };
        Entrance { serves, socket, guard, tls, drain }
    }

    /// Who may reach a listener.
    fn guard(&self) -> Guard {
        let server = &self.settings.server;
        match server.auth {
            Auth::Strict => Guard::strict(),
            Auth::Open if server.insecure => Guard::open().with_any_host(),
            Auth::Open => {
                let external = self.settings.sqs.external_url.as_deref().and_then(host_of);
                Guard::open().with_hosts(server.hosts.iter().cloned().chain(external))
            }
        }
    }

    fn admin(&self, socket: TcpListener, tls: Option<Tls>) -> AdminLoop {
        let log = self.log;
        let settings = kew_console::Settings {
            token: self.settings.admin_token.as_ref().map(|token| token.0.as_str().into()),
            users: self.settings.admin_users.as_slice().into(),
            metrics_token: self.settings.metrics_token.as_ref().map(|token| token.0.as_str().into()),
            guard: self.guard(),
            metrics_queues: self.settings.limits.metrics_queues,
            in_flight_limits: self.in_flight_limits(),
            durations: Arc::clone(&self.durations),
            store_syncs: Arc::clone(&self.syncs),
            upkeep: Arc::clone(&self.upkeep),
            replies: self.replies.clone(),
            version: env!("CARGO_PKG_VERSION"),
            account: AccountId(0),
            region: self.settings.sqs.region.as_str().into(),
            time: Arc::new(SystemTimeSource),
            entropy: Arc::clone(&self.entropy),
            audit: Arc::new(move |entry| notices::tell_audit(log.of(Area::Admin), entry)),
            shown: self.settings.shown.as_slice().into(),
            alarms: self.settings.alarms.as_slice().into(),
            news: self.news(),
            notes: Arc::new(message_notes::SqsNotes),
        };
        AdminLoop {
            console: Console::new(Arc::clone(&self.board), settings),
            socket,
            entropy: Arc::clone(&self.entropy),
            limits: self.limits(ADMIN_CONNECTIONS_MAX),
            replies: self.replies.clone(),
            tls,
        }
    }

    /// Logs what there is to tell, and posts changes of alarms.
    fn news(&self) -> Arc<NewsSink> {
        let (log, posts) = (self.log, Arc::clone(&self.alarm_posts));
        Arc::new(move |news| {
            notices::tell_news(log, news);
            if let News::Alarm(change) = news {
                posts.post(change);
            }
        })
    }

    /// The first limit that some dialect meets: SQS has its own, the others share the server's.
    fn in_flight_limits(&self) -> InFlightLimits {
        let sqs = &self.settings.sqs;
        InFlightLimits {
            standard: sqs.standard_in_flight_limit.min(self.settings.limits.in_flight_max),
            fifo: sqs.fifo_in_flight_limit,
        }
    }

    fn limits(&self, connections_max: usize) -> Limits {
        Limits { connections_max, ..self.settings.limits.http }
    }
}

/// Collects how the work beside requests goes, and logs it.
fn upkeep_report(log: Log) -> Arc<UpkeepReport> {
    let source = Arc::new(SystemTimeSource);
    Arc::new(UpkeepReport::new(source, move |news| notices::tell_upkeep(log, &news)))
}

/// What the console shows of a server that serves.
fn on_board(
    running: &Started,
    pushes: &Pushes,
    (kept, backups): (&Kept, &Option<Arc<StoreBackups>>),
    (place, disk): (StorePlace, Option<Box<StoreDisk>>),
) -> Running {
    let (counted, latest) = (Arc::clone(&pushes.attempts), Arc::clone(&pushes.attempts));
    let circuits = Arc::clone(&pushes.circuits);
    let store = kept.as_ref().map(|kept| Arc::clone(&kept.store));
    Running {
        engine: Arc::clone(&running.engine),
        home: running.handle.clone(),
        push_attempts: Box::new(move || push::counted(&counted)),
        latest_pushes: Box::new(move || push::latest(&latest)),
        open_circuits: Box::new(move || push::open(&circuits)),
        store_bytes: store.map(|store| Box::new(move || store.live_and_dead_bytes()) as Box<_>),
        disk,
        backups: backups.as_ref().map(|backups| Arc::clone(backups) as Arc<_>),
        place,
    }
}

/// The disk that the store lies on.
fn store_disk(store: &StoreChoice) -> Option<Box<StoreDisk>> {
    let StoreChoice::Directory(path) = store else { return None };
    let path = path.clone();
    Some(Box::new(move || {
        let (free, all) = machine::disk_bytes(&path)?;
        Some(DiskSpace { free, all })
    }))
}

/// What and where the store is, and whose.
fn store_place(settings: &Settings, kept: &Kept, now: Timestamp) -> StorePlace {
    let owned = kept.as_ref().and_then(|kept| kept.owned.as_ref());
    StorePlace {
        kind: match settings.server.store {
            StoreChoice::Memory => "memory",
            StoreChoice::Directory(_) => "directory",
            StoreChoice::Postgres(_) => "postgres",
        },
        text: settings.server.store.to_string(),
        owner: machine::host_name(),
        epoch: owned.and_then(|disk| u64::try_from(disk.tenure().epoch()).ok()).unwrap_or_default(),
        since: now,
    }
}

/// The keys of bearer tokens, and what looks after them. Open mode does not use them.
fn token_keys(
    settings: &Settings,
    log: Log,
) -> Result<(Arc<KeySet>, Option<TokenKeysWatch>), TokenKeysError> {
    let keys: Arc<KeySet> = Arc::default();
    let watch = match (&settings.azure.bearer, settings.server.auth) {
        (_, Auth::Open) | (Bearer::Off, Auth::Strict) => None,
        (Bearer::Basic, Auth::Strict) => {
            let warning =
                "[azure] bearer = \"basic\" believes tokens whoever wrote them: for development only";
            log.tell(Level::Warn, warning, &[]);
            None
        }
        (Bearer::Strict(bearer), Auth::Strict) => {
            Some(TokenKeysWatch::start(bearer.keys.clone(), Arc::clone(&keys), log)?)
        }
    };
    Ok((keys, watch))
}

/// The certificate of a listener.
fn tls_files(settings: &Settings, serves: Serves) -> Option<&TlsFiles> {
    match serves {
        Serves::Only(Dialect::Sqs) => settings.tls.sqs.as_ref(),
        Serves::Only(Dialect::Azure) => settings.tls.azure.as_ref(),
        Serves::Only(Dialect::Cloudflare) => settings.tls.cloudflare.as_ref(),
        Serves::All => settings.tls.also.as_ref(),
    }
}

/// As many as there may be open files, less what else needs some.
fn connections_max(settings: &Settings) -> usize {
    let connections = machine::raise_open_files().saturating_sub(OTHER_FILES).clamp(16, CONNECTIONS_MAX);
    let possible = usize::try_from(connections).unwrap_or(usize::MAX);
    settings.limits.connections_max.map_or(possible, |wanted| wanted.min(possible))
}

/// Segments, of whose files a quarter of all open ones may be open where the system allows few.
fn segments() -> SegmentOptions {
    let usual = SegmentOptions::default();
    let quarter = usize::try_from(machine::raise_open_files() / 4).unwrap_or(usize::MAX);
    SegmentOptions { open_max: usual.open_max.min(quarter), ..usual }
}

/// The host that a base URL names, without its port.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Some(host.to_ascii_lowercase())
}
