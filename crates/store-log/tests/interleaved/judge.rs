//! One history: a few lives of a store with a crash between each two, and what must hold after crashes at many points.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kew_core::Timestamp;
use kew_store::contract::model::Random;
use kew_store_log::{Fault, FaultPlan, Found, Operation, SimDisk};

use crate::after_crash::{Crash, Reopened};
use crate::life::{Life, Plan, Seen, cpu_seconds_here, live};

/// Crashes that are tried for each life, beside those at its end.
const CRASHES: usize = 5;
/// Crashes after which the opening is cut once more at each of its points.
const SECOND_CRASHES: usize = 2;

/// What histories came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lived {
    pub lives: u64,
    pub turns: u64,
    pub checkpoints: u64,
    pub crashes: u64,
    pub failures: u64,
    pub trace: u64,
    pub cpu_seconds: f64,
}

impl Lived {
    pub fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.turns += other.turns;
        self.checkpoints += other.checkpoints;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.cpu_seconds += other.cpu_seconds;
    }

    /// With the time of the thread that ran them.
    pub fn with_own_time(self) -> Self {
        Self { cpu_seconds: self.cpu_seconds + cpu_seconds_here(), ..self }
    }

    fn note(&mut self, life: &Life) {
        self.lives += 1;
        self.turns += life.ran.turns;
        self.checkpoints += life.checkpoints;
        self.failures += u64::from(life.failure.is_some());
        self.trace = self.trace.rotate_left(7) ^ life.ran.trace;
        self.cpu_seconds += life.cpu_nanos as f64 / 1e9;
    }
}

/// Runs the history of a seed. A panic is a complaint like any other.
pub fn history(seed: u64, lived: &mut Lived) -> Result<(), String> {
    let run = catch_unwind(AssertUnwindSafe(|| lives(seed, lived)));
    let complained = run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    });
    complained.map_err(|complaint| format!("seed {seed}: {complaint}"))
}

fn lives(seed: u64, lived: &mut Lived) -> Result<(), String> {
    let mut random = Random::new(seed ^ 0x6a75_6467_6500);
    let mut disk = SimDisk::new();
    let mut wake = Timestamp(0);
    let has_errors = random.chance(60);
    for number in 0..1 + random.below(2) {
        let fault = if has_errors { error(&mut random) } else { lie(&mut random) };
        // After an error there may be no room for a while, and what is due then without being asked for waits: no store
        // that is alone on a sound disk would tell the same.
        let plan = Plan { seed: seed << 4 | number, number, wake, fault, has_dead_letters: !has_errors };
        let life = live(disk, plan).map_err(|error| format!("life {number}: {error}"))?;
        lived.note(&life);
        let mut judge = Judge { life: &life, random: &mut random, crashes: 0 };
        let judged = judge.all();
        lived.crashes += judge.crashes;
        judged.map_err(|what| format!("life {number}, {:?}: {what}", plan.fault))?;
        if is_lie(plan.fault) {
            return Ok(());
        }
        let (_, at, crash) = judge.any_crash();
        disk = crash.disk(at);
        wake = judge.wake();
    }
    Ok(())
}

/// The error that a life meets, if any.
fn error(random: &mut Random) -> Option<FaultPlan> {
    let fault = match random.below(12) {
        0..2 => Fault::Error,
        2..10 => Fault::SyncError,
        10 => Fault::ErrorsFromHere,
        _ => return None,
    };
    Some(FaultPlan { at: 1 + random.below(300), fault })
}

/// The lie that a disk tells in a life, if any.
fn lie(random: &mut Random) -> Option<FaultPlan> {
    let fault = match random.below(10) {
        0 => Fault::LostWrite,
        1 => Fault::MisdirectedWrite,
        _ => return None,
    };
    Some(FaultPlan { at: 1 + random.below(300), fault })
}

/// Whether the disk said that it did what it did not.
fn is_lie(fault: Option<FaultPlan>) -> bool {
    fault.is_some_and(|plan| matches!(plan.fault, Fault::LostWrite | Fault::MisdirectedWrite))
}

struct Judge<'a> {
    life: &'a Life,
    random: &'a mut Random,
    crashes: u64,
}

impl<'a> Judge<'a> {
    fn all(&mut self) -> Result<(), String> {
        let life = self.life;
        if let Some(complaint) = &life.complaint
            && !is_lie(life.plan.fault)
        {
            return Err(complaint.clone());
        }
        if let (Some(failure), None) = (&life.failure, life.plan.fault)
            && !failure.to_string().contains("the store is closed")
        {
            return Err(format!("it failed by itself: {failure}"));
        }
        for _ in 0..CRASHES {
            let (seen, disk, crash) = self.any_crash();
            self.hold(seen, disk, crash).map_err(|what| describe(seen, crash, &what))?;
        }
        for found in [Found::Lost, Found::Torn] {
            let (seen, crash) = (life.last_seen(), Crash::Power(found, life.plan.seed));
            self.hold(seen, &life.end, crash)
                .map_err(|what| describe(seen, crash, &format!("at the end: {what}")))?;
        }
        if is_lie(life.plan.fault) {
            return Ok(());
        }
        (0..SECOND_CRASHES).try_for_each(|_| self.crash_twice())
    }

