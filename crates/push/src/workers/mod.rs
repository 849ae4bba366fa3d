//! Workers: code that is uploaded, kept, and run in the real runtime as the target of batches.
//!
//! Each deployed Worker has one `workerd` process ([`child`]) with the user's code and a shim of ours in it; `live`
//! brings batches to it, `keeper` keeps it running, `stored` keeps the code, `changes` says what a change does.
//! [`Workers`] is what others see.

mod changes;
mod child;
mod cron;
mod dispatch;
mod error;
mod exceptions;
mod files;
mod follow;
mod history;
mod keeper;
mod live;
mod log;
mod log_place;
mod logs;
mod maps;
mod notes;
mod output;
mod schedules;
mod script;
mod settings;
mod shared;
mod stored;
mod visit;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::{AccountId, Entropy};
use kew_engine::{Engine, EngineError};
use kew_http::Drain;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use follow::crossing;
use live::Live;
use logs::READERS_MAX;
use shared::Shared;
use worker::Worker;

use crate::batch::{Batch, FINISH_WITHIN};
use crate::delivered::Delivered;
use crate::standing::Standing;

pub use changes::{Then, Upload};
pub use child::{Runtime, StartError};
pub use error::WorkerError;
pub use files::Outbound;
pub use history::{Deployment, Remarks, Version};
pub use log::LogLine;
pub use log_place::LogPlace;
pub use logs::LogPage;
pub use output::Said;
pub use schedules::Schedule;
pub use script::{
    BINDING_BYTES_MAX, BINDINGS_MAX, Binding, BindingValue, CPU_LIMIT_DEFAULT, CPU_LIMIT_MAX, Module,
    ModuleKind, SCRIPT_BYTES_MAX, Script, ScriptError, check_binding_name, check_name,
};
pub use settings::{Answered, NodeName, Nodes, OtherNodes, WorkerNotice, WorkerNotices, WorkersSettings};
pub use visit::{VISIT_REPLY_BYTES_MAX, Visit, VisitError};
pub use worker::Description;

/// How long a batch in hand, or a visit, waits for a Worker whose process is not up, in real time.
const WAITS_FOR: Duration = Duration::from_secs(10);

