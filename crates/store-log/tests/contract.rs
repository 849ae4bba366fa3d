//! The log store keeps every contract: with the usual segments, and with tiny ones that are recycled all the time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kew_core::{Command, Timestamp};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store::{Store, Submission};
use kew_store_log::{Drive, LogOptions, LogStore, SegmentOptions, SimDisk};
use parking_lot::Mutex;

/// A store that does its upkeep after every commit.
struct Kept(LogStore);

impl Store for Kept {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.0.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.0.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.0.newest_instant()
    }

    fn commit(&self) -> bool {
        let waited = self.0.commit();
        self.0.keep_up().unwrap();
        waited
    }
}

/// Log stores on simulated disks.
struct OnSimDisk {
    options: LogOptions,
    /// The disk of the newest store, and how to end it.
    newest: Mutex<Option<(SimDisk, Arc<Kept>)>>,
    /// Chance goes on after a restart; it never repeats.
    starts: AtomicU64,
}

impl OnSimDisk {
    fn new(options: LogOptions) -> Self {
        let options = LogOptions { drive: Drive::Manual, ..options };
        Self { options, newest: Mutex::new(None), starts: AtomicU64::new(1) }
    }

    fn usual() -> Self {
        Self::new(LogOptions::default())
    }

    fn tiny() -> Self {
        let segments =
            SegmentOptions { first_bytes: 4 << 10, largest_bytes: 8 << 10, reserve_spares: 1, spares_max: 3 };
        let options = LogOptions::default();
        Self::new(LogOptions {
            segments,
            recent_bytes: 2 << 10,
            checkpoint_bytes: 512,
            slack_bytes: 0,
            ..options
        })
    }

    fn start(&self, disk: SimDisk) -> Arc<dyn Store> {
        let entropy = Arc::new(SeededEntropy::new(self.starts.fetch_add(1, Ordering::Relaxed)));
        let (store, _) = LogStore::open(Arc::new(disk.clone()), self.options, entropy, Timestamp(0)).unwrap();
        let store = Arc::new(Kept(store));
        *self.newest.lock() = Some((disk, store.clone()));
        store
    }
}

impl Factory for OnSimDisk {
    fn open(&self) -> Arc<dyn Store> {
        self.start(SimDisk::new())
    }

    fn remembers(&self) -> bool {
        true
    }

    fn reopen(&self, store: Arc<dyn Store>, ending: Ending) -> Arc<dyn Store> {
        let (disk, newest) = self.newest.lock().take().unwrap();
        drop(store);
        if ending == Ending::Close {
            newest.0.close().unwrap();
        }
        drop(newest);
        self.start(disk.reopen_process_crash())
    }
}

mod usual_segments {
    use super::OnSimDisk;

    kew_store::contract_tests!(OnSimDisk::usual());
}

mod tiny_segments {
    use super::OnSimDisk;

    kew_store::contract_tests!(OnSimDisk::tiny());
}
