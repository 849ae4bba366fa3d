//! Puts the parts together: the store that was chosen, under an engine, behind listeners.

mod admin;
mod front_ends;
mod loops;
mod store;

use std::sync::{Arc, OnceLock};

use kew_azure::KeySet;
use kew_console::{Board, Console, Running, UpkeepReport};
use kew_core::{Entropy, ShardCount};
use kew_engine::Engine;
use kew_http::{
    Connections, Drain, Droppable, Dropped, Durations, Exchange, Histogram, Ration, Replies, Witness,
    Witnesses,
};
use kew_log_pg::{Ending, Undropped};
use kew_push::workers::{OtherNodes, Workers};
use kew_store::Store as _;
use kew_store_log::{Laid, laid_out};

use crate::access::{AccessLog, AccessWriter};
use crate::alarms::AlarmPosts;
use crate::bind::{self, Bound, Sockets};
use crate::config::{Auth, Bearer, Settings};
use crate::consumers::push::Pushes;
use crate::firing::FiringAlarms;
use crate::fleet::{FleetEnd, FleetNode};
use crate::listen::{Admin, AdminPlace, CertificateWatch, Certificates, TokenKeysError, TokenKeysWatch};
use crate::log::{Area, Level, Log};
use crate::machine::{self, SystemEntropy};
use crate::reports::notices;
use crate::reports::refused::Failures;
use crate::reports::requests::RequestLines;
use crate::start_error::StartError;
use crate::store::backups::StoreBackups;
use crate::store::kept::Kept;
use crate::telemetry::{Exporter, Spans};
use admin::{alarm_lost, on_board, store_disk, store_place, upkeep_report};
use loops::Loops;

/// Files that are not connections of clients: segments, checkpoints, the loops' own, the admin API's connections.
const OTHER_FILES: u64 = 512;
/// Files of each further shard of a directory: segments, spares, checkpoint, ids, its loop's own, its listeners.
const FILES_OF_A_SHARD: u64 = 30;
/// Below this many files nothing starts: an idle server of one shard has 33 open, and the fewest connections, also
/// of the admin API, those that are turned away and a checkpoint need the rest.
const FILES_MIN: u64 = 96;
/// Below this many files the server warns.
const FILES_ADVISED: u64 = 1_024;
/// Of the admin API, which has its own.
const ADMIN_CONNECTIONS_MAX: usize = 128;
/// The same where few files may be open.
const ADMIN_CONNECTIONS_FEW: usize = 16;
/// However few files there may be.
const CONNECTIONS_MIN: u64 = 16;
const CONNECTIONS_MAX: u64 = 100_000;
/// How long the last look may take.
const LAST_LOOK: std::time::Duration = std::time::Duration::from_secs(1);
/// How long a node of a fleet keeps its shards for the sake of batches under way, when it is told to stop.
const BATCHES_BEFORE_HAND_OVER: std::time::Duration = std::time::Duration::from_secs(5);

/// A server that runs.
pub struct Server {
    /// Where it is served.
    pub bound: Bound,
    /// How many connections may be open.
    pub connections_max: usize,
    store_text: String,
    kept: Kept,
    fleet_end: Option<FleetEnd>,
    backups: Option<Arc<StoreBackups>>,
    drain: Drain,
    pushes: Pushes,
    others_ended: Drain,
    running: Loops,
    board: Arc<Board>,
    admin: Admin,
    console: Console,
    alarm_posts: Arc<AlarmPosts>,
    certificates: Option<CertificateWatch>,
    token_keys: Option<TokenKeysWatch>,
    access: Option<AccessWriter>,
    log: Log,
}