    /// A crash at some point: most often where names are about to become durable, or an answer has just left.
    fn any_crash(&mut self) -> (Seen, &'a SimDisk, Crash) {
        let wanted: fn(&Seen) -> bool = match self.random.below(10) {
            0..3 => |seen| seen.next == Operation::SyncFolder,
            3..6 => |seen| seen.answered_now,
            6..8 => |seen| seen.next == Operation::Sync,
            _ => |_| true,
        };
        let life = self.life;
        let lived = life.snapshots.partition_point(|(points, _)| *points < life.opening_points);
        let candidates: Vec<usize> = (lived..life.snapshots.len())
            .filter(|index| wanted(&life.seen_at(life.snapshots[*index].0)))
            .collect();
        let crash = self.crash();
        match self.random.pick(&candidates) {
            Some(index) => {
                let (points, disk) = &life.snapshots[*index];
                (life.seen_at(*points), disk, crash)
            }
            None => (life.last_seen(), &life.end, crash),
        }
    }

    fn crash(&mut self) -> Crash {
        let seed = self.random.bits();
        match self.random.below(10) {
            0..2 => Crash::Process,
            2..5 => Crash::Power(Found::Lost, seed),
            5 => Crash::Power(Found::Kept, seed),
            6..8 => Crash::Power(Found::Garbage, seed),
            _ => Crash::Power(Found::Torn, seed),
        }
    }

    /// What the machine's clock says at the next start: mostly less than the store knows, sometimes much more.
    fn wake(&mut self) -> Timestamp {
        let known = Timestamp(1_000_000);
        match self.random.below(10) {
            0..6 => Timestamp(0),
            6..8 => known.plus(Duration::from_secs(self.random.below(1_000))),
            8 => known.plus(Duration::from_secs(20_000)),
            _ => known.plus(Duration::from_secs(10 * 24 * 3_600)),
        }
    }

    fn hold(&mut self, seen: Seen, disk: &SimDisk, crash: Crash) -> Result<(), String> {
        self.crashes += 1;
        let wake = self.wake();
        let disk = crash.disk(disk);
        if is_lie(self.life.plan.fault) {
            return self.hold_against_lies(disk, wake);
        }
        let found = Reopened::of(disk, wake)?;
        let least = if crash == Crash::Process { seen.answered } else { seen.promised };
        // The mark of a clean stop is a batch without steps.
        let state =
            found.is_in(least..=seen.newest + 1, |batch, newest| self.life.states_of(batch, newest))?;
        if self.random.chance(40) { found.keeps_its_word(&state) } else { Ok(()) }
    }

    /// A disk that lied may have lost anything, but what is found is what was written, or known to be damaged.
    fn hold_against_lies(&mut self, disk: SimDisk, wake: Timestamp) -> Result<(), String> {
        let is_told = |what: &String| what.contains("damage") || what.contains("does not open");
        let newest = self.life.last_seen().newest;
        let found = Reopened::of(disk, wake).and_then(|found| {
            found
                .is_in(self.life.first_batch..=newest + 1, |batch, newest| self.life.states_of(batch, newest))
        });
        match found {
            Err(what) if !is_told(&what) => Err(what),
            _ => Ok(()),
        }
    }

    /// The process dies; then the power goes at every point of the opening.
    fn crash_twice(&mut self) -> Result<(), String> {
        let (seen, disk, _) = self.any_crash();
        let disk = disk.reopen_process_crash();
        disk.record_snapshots();
        let opened = Reopened::of(disk.clone(), Timestamp(0)).map(drop);
        opened.map_err(|what| describe(seen, Crash::Process, &what))?;
        let mut snapshots = disk.take_snapshots();
        snapshots.push((disk.points(), disk));
        for (at, disk) in snapshots {
            let crash = Crash::Power(Found::Torn, self.random.bits());
            self.crashes += 1;
            let found = Reopened::of(crash.disk(&disk), Timestamp(0));
            let held = found.and_then(|found| {
                found.is_in(seen.promised..=seen.newest + 1, |batch, newest| {
                    self.life.states_of(batch, newest)
                })
            });
            let what = |what| {
                describe(seen, Crash::Process, &format!("opened up to point {at}, then {crash:?}: {what}"))
            };
            held.map_err(what)?;
        }
        Ok(())
    }
}

fn describe(seen: Seen, crash: Crash, what: &str) -> String {
    format!("{crash:?} at {seen:?}: {what}")
}
