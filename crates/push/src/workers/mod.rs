//! Workers: code that is uploaded, kept, and run in the real runtime as the target of batches.
//!
//! Each deployed Worker has one `workerd` process ([`child`]) with the user's code and a shim of ours in it; `live` brings
//! batches to it, `keeper` keeps it running, `stored` keeps the code. [`Workers`] is what others see.

mod child;
mod dispatch;
mod files;
mod keeper;
mod live;
mod notes;
mod output;
mod script;
mod stored;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Entropy};
use kew_engine::{Engine, EngineError, QueueName};
use kew_http::hex;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use child::Plan;
use files::Surroundings;
use keeper::{Deployed, Order, Starts};
use live::{Live, Patience};
use stored::{Changes, Record, Secrets};

use crate::batch::Batch;
use crate::target::Delivered;

pub use child::{Runtime, StartError};
pub use files::Outbound;
pub use output::Said;
pub use script::{
    BINDING_BYTES_MAX, BINDINGS_MAX, Binding, BindingValue, CPU_LIMIT_DEFAULT, CPU_LIMIT_MAX, Module,
    ModuleKind, SCRIPT_BYTES_MAX, Script, ScriptError, check_binding_name, check_name,
};
pub use stored::Version;

/// Versions of a Worker that are kept; the deployed one always is.
const VERSIONS_MAX: usize = 10;
/// Bytes of a Worker's secrets together: they are one document.
const SECRETS_BYTES_MAX: usize = 60 << 10;
/// Workers of one account.
const WORKERS_MAX: usize = 100;

/// How Workers are run.
#[derive(Clone)]
pub struct WorkersSettings {
    /// The runtime.
    pub runtime: Runtime,
    /// Where sends of Workers go.
    pub producers: SocketAddr,
    /// What they are let in with.
    pub producer_token: Arc<str>,
    /// What `fetch` in a Worker may reach.
    pub outbound: Outbound,
    /// How long one invocation may take by the wall clock.
    pub wall_limit: Duration,
    /// The accounts that have Workers, by the names they send under.
    pub accounts: Vec<(AccountId, Arc<str>)>,
    /// The region whose queues bindings name.
    pub region: Arc<str>,
    /// Hears what Workers say and what becomes of them; called in passing, so it must not block.
    pub notices: Arc<WorkerNotices>,
}

impl WorkersSettings {
    fn account_name(&self, account: AccountId) -> &str {
        self.accounts.iter().find(|(known, _)| *known == account).map_or("", |(_, name)| name)
    }
}

/// Hears of Workers: of which account, which one, what.
pub type WorkerNotices = dyn Fn(AccountId, &str, WorkerNotice) + Send + Sync;

/// Something an operator should know of a Worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkerNotice {
    /// A line of its own or of the runtime.
    Said(Said),
    /// Its process ended by itself, or was killed because it answered nothing.
    Ended,
    /// It could not be started.
    NotStarted(String),
}

/// A change to a Worker that did not happen.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// There is no such Worker.
    #[error("there is no Worker {0:?}")]
    NotFound(String),
    /// It has no such version.
    #[error("there is no version {0:?}")]
    VersionNotFound(String),
    /// It has no such secret.
    #[error("there is no secret {0:?}")]
    SecretNotFound(String),
    /// It cannot be taken as it is.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// It sends to a queue that is not there.
    #[error("binding of queue {0:?}: there is no such queue")]
    QueueNotFound(String),
    /// The runtime does not run it; its words.
    #[error(transparent)]
    NotStarted(#[from] StartError),
    /// It could not be kept.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Kew is ending.
    #[error("the server is shutting down")]
    ShuttingDown,
}

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
    /// The names of its secrets.
    pub secrets: Vec<String>,
    /// What runs, as it was handed in.
    pub script: Option<Arc<Script>>,
}

/// All Workers.
pub struct Workers {
    shared: Arc<Shared>,
    /// Where children and their keepers live.
    handle: Handle,
}

struct Shared {
    engine: Arc<Engine>,
    entropy: Arc<dyn Entropy>,
    settings: WorkersSettings,
    /// Guards the list of Workers; never held across an await.
    workers: Mutex<BTreeMap<(AccountId, String), Arc<Worker>>>,
    /// One change at a time: each starts processes and writes documents.
    changing: tokio::sync::Mutex<()>,
    /// Raised whenever a Worker comes up or goes down.
    changed: watch::Sender<u64>,
}

