//! What all Workers share, and how each is kept running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::{AccountId, Entropy};
use kew_engine::{Engine, EngineError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::child::{Plan, StartError};
use super::error::WorkerError;
use super::files::Surroundings;
use super::history::Version;
use super::keeper::{self, Deployed, Order, Starts};
use super::live::{Live, Patience};
use super::log::WorkerLog;
use super::output::Said;
use super::script::{CPU_LIMIT_DEFAULT, Script};
use super::settings::{WorkerNotice, WorkersSettings};
use super::stored::{self, Record, Secrets, Stamps};
use super::worker::{Known, RunningWorker, Worker};

/// How long a keeper may take to change over to a child that is up.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct Shared {
    pub(super) engine: Arc<Engine>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) settings: WorkersSettings,
    /// Guards the list of Workers; never held across an await.
    pub(super) workers: Mutex<BTreeMap<(AccountId, String), Arc<Worker>>>,
    /// One change at a time: each starts processes and writes documents.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// When the newest look at the Workers of all accounts began; one look at a time.
    pub(super) looked: tokio::sync::Mutex<Option<Instant>>,
    /// Readers of logs that may still ask other nodes.
    pub(super) readers: Semaphore,
    /// Guards the stamps that belong to what is known here of Workers, of each account.
    pub(super) stamps: Mutex<BTreeMap<AccountId, Stamps>>,
    /// Guards the queues of the code that is being deployed now, whose they are too: they are counted on already.
    pub(super) pending: Mutex<Option<Pending>>,
    /// Guards the children that take batches or have taken some: old versions that finish are in no other list.
    pub(super) lives: Mutex<Vec<Weak<Live>>>,
    /// Raised whenever a Worker comes up or goes down.
    pub(super) changed: watch::Sender<u64>,
    /// How often cron triggers were changed.
    pub(super) rescheduled: watch::Sender<u64>,
    /// Of these changes the newest whose minutes the clock stops at; `None` before it stops at any.
    pub(super) clock_knows: watch::Sender<Option<u64>>,
}

/// The queues that code which does not run yet is bound to.
pub(super) struct Pending {
    pub(super) account: AccountId,
    pub(super) name: String,
    pub(super) queues: BTreeSet<String>,
}

/// Says what is pending for as long as it lives.
pub(super) struct Announced(Arc<Shared>);

impl Drop for Announced {
    fn drop(&mut self) {
        *self.0.pending.lock() = None;
    }
}

impl Shared {
    /// Tells those who would delete its queues that this code is about to run. One at a time, as changes are.
    pub(super) fn announce(self: &Arc<Self>, account: AccountId, name: &str, script: &Script) -> Announced {
        let queues = script.queues().map(str::to_owned).collect();
        *self.pending.lock() = Some(Pending { account, name: name.to_owned(), queues });
        Announced(Arc::clone(self))
    }

    pub(super) fn find(&self, account: AccountId, name: &str) -> Option<Arc<Worker>> {
        self.workers.lock().get(&(account, name.to_owned())).map(Arc::clone)
    }

    /// Reports something about a Worker in its log and to the operator.
    pub(super) fn say_of(&self, worker: &Worker, text: &str) {
        worker.log.add(self.engine.now(), "error", text);
        let said = Said { level: "error".to_owned(), text: text.to_owned() };
        (self.settings.notices)(worker.account, &worker.name, WorkerNotice::Said(said));
    }

    pub(super) fn count(&self, account: AccountId) -> usize {
        self.workers.lock().keys().filter(|(known, _)| *known == account).count()
    }

    pub(super) fn found(&self, account: AccountId, name: &str) -> Result<Arc<Worker>, WorkerError> {
        self.find(account, name).ok_or_else(|| WorkerError::NotFound(name.to_owned()))
    }

    pub(super) async fn restore(
        self: &Arc<Self>,
        account: AccountId,
        name: String,
        record: Record,
        secrets: Secrets,
    ) -> Result<(), EngineError> {
        let deployed = record.deployed.as_ref();
        let version = deployed.and_then(|id| record.version(id)).cloned();
        let known = Known { record, secrets: secrets.clone(), running: None };
        let worker = Worker::new(account, name.clone(), known, self.engine.now());
        if let Some(version) = version
            && let Some(deployed) = self.read_deployed(&worker, version, secrets).await?
        {
            self.run(&worker, deployed, None);
        }
        self.workers.lock().insert((account, name), worker);
        Ok(())
    }

    /// A version with its code. Code that is not whole is reported.
    pub(super) async fn read_deployed(
        self: &Arc<Self>,
        worker: &Worker,
        version: Version,
        secrets: Secrets,
    ) -> Result<Option<Arc<Deployed>>, EngineError> {
        let code = stored::read_code(&self.engine, worker.account, &worker.name, &version).await?;
        let Some((script, _)) = code else {
            let cause = "its code is not whole".to_owned();
            self.starter(worker.account, &worker.name, &worker.log).notice(WorkerNotice::NotStarted(cause));
            return Ok(None);
        };
        Ok(Some(Arc::new(Deployed { version, script: Arc::new(script), secrets })))
    }

