//! Redrives of the messages that fit a filter: tasks of the console, one step of the engine after the other.
//!
//! The task itself is a document of the store, so that it goes on after a restart; which messages were moved is in the
//! queues. A task ends when the last message that it counted has had its turn. What ended is remembered for a while in
//! memory.

mod drive;
mod looked;
mod task;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::command::{Documents, PutDocuments};
use kew_core::{DocumentKey, Entropy, QueueId, RuleError, own};
use kew_engine::{Engine, EngineError};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::redrives::has_ended;
use crate::board::{Board, Phase};
use crate::error::ApiError;
pub(super) use task::{Order, Task};

/// Tasks that run at once.
const RUNNING_MAX: usize = 8;
/// Tasks that are known, with those that ended.
const KNOWN_MAX: usize = 100;
/// Tasks that are known to have been refused.
const REFUSED_MAX: usize = 1_000;
/// How often it is looked whether there are tasks to go on with.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How often, in engine time, it is tried to remove the document of a task that was refused.
const TAKES_BACK_EVERY: Duration = Duration::from_secs(1);
/// How long the end of the server waits for a slice under way.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// All tasks.
pub(crate) struct Filtered {
    entropy: Arc<dyn Entropy>,
    /// Guards what is known of tasks; held for moments.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Oldest first.
    tasks: VecDeque<Arc<Task>>,
    drivers: Vec<JoinHandle<()>>,
    /// Tasks that were refused and may be stored all the same, oldest first: none of them is gone on with.
    refused: VecDeque<String>,
    /// The engine whose stored tasks were taken on.
    resumed: Weak<Engine>,
    is_ending: bool,
}

