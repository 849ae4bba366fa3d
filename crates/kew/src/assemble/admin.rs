//! The admin API: what its console is set to, and what it shows of a server that serves.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use kew_console::{
    Console, DiskSpace, Fleet, InFlightLimits, News, NewsSink, Running, StoreDisk, StorePlace, UpkeepReport,
};
use kew_core::{AccountId, Timestamp};
use kew_http::Tls;

use super::Parts;
use super::loops::Loops;
use crate::alarms::Lost;
use crate::config::{Settings, StoreChoice};
use crate::consumers::push::Pushes;
use crate::listen::AdminLoop;
use crate::log::{Area, Log};
use crate::machine::{self, SystemTimeSource};
use crate::store::backups::StoreBackups;
use crate::store::kept::Kept;
use crate::{message_notes, notices, push};

/// How long the console lets operators undo what they asked for.
const UNDO_WINDOW: Duration = Duration::from_secs(10);

impl Parts<'_> {
    /// What operators see. It looks at the queues also where it cannot be asked.
    pub(super) fn console(&self) -> Console {
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
            dropped: Arc::clone(&self.dropped),
            connections: Arc::clone(&self.connections),
            version: env!("CARGO_PKG_VERSION"),
            account: AccountId(0),
            region: self.settings.sqs.region.as_str().into(),
            time: Arc::new(SystemTimeSource),
            entropy: Arc::clone(&self.entropy),
            audit: Arc::new(move |entry| notices::tell_audit(log.of(Area::Admin), entry)),
            shown: self.settings.shown.as_slice().into(),
            undo_window: UNDO_WINDOW,
            alarms: self.settings.alarms.as_slice().into(),
            firing: self.firing.all().into(),
            news: self.news(),
            notes: Arc::new(message_notes::SqsNotes),
        };
        let console = Console::new(Arc::clone(&self.board), settings);
        if let Some(exporter) = log.exporter() {
            let console = console.clone();
            exporter.export_metrics(move || {
                let console = console.clone();
                Box::pin(async move { console.metrics_text().await })
            });
        }
        console
    }

    pub(super) fn admin(&self, console: Console, socket: Option<TcpListener>, tls: Option<Tls>) -> AdminLoop {
        AdminLoop {
            console,
            socket,
            entropy: Arc::clone(&self.entropy),
            limits: self.limits(self.admin_connections_max),
            connections: self.connections.of("admin", self.admin_connections_max),
            replies: self.replies.clone(),
            witnesses: self.witnesses(),
            tls,
        }
    }

    /// Logs the news of the console, and posts changes of alarms. What is not posted is kept for the next start at
    /// once; what is, when it has arrived.
    fn news(&self) -> Arc<NewsSink> {
        let (log, posts, firing) = (self.log, Arc::clone(&self.alarm_posts), Arc::clone(&self.firing));
        Arc::new(move |news| {
            news.iter().for_each(|news| notices::tell_news(log, news));
            let changes = news.iter().filter_map(|news| match news {
                News::Alarm(change) => Some(change),
                _ => None,
            });
            changes.filter(|change| !posts.post(change)).for_each(|change| firing.note(change));
            firing.save();
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
}

/// Collects how the work beside requests goes, and logs it.
pub(super) fn upkeep_report(log: Log) -> Arc<UpkeepReport> {
    let source = Arc::new(SystemTimeSource);
    Arc::new(UpkeepReport::new(source, move |news| notices::tell_upkeep(log, &news)))
}

/// Logs each change of an alarm that no webhook heard of.
pub(super) fn alarm_lost(log: Log) -> Arc<Lost> {
    Arc::new(move |change, host, why| notices::tell_alarm_lost(log, change, host, why))
}

/// What the console shows of a server that serves.
pub(super) fn on_board(
    running: &Loops,
    pushes: &Pushes,
    (kept, backups): (&Kept, &Option<Arc<StoreBackups>>),
    (place, disk, fleet): (StorePlace, Option<Box<StoreDisk>>, Option<Arc<dyn Fleet>>),
) -> Running {
    let (counted, latest) = (Arc::clone(&pushes.attempts), Arc::clone(&pushes.attempts));
    let circuits = Arc::clone(&pushes.circuits);
    Running {
        engine: Arc::clone(running.engine()),
        others: running.engines().split_off(1),
        home: running.home().clone(),
        push_attempts: Box::new(move || push::counted(&counted)),
        latest_pushes: Box::new(move || push::latest(&latest)),
        open_circuits: Box::new(move || push::open(&circuits)),
        store_bytes: kept.counts_bytes().map(|bytes| Box::new(bytes) as Box<_>),
        disk,
        fleet,
        backups: backups.as_ref().map(|backups| Arc::clone(backups) as Arc<_>),
        place,
    }
}

/// The disk that the store lies on.
pub(super) fn store_disk(store: &StoreChoice) -> Option<Box<StoreDisk>> {
    let StoreChoice::Directory(path) = store else { return None };
    let path = path.clone();
    Some(Box::new(move || {
        let (free, all) = machine::disk_bytes(&path)?;
        Some(DiskSpace { free, all })
    }))
}

/// What and where the store is, and whose.
pub(super) fn store_place(settings: &Settings, kept: &Kept, now: Timestamp) -> StorePlace {
    let owned = kept.only().and_then(|kept| kept.owned.as_ref());
    StorePlace {
        kind: match settings.server.store {
            StoreChoice::Memory => "memory",
            StoreChoice::Directory(_) => "directory",
            StoreChoice::Postgres(_) => "postgres",
        },
        text: settings.server.store.to_string(),
        owner: settings.server.node.clone().unwrap_or_else(machine::host_name),
        epoch: owned.and_then(|disk| u64::try_from(disk.tenure().epoch()).ok()).unwrap_or_default(),
        since: now,
    }
}
