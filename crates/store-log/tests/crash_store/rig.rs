//! Drives a log store by hand and notes, batch by batch, what it holds and what it has promised.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use kew_core::outcome::Extended;
use kew_core::{Command, Entropy, Outcome, Timestamp};
use kew_store::contract::Ending;
use kew_store::contract::model::{Answer, Subject};
use kew_store::ledger::Bounds;
use kew_store::{Store, StoreError, Submission};
use kew_store_log::{Drive, LogError, LogOptions, LogStore, SegmentOptions, SimDisk};

/// Every so many commits the store does its upkeep.
const COMMITS_PER_UPKEEP: u64 = 3;
/// Every so many it makes a checkpoint even if it sees no need for one.
const COMMITS_PER_CHECKPOINT: u64 = 24;

pub fn options() -> LogOptions {
    let segments =
        SegmentOptions { first_bytes: 4 << 10, largest_bytes: 8 << 10, reserve_spares: 1, spares_max: 3 };
    LogOptions {
        segments,
        recent_bytes: 2 << 10,
        checkpoint_bytes: 256,
        slack_bytes: 0,
        drive: Drive::Manual,
        bounds: Bounds { deduplication_ids: 2, ..Bounds::default() },
        ..LogOptions::default()
    }
}

/// Chance that goes on from any place of its sequence.
pub struct Chance(AtomicU64);

impl Chance {
    pub fn at(place: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(place)))
    }

    pub fn place(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Entropy for Chance {
    fn bits(&self) -> u64 {
        let mixed = (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }
}

/// Everything the store held after a batch, and the instant at which it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub now: Timestamp,
    pub text: Arc<str>,
}

/// What the store held after each batch, at one or more instants.
pub type States = BTreeMap<u64, Vec<State>>;

/// What the store owes at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Debt {
    /// Points of the disk passed.
    pub points: u64,
    /// The newest batch that holds something acknowledged that a power cut may not take.
    pub promised: u64,
    /// The newest batch written: a process that dies may not take it.
    pub written: u64,
}

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
        let written = store.stats().written_through;
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
        *self.debts.last().expect("there is one from the start")
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
        let written = self.store.stats().written_through;
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
    /// A start is kept before every so many batches.
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

/// Everything a store holds, or why it cannot be read.
pub fn text_of(store: &LogStore) -> Result<Arc<str>, String> {
    let mut text = Vec::new();
    kew_store_log::export(store, &mut text).map_err(|error| error.to_string())?;
    let text = String::from_utf8(text).expect("an export is text");
    // Ids are told generation by generation, and one may have come into another generation.
    let (ids, rest): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("{\"remembered\""));
    let ids: BTreeSet<&str> = ids.into_iter().collect();
    Ok(rest.into_iter().chain(ids).flat_map(|line| [line, "\n"]).collect::<String>().into())
}

/// Whether an answer promised something that no power cut may take back.
fn is_promise(command: &Command, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Queue(_) | Outcome::QueueDeleted { .. } | Outcome::Purged(_) => true,
        Outcome::Sent(sent) => sent.iter().any(|sent| !sent.duplicate),
        Outcome::Acked(acked) => acked.iter().any(Result::is_ok),
        Outcome::MovedChosen(moved) => moved.iter().any(Result::is_ok),
        Outcome::Extended(extended) => {
            let Command::Extend(extend) = command else { return false };
            let is_until = |result: &Result<Extended, _>| matches!(result, Ok(Extended::Until { .. }));
            extended
                .iter()
                .zip(&extend.entries)
                .any(|(result, entry)| is_until(result) && entry.content.is_some())
        }
        Outcome::Move(_) => matches!(command, Command::StartMove(_)),
        _ => false,
    }
}