/// One Worker.
struct Worker {
    account: AccountId,
    name: String,
    /// Guards what is known of it.
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    record: Record,
    secrets: Secrets,
    running: Option<RunningWorker>,
}

#[derive(Clone)]
struct RunningWorker {
    deployed: Arc<Deployed>,
    orders: mpsc::Sender<Order>,
    up: watch::Receiver<Option<Arc<Live>>>,
}

impl Workers {
    /// The Workers there are, as they were left; each is started. Called within the runtime they live in.
    pub async fn load(
        engine: Arc<Engine>,
        entropy: Arc<dyn Entropy>,
        settings: WorkersSettings,
    ) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared {
            engine,
            entropy,
            settings,
            workers: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            changed: watch::Sender::new(0),
        });
        child::remove_left_behind(&shared.settings.runtime);
        for (account, _) in &shared.settings.accounts {
            for (name, record, secrets) in stored::read_all(&shared.engine, *account).await? {
                shared.restore(*account, name, record, secrets).await?;
            }
        }
        Ok(Self { shared, handle: Handle::current() })
    }

    /// What is known of a Worker.
    pub fn describe(&self, account: AccountId, name: &str) -> Option<Description> {
        self.shared.find(account, name).map(|worker| worker.describe())
    }

    /// All Workers of an account, in order of names.
    pub fn list(&self, account: AccountId) -> Vec<Description> {
        let workers = self.shared.workers.lock();
        workers.values().filter(|worker| worker.account == account).map(|worker| worker.describe()).collect()
    }

    /// Keeps a version of a Worker, whose main module is `main`; a Worker that is not there yet is made. Nothing is kept
    /// that does not start. `secrets` are added to those it has.
    pub async fn upload(
        &self,
        (account, name): (AccountId, &str),
        script: Script,
        main: &str,
        secrets: Vec<(String, String)>,
        then: Then,
    ) -> Result<Version, WorkerError> {
        check_name(name)?;
        let script = script.checked(main)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.apart(async move { shared.upload(account, name, script, secrets, then).await }).await
    }

    /// Runs a version that is kept.
    pub async fn deploy(&self, account: AccountId, name: &str, version: &str) -> Result<(), WorkerError> {
        let (shared, name, version) = (Arc::clone(&self.shared), name.to_owned(), version.to_owned());
        self.apart(async move { shared.deploy(account, &name, &version).await }).await
    }

    /// Writes a secret, or takes one away; the Worker runs with the change at once.
    pub async fn put_secret(
        &self,
        account: AccountId,
        name: &str,
        secret: &str,
        text: Option<String>,
    ) -> Result<(), WorkerError> {
        check_binding_name(secret)?;
        let (shared, name, secret) = (Arc::clone(&self.shared), name.to_owned(), secret.to_owned());
        self.apart(async move { shared.put_secret(account, &name, secret, text).await }).await
    }

    /// Stops a Worker and forgets it.
    pub async fn delete(&self, account: AccountId, name: &str) -> Result<(), WorkerError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.apart(async move { shared.delete(account, &name).await }).await
    }

    /// Stops all of them, letting their handlers finish.
    pub async fn shut_down(&self) {
        let workers: Vec<Arc<Worker>> = self.shared.workers.lock().values().map(Arc::clone).collect();
        let mut stopping = tokio::task::JoinSet::new();
        workers.into_iter().for_each(|worker| {
            stopping.spawn(async move { worker.stop().await });
        });
        stopping.join_all().await;
    }

    /// Ends all their processes at once, so that every invocation under way is settled by what it has noted.
    pub(crate) fn kill_all(&self) {
        for worker in self.shared.workers.lock().values() {
            if let Some(live) = worker.live() {
                live.kill();
            }
        }
    }

    /// Whether a Worker can take a batch now.
    pub(crate) fn is_up(&self, account: AccountId, name: &str) -> bool {
        self.shared.find(account, name).is_some_and(|worker| worker.live().is_some())
    }

    /// Tells whenever that may have changed of any.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Brings a batch to a Worker.
    pub(crate) async fn deliver(&self, name: &str, batch: &Batch) -> Delivered {
        // A second look: it may have been replaced in this moment.
        for _ in 0..2 {
            let live = self.shared.find(batch.queue.account, name).and_then(|worker| worker.live());
            let Some(live) = live else { break };
            if let Some(delivered) = live.deliver(batch).await {
                return delivered;
            }
            tokio::task::yield_now().await;
        }
        Delivered { unreached: true, ..Delivered::failed(format!("the Worker {name:?} is not running")) }
    }

    /// Does something where children live, to its end even if whoever wanted it goes away.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, WorkerError>> + Send + 'static,
    ) -> Result<T, WorkerError> {
        self.handle.spawn(work).await.unwrap_or(Err(WorkerError::ShuttingDown))
    }
}

