//! What operators and machines ask a running server: health, metrics, the admin API, and the console over it.
//!
//! [`Console`] is a front-end for a listener on a thread of its own: whatever a disk does, `/livez` is answered. It
//! starts before the store is opened and outlives it; [`Board`] is where the program tells it what there is to show.

mod access;
mod alarms;
mod api;
mod audit;
mod board;
mod clock;
mod error;
mod fleet;
mod followers;
mod health;
mod looks;
mod metrics;
mod news;
mod notes;
mod pages;
mod peers;
mod pushes;
mod route;
mod samples;
mod sources;
mod subject;
mod totals;
mod upkeep;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Entropy};
use kew_engine::{Engine, TimeSource};
use kew_http::{
    Connections, Dropped, Durations, Guard, Handler, Histogram, Replies, Reply, Request, Standing,
    StatusCode, Subject,
};

pub use access::{Role, User, UserError, hash as hash_password};
pub use alarms::{AlarmMetric, AlarmRule, Firing};
pub use api::{
    MembersOnce, QueueDeclaration, QueueHome, SettingChange, can_name_a_queue, is_setting, is_shown_of_queues,
};
pub use audit::{AuditEntry, AuditSink};
pub use board::{Board, Running};
pub use fleet::{Begun, Fleet, FleetNode, FleetNow, FleetShard, OwnNode, OwnShard, Seen};
pub use metrics::InFlightLimits;
pub use news::{AlarmChange, News, NewsSink};
pub use notes::{Attribute, AttributeValue, MessageNotes};
pub use pages::form_paths;
pub use sources::{
    BackupRefused, BackupState, BackupTask, Backups, DiskSpace, LatestPushes, OpenCircuits, PushAttempt,
    PushAttempts, PushCircuit, ShownSetting, StoreBytes, StoreDisk, StorePlace,
};
pub use upkeep::{UpkeepNews, UpkeepReport};

/// How the console is set up.
#[derive(Clone)]
pub struct Settings {
    /// What everything but health and metrics asks for, if anything.
    pub token: Option<Arc<str>>,
    /// People who may ask with a password instead.
    pub users: Arc<[User]>,
    /// What metrics ask for, if anything; the token above opens them too.
    pub metrics_token: Option<Arc<str>>,
    /// Who may reach everything but health and metrics, which probes and scrapers may ask for by any name: the listener
    /// itself lets everything in.
    pub guard: Guard,
    /// Queues with metrics of their own; the others share one series.
    pub metrics_queues: usize,
    /// How many messages may be in flight, by kind of queue.
    pub in_flight_limits: InFlightLimits,
    /// How long requests took.
    pub durations: Arc<Durations>,
    /// How long the store's syncs took.
    pub store_syncs: Arc<Histogram>,
    /// How the work beside requests goes.
    pub upkeep: Arc<UpkeepReport>,
    /// Replies that clients have not taken yet.
    pub replies: Replies,
    /// What was given up.
    pub dropped: Arc<Dropped>,
    /// The connections of all listeners.
    pub connections: Arc<Connections>,
    /// Which program this is.
    pub version: &'static str,
    /// The account and the region of queues that are named without.
    pub account: AccountId,
    /// See there.
    pub region: Arc<str>,
    /// What sessions and waits are measured by: real time.
    pub time: Arc<dyn TimeSource>,
    /// Where the secrets of sessions come from.
    pub entropy: Arc<dyn Entropy>,
    /// Takes every entry of the audit log.
    pub audit: Arc<AuditSink>,
    /// All settings of the server.
    pub shown: Arc<[ShownSetting]>,
    /// How long an operator's forms that move or delete messages wait, so that they can be undone.
    pub undo_window: Duration,
    /// The rules of alarms.
    pub alarms: Arc<[AlarmRule]>,
    /// Alarms that fired when the server ended: they fire until a look finds otherwise.
    pub firing: Arc<[Firing]>,
    /// Takes what looks have to tell.
    pub news: Arc<NewsSink>,
    /// Writes and reads attributes of messages.
    pub notes: Arc<dyn MessageNotes>,
}

