//! What the callers and the threads of one store share, and the signal that wakes the threads.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::gate::LogGate;
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
    /// What is due next, to be asked without the lock.
    pub next_due: AtomicU64,
    pub gate: Arc<LogGate>,
    /// What must exist, as the store's identity says.
    pub expecting: Expecting,
    /// Guards the state of checkpoints and reclaim; one round runs at a time.
    pub upkeep: Lock<Upkeep>,
    pub done: Done,
    /// How upkeep went, and who is told.
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

/// Wakes the store's threads.
#[derive(Default)]
pub(crate) struct Signal {
    /// Guards what there is to do.
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub commit: bool,
    pub upkeep: bool,
    pub spares: bool,
    pub stop: bool,
}

impl Signal {
    pub(super) fn want(&self, ask: impl FnOnce(&mut Wanted)) {
        ask(&mut self.wanted.lock());
        self.changed.notify_all();
    }

    /// Waits until something is wanted, and takes it; at most for `pause`, if there is one. False when all is to stop.
    pub(crate) fn wait_for(&self, pause: Option<Duration>, mine: impl Fn(&mut Wanted) -> bool) -> bool {
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
