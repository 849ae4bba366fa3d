//! A disk in memory that can fail at any point, lose power, and be found again as a real one might be.
//!
//! Every file keeps what is durable and what was done since its last sync; every folder does the same with its
//! names. Each operation that changes something is a numbered *point*, where a [`FaultPlan`] may strike.
//! After a cut, [`SimDisk::reopen`] decides by seed what of the unsynced operations is found, sector by sector and
//! name by name, never more than a disk may do. Contents are shared copy-on-write, so a [`SimDisk::snapshot`]
//! (also one before every point, with [`SimDisk::record_snapshots`]) costs little.
//!
//! A failed sync is modelled like Linux: some sectors reached the disk, the rest stays readable but counts as
//! clean, so a later sync of the same file does not save it. The error is reported once to each open handle: of two
//! syncs that run at the same time the one that ends first gets it, whichever met it, and the other succeeds.
//! What is written while a sync runs is not in it; [`Beside`] is where a test lets that happen.

mod chance;
mod contents;
mod faults;
mod names;
mod operations;
mod pages;
mod state;
#[cfg(test)]
mod tests;
mod unsynced;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;

use super::DiskFile;
use chance::Chance;
use contents::Contents;
use names::Folder;
use operations::SimFile;
use state::State;

#[cfg(feature = "planted")]
pub(crate) use chance::Chance as SeededChance;
pub use chance::Found;
pub use faults::{Fault, FaultPlan};
pub use state::SimStats;

/// A simulated disk; clones are handles to the same one.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<SharedDisk>,
}

struct SharedDisk {
    /// Guards everything the disk holds, and the order of its operations.
    state: Mutex<State>,
    locked: AtomicBool,
    /// Guards who stands beside it.
    beside: Mutex<Option<Arc<dyn Beside>>>,
}

/// What is about to be done to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Nothing is changed by it.
    Look,
    /// A file's bytes or length.
    Write,
    /// A name is made, changed or removed.
    Name,
    /// A file is synced.
    Sync,
    /// A folder's names are synced.
    SyncFolder,
}

/// A hook of a test beside the disk: it may let something else happen, on other threads too. Called without any lock of
/// the disk's.
pub trait Beside: Send + Sync {
    /// An operation is about to begin.
    fn before_operation(&self, _operation: Operation) {}
    /// A sync is under way: what is written from now on is not in it.
    fn during_sync(&self) {}
}

impl SharedDisk {
    fn beside(&self) -> Option<Arc<dyn Beside>> {
        self.beside.lock().clone()
    }

    fn before_operation(&self, operation: Operation) {
        if let Some(beside) = self.beside() {
            beside.before_operation(operation);
        }
    }

    fn during_sync(&self) {
        if let Some(beside) = self.beside() {
            beside.during_sync();
        }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk without limits or faults.
    pub fn new() -> Self {
        let mut state = State { next_file: 1, ..State::default() };
        state.folders.insert(String::new(), Folder::default());
        Self::from_state(state)
    }

    fn from_state(state: State) -> Self {
        let (locked, beside) = (AtomicBool::new(false), Mutex::new(None));
        Self { shared: Arc::new(SharedDisk { state: Mutex::new(state), locked, beside }) }
    }

    /// Sets the hook of a test, or removes it.
    pub fn set_beside(&self, beside: Option<Arc<dyn Beside>>) {
        *self.shared.beside.lock() = beside;
    }

    /// Plans a fault, or none.
    pub fn set_fault(&self, plan: Option<FaultPlan>) {
        let mut state = self.shared.state.lock();
        state.plan = plan;
        state.broken = None;
    }

    /// Limits the sum of all files' lengths.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().capacity = bytes;
    }

    /// Makes every sync of a file take that long in real time.
    pub fn set_sync_delay(&self, delay: Duration) {
        self.shared.state.lock().sync_delay = delay;
    }

    /// Makes the disk call itself copy-on-write.
    pub fn set_copy_on_write(&self, yes: bool) {
        self.shared.state.lock().copy_on_write = yes;
    }

    /// What was done so far.
    pub fn stats(&self) -> SimStats {
        self.shared.state.lock().stats
    }

    /// The number of the last point passed.
    pub fn points(&self) -> u64 {
        self.stats().points
    }

    /// A disk of its own with the same durable and unsynced state, unlocked and without a fault plan.
    pub fn snapshot(&self) -> SimDisk {
        Self::from_state(self.shared.state.lock().bare())
    }

    /// From here on keeps a snapshot from before every point: the states a power cut can meet.
    pub fn record_snapshots(&self) {
        self.shared.state.lock().recording = true;
    }

    /// The recorded snapshots with the number of the last point each has seen; recording ends.
    pub fn take_snapshots(&self) -> Vec<(u64, SimDisk)> {
        let mut state = self.shared.state.lock();
        state.recording = false;
        let recorded = std::mem::take(&mut state.recorded);
        drop(state);
        recorded.into_iter().map(|(point, state)| (point, Self::from_state(state.bare()))).collect()
    }

    /// The disk as it may be found after the power went now; what is found is durable.
    pub fn reopen(&self, seed: u64, found: Found) -> SimDisk {
        let mut state = self.shared.state.lock().bare();
        let mut chance = Chance(seed);
        for folder in state.folders.values_mut() {
            folder.settle(found, &mut chance);
        }
        let made = state.folders[""].durable_folders.clone();
        state.folders.retain(|name, _| name.is_empty() || made.contains(name));
        let names: Vec<u64> =
            state.folders.values().flat_map(|folder| folder.now.values().copied()).collect();
        let mut files = HashMap::with_capacity(names.len());
        // In order of the names, so that the same seed finds the same disk.
        for id in names {
            if let Some(file) = state.files.get(&id) {
                files.entry(id).or_insert_with(|| {
                    let mut file = Contents::clone(file);
                    file.settle(found, &mut chance);
                    file.forget_errors();
                    Arc::new(file)
                });
            }
        }
        state.files = files;
        Self::from_state(state)
    }

    /// The disk after only the process died: all that was written can be read, but is no more durable than before.
    pub fn reopen_process_crash(&self) -> SimDisk {
        self.snapshot()
    }

    /// Changes stored bytes behind everyone's back, durably: for tests of damage.
    pub fn corrupt(
        &self,
        name: &str,
        offset: u64,
        change: impl FnOnce(&mut [u8]),
        len: usize,
    ) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let id = state.find(name)?;
        let file = Arc::make_mut(state.files.get_mut(&id).expect("a name leads to a file"));
        let mut bytes = vec![0; len];
        file.now.read(offset, &mut bytes);
        change(&mut bytes);
        file.now.write(offset, &bytes);
        file.durable.write(offset, &bytes);
        Ok(())
    }

    /// Cuts a file short behind everyone's back, durably: for tests of damage.
    pub fn shorten(&self, name: &str, len: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let id = state.find(name)?;
        let file = Arc::make_mut(state.files.get_mut(&id).expect("a name leads to a file"));
        file.now.truncate(len);
        file.durable.truncate(len);
        Ok(())
    }

    fn handle(&self, id: u64) -> Arc<dyn DiskFile> {
        let reported = self.shared.state.lock().files.get(&id).map_or(0, |file| file.errors_reported());
        Arc::new(SimFile { shared: self.shared.clone(), id, errors_known: AtomicU64::new(reported) })
    }
}
