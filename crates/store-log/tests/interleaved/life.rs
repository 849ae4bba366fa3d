//! One life of a store: its loop, its sync thread, its upkeep and a tool at work at the same time, turn by turn, and
//! what it has answered by each point of its disk.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use kew_core::{Command, Outcome, Timestamp};
use kew_store::contract::model::Random;
use kew_store::{Store, StoreError, Submission};
use kew_store_log::schedule::{self, Actor, Ran};
use kew_store_log::{
    Beside, FaultPlan, LogOptions, LogStore, Operation, SegmentOptions, SimDisk, export, planted,
};
use parking_lot::Mutex;

use crate::after_crash::{self, State, is_promise, options, text_of};
use crate::history::History;

/// Everything that a life's seed decides.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Which life of its store it is; lives differ in their chance.
    pub number: u64,
    /// The instant by the machine's clock at which the store is opened.
    pub wake: Timestamp,
    pub fault: Option<FaultPlan>,
    pub has_dead_letters: bool,
}

/// A command that was carried out, with the newest batch that had a record afterwards.
struct Step {
    now: Timestamp,
    command: Command,
    batch: u64,
}

/// What was known at a point of the disk.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub points: u64,
    /// What the disk is about to do.
    pub next: Operation,
    /// An answer has left since the point before.
    pub answered_now: bool,
    /// The newest batch with something acknowledged that a power cut may not take.
    pub promised: u64,
    /// The newest batch with something answered: a process that dies may not take it.
    pub answered: u64,
    /// The newest batch that may be on the disk.
    pub newest: u64,
}

struct Waiting {
    answer: Submission,
    command: Command,
    batch: u64,
}

/// Stands beside the disk: lets others have their turns, then notes which answers have left.
struct Notes {
    disk: SimDisk,
    newest: AtomicU64,
    waiting: Mutex<Vec<Waiting>>,
    seen: Mutex<Vec<Seen>>,
    failure: Mutex<Option<StoreError>>,
}

impl Beside for Notes {
    fn before_operation(&self, operation: Operation) {
        schedule::turn();
        if operation != Operation::Look {
            self.look(operation);
        }
    }

    fn during_sync(&self) {
        let turns = match schedule::chance(4) {
            None | Some(0) => 0,
            Some(1) => schedule::chance(40).unwrap_or_default(),
            Some(_) => schedule::chance(5).unwrap_or_default(),
        };
        for _ in 0..turns {
            schedule::wait_turn();
        }
    }
}

fn polled(answer: &mut Submission) -> Poll<Result<Outcome, StoreError>> {
    Pin::new(answer).poll(&mut Context::from_waker(Waker::noop()))
}

impl Notes {
    fn look(&self, next: Operation) {
        let last = *self.seen.lock().last().expect("the first is there from the start");
        let newest = self.newest.load(Ordering::Relaxed);
        let mut seen = Seen { points: self.disk.points(), next, answered_now: false, newest, ..last };
        self.waiting.lock().retain_mut(|each| {
            match polled(&mut each.answer) {
                Poll::Pending => return true,
                Poll::Ready(Ok(outcome)) => {
                    let is_promise = is_promise(&each.command, &outcome);
                    if is_promise {
                        seen.promised = seen.promised.max(each.batch);
                    }
                    if is_promise || matches!(&outcome, Outcome::Leased(leased) if !leased.is_empty()) {
                        seen.answered = seen.answered.max(each.batch);
                    }
                }
                Poll::Ready(Err(
                    error @ (StoreError::FailStopped { .. } | StoreError::Unavailable { .. }),
                )) => {
                    self.failure.lock().get_or_insert(error);
                }
                Poll::Ready(Err(_)) => {}
            }
            false
        });
        seen.answered_now = seen.promised > last.promised || seen.answered > last.answered;
        self.seen.lock().push(seen);
    }
}

/// A life that was lived.
pub struct Life {
    pub plan: Plan,
    /// The disk as it was found at the start, and as it was left.
    start: SimDisk,
    pub end: SimDisk,
    /// The batches written before it.
    pub first_batch: u64,
    steps: Vec<Step>,
    seen: Vec<Seen>,
    pub snapshots: Vec<(u64, SimDisk)>,
    /// The disk's points up to the end of the opening.
    pub opening_points: u64,
    pub failure: Option<StoreError>,
    /// What a tool said that ran beside, if that was not well.
    pub complaint: Option<String>,
    pub ran: Ran,
    pub checkpoints: u64,
    pub cpu_nanos: u64,
}