/// What becomes of an upload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It runs at once.
    Deploy,
    /// It is kept.
    Keep,
}

impl Shared {
    fn find(&self, account: AccountId, name: &str) -> Option<Arc<Worker>> {
        self.workers.lock().get(&(account, name.to_owned())).map(Arc::clone)
    }

    fn count(&self, account: AccountId) -> usize {
        self.workers.lock().keys().filter(|(known, _)| *known == account).count()
    }

    fn found(&self, account: AccountId, name: &str) -> Result<Arc<Worker>, WorkerError> {
        self.find(account, name).ok_or_else(|| WorkerError::NotFound(name.to_owned()))
    }

    /// Whether every queue a Worker sends to is there.
    fn check_queues(&self, account: AccountId, script: &Script) -> Result<(), WorkerError> {
        let missing = script.queues().find(|queue| {
            let queue = QueueName { account, region: &self.settings.region, name: queue };
            self.engine.queue(queue).is_none()
        });
        missing.map_or(Ok(()), |queue| Err(WorkerError::QueueNotFound(queue.to_owned())))
    }

    async fn restore(
        self: &Arc<Self>,
        account: AccountId,
        name: String,
        record: Record,
        secrets: Secrets,
    ) -> Result<(), EngineError> {
        let deployed = record.deployed.as_ref();
        let version =
            deployed.and_then(|id| record.versions.iter().find(|version| version.id == *id)).cloned();
        let known = Known { record, secrets: secrets.clone(), running: None };
        let worker = Arc::new(Worker { account, name: name.clone(), known: Mutex::new(known) });
        if let Some(version) = version {
            match stored::read_code(&self.engine, account, &name, &version).await? {
                Some(script) => self.run(&worker, Arc::new(Deployed { version, script, secrets }), None),
                None => (self.settings.notices)(
                    account,
                    &name,
                    WorkerNotice::NotStarted("its code is not whole".to_owned()),
                ),
            }
        }
        self.workers.lock().insert((account, name), worker);
        Ok(())
    }

    async fn upload(
        self: &Arc<Self>,
        account: AccountId,
        name: String,
        script: Script,
        more: Vec<(String, String)>,
        then: Then,
    ) -> Result<Version, WorkerError> {
        let _alone = self.changing.lock().await;
        self.check_queues(account, &script)?;
        let worker = self.find(account, &name);
        if worker.is_none() && self.count(account) >= WORKERS_MAX {
            return Err(ScriptError::TooMuch { what: "the number of Workers", max: WORKERS_MAX }.into());
        }
        let known = worker.as_ref().map(|worker| worker.known.lock().clone()).unwrap_or_default();
        let secrets = joined(&known.secrets, more, &script.bindings)?;
        let now = stored::millis(self.engine.now());
        let mut record = known.record;
        let mut changes = Changes::default();
        let id = uuid(&*self.entropy);
        let version = Version {
            number: record.versions.last().map_or(1, |last| last.number + 1),
            created_at: now,
            parts: changes.put_code(&name, &id, &script),
            id,
        };
        let deployed = Deployed { version: version.clone(), script, secrets: secrets.clone() };
        let live = self.begin(account, &name, &deployed).await?;
        if record.versions.is_empty() {
            record.created_at = now;
        }
        record.versions.push(version.clone());
        if then == Then::Deploy {
            (record.deployed, record.deployed_at) = (Some(version.id.clone()), now);
        }
        forget_old(&mut record, &mut changes, &name);
        changes.put_record(&name, Some(&record));
        changes.put_secrets(&name, &secrets);
        if let Err(error) = changes.write(&self.engine, account).await {
            live.retire().await;
            return Err(error.into());
        }
        let worker = worker.unwrap_or_else(|| {
            let worker = Arc::new(Worker { account, name: name.clone(), known: Mutex::default() });
            self.workers.lock().insert((account, name), Arc::clone(&worker));
            worker
        });
        {
            let mut known = worker.known.lock();
            (known.record, known.secrets) = (record, secrets);
        }
        match then {
            Then::Deploy => self.run_live(&worker, Arc::new(deployed), live).await,
            Then::Keep => live.retire().await,
        }
        Ok(version)
    }