impl Filtered {
    pub(crate) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { entropy, known: Mutex::default() }
    }

    /// Refuses what cannot run beside the tasks that run: a second one on a queue, or one too many.
    pub(super) fn check(&self, source: QueueId) -> Result<(), ApiError> {
        self.known.lock().check(source)
    }

    /// Whether one of them runs on a queue.
    pub(super) fn runs_on(&self, source: QueueId) -> bool {
        self.known.lock().tasks.iter().any(|task| task.is_running() && task.order.source == source)
    }

    /// Begins a task, which goes on by itself.
    pub(super) async fn begin(&self, engine: &Arc<Engine>, order: Order) -> Result<Arc<Task>, ApiError> {
        let task = Arc::new(Task::new(format!("f{:016x}", self.entropy.bits()), order)?);
        {
            let mut known = self.known.lock();
            known.check(task.order.source)?;
            known.put(&task);
            // Before its document is stored: the first look for stored tasks after a start takes it for another one's.
            task.driven_by(engine);
        }
        if task.order.is_empty() {
            task.end(task::State::Done);
        } else if let Err(error) = put(engine, &task.id, Some(task.document())).await {
            self.known.lock().refuse(&task);
            // It may be stored all the same.
            tokio::spawn(take_back(Arc::clone(engine), task.id.clone()));
            return Err(error.into());
        } else {
            self.known.lock().drive(engine, &task);
        }
        Ok(task)
    }

    /// The task of this name.
    pub(super) fn task(&self, id: &str) -> Option<Arc<Task>> {
        self.known.lock().tasks.iter().find(|task| task.id == id).cloned()
    }

    /// Stops a task after the slice that is under way.
    pub(super) async fn cancel(&self, engine: &Engine, id: &str) -> Result<Arc<Task>, ApiError> {
        let task = self.task(id).ok_or_else(|| ApiError::from(RuleError::TaskNotFound))?;
        let turn = task.turn.lock().await;
        if !task.is_running() {
            return Err(has_ended(id, task.state()));
        }
        // First: a task that is forgotten in memory alone would go on at the next start.
        put(engine, id, None).await?;
        task.end(task::State::Cancelled);
        task.bell.notify_one();
        drop(turn);
        Ok(task)
    }

    /// Goes on with the tasks of each engine that serves, for as long as it is polled.
    pub(crate) async fn keep_resuming(self: Arc<Self>, board: Arc<Board>) {
        loop {
            if let Phase::Serving(running) = board.phase() {
                let filtered = Arc::clone(&self);
                let resume = async move {
                    // Where it fails, it is tried again at the next look, or by the request that asks for a task.
                    let _known = filtered.resume(&running.engine).await;
                };
                // It may wait for the engine's locks.
                let handle = tokio::runtime::Handle::current();
                let _resumed = tokio::task::spawn_blocking(move || handle.block_on(resume)).await;
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// Goes on with the tasks that are stored, once for each engine. A request that asks for a task, or begins one,
    /// does this first: until then nothing is known of those that an earlier start began.
    pub(crate) async fn resume(&self, engine: &Arc<Engine>) -> Result<(), EngineError> {
        let is_known = |known: &Known| known.is_ending || known.resumed.as_ptr() == Arc::as_ptr(engine);
        if is_known(&self.known.lock()) {
            return Ok(());
        }
        let stored = Documents { account: own::OWN_ACCOUNT, owner: own::REDRIVES.into() };
        let stored = engine.documents(stored).await?;
        let mut known = self.known.lock();
        if is_known(&known) {
            return Ok(());
        }
        known.resumed = Arc::downgrade(engine);
        for (key, bytes) in stored {
            let is_driven = known.tasks.iter().any(|task| *task.id == *key.key && task.is_driven_by(engine));
            let is_refused = known.refused.iter().any(|id| **id == *key.key);
            if let Some(task) = Task::of_document(&key.key, &bytes).filter(|_| !is_driven && !is_refused) {
                let task = Arc::new(task);
                known.tasks.retain(|known| known.id != task.id);
                known.put(&task);
                known.drive(engine, &task);
            }
        }
        Ok(())
    }

    /// Ends the tasks where they stand: they go on at the next start.
    pub(crate) async fn end(&self) {
        let drivers = {
            let mut known = self.known.lock();
            known.is_ending = true;
            known.tasks.iter().for_each(|task| task.rest());
            std::mem::take(&mut known.drivers)
        };
        for driver in drivers {
            let _ended = tokio::time::timeout(ENDS_WITHIN, driver).await;
        }
    }
}

impl Known {
    fn check(&self, source: QueueId) -> Result<(), ApiError> {
        if self.is_ending {
            return Err(ApiError::unavailable("the server is stopping"));
        }
        let running: Vec<&Arc<Task>> = self.tasks.iter().filter(|task| task.is_running()).collect();
        if running.iter().any(|task| task.order.source == source) {
            return Err(RuleError::TaskRunning.into());
        }
        if running.len() >= RUNNING_MAX { Err(RuleError::TooManyTasks.into()) } else { Ok(()) }
    }

    fn put(&mut self, task: &Arc<Task>) {
        if self.tasks.len() >= KNOWN_MAX
            && let Some(oldest) = self.tasks.iter().position(|task| !task.is_running())
        {
            self.tasks.remove(oldest);
        }
        self.tasks.push_back(Arc::clone(task));
    }

    /// Forgets a task whose document could not be stored; its client got an error.
    fn refuse(&mut self, task: &Task) {
        self.tasks.retain(|known| known.id != task.id);
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.push_back(task.id.clone());
    }

    fn drive(&mut self, engine: &Arc<Engine>, task: &Arc<Task>) {
        task.driven_by(engine);
        self.drivers.retain(|driver| !driver.is_finished());
        self.drivers.push(tokio::spawn(drive::drive(Arc::clone(engine), Arc::clone(task))));
    }
}

/// Removes the document of a task that was refused, until that succeeds or the engine ends: a later start would begin
/// it.
async fn take_back(engine: Arc<Engine>, id: String) {
    while put(&engine, &id, None).await.is_err() && !engine.is_shut_down() {
        let _busy = engine.wake_at(engine.now().plus(TAKES_BACK_EVERY)).await;
    }
}

/// Stores a task's document, or removes it.
async fn put(engine: &Engine, id: &str, document: Option<bytes::Bytes>) -> Result<(), EngineError> {
    let documents = vec![(DocumentKey::new(own::REDRIVES, id), document)];
    engine.put_documents(PutDocuments { account: own::OWN_ACCOUNT, if_is: None, documents }).await
}