/// How soon it is tried again without news of the Worker.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// All Workers.
pub struct Workers {
    shared: Arc<Shared>,
    /// Where children and their keepers live.
    handle: Handle,
    /// They are being shut down.
    ending: Drain,
    /// Ends what calls `scheduled` handlers.
    schedules: AbortHandle,
    /// Ends what follows the changes of other nodes.
    following: Option<AbortHandle>,
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.schedules.abort();
        self.following.iter().for_each(AbortHandle::abort);
    }
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
            looked: tokio::sync::Mutex::default(),
            readers: Semaphore::new(READERS_MAX),
            stamps: Mutex::default(),
            pending: Mutex::default(),
            lives: Mutex::default(),
            changed: watch::Sender::new(0),
            rescheduled: watch::Sender::new(0),
            clock_knows: watch::Sender::new(None),
        });
        child::remove_left_behind(&shared.settings.runtime);
        for (account, _) in &shared.settings.accounts {
            let stamps = stored::read_stamps(&shared.engine, *account).await?;
            shared.stamps.lock().insert(*account, stamps);
            for (name, record, secrets) in stored::read_all(&shared.engine, *account).await? {
                shared.restore(*account, name, record, secrets).await?;
            }
        }
        let schedules = tokio::spawn(Arc::clone(&shared).keep_schedules());
        shared.until_clock_knows(0).await;
        let following = shared.settings.is_shared().then(|| {
            shared.engine.wait_before_jumps(shared.news(Handle::current()));
            tokio::spawn(Arc::clone(&shared).keep_following()).abort_handle()
        });
        let (handle, ending) = (Handle::current(), Drain::default());
        Ok(Self { shared, handle, ending, schedules: schedules.abort_handle(), following })
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

    /// The Workers of an account that publish, in order of names, each with the queues its code is bound to, in order
    /// and each once: those that are deployed, and the one that is just being.
    pub fn producers(&self, account: AccountId) -> Vec<(String, BTreeSet<String>)> {
        let workers = self.shared.workers.lock();
        let bound = workers.values().filter(|worker| worker.account == account);
        let mut all: BTreeMap<String, BTreeSet<String>> =
            bound.map(|worker| (worker.name.clone(), worker.queues())).collect();
        drop(workers);
        if let Some(pending) = self.shared.pending.lock().as_ref().filter(|one| one.account == account) {
            all.entry(pending.name.clone()).or_default().extend(pending.queues.iter().cloned());
        }
        all.into_iter().filter(|(_, queues)| !queues.is_empty()).collect()
    }

    /// Keeps a version of a Worker; a Worker that is not there yet is made. Nothing is kept that does not start. What
    /// is kept comes back.
    pub async fn upload(
        &self,
        (account, name): (AccountId, &str),
        upload: Upload,
        then: Then,
    ) -> Result<(Version, Arc<Script>), WorkerError> {
        check_name(name)?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let upload = move || {
            let (shared, name, upload) = (Arc::clone(&shared), name.clone(), upload.clone());
            async move { shared.upload(account, name, upload, then).await }
        };
        self.apart(crossing(upload)).await
    }

    /// A version that is kept, with its code; it need not be the one that runs.
    pub async fn version(
        &self,
        account: AccountId,
        name: &str,
        version: &str,
    ) -> Result<(Version, Arc<Script>), WorkerError> {
        let missing = || WorkerError::VersionNotFound(version.to_owned());
        let found = self.shared.found(account, name)?.describe();
        let kept = found.versions.into_iter().find(|kept| kept.id == version).ok_or_else(missing)?;
        if let (Some(deployed), Some(script)) = (&found.deployed, found.script)
            && deployed.id == kept.id
        {
            return Ok((kept, script));
        }
        let code = stored::read_code(&self.shared.engine, account, name, &kept).await?;
        let (script, _) = code.ok_or_else(missing)?;
        Ok((kept, Arc::new(script)))
    }

    /// Runs a version that is kept.
    pub async fn deploy(
        &self,
        account: AccountId,
        name: &str,
        version: &str,
        remarks: Remarks,
    ) -> Result<Deployment, WorkerError> {
        let (shared, name, version) = (Arc::clone(&self.shared), name.to_owned(), version.to_owned());
        let deploy = move || {
            let (shared, name) = (Arc::clone(&shared), name.clone());
            let (version, remarks) = (version.clone(), remarks.clone());
            async move { shared.deploy(account, &name, &version, remarks).await }
        };
        self.apart(crossing(deploy)).await
    }

    /// Writes a secret, or takes one away; the Worker runs with the change at once.
    pub async fn put_secret(
        &self,
        account: AccountId,
        name: &str,
        secret: &str,
        text: Option<String>,
    ) -> Result<(), WorkerError> {
        self.put_secrets(account, name, vec![(secret.to_owned(), text)]).await
    }

    /// The same of several, by name and text: all of them or none.
    pub async fn put_secrets(
        &self,
        account: AccountId,
        name: &str,
        changes: Vec<(String, Option<String>)>,
    ) -> Result<(), WorkerError> {
        changes.iter().try_for_each(|(secret, _)| check_binding_name(secret))?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let put = move || {
            let (shared, name, changes) = (Arc::clone(&shared), name.clone(), changes.clone());
            async move { shared.put_secrets(account, &name, changes).await }
        };
        self.apart(crossing(put)).await
    }

    /// Stops a Worker and forgets it.
    pub async fn delete(&self, account: AccountId, name: &str) -> Result<(), WorkerError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let delete = move || {
            let (shared, name) = (Arc::clone(&shared), name.clone());
            async move { shared.delete(account, &name).await }
        };
        self.apart(crossing(delete)).await
    }

    /// Stops all of them, letting their handlers finish within the time that batches get.
    pub async fn shut_down(&self) {
        self.ending.close();
        self.schedules.abort();
        self.following.iter().for_each(AbortHandle::abort);
        let workers: Vec<Arc<Worker>> = self.shared.workers.lock().values().map(Arc::clone).collect();
        let mut stopping = tokio::task::JoinSet::new();
        workers.into_iter().for_each(|worker| {
            stopping.spawn(async move {
                worker.stop().await;
                // Until then its handlers had something to say.
                worker.log.close();
            });
        });
        let mut stopped = std::pin::pin!(stopping.join_all());
        if tokio::time::timeout(FINISH_WITHIN, &mut stopped).await.is_err() {
            // A visit or a `scheduled` handler is still under way.
            self.kill_all();
            stopped.await;
        }
    }

    /// Ends all their processes at once, so that every invocation under way is settled by what it has noted.
    pub(crate) fn kill_all(&self) {
        for live in self.shared.lives.lock().iter().filter_map(Weak::upgrade) {
            live.kill();
        }
    }

    /// Whether a Worker can take a batch now, and why not.
    pub(crate) fn standing(&self, account: AccountId, name: &str) -> Standing {
        let Some(live) = self.shared.find(account, name).and_then(|worker| worker.live()) else {
            return Standing::Down;
        };
        match live.handles_queues() {
            Some(false) => {
                Standing::Unfit(format!("the version of the Worker {name:?} that runs has no queue handler"))
            }
            Some(true) | None => Standing::Up,
        }
    }

    /// What runs of a Worker, unless it said that it has no queue handler: each batch would fail there.
    fn taker(&self, account: AccountId, name: &str) -> Option<Arc<Live>> {
        let live = self.shared.find(account, name)?.live()?;
        (live.handles_queues() != Some(false)).then_some(live)
    }

    /// Tells whenever that may have changed of any.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Brings a batch to a Worker. One that went down, or was replaced, before it could take the batch costs it
    /// nothing: the batch waits for the next.
    pub(crate) async fn deliver(&self, name: &str, batch: &Batch) -> Delivered {
        let leased_from = batch.messages.first().map(|leased| leased.message.queue);
        let mut changed = self.watch();
        let mut patience = std::pin::pin!(tokio::time::sleep(WAITS_FOR));
        loop {
            let live = self.taker(batch.queue.account, name);
            // It may have waited: another node may have leased its messages by now.
            if !leased_from.is_some_and(|queue| self.shared.engine.may_answer_for(queue)) {
                return Delivered::unreached("this node may not answer for its store".to_owned());
            }
            if let Some(live) = live
                && let Some(delivered) = live.deliver(batch).await
            {
                return delivered;
            }
            tokio::select! {
                // Its sender lives as long as this.
                _changed = changed.changed() => {}
                // It may also be there and have had no place for one connection more.
                () = tokio::time::sleep(LOOKS_AGAIN) => {}
                () = &mut patience => break,
            }
        }
        Delivered::unreached(format!("the Worker {name:?} is not running, or has no queue handler"))
    }

    /// Does something where children live, to its end even if the caller goes away.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, WorkerError>> + Send + 'static,
    ) -> Result<T, WorkerError> {
        self.handle.spawn(work).await.unwrap_or(Err(WorkerError::ShuttingDown))
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("runtime", &self.shared.settings.runtime).finish_non_exhaustive()
    }
}
