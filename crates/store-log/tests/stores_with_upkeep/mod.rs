//! Log stores on simulated disks, as contracts and histories ask for them: opened, ended, opened again, and kept up
//! between their commits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kew_core::{Command, Timestamp};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store::{Store, Submission};
use kew_store_log::{DEDUPLICATION_FOLDER, Drive, LogOptions, LogStore, SegmentOptions, SimDisk};
use parking_lot::Mutex;

/// Segments that are full after a few messages, and everything that goes with them.
pub fn tiny() -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 4 << 10,
        largest_bytes: 8 << 10,
        reserve_spares: 1,
        spares_max: 3,
        open_max: 4,
    };
    LogOptions {
        segments,
        recent_bytes: 2 << 10,
        checkpoint_bytes: 512,
        slack_bytes: 0,
        ..LogOptions::default()
    }
}

/// A store that does its upkeep after a number of commits.
struct WithUpkeep {
    store: LogStore,
    commits_per_upkeep: u32,
    commits: AtomicU32,
}

impl Store for WithUpkeep {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.store.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn expiry_hold(&self) -> Option<kew_core::rules::retention::ExpiryHold> {
        self.store.expiry_hold()
    }

    fn tally(&self) -> kew_core::Tally {
        self.store.tally()
    }

    fn tallies(&self, queues: &[kew_core::QueueId]) -> Vec<kew_core::Tally> {
        self.store.tallies(queues)
    }

    fn waits(&self, queues: &[kew_core::QueueId]) -> Vec<kew_core::Waits> {
        self.store.waits(queues)
    }

    fn take_departures(&self) -> kew_core::Departures {
        self.store.take_departures()
    }

    fn commit(&self) -> bool {
        let waited = self.store.commit();
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.commits_per_upkeep) {
            self.store.keep_up().unwrap();
        }
        waited
    }
}

/// What the stores of a factory did before they ended.
#[derive(Default)]
pub struct Tally {
    pub checkpoints: AtomicU64,
    pub copied_bytes: AtomicU64,
    /// Generations of deduplication ids that were put away.
    pub put_away: AtomicU64,
}

impl Tally {
    fn add(&self, store: &LogStore) {
        let stats = store.stats();
        self.checkpoints.fetch_add(stats.checkpoints, Ordering::Relaxed);
        self.copied_bytes.fetch_add(stats.copied_bytes, Ordering::Relaxed);
        let away = store.segments().disk().list(DEDUPLICATION_FOLDER).unwrap().len();
        self.put_away.fetch_add(away as u64, Ordering::Relaxed);
    }
}

/// Opens such stores.
pub struct OnSimDisk {
    options: LogOptions,
    commits_per_upkeep: u32,
    /// The disk of the newest store, and how to end it.
    newest: Mutex<Option<(SimDisk, Arc<WithUpkeep>)>>,
    /// Chance goes on after a restart; it never repeats.
    starts: AtomicU64,
    pub tally: Tally,
}

impl OnSimDisk {
    pub fn new(options: LogOptions, commits_per_upkeep: u32) -> Self {
        let options = LogOptions { drive: Drive::Manual, ..options };
        let (newest, starts) = (Mutex::new(None), AtomicU64::new(1));
        Self { options, commits_per_upkeep, newest, starts, tally: Tally::default() }
    }

    fn start(&self, disk: SimDisk) -> Arc<dyn Store> {
        let entropy = Arc::new(SeededEntropy::new(self.starts.fetch_add(1, Ordering::Relaxed)));
        let (store, _) = LogStore::open(Arc::new(disk.clone()), self.options, entropy, Timestamp(0)).unwrap();
        let commits_per_upkeep = self.commits_per_upkeep;
        let store = Arc::new(WithUpkeep { store, commits_per_upkeep, commits: AtomicU32::new(0) });
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
            newest.store.close().unwrap();
        }
        self.tally.add(&newest.store);
        drop(newest);
        self.start(disk.reopen_process_crash())
    }
}