impl Server {
    /// Starts everything; when it returns, requests are served. `ending` ends an opening that waits or is under way.
    pub fn start(settings: &Settings, log: Log, ending: &Ending) -> Result<Self, StartError> {
        let files = open_files(settings, log)?;
        let connections_max = connections_max(settings, files);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new().map_err(|error| {
            StartError::Machine { doing: "asking for random numbers", cause: std::io::Error::other(error) }
        })?);
        let mut certificates = Certificates::default();
        let admin_tls = certificates.load(settings.tls.admin.as_ref())?;
        let (keys, token_keys) = token_keys(settings, log.of(Area::Tls))?;
        let (sockets, mut bound) = bind::bind(&settings.server)?;
        let mut parts = Parts::new(settings, entropy, (connections_max, files), keys, &bound, log)?;
        let access = parts.note_requests()?;
        let Sockets { mut entrances, admin } = sockets;
        // It answers while the store is being opened.
        let console = parts.console();
        let admin = parts.admin(console.clone(), admin, admin_tls).start();
        let admin = admin.map_err(|cause| StartError::Machine { doing: "starting the admin API", cause })?;
        let node = parts.join_fleet(&mut entrances, &mut bound, ending)?;
        let fleet_end = node.as_ref().map(FleetNode::end);
        let fleet = node.as_ref().map(|node| {
            node.show_with(&console, &parts.workers);
            Arc::new(node.shown())
        });
        let others = fleet.clone().map(|fleet| fleet as Arc<dyn OtherNodes>);
        let fleet = fleet.map(|fleet| fleet as Arc<dyn kew_console::Fleet>);
        let owned = match node {
            Some(_) => None,
            None => parts.own_store(&mut entrances, &mut bound, ending)?,
        };
        let doors = parts.entrances(entrances, &mut certificates)?;
        let (kept, running, process) = match node {
            Some(node) => (Kept::default(), parts.run_in_fleet(node, doors)?, None),
            None => parts.open_and_run(owned, doors)?,
        };
        let fleet = fleet.or_else(|| process.map(|process| Arc::new(process) as Arc<dyn kew_console::Fleet>));
        let pushes = parts.consumers(&bound, &running, others)?;
        let backups = parts.backups(&kept)?;
        let place = store_place(settings, &kept, running.engine().now());
        let disk = store_disk(&settings.server.store);
        // The store is ours now: alarms of rules that were removed leave their file.
        parts.firing.save();
        parts.board.serving(on_board(&running, &pushes, (&kept, &backups), (place, disk, fleet)));
        let certificates = certificates.watch(log.of(Area::Tls));
        let certificates = certificates
            .map_err(|cause| StartError::Machine { doing: "watching the certificates", cause })?;
        let Parts { drain, others_ended, board, alarm_posts, .. } = parts;
        Ok(Self {
            bound,
            connections_max,
            store_text: settings.server.store.to_string(),
            kept,
            fleet_end,
            backups,
            drain,
            pushes,
            others_ended,
            running,
            board,
            admin,
            console,
            alarm_posts,
            certificates,
            token_keys,
            access,
            log,
        })
    }

    /// Where messages are kept, for people.
    pub fn store_line(&self) -> String {
        match self.kept.only() {
            Some(kept) => kept.place.clone(),
            None => self.store_text.clone(),
        }
    }

    /// Why everything is to be started again: another node owns the store in PostgreSQL by now, or the store stopped.
    pub fn lost(&self) -> Option<String> {
        let kept = self.kept.only()?;
        let over = kept.owned.as_ref()?.tenure().over().map(ToOwned::to_owned);
        over.or_else(|| kept.store.health().err().map(|error| error.to_string()))
    }

    /// Why requests are refused for now, if they are.
    pub fn refusal(&self) -> Option<String> {
        self.kept.only()?.owned.as_ref()?.tenure().refusal()
    }

    /// Tables in PostgreSQL that cannot be dropped just now.
    pub fn undropped(&self) -> Option<Undropped> {
        self.kept.only()?.owned.as_ref()?.undropped()
    }

    /// What resolves when nothing is served any more without an order to stop; it can be had once.
    pub fn ended(&mut self) -> impl Future<Output = ()> + use<> {
        self.running.ended()
    }

    /// Stops accepting, ends long polls, lets requests finish, and closes the store. Health checks are answered to the
    /// end.
    pub fn stop(self) -> Result<(), String> {
        let served = self.board.stopping();
        self.pushes.begin_to_stop();
        if let Some(end) = self.fleet_end {
            // The next owner of a shard brings again what is under way here.
            self.pushes.wait(BATCHES_BEFORE_HAND_OVER);
            // Requests are served meanwhile, by the nodes that keep the shards from then on.
            end.hand_over();
        }
        self.drain.close();
        self.running.shut_down();
        let pushed = self.pushes.join();
        self.others_ended.close();
        // Whatever fails, the rest ends too: a listener that stays would keep its port from the next start.
        let engine = Arc::clone(self.running.engine());
        let ran = self.running.join().map_err(|error| error.to_string());
        look_last(&self.console, &engine, served, self.log.exporter());
        if let Some(backups) = self.backups {
            backups.stop();
        }
        // It writes into the store's directory, which another server may open once the store is closed.
        self.alarm_posts.stop();
        let log = self.log.of(Area::Store);
        let closed = self.kept.close(log);
        let text = |error: std::io::Error| error.to_string();
        let admin = self.admin.stop().map_err(text);
        let certificates = self.certificates.map_or(Ok(()), |watch| watch.stop().map_err(text));
        let token_keys = self.token_keys.map_or(Ok(()), |watch| watch.stop().map_err(text));
        let pushed = pushed.map_err(|error| error.to_string());
        if let Some(access) = self.access {
            access.stop();
        }
        [ran, closed, admin, certificates, token_keys, pushed].into_iter().collect::<Result<(), _>>()?;
        self.log.tell(Level::Info, "stopped", &[]);
        Ok(())
    }
}