/// The front-end. Its clones share everything, so that a change can outlive the request that asked for it.
#[derive(Clone)]
pub struct Console {
    board: Arc<Board>,
    settings: Arc<Settings>,
    scrapes: Arc<metrics::Scrapes>,
    followers: Arc<followers::Followers>,
    login: Arc<access::Login>,
    audit: Arc<audit::Audit>,
    work: Arc<api::Work>,
    changes: api::Changes,
    filtered: Arc<api::Filtered>,
    looks: Arc<looks::Looks>,
    pages: Arc<pages::Pages>,
    peers: Arc<peers::Peers>,
}

impl Console {
    /// A console that shows what `board` says.
    pub fn new(board: Arc<Board>, settings: Settings) -> Self {
        let login = Arc::new(access::Login::new(&settings));
        let audit = Arc::new(audit::Audit::new(Arc::clone(&settings.audit)));
        let looks = Arc::new(looks::Looks::new(&settings));
        let pages = Arc::new(pages::Pages::new(&settings));
        let filtered = Arc::new(api::Filtered::new(Arc::clone(&settings.entropy)));
        let (scrapes, followers, work, changes) = Default::default();
        let peers = Arc::new(peers::Peers::new(Arc::clone(&settings.time)));
        let settings = Arc::new(settings);
        Self {
            board,
            settings,
            scrapes,
            followers,
            login,
            audit,
            work,
            changes,
            filtered,
            looks,
            pages,
            peers,
        }
    }
}

impl Console {
    /// Looks at the queues every few seconds, for rates, samples, counters and alarms, and goes on with redrives by
    /// filter that an earlier start of the server began. The server of the console spawns it.
    pub fn keep_looking(&self) -> impl Future<Output = ()> + Send + use<> {
        let looking = Arc::clone(&self.looks).keep_looking(Arc::clone(&self.board));
        let resuming = Arc::clone(&self.filtered).keep_resuming(Arc::clone(&self.board));
        async move {
            tokio::join!(looking, resuming);
        }
    }

    /// Waits until every change that has begun has ended and is in the audit log, also where its client has gone, and
    /// ends the redrives by filter, which go on at the next start. The server of the console awaits it before its event
    /// loop ends; a change that takes too long is given up.
    pub fn changes_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let (changes, filtered) = (self.changes.clone(), Arc::clone(&self.filtered));
        async move {
            changes.end().await;
            filtered.end().await;
        }
    }

    /// Goes on with redrives by filter once, for tests that move time by hand.
    pub async fn resume_redrives(&self) {
        if let board::Phase::Serving(running) = self.board.phase() {
            self.filtered.resume(&running.engine).await.expect("the store of a test lists its tasks");
        }
    }

    /// The text of `/metrics`; no proof is asked for here.
    pub async fn metrics_text(&self) -> String {
        String::from_utf8_lossy(&self.metrics().await.body).into_owned()
    }

    /// The same of a server that serves no more, before its store is closed; `None` where it cannot be read.
    pub async fn last_metrics_text(&self, running: Arc<Running>) -> Option<String> {
        let reply = self.metrics_of(Some(running)).await;
        (reply.status == StatusCode::OK).then(|| String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Tells which messages have left their queues since the latest look. The end of the server asks for it, before the
    /// store is closed.
    pub async fn tell_departures(&self, engine: &Engine) {
        self.looks.tell_departures(engine).await;
    }

    /// What this server shows to another node of its fleet that asks ([`Fleet::look_at`]).
    pub async fn show_to_node(&self, question: String) -> String {
        let board::Phase::Serving(running) = self.board.phase() else { return "null".to_owned() };
        let (peers, samples) = (Arc::clone(&self.peers), Arc::clone(&self.looks.samples));
        let answer = move || {
            let answer = peers.answer(&running, &samples, &question);
            tokio::runtime::Handle::current().block_on(answer).to_string()
        };
        // It is asked on the event loop, where no client's figures may be felt.
        tokio::task::spawn_blocking(answer).await.unwrap_or_else(|_| "null".to_owned())
    }

    /// One such look, for tests that move time by hand.
    pub async fn look(&self) {
        if let board::Phase::Serving(running) = self.board.phase() {
            self.looks.look(&running).await;
        }
    }
}

impl Console {
    /// In a box that hides its type, or all that answers would be compiled again in each program and test that asks.
    fn routed<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(self.route(request))
    }
}

impl Handler for Console {
    async fn answer(&self, request: &Request) -> Reply {
        self.routed(request).await
    }

    async fn standing(&self, request: &Request) -> Standing {
        self.judge(request)
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        self.subject_of(request, reply)
    }
}
