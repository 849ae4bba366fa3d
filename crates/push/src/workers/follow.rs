//! Workers of a fleet: what is changed through another node is taken over here.
//!
//! Workers are documents of their account, which all nodes read in one shard. Each node runs every Worker, since it may
//! keep a queue of each. It reads the stamps of the account's Workers before it answers or changes anything, before a
//! batch or a visit, and every second; where they are not the ones it knows, it reads the rest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::{AccountId, RuleError};
use kew_engine::{BeforeJumps, EngineError};
use tokio::runtime::Handle;
use tokio::sync::MutexGuard;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::changes::uuid;
use super::error::WorkerError;
use super::history::Version;
use super::keeper::{Deployed, Starts as _};
use super::live::Live;
use super::settings::WorkerNotice;
use super::shared::Shared;
use super::stored::{self, Changes, Record, Secrets, Stamps};
use super::worker::{Known, RunningWorker, Worker};
use super::{LOOKS_AGAIN, WAITS_FOR, Workers};

/// How often a node looks without being asked.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How long a batch, or a visit, waits for the stamps. It goes to what runs here when they take longer.
const LOOKS_WITHIN: Duration = Duration::from_secs(2);
/// How often a change is made again because another node changed the same Worker meanwhile.
const CROSSINGS_MAX: u32 = 5;

impl Workers {
    /// Takes over what other nodes have changed of an account's Workers. Before it nothing is said of them.
    pub async fn follow(&self, account: AccountId) -> Result<(), WorkerError> {
        if !self.shared.settings.is_shared() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        self.apart(async move { shared.follow(account).await.map_err(WorkerError::from) }).await
    }

    /// The same for all accounts, when it is not known whose Worker is asked for.
    pub async fn follow_all(&self) -> Result<(), WorkerError> {
        if !self.shared.settings.is_shared() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        self.apart(async move { shared.follow_all().await.map_err(WorkerError::from) }).await
    }

    /// A batch, or a visit, that comes after a change of its Worker is brought to what was changed. It waits for that
    /// as long as for a Worker that is down, and not for changes of other Workers.
    pub(crate) async fn follow_in_time(&self, account: AccountId, name: &str) {
        if !self.shared.settings.is_shared() {
            return;
        }
        let stamps = stored::read_stamps(&self.shared.engine, account);
        let Ok(Ok(found)) = tokio::time::timeout(LOOKS_WITHIN, stamps).await else { return };
        let is_known = || self.shared.knows_one(account, name, &found);
        if is_known() {
            return;
        }
        // Others may take longer.
        let until_known = async {
            while !is_known() {
                tokio::time::sleep(LOOKS_AGAIN).await;
            }
        };
        let either = async {
            tokio::select! {
                _followed = self.follow(account) => {}
                () = until_known => {}
            }
        };
        let _in_time = tokio::time::timeout(WAITS_FOR, either).await;
    }
}

/// Makes a change. When another node changed the same Worker meanwhile it is made again, on top of that.
pub(super) async fn crossing<T, F>(change: impl Fn() -> F) -> Result<T, WorkerError>
where
    F: Future<Output = Result<T, WorkerError>>,
{
    let mut crossed = 0;
    loop {
        match change().await {
            Err(WorkerError::Engine(EngineError::Rule(RuleError::VersionChanged)))
                if crossed < CROSSINGS_MAX =>
            {
                crossed += 1;
            }
            done => return done,
        }
    }
}