/// What the actors share.
struct Stage {
    store: LogStore,
    notes: Arc<Notes>,
    steps: Mutex<Vec<Step>>,
    /// A commit was handed to the sync thread and is not done.
    handed_over: AtomicBool,
    is_over: AtomicBool,
    complaint: Mutex<Option<String>>,
    cpu_nanos: AtomicU64,
}

/// Lives a life on what a disk was found to hold. The store must open.
pub fn live(disk: SimDisk, plan: Plan) -> Result<Life, String> {
    let start = disk.snapshot();
    disk.record_snapshots();
    let store = open(&disk, options(), plan)?;
    let first_batch = store.stats().written_through.0;
    let points = disk.points();
    let first = Seen {
        points,
        next: Operation::Look,
        answered_now: false,
        promised: first_batch,
        answered: first_batch,
        newest: first_batch,
    };
    let notes = Arc::new(Notes {
        disk: disk.clone(),
        newest: AtomicU64::new(first_batch),
        waiting: Mutex::default(),
        seen: Mutex::new(vec![first]),
        failure: Mutex::default(),
    });
    disk.set_beside(Some(notes.clone()));
    disk.set_fault(plan.fault.map(|fault| FaultPlan { at: fault.at + points, ..fault }));
    let stage = Stage {
        store,
        notes,
        steps: Mutex::default(),
        handed_over: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        complaint: Mutex::default(),
        cpu_nanos: AtomicU64::new(0),
    };
    let ran = schedule::run(plan.seed, stage.actors(plan));
    disk.set_beside(None);
    stage.notes.look(Operation::Look);
    let Stage { store, notes, steps, complaint, cpu_nanos, .. } = stage;
    let checkpoints = store.stats().checkpoints;
    drop(store);
    let (seen, failure) = (notes.seen.lock().clone(), notes.failure.lock().clone());
    Ok(Life {
        plan,
        start,
        first_batch,
        steps: steps.into_inner(),
        seen,
        snapshots: disk.take_snapshots(),
        end: disk.snapshot(),
        opening_points: points,
        failure,
        complaint: complaint.into_inner(),
        ran,
        checkpoints,
        cpu_nanos: cpu_nanos.into_inner(),
    })
}

fn open(disk: &SimDisk, options: LogOptions, plan: Plan) -> Result<LogStore, String> {
    after_crash::start(disk, options, plan.number << 40, plan.wake)
}

