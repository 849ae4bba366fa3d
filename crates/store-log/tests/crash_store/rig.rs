//! Drives a log store by hand and notes, batch by batch, what it holds and what it has promised.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kew_core::{Command, Outcome, Timestamp};
use kew_store::contract::Ending;
use kew_store::contract::model::{Answer, Subject};
use kew_store::{Store, StoreError, Submission};
use kew_store_log::{LogError, LogStore, SimDisk};

use crate::after_crash::{Chance, Debt, State, States, is_promise, options, text_of};

/// Commits from one upkeep of the store to the next.
const COMMITS_PER_UPKEEP: u64 = 3;
/// Commits from one checkpoint to the next that is made even if the store sees no need for one.
const COMMITS_PER_CHECKPOINT: u64 = 24;

struct Waiting {
    answer: Submission,
    command: Command,
    batch: u64,
}

/// One batch of steps as it was asked for.
pub type Asked = Vec<(Timestamp, Command)>;

pub struct Rig {
    pub store: LogStore,
    pub disk: SimDisk,
    pub chance: Arc<Chance>,
    pub states: States,
    pub debts: Vec<Debt>,
    pub commits: u64,
    /// The first failure of a commit.
    pub failed: Option<StoreError>,
    waiting: Vec<Waiting>,
    now: Timestamp,
}

impl Rig {
    pub fn open(disk: &SimDisk, chance: Arc<Chance>, commits: u64) -> Result<Self, LogError> {
        let (store, _) = LogStore::open(Arc::new(disk.clone()), options(), chance.clone(), Timestamp(0))?;
        let written = store.stats().written_through.0;
        let debt = Debt { points: disk.points(), promised: written, written };
        let mut rig = Self {
            now: store.newest_instant(),
            store,
            disk: disk.clone(),
            chance,
            states: BTreeMap::new(),
            debts: vec![debt],
            commits,
            failed: None,
            waiting: Vec::new(),
        };
        if let Some(state) = rig.state() {
            rig.states.entry(written).or_default().push(state);
        }
        Ok(rig)
    }

    pub fn debt(&self) -> Debt {
        *self.debts.last().expect("the rig begins with a debt")
    }

    /// Applies the steps of one batch, commits, and does the upkeep when it is time. The answers that came.
    pub fn run(&mut self, asked: &Asked) -> Vec<Option<Result<Outcome, StoreError>>> {
        let batch = self.debt().written + 1;
        let first = self.waiting.len();
        for (now, command) in asked {
            self.now = self.now.max(*now);
            let answer = self.store.step(*now, command);
            self.waiting.push(Waiting { answer, command: command.clone(), batch });
        }
        let state = self.state();
        self.store.commit();
        let mut answers = self.collect(first);
        let is_stuck = self.failed.is_some() || !self.waiting.is_empty();
        let batch = if is_stuck { batch } else { self.debt().written };
        if let Some(state) = state {
            self.states.entry(batch).or_default().push(state);
        }
        self.commits += 1;
        if self.commits.is_multiple_of(COMMITS_PER_UPKEEP) {
            // What fails here is seen in what the store does next.
            let _failed = self.store.keep_up();
            if self.commits.is_multiple_of(COMMITS_PER_CHECKPOINT) {
                let _failed = self.store.checkpoint();
            }
            answers.extend(self.collect(usize::MAX));
        }
        answers
    }

    /// Polls every answer; those of this batch are handed back in order.
    fn collect(&mut self, first: usize) -> Vec<Option<Result<Outcome, StoreError>>> {
        let written = self.store.stats().written_through.0;
        let mut debt = Debt { points: self.disk.points(), written, ..self.debt() };
        let mut answers = Vec::new();
        let mut waiting = Vec::new();
        for (place, mut each) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let polled = Pin::new(&mut each.answer).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(Ok(outcome)) = &polled
                && is_promise(&each.command, outcome)
            {
                debt.promised = debt.promised.max(each.batch);
            }
            let answer = match polled {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => {
                    waiting.push(each);
                    None
                }
            };
            if let Some(Err(error @ (StoreError::FailStopped { .. } | StoreError::Unavailable { .. }))) =
                &answer
            {
                self.failed.get_or_insert(error.clone());
            }
            if place >= first {
                answers.push(answer);
            }
        }
        self.waiting = waiting;
        self.debts.push(debt);
        answers
    }

    fn state(&self) -> Option<State> {
        // A lease of no length has ended by the time anyone looks.
        let _due = self.store.step(self.now, &Command::Due);
        // On a failing disk it may not be readable.
        text_of(&self.store).ok().map(|text| State { now: self.now, text })
    }
}

impl Subject for Recorder {
    fn steps(&mut self, batch: Asked) -> Vec<Answer> {
        self.asked.push(batch.clone());
        if self.rig.commits.is_multiple_of(self.every) {
            self.starts.push(Start {
                next: self.asked.len() - 1,
                commits: self.rig.commits,
                chance: self.rig.chance.place(),
                debt: self.rig.debt(),
                disk: self.rig.disk.snapshot(),
            });
        }
        let answers = self.rig.run(&batch);
        let answer = |answer: Option<_>| Answer { result: answer.expect("nothing fails here"), freed: None };
        answers.into_iter().take(batch.len()).map(answer).collect()
    }

    fn restart(&mut self, _ending: Ending) -> bool {
        false
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        None
    }
}

/// Writes down a history while the model makes it up.
pub struct Recorder {
    pub rig: Rig,
    pub asked: Vec<Asked>,
    pub starts: Vec<Start>,
    /// Batches from one start that is kept to the next.
    pub every: u64,
}

/// Everything that is needed to go on with a history from here.
pub struct Start {
    /// The batch that is next.
    pub next: usize,
    pub commits: u64,
    pub chance: u64,
    pub debt: Debt,
    pub disk: SimDisk,
}