impl Shared {
    /// Nothing else changes Workers here while the answer lives, and what was written of them before is known.
    pub(super) async fn alone(
        self: &Arc<Self>,
        account: AccountId,
    ) -> Result<MutexGuard<'_, ()>, EngineError> {
        let alone = self.changing.lock().await;
        self.look(account).await?;
        Ok(alone)
    }

    /// Looks again and again. A look that fails is followed by the next: why, the store's own log says.
    pub(super) async fn keep_following(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOKS_EVERY).await;
            let _looked = self.follow_all().await;
        }
    }

    /// Looks at all accounts, also when one cannot be read. One look serves all who asked before it began.
    async fn follow_all(self: &Arc<Self>) -> Result<(), EngineError> {
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|begun| begun >= asked) {
            return Ok(());
        }
        let begun = Instant::now();
        let mut all = Ok(());
        for (account, _) in &self.settings.accounts {
            all = all.and(self.follow(*account).await);
        }
        if all.is_ok() {
            *looked = Some(begun);
        }
        all
    }

    /// Learns of cron triggers that other nodes have written, so that a jump of the clock stops at them.
    pub(super) fn news(self: &Arc<Self>, handle: Handle) -> BeforeJumps {
        let shared = Arc::downgrade(self);
        Box::new(move || {
            let Some(shared) = shared.upgrade() else { return Box::pin(std::future::ready(())) };
            let looks = handle.spawn(async move {
                shared.follow_all_in_time().await;
                let change = *shared.rescheduled.borrow();
                shared.until_clock_knows(change).await;
            });
            Box::pin(async move {
                // An error is a runtime that ends.
                let _looked = looks.await;
            })
        })
    }

    /// Before cron triggers are called.
    pub(super) async fn follow_all_in_time(self: &Arc<Self>) {
        if !self.settings.is_shared() {
            return;
        }
        let shared = Arc::clone(self);
        // To its end, also when that takes longer.
        let looks = tokio::spawn(async move { shared.follow_all().await });
        let _in_time = tokio::time::timeout(LOOKS_WITHIN, looks).await;
    }

    /// Writes what changes of a Worker, unless another node has changed it since it was looked at.
    pub(super) async fn write_changes(
        &self,
        changes: Changes,
        (account, name): (AccountId, &str),
    ) -> Result<(), EngineError> {
        let known = self.stamps.lock().get(&account).and_then(|stamps| stamps.get(name).cloned());
        // A Worker that is gone has none. One that never had any leaves one: other nodes would not see that it is gone.
        let is_stamped = !changes.is_end() || known.is_none();
        let next = is_stamped.then(|| Bytes::from(uuid(&*self.entropy)));
        changes.write(&self.engine, account, known, next.clone()).await?;
        let mut stamps = self.stamps.lock();
        let stamps = stamps.entry(account).or_default();
        match next {
            Some(next) => drop(stamps.insert(name.to_owned(), next)),
            None => drop(stamps.remove(name)),
        }
        Ok(())
    }

    /// Waits for a change that is being made only if there is something to take over.
    async fn follow(self: &Arc<Self>, account: AccountId) -> Result<(), EngineError> {
        let found = stored::read_stamps(&self.engine, account).await?;
        if self.knows(account, &found) {
            return Ok(());
        }
        let _alone = self.changing.lock().await;
        // It may be known by now: that change was it, or another look came first.
        if self.knows(account, &found) {
            return Ok(());
        }
        self.look(account).await
    }

    async fn look(self: &Arc<Self>, account: AccountId) -> Result<(), EngineError> {
        let found = stored::read_stamps(&self.engine, account).await?;
        if self.knows(account, &found) {
            return Ok(());
        }
        self.take_over(account, found).await
    }

    fn knows(&self, account: AccountId, found: &Stamps) -> bool {
        self.stamps.lock().get(&account).map_or(found.is_empty(), |known| known == found)
    }

    fn knows_one(&self, account: AccountId, name: &str, found: &Stamps) -> bool {
        self.stamps.lock().get(&account).and_then(|known| known.get(name)) == found.get(name)
    }

    /// Takes over what was written before these stamps were read, or after.
    async fn take_over(self: &Arc<Self>, account: AccountId, found: Stamps) -> Result<(), EngineError> {
        let all = stored::read_all(&self.engine, account).await?;
        let names: BTreeSet<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
        let is_gone =
            |worker: &&Arc<Worker>| worker.account == account && !names.contains(worker.name.as_str());
        let gone: Vec<Arc<Worker>> = self.workers.lock().values().filter(is_gone).map(Arc::clone).collect();
        gone.into_iter().for_each(|worker| self.forget(worker));
        let mut changed = JoinSet::new();
        for (name, record, secrets) in all {
            let (shared, stamp) = (Arc::clone(self), found.get(&name).cloned());
            changed.spawn(async move {
                shared.take_over_one(account, name.clone(), record, secrets).await?;
                if let Some(stamp) = stamp {
                    shared.stamps.lock().entry(account).or_default().insert(name, stamp);
                }
                Ok(())
            });
        }
        changed.join_all().await.into_iter().collect::<Result<(), EngineError>>()?;
        self.stamps.lock().insert(account, found);
        Ok(())
    }

    /// Another version, or other secrets, run when they have started; until then what ran goes on. What does not start
    /// here takes over all the same, and is started again and again, as after a restart of the node.
    async fn take_over_one(
        self: &Arc<Self>,
        account: AccountId,
        name: String,
        record: Record,
        secrets: Secrets,
    ) -> Result<(), EngineError> {
        let new = || Worker::new(account, name.clone(), Known::default(), self.engine.now());
        let worker = self.find(account, &name).unwrap_or_else(new);
        let known = worker.known.lock().clone();
        if known.record == record && known.secrets == secrets {
            return Ok(());
        }
        let runs = known.running.as_ref().map(|running| &running.deployed.version.id);
        let next = record.deployed.as_ref().filter(|id| runs != Some(*id) || known.secrets != secrets);
        let next = match next.and_then(|id| record.version(id)) {
            Some(version) => Some(self.start_next(&worker, version.clone(), &secrets).await?),
            None => None,
        };
        // Before it runs: those who wait until it is up look for it in the list.
        self.workers.lock().entry((account, name)).or_insert_with(|| Arc::clone(&worker));
        worker.keep(record, secrets);
        match (next, known.running) {
            (Some(Next::Live(deployed, live)), _) => self.run_live(&worker, deployed, *live).await,
            (Some(Next::Down(deployed)), old) => {
                self.run(&worker, deployed, None);
                stop(old);
            }
            // It was made anew, and none of its versions is deployed.
            (None, old) if worker.known.lock().record.deployed.is_none() => {
                worker.known.lock().running = None;
                stop(old);
            }
            (None | Some(Next::NotWhole), _) => {}
        }
        self.rescheduled.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Starts what another node deployed.
    async fn start_next(
        self: &Arc<Self>,
        worker: &Worker,
        version: Version,
        secrets: &Secrets,
    ) -> Result<Next, EngineError> {
        let Some(deployed) = self.read_deployed(worker, version, secrets.clone()).await? else {
            return Ok(Next::NotWhole);
        };
        let starter = self.starter(worker.account, &worker.name, &worker.log);
        Ok(match starter.start(&deployed).await {
            Ok(live) => Next::Live(deployed, Box::new(live)),
            Err(error) => {
                starter.notice(WorkerNotice::NotStarted(error.to_string()));
                Next::Down(deployed)
            }
        })
    }

    /// A Worker is deleted.
    pub(super) fn forget(&self, worker: Arc<Worker>) {
        self.workers.lock().remove(&(worker.account, worker.name.clone()));
        // There is no next line to wait for.
        worker.log.close();
        // Its handlers may take minutes to finish, and no other request waits for that.
        tokio::spawn(async move { worker.stop().await });
    }
}

/// What is to run of a Worker from now on.
enum Next {
    /// It is up.
    Live(Arc<Deployed>, Box<Live>),
    /// It did not start.
    Down(Arc<Deployed>),
    /// Its code cannot be read.
    NotWhole,
}

/// Ends what ran, letting its handlers finish.
fn stop(old: Option<RunningWorker>) {
    if let Some(old) = old {
        tokio::spawn(old.stop());
    }
}
