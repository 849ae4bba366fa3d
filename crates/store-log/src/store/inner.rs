//! What the callers and the threads of one store share, and the signal that wakes the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kew_core::Timestamp;
use parking_lot::{Condvar, Mutex};

use super::gate::LogGate;
use super::gathering::OwnLoop;
use super::options::LogOptions;
use super::reads::Reads;
use super::reads::damaged::Damaged;
use super::upkeep::reporting::Reporting;
use super::upkeep::{Done, Upkeep};
use super::writer::Writer;
use crate::checkpoint::Expecting;
use crate::disk::{Appends, Disk, DiskLock};
use crate::journal::Segments;
use crate::turns::Lock;

pub(crate) struct Inner {
    pub disk: Arc<dyn Disk>,
    /// The journal's appends, where they end later and elsewhere.
    pub appends: Option<Arc<dyn Appends>>,
    pub options: LogOptions,
    /// Number of syncs of the journal for commits.
    pub syncs: AtomicU64,
    pub segments: Segments,
    /// Guards the ledger and the batch being filled.
    pub writer: Writer,
    /// Held during a commit: batches are written and synced one after the other.
    pub committing: Lock<()>,
    /// Where appends end later and elsewhere: the event loop that hands over what filled meanwhile.
    pub own_loop: OwnLoop,
    pub next_due: NextDue,
    pub gate: Arc<LogGate>,
    /// What must exist, as the store's identity says.
    pub expecting: Expecting,
    /// Guards the state of checkpoints and reclaim; one round runs at a time.
    pub upkeep: Lock<Upkeep>,
    pub done: Done,
    /// How upkeep went, and the listener that learns of it.
    pub reports: Reporting,
    /// Records that cannot be read.
    pub damaged: Arc<Damaged>,
    /// Who reads messages that are not in memory.
    pub reads: Arc<Reads>,
    pub work: Signal,
    /// Opens for each spare that was made, or could not be; and how many were begun.
    pub made: Arc<LogGate>,
    pub makes_begun: AtomicU64,
    pub _lock: DiskLock,
}

/// What is due next, to be asked without the lock.
pub(crate) struct NextDue(AtomicU64);

impl NextDue {
    /// Stands for "nothing is due".
    const NOTHING: u64 = u64::MAX;

    pub fn new(due: Option<Timestamp>) -> Self {
        let next = Self(AtomicU64::new(Self::NOTHING));
        next.set(due);
        next
    }

    #[inline]
    pub fn set(&self, due: Option<Timestamp>) {
        self.0.store(due.map_or(Self::NOTHING, |due| due.0), Ordering::Release);
    }

    #[inline]
    pub fn get(&self) -> Option<Timestamp> {
        let due = self.0.load(Ordering::Acquire);
        (due != Self::NOTHING).then_some(Timestamp(due))
    }
}

/// Wakes the store's threads.
#[derive(Default)]
pub(crate) struct Signal {
    /// Guards what there is to do.
    wanted: Mutex<WorkWanted>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct WorkWanted {
    pub commit: bool,
    pub upkeep: bool,
    pub spares: bool,
    pub stop: bool,
}

impl Signal {
    pub(super) fn want(&self, ask: impl FnOnce(&mut WorkWanted)) {
        ask(&mut self.wanted.lock());
        self.changed.notify_all();
    }

    /// Waits until something is wanted, and takes it; at most for `pause`, if there is one. False when all is to stop.
    pub(crate) fn wait_for(&self, pause: Option<Duration>, mine: impl Fn(&mut WorkWanted) -> bool) -> bool {
        let until = pause.map(|pause| Instant::now() + pause);
        let mut wanted = self.wanted.lock();
        loop {
            if wanted.stop {
                return false;
            }
            if mine(&mut wanted) {
                return true;
            }
            match until {
                None => self.changed.wait(&mut wanted),
                Some(until) if self.changed.wait_until(&mut wanted, until).timed_out() => {
                    return !wanted.stop;
                }
                Some(_) => {}
            }
        }
    }
}
