//! One Worker as it is known: its record, its secrets, and what runs of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kew_core::{AccountId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::history::{Deployment, Version};
use super::keeper::{Deployed, Order};
use super::live::Live;
use super::log::WorkerLog;
use super::schedules::Schedule;
use super::script::Script;
use super::stored::{Record, Secrets};

/// What is known of a Worker.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// When it was first uploaded, in milliseconds.
    pub created_at: u64,
    /// When its present version was deployed, in milliseconds.
    pub deployed_at: u64,
    /// The versions that are kept, the oldest first.
    pub versions: Vec<Version>,
    /// The version that runs.
    pub deployed: Option<Version>,
    /// What ran when, the oldest first; the present one is the last.
    pub deployments: Vec<Deployment>,
    /// The names of its secrets.
    pub secrets: Vec<String>,
    /// Whether what runs takes messages; not known while it is being started.
    pub handles_queues: Option<bool>,
    /// What runs, as it was handed in.
    pub script: Option<Arc<Script>>,
    /// Its cron triggers.
    pub schedules: Vec<Schedule>,
}

/// One Worker.
pub(super) struct Worker {
    pub(super) account: AccountId,
    pub(super) name: String,
    /// What it said lately.
    pub(super) log: Arc<WorkerLog>,
    /// Guards what is known of it.
    pub(super) known: Mutex<Known>,
}

#[derive(Clone, Default)]
pub(super) struct Known {
    pub(super) record: Record,
    pub(super) secrets: Secrets,
    pub(super) running: Option<RunningWorker>,
}

#[derive(Clone)]
pub(super) struct RunningWorker {
    pub(super) deployed: Arc<Deployed>,
    /// Whether its code has a queue handler, as it said when it was deployed; what was restored tells when it is up.
    pub(super) handles_queues: Option<bool>,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) up: watch::Receiver<Option<Arc<Live>>>,
}

impl RunningWorker {
    /// Ends it, letting its handlers finish.
    pub(super) async fn stop(self) {
        let (tell, stopped) = oneshot::channel();
        if self.orders.send(Order::Stop(tell)).await.is_ok() {
            // An error is a keeper that has ended already.
            let _stopped = stopped.await;
        }
    }
}

impl Worker {
    pub(super) fn new(account: AccountId, name: String, known: Known, now: Timestamp) -> Arc<Self> {
        let log = Arc::new(WorkerLog::open(now));
        Arc::new(Self { account, name, log, known: Mutex::new(known) })
    }

    pub(super) fn live(&self) -> Option<Arc<Live>> {
        let known = self.known.lock();
        known.running.as_ref().and_then(|running| running.up.borrow().clone())
    }

    /// Takes note of what was written of it.
    pub(super) fn keep(&self, record: Record, secrets: Secrets) {
        let mut known = self.known.lock();
        (known.record, known.secrets) = (record, secrets);
    }

    /// Its cron triggers.
    pub(super) fn schedules(&self) -> Vec<Schedule> {
        self.known.lock().record.schedules.clone()
    }

    /// The queues that what runs is bound to.
    pub(super) fn queues(&self) -> BTreeSet<String> {
        let known = self.known.lock();
        let running = known.running.as_ref();
        running
            .map(|running| running.deployed.script.queues().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    pub(super) async fn stop(&self) {
        let running = self.known.lock().running.take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    pub(super) fn describe(&self) -> Description {
        let known = self.known.lock();
        let handles_queues = known.running.as_ref().and_then(|running| {
            let up = || running.up.borrow().as_ref().and_then(|live| live.handles_queues());
            running.handles_queues.or_else(up)
        });
        Description {
            handles_queues,
            name: self.name.clone(),
            created_at: known.record.created_at,
            deployed_at: known.record.deployed_at,
            versions: known.record.versions.clone(),
            deployed: known.running.as_ref().map(|running| running.deployed.version.clone()),
            deployments: known.record.deployments.clone(),
            schedules: known.record.schedules.clone(),
            secrets: known.secrets.iter().map(|(name, _)| name.clone()).collect(),
            script: known.running.as_ref().map(|running| Arc::clone(&running.deployed.script)),
        }
    }
}