/// Ends the others when the loop ends, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stage {
    fn actors(&self, plan: Plan) -> Vec<Actor<'_>> {
        vec![
            self.actor("loop", move || self.take_steps(plan)),
            self.actor("sync", || self.sync()),
            self.actor("upkeep", || self.keep_up()),
            self.actor("tool", || self.look_around()),
        ]
    }

    fn actor<'a>(&'a self, name: &'static str, act: impl FnOnce() + Send + 'a) -> Actor<'a> {
        Actor::new(name, move || {
            let before = cpu_nanos();
            act();
            self.cpu_nanos.fetch_add(cpu_nanos() - before, Ordering::Relaxed);
        })
    }

    /// The event loop: steps, and at the end of a turn a commit, here or handed over, or a write while one is out.
    fn take_steps(&self, plan: Plan) {
        let _over = Over(&self.is_over);
        let mut random = Random::new(plan.seed ^ 0x6c6f_6f70);
        let mut history = History::new(plan.seed, self.store.newest_instant().max(Timestamp(1_000_000)));
        for command in history.beginning(plan.has_dead_letters) {
            self.step(&mut history, command);
        }
        let turns = 25 + random.below(45);
        for _ in 0..turns {
            for _ in 0..1 + random.below(4) {
                let command = history.next();
                self.step(&mut history, command);
            }
            if self.store.health().is_err() {
                break;
            }
            self.end_pass(&mut random);
        }
        schedule::wait_until(|| !self.handed_over.load(Ordering::Relaxed));
        if random.chance(30) {
            // Refused where something has failed before, which is seen elsewhere.
            let _closed = self.store.close();
        } else {
            self.store.commit();
        }
    }

    fn step(&self, history: &mut History, command: Command) {
        let mut answer = self.store.step(history.now, &command);
        // Refused: the store has stopped.
        let Some(batch) = planted::take_newest_batch() else { return };
        self.notes.newest.fetch_max(batch, Ordering::Relaxed);
        history.learn(&command, answer.peek());
        let answered = if answer.peek().is_none() { polled(&mut answer) } else { Poll::Pending };
        // After an error there may be no spare file for a while: then nothing was done but what was due.
        let is_refused = answered == Poll::Ready(Err(StoreError::NoSpace));
        let done = if is_refused { Command::Due } else { command.clone() };
        self.steps.lock().push(Step { now: history.now, command: done, batch });
        if answered.is_pending() {
            self.notes.waiting.lock().push(Waiting { answer, command, batch });
        }
    }

    fn end_pass(&self, random: &mut Random) {
        if self.handed_over.load(Ordering::Relaxed) {
            match random.below(4) {
                0 => schedule::wait_until(|| !self.handed_over.load(Ordering::Relaxed)),
                1 => schedule::turn(),
                _ => self.store.write(),
            }
            return;
        }
        match random.below(6) {
            0 => schedule::turn(),
            1 => self.store.write(),
            2 | 3 => drop(self.store.commit()),
            _ => self.handed_over.store(true, Ordering::Relaxed),
        }
    }

    fn sync(&self) {
        loop {
            schedule::wait_until(|| {
                self.handed_over.load(Ordering::Relaxed) || self.is_over.load(Ordering::Relaxed)
            });
            if !self.handed_over.load(Ordering::Relaxed) {
                return;
            }
            self.store.commit();
            self.handed_over.store(false, Ordering::Relaxed);
        }
    }

    /// Waits for some turns of the others. False when all is over.
    fn rests(&self, turns: u64) -> bool {
        for _ in 0..schedule::chance(turns).unwrap_or_default() {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            schedule::wait_turn();
        }
        !self.is_over.load(Ordering::Relaxed)
    }

    fn keep_up(&self) {
        while self.rests(60) {
            // What fails is seen in what the store does next.
            let _kept = match schedule::chance(2) {
                Some(0) => self.store.keep_up(),
                _ => self.store.checkpoint(),
            };
        }
    }

    /// An export, and figures.
    fn look_around(&self) {
        while self.rests(600) {
            let exported = export(&self.store, &mut Vec::new());
            if let Err(error) = exported
                && self.store.health().is_ok()
            {
                self.complaint.lock().get_or_insert(format!("an export beside the others: {error}"));
            }
            self.store.stats();
        }
    }
}

impl Life {
    /// What had been answered when a snapshot was taken; nothing new while the store was being opened.
    pub fn seen_at(&self, points: u64) -> Seen {
        self.seen[self.seen.partition_point(|seen| seen.points <= points).max(1) - 1]
    }

    pub fn last_seen(&self) -> Seen {
        *self.seen.last().expect("the first is there from the start")
    }

    /// What the store is after a batch, as a store tells that took the same steps alone; asked at `newest` or later.
    pub fn states_of(&self, batch: u64, newest: Timestamp) -> Result<Vec<State>, String> {
        let count = self.steps.partition_point(|step| step.batch <= batch);
        // Files so large that nothing ever has to be made room for.
        let segments = SegmentOptions { first_bytes: 1 << 20, largest_bytes: 1 << 20, ..options().segments };
        let alone = open(&self.start.snapshot(), LogOptions { segments, ..options() }, self.plan)?;
        for step in &self.steps[..count] {
            drop(alone.step(step.now, &step.command));
        }
        let now = alone.newest_instant().max(newest);
        drop(alone.step(now, &Command::Due));
        Ok(vec![State { now, text: text_of(&alone)? }])
    }
}

/// What this thread has spent of the processor, where the system says it.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
}

/// The same in seconds, for the threads that run lives.
pub fn cpu_seconds_here() -> f64 {
    cpu_nanos() as f64 / 1e9
}