/// What everything is made of.
struct Parts<'a> {
    settings: &'a Settings,
    entropy: Arc<dyn Entropy>,
    connections_max: usize,
    admin_connections_max: usize,
    drain: Drain,
    others_ended: Drain,
    durations: Arc<Durations>,
    replies: Replies,
    bodies: Ration,
    syncs: Arc<Histogram>,
    board: Arc<Board>,
    upkeep: Arc<UpkeepReport>,
    alarm_posts: Arc<AlarmPosts>,
    firing: Arc<FiringAlarms>,
    token_keys: Arc<KeySet>,
    admin_place: Option<AdminPlace>,
    /// What Workers show when they send.
    inner_token: Arc<str>,
    /// The Workers, once they run.
    workers: Arc<OnceLock<Arc<Workers>>>,
    dropped: Arc<Dropped>,
    connections: Arc<Connections>,
    /// Takes requests that ended, for their lines.
    access: Option<Arc<AccessLog>>,
    /// What failed of requests.
    failures: Arc<Failures>,
    log: Log,
}

impl<'a> Parts<'a> {
    fn new(
        settings: &'a Settings,
        entropy: Arc<dyn Entropy>,
        (connections_max, files): (usize, u64),
        token_keys: Arc<KeySet>,
        bound: &Bound,
        log: Log,
    ) -> Result<Self, StartError> {
        let encrypted = settings.tls.admin.is_some();
        let inner_token = format!("{:032x}", entropy.wide_bits()).into();
        let upkeep = upkeep_report(log.of(Area::Store));
        let dropped = log.exporter().map(|exporter| Arc::clone(exporter.dropped())).unwrap_or_default();
        let reports = (alarm_lost(log.of(Area::Alarms)), Arc::clone(&dropped));
        let firing = firing_alarms(settings, log);
        let alarm_posts = AlarmPosts::start(&settings.alarms, reports, Arc::clone(&firing));
        let alarm_posts =
            alarm_posts.map_err(|cause| StartError::Machine { doing: "starting the alarms", cause })?;
        Ok(Self {
            settings,
            entropy,
            connections_max,
            admin_connections_max: if files < files_advised(settings) {
                ADMIN_CONNECTIONS_FEW
            } else {
                ADMIN_CONNECTIONS_MAX
            },
            drain: Drain::default(),
            others_ended: Drain::default(),
            durations: Arc::default(),
            replies: Replies::new(settings.limits.http.replies_bytes_max),
            bodies: Ration::default(),
            syncs: Arc::default(),
            board: Arc::default(),
            upkeep,
            alarm_posts: Arc::new(alarm_posts),
            firing,
            token_keys,
            admin_place: bound.admin.map(|address| AdminPlace { address, encrypted }),
            inner_token,
            workers: Arc::default(),
            dropped,
            connections: Arc::new(Connections::new(Arc::new(move |listener, crowding| {
                notices::tell_crowding(log, listener, crowding);
            }))),
            access: None,
            failures: Arc::new(Failures::new(log, settings.server.store.to_string())),
            log,
        })
    }
}

/// The alarms that fired when the server ended.
fn firing_alarms(settings: &Settings, log: Log) -> Arc<FiringAlarms> {
    let failed = move |error: &std::io::Error| {
        let line = "which alarms fire could not be kept for the next start";
        log.of(Area::Alarms).tell(Level::Warn, line, &[("cause", &error.to_string())]);
    };
    let directory = settings.server.store.directory();
    Arc::new(FiringAlarms::read(directory, &settings.alarms, Box::new(failed)))
}