    /// What starts versions of a Worker.
    pub(super) fn starter(self: &Arc<Self>, account: AccountId, name: &str, log: &Arc<WorkerLog>) -> Starter {
        Starter { shared: Arc::clone(self), account, name: name.to_owned(), log: Arc::clone(log) }
    }

    /// Keeps a Worker running from now on, beginning with this child if there is one already.
    pub(super) fn run(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        deployed: Arc<Deployed>,
        live: Option<Arc<Live>>,
    ) {
        let (orders, taken) = mpsc::channel(1);
        let up = watch::Sender::new(None);
        let running = RunningWorker {
            deployed: Arc::clone(&deployed),
            handles_queues: live.as_ref().and_then(|live| live.handles_queues()),
            orders,
            up: up.subscribe(),
        };
        let mut watched = up.subscribe();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            while watched.changed().await.is_ok() {
                shared.changed.send_modify(|changes| *changes += 1);
            }
        });
        worker.known.lock().running = Some(running);
        let starter = self.starter(worker.account, &worker.name, &worker.log);
        tokio::spawn(keeper::keep(Arc::new(starter), deployed, live, up, taken));
    }

    /// Remembers a child until it is gone.
    fn enlist(&self, live: &Arc<Live>) {
        let mut lives = self.lives.lock();
        lives.retain(|known| known.strong_count() > 0);
        lives.push(Arc::downgrade(live));
    }

    /// Changes over to a child that is up.
    pub(super) async fn run_live(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        deployed: Arc<Deployed>,
        live: Live,
    ) {
        let live = Arc::new(live);
        self.enlist(&live);
        let next = Arc::clone(&live);
        let running = {
            let mut known = worker.known.lock();
            if let Some(running) = &mut known.running {
                running.deployed = Arc::clone(&deployed);
                running.handles_queues = live.handles_queues();
            }
            known.running.clone()
        };
        match running {
            Some(running) => {
                if let Err(unheard) = running.orders.send(Order::Run(deployed, live)).await
                    && let Order::Run(deployed, live) = unheard.0
                {
                    self.run(worker, deployed, Some(live));
                }
            }
            None => self.run(worker, deployed, Some(live)),
        }
        let up = worker.known.lock().running.as_ref().map(|running| running.up.clone());
        if let Some(mut up) = up {
            let is_next =
                |live: &Option<Arc<Live>>| live.as_ref().is_some_and(|live| Arc::ptr_eq(live, &next));
            // From then on batches come to it. One that ends at once may never be seen.
            let _seen = tokio::time::timeout(TAKES_OVER_WITHIN, up.wait_for(is_next)).await;
        }
    }
}

/// Starts versions of one Worker.
pub(super) struct Starter {
    shared: Arc<Shared>,
    account: AccountId,
    name: String,
    log: Arc<WorkerLog>,
}

impl Starts for Starter {
    fn began(&self, live: &Arc<Live>) {
        self.shared.enlist(live);
    }

    async fn start(&self, deployed: &Deployed) -> Result<Live, StartError> {
        let Shared { settings, entropy, .. } = &*self.shared;
        let token = || format!("{:032x}", entropy.wide_bits());
        let (note_token, dispatch_token) = (token(), token());
        let surroundings = Surroundings {
            producers: settings.producers,
            producer_token: &settings.producer_token,
            account: settings.account_name(self.account),
            dispatch_token: &dispatch_token,
            note_token: &note_token,
            outbound: settings.outbound,
        };
        let plan = Plan { script: &deployed.script, secrets: &deployed.secrets, surroundings };
        let silence = deployed.script.cpu_limit.unwrap_or(CPU_LIMIT_DEFAULT);
        let patience = Patience { wall: settings.wall_limit, silence };
        let (notices, account, name) = (Arc::clone(&settings.notices), self.account, self.name.clone());
        let (engine, log) = (Arc::clone(&self.shared.engine), Arc::clone(&self.log));
        Live::start(&settings.runtime, plan, patience, move |said| {
            log.add(engine.now(), &said.level, &said.text);
            notices(account, &name, WorkerNotice::Said(said));
        })
        .await
    }

    fn notice(&self, notice: WorkerNotice) {
        let now = self.shared.engine.now();
        match &notice {
            WorkerNotice::Said(said) => self.log.add(now, &said.level, &said.text),
            WorkerNotice::Ended => self.log.add(now, "error", "its process ended; it is started again"),
            WorkerNotice::NotStarted(cause) => self.log.add(now, "error", cause),
        }
        (self.shared.settings.notices)(self.account, &self.name, notice);
    }
}
