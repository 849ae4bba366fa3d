//! One node with its store: what it was asked, and what it answered when.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use kew_core::{Command, Outcome, Timestamp};
use kew_log_pg::simulated::{Power, SimDatabase, World};
use kew_log_pg::{PgDisk, PgStore, Tenure};
use kew_store::contract::model::Random;
use kew_store::{Fill, Store, StoreError, Submission};
use kew_store_log::{LogError, LogStore, planted};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::history::History;
use crate::things::{Chance, is_promise, options};

/// A command that was carried out, with the newest batch that had a record afterwards.
pub struct Step {
    pub now: Timestamp,
    pub command: Command,
    pub batch: u64,
    /// How many dead letters found room, where one found none: that one stayed, and may have been leased once more.
    pub departed: Option<u32>,
}

/// What a node has answered.
#[derive(Default)]
pub struct Answered {
    /// The newest batch with something acknowledged that no fail-over may take.
    pub promised: u64,
    /// The newest batch with something answered: the end of the node may not take it.
    pub said: u64,
    pub successes: u64,
    pub refusals: u64,
    pub waiting: u64,
    /// Something was answered after a successor had taken the shard.
    pub wrongly: Option<String>,
}

/// A node that owns the shard, or did.
pub struct Node {
    pub store: PgStore,
    pub disk: PgDisk,
    pub tenure: Arc<Tenure>,
    pub power: Power,
    pub steps: Vec<Step>,
    pub answered: Arc<Mutex<Answered>>,
    /// It was stopped, and goes on when there is another owner.
    pub goes_on: bool,
    /// A body could not be read, and a lease was undone for it: what the store holds in memory now is known to no
    /// other store.
    pub is_unclear: bool,
    /// Looks at which the store let a batch fill.
    pub let_fill: u64,
    event_loop: Option<EventLoop>,
    database: SimDatabase,
    tasks: Vec<AbortHandle>,
}

/// What hands over what filled behind an append. It is not a task of the world: a store that waits for the database
/// may hold a lock, and there is only one thread.
#[derive(Default)]
struct EventLoop {
    rung: Arc<AtomicBool>,
    /// Looks in a row at which the batch was let fill.
    looked: u32,
}

/// It commits after this many looks in a row.
const LOOKS_MAX: u32 = 4;

impl Node {
    /// Opens the store of a shard that was taken.
    pub fn open(world: &World, life: u64, (disk, power): (PgDisk, Power)) -> Result<Self, LogError> {
        let tenure = Arc::clone(disk.tenure());
        let opened = LogStore::open(Arc::new(disk.clone()), options(), Chance::at(life << 40), Timestamp(0));
        let (store, _) = opened?;
        let store = PgStore::new(Arc::new(store), Arc::clone(&tenure));
        let (steps, tasks, database) = (Vec::new(), Vec::new(), world.database().clone());
        Ok(Self {
            store,
            disk,
            tenure,
            power,
            steps,
            answered: Arc::default(),
            goes_on: false,
            is_unclear: false,
            let_fill: 0,
            event_loop: None,
            database,
            tasks,
        })
    }

    /// An event loop hands batches over from now on. Its turns are taken by [`Node::turn`].
    pub fn begin_event_loop(&mut self) {
        let event_loop = self.event_loop.insert(EventLoop::default());
        let rung = Arc::clone(&event_loop.rung);
        self.store.ring_when_free(Some(Arc::new(move || {
            rung.store(true, Ordering::SeqCst);
            true
        })));
    }

    pub fn has_event_loop(&self) -> bool {
        self.event_loop.is_some()
    }

    /// The event loop ends. What it let fill is handed over without it.
    pub fn end_event_loop(&mut self) {
        if self.event_loop.take().is_some() {
            self.store.ring_when_free(None);
        }
    }

    /// A turn of the event loop, if it was rung: it lets fill what is behind an append that has ended, or commits.
    pub fn turn(&mut self, random: &mut Random) {
        let Some(event_loop) = &mut self.event_loop else { return };
        if !event_loop.rung.load(Ordering::SeqCst) {
            return;
        }
        if matches!(self.store.hand_over(), Fill::Waits { .. }) && event_loop.looked < LOOKS_MAX {
            event_loop.looked += 1;
            self.let_fill += 1;
            if random.below(3) > 0 {
                return;
            }
        }
        event_loop.looked = 0;
        event_loop.rung.store(false, Ordering::SeqCst);
        if !self.store.commit_at_once(true) {
            self.store.commit();
        }
    }

    /// Takes a step; its answer is noted whenever it comes.
    pub fn step(&mut self, world: &World, history: &mut History, command: Command) {
        let unread = self.disk.failed_reads();
        // Openings leave something of theirs.
        let _before = planted::take_departed();
        let mut answer = self.store.step(history.now, &command);
        if let Some(event_loop) = &self.event_loop {
            event_loop.rung.store(true, Ordering::SeqCst);
        }
        let (batch, departed) = (planted::take_newest_batch(), planted::take_departed());
        history.learn(&command, answer.peek());
        let now = history.now;
        let polled = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop()));
        self.is_unclear |= self.disk.failed_reads() > unread;
        let is_refused = polled == Poll::Ready(Err(StoreError::NoSpace));
        // One that could not be read for is not repeated elsewhere; the node dies before it is written.
        if let Some(batch) = batch.filter(|_| !self.is_unclear) {
            let command = if is_refused { Command::Due } else { command.clone() };
            self.steps.push(Step { now, command, batch, departed });
        }
        let noting = Noting {
            answered: Arc::clone(&self.answered),
            database: self.database.clone(),
            epoch: self.tenure.epoch(),
            command,
            batch: batch.unwrap_or(0),
        };
        match polled {
            Poll::Ready(result) => noting.note(result),
            Poll::Pending => self.wait(world, noting, answer),
        }
    }

    fn wait(&mut self, world: &World, noting: Noting, answer: Submission) {
        self.answered.lock().waiting += 1;
        let task = async move {
            let result = answer.await;
            noting.answered.lock().waiting -= 1;
            noting.note(result);
        };
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(world.spawn(&self.power, task));
    }

    pub fn newest_batch(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.batch)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Notes one answer.
struct Noting {
    answered: Arc<Mutex<Answered>>,
    database: SimDatabase,
    epoch: i64,
    command: Command,
    batch: u64,
}

impl Noting {
    fn note(&self, result: Result<Outcome, StoreError>) {
        let mut answered = self.answered.lock();
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(StoreError::Rule(_)) => return self.look_whether_it_may(&mut answered),
            Err(_) => {
                answered.refusals += 1;
                return;
            }
        };
        self.look_whether_it_may(&mut answered);
        answered.successes += 1;
        let is_promise = is_promise(&self.command, &outcome);
        if is_promise {
            answered.promised = answered.promised.max(self.batch);
        }
        if is_promise || matches!(&outcome, Outcome::Leased(leased) if !leased.is_empty()) {
            answered.said = answered.said.max(self.batch);
        }
    }

    fn look_whether_it_may(&self, answered: &mut Answered) {
        let epoch = self.database.epoch();
        if epoch > self.epoch {
            let command = format!("{:?}", self.command);
            let command: String = command.chars().take(80).collect();
            let (batch, clock) = (self.batch, self.database.clock());
            let wrongly = format!(
                "the owner of epoch {} answered in epoch {epoch}, at {clock}, in batch {batch}: {command}",
                self.epoch
            );
            answered.wrongly.get_or_insert(wrongly);
        }
    }
}