impl Parts<'_> {
    /// Starts what notes requests that ended, before anything is served.
    fn note_requests(&mut self) -> Result<Option<AccessWriter>, StartError> {
        let started = AccessLog::start(self.settings.server.access, self.log, Arc::clone(&self.dropped));
        let started =
            started.map_err(|cause| StartError::Machine { doing: "starting the access log", cause })?;
        let (access, writer) = started.unzip();
        self.access = access;
        Ok(writer)
    }

    /// Who hears of requests that ended.
    fn witnesses(&self) -> Option<Witnesses> {
        let access = self.access.as_ref().map(|access| Arc::clone(access) as Arc<dyn Witness>);
        let spans = self.log.exporter().filter(|exporter| exporter.has_traces());
        let spans = spans.map(|exporter| Arc::new(Spans(exporter)) as Arc<dyn Witness>);
        let lines = RequestLines::start(self.log).map(|lines| Arc::new(lines) as Arc<dyn Witness>);
        let all = [access, spans, lines].into_iter().flatten();
        let witness = all.reduce(|one, other| Arc::new(Both(one, other)))?;
        Some(Witnesses { witness, clock: Arc::new(machine::SystemClock) })
    }
}

/// Two who hear of the same requests.
struct Both(Arc<dyn Witness>, Arc<dyn Witness>);

impl Witness for Both {
    fn note(&self, exchange: Exchange) {
        self.0.note(exchange.clone());
        self.1.note(exchange);
    }
}

/// Logs what left its queue by rule since the latest look, and keeps the last figures for the collector of telemetry:
/// when that is asked to take them, the store is closed.
fn look_last(
    console: &Console,
    engine: &Engine,
    served: Option<Arc<Running>>,
    exporter: Option<&'static Exporter>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return };
    let exporter = exporter.filter(|exporter| exporter.has_metrics());
    runtime.block_on(async {
        // A store that has stopped may not answer.
        let _in_time = tokio::time::timeout(LAST_LOOK, console.tell_departures(engine)).await;
        if let (Some(exporter), Some(served)) = (exporter, served) {
            match tokio::time::timeout(LAST_LOOK, console.last_metrics_text(served)).await {
                Ok(Some(text)) => exporter.export_last(text),
                // Too many queues, or a store that does not answer.
                _ => exporter.dropped().add(Droppable::MetricsReport, 1),
            }
        }
    });
    // Nor must a look that hangs hold up the end.
    runtime.shutdown_background();
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
                "[azure] bearer = \"basic\" believes any token without a check: for development only";
            log.tell(Level::Warn, warning, &[]);
            None
        }
        (Bearer::Strict(bearer), Auth::Strict) => {
            Some(TokenKeysWatch::start(bearer.keys.clone(), Arc::clone(&keys), log)?)
        }
    };
    Ok((keys, watch))
}

/// How many shards of a directory this process will keep. What cannot be read is refused when the store is opened.
fn shards_of(settings: &Settings) -> ShardCount {
    let laid = settings.server.store.directory().and_then(|path| laid_out(path).ok());
    laid.and_then(Laid::shards).or(settings.server.shards).unwrap_or(ShardCount::ONE)
}

/// How many files may be open. Where they are too few for what is always needed the server does not start: it would
/// answer nothing, or lose its store to a commit that finds no descriptor.
fn open_files(settings: &Settings, log: Log) -> Result<u64, StartError> {
    let (limit, needed) = (machine::raise_open_files(), FILES_MIN + files_of_more_shards(settings));
    if limit < needed {
        return Err(StartError::OpenFiles { limit, needed });
    }
    let advised = files_advised(settings);
    if limit < advised {
        let line = "few files may be open: clients beyond a few connections are refused, and a store under load may \
                    lack descriptors; raise the limit (ulimit -n, LimitNOFILE)";
        let (limit, advised) = (limit.to_string(), advised.to_string());
        log.tell(Level::Warn, line, &[("limit", &limit), ("advised", &advised)]);
    }
    Ok(limit)
}

/// Where fewer files may be open, a store under load may lack some.
fn files_advised(settings: &Settings) -> u64 {
    FILES_ADVISED + files_of_more_shards(settings)
}

/// Files of all shards but the first.
fn files_of_more_shards(settings: &Settings) -> u64 {
    FILES_OF_A_SHARD * (u64::from(shards_of(settings).get()) - 1)
}

/// As many as there may be open files, less what else needs some.
fn connections_max(settings: &Settings, files: u64) -> usize {
    let others = OTHER_FILES + files_of_more_shards(settings);
    let connections = files.saturating_sub(others).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
    let possible = usize::try_from(connections).unwrap_or(usize::MAX);
    settings.limits.connections_max.map_or(possible, |wanted| wanted.min(possible))
}