    async fn deploy(self: &Arc<Self>, account: AccountId, name: &str, id: &str) -> Result<(), WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let Known { mut record, secrets, .. } = worker.known.lock().clone();
        let missing = || WorkerError::VersionNotFound(id.to_owned());
        let version = record.versions.iter().find(|version| version.id == id).cloned().ok_or_else(missing)?;
        let script = stored::read_code(&self.engine, account, name, &version).await?.ok_or_else(missing)?;
        self.check_queues(account, &script)?;
        let secrets = joined(&secrets, Vec::new(), &script.bindings)?;
        let deployed = Deployed { version, script, secrets };
        let live = self.begin(account, name, &deployed).await?;
        (record.deployed, record.deployed_at) = (Some(id.to_owned()), stored::millis(self.engine.now()));
        let mut changes = Changes::default();
        changes.put_record(name, Some(&record));
        if let Err(error) = changes.write(&self.engine, account).await {
            live.retire().await;
            return Err(error.into());
        }
        worker.known.lock().record = record;
        self.run_live(&worker, Arc::new(deployed), live).await;
        Ok(())
    }

    async fn put_secret(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        secret: String,
        text: Option<String>,
    ) -> Result<(), WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let known = worker.known.lock().clone();
        let had = known.secrets.iter().any(|(known, _)| *known == secret);
        let mut secrets: Secrets = known.secrets.into_iter().filter(|(known, _)| *known != secret).collect();
        match text {
            Some(text) => {
                let running = known.running.as_ref();
                let bindings = running.map_or(&[][..], |running| &running.deployed.script.bindings);
                secrets = joined(&secrets, vec![(secret, text)], bindings)?;
            }
            None if had => {}
            None => return Err(WorkerError::SecretNotFound(secret)),
        }
        let next = known.running.map(|running| Deployed {
            version: running.deployed.version.clone(),
            script: running.deployed.script.clone(),
            secrets: secrets.clone(),
        });
        let live = match &next {
            Some(next) => Some(self.begin(account, name, next).await?),
            None => None,
        };
        let mut changes = Changes::default();
        changes.put_secrets(name, &secrets);
        if let Err(error) = changes.write(&self.engine, account).await {
            if let Some(live) = live {
                live.retire().await;
            }
            return Err(error.into());
        }
        worker.known.lock().secrets = secrets;
        if let (Some(next), Some(live)) = (next, live) {
            self.run_live(&worker, Arc::new(next), live).await;
        }
        Ok(())
    }

    async fn delete(self: &Arc<Self>, account: AccountId, name: &str) -> Result<(), WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let mut changes = Changes::default();
        let record = worker.known.lock().record.clone();
        record.versions.iter().for_each(|version| changes.remove_code(name, version));
        changes.put_record(name, None);
        changes.put_secrets(name, &Secrets::new());
        changes.write(&self.engine, account).await?;
        self.workers.lock().remove(&(account, name.to_owned()));
        // Its handlers may take minutes to finish, and nobody else has to wait for that.
        tokio::spawn(async move { worker.stop().await });
        Ok(())
    }

    /// Starts a version that does not run yet.
    async fn begin(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        deployed: &Deployed,
    ) -> Result<Live, StartError> {
        Starter { shared: Arc::clone(self), account, name: name.to_owned() }.start(deployed).await
    }

    /// Keeps a Worker running from now on, beginning with this child if there is one already.
    fn run(self: &Arc<Self>, worker: &Arc<Worker>, deployed: Arc<Deployed>, live: Option<Arc<Live>>) {
        let (orders, taken) = mpsc::channel(1);
        let up = watch::Sender::new(None);
        let running = RunningWorker { deployed: Arc::clone(&deployed), orders, up: up.subscribe() };
        let mut watched = up.subscribe();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            while watched.changed().await.is_ok() {
                shared.changed.send_modify(|changes| *changes += 1);
            }
        });
        worker.known.lock().running = Some(running);
        let starter =
            Starter { shared: Arc::clone(self), account: worker.account, name: worker.name.clone() };
        tokio::spawn(keeper::keep(Arc::new(starter), deployed, live, up, taken));
    }

    /// Changes over to a child that is up.
    async fn run_live(self: &Arc<Self>, worker: &Arc<Worker>, deployed: Arc<Deployed>, live: Live) {
        let live = Arc::new(live);
        let running = {
            let mut known = worker.known.lock();
            if let Some(running) = &mut known.running {
                running.deployed = Arc::clone(&deployed);
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
    }
}

impl Worker {
    fn live(&self) -> Option<Arc<Live>> {
        let known = self.known.lock();
        known.running.as_ref().and_then(|running| running.up.borrow().clone())
    }

    async fn stop(&self) {
        let running = self.known.lock().running.take();
        let Some(running) = running else { return };
        let (tell, stopped) = oneshot::channel();
        if running.orders.send(Order::Stop(tell)).await.is_ok() {
            // An error is a keeper that has ended already.
            let _stopped = stopped.await;
        }
    }

    fn describe(&self) -> Description {
        let known = self.known.lock();
        Description {
            name: self.name.clone(),
            created_at: known.record.created_at,
            deployed_at: known.record.deployed_at,
            versions: known.record.versions.clone(),
            deployed: known.running.as_ref().map(|running| running.deployed.version.clone()),
            secrets: known.secrets.iter().map(|(name, _)| name.clone()).collect(),
            script: known.running.as_ref().map(|running| Arc::new(running.deployed.script.clone())),
        }
    }
}

/// Starts versions of one Worker.
struct Starter {
    shared: Arc<Shared>,
    account: AccountId,
    name: String,
}

impl Starts for Starter {
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
        Live::start(&settings.runtime, plan, patience, move |said| {
            notices(account, &name, WorkerNotice::Said(said));
        })
        .await
    }

    fn notice(&self, notice: WorkerNotice) {
        (self.shared.settings.notices)(self.account, &self.name, notice);
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("runtime", &self.shared.settings.runtime).finish_non_exhaustive()
    }
}

/// Secrets with more of them, which take the place of those of the same name; none may be named as a binding is.
fn joined(
    secrets: &Secrets,
    more: Vec<(String, String)>,
    bindings: &[Binding],
) -> Result<Secrets, ScriptError> {
    let mut all: BTreeMap<String, String> = secrets.iter().cloned().collect();
    for (name, text) in more {
        check_binding_name(&name)?;
        if text.len() > BINDING_BYTES_MAX {
            return Err(ScriptError::TooMuch { what: "the bytes of a secret", max: BINDING_BYTES_MAX });
        }
        all.insert(name, text);
    }
    if all.len() > BINDINGS_MAX {
        return Err(ScriptError::TooMuch { what: "the number of secrets", max: BINDINGS_MAX });
    }
    if all.iter().map(|(name, text)| name.len() + 2 * text.len() + 8).sum::<usize>() > SECRETS_BYTES_MAX {
        return Err(ScriptError::TooMuch {
            what: "the bytes of all secrets together, written as JSON,",
            max: SECRETS_BYTES_MAX,
        });
    }
    match bindings.iter().find(|binding| all.contains_key(&binding.name)) {
        Some(binding) => Err(ScriptError::BindingTwice(binding.name.clone())),
        None => Ok(all.into_iter().collect()),
    }
}

/// Drops the oldest versions beyond what is kept, but never the deployed one.
fn forget_old(record: &mut Record, changes: &mut Changes, name: &str) {
    while record.versions.len() > VERSIONS_MAX {
        let old = record.versions.iter().position(|version| record.deployed.as_ref() != Some(&version.id));
        let Some(old) = old else { return };
        changes.remove_code(name, &record.versions.remove(old));
    }
}

fn uuid(entropy: &dyn Entropy) -> String {
    let mut bytes = entropy.wide_bits().to_be_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    hex::uuid(bytes).iter().map(|letter| char::from(*letter)).collect()
}
