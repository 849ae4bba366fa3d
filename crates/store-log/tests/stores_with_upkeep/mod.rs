//! Log stores on simulated disks, as contracts and histories ask for them: opened, ended, opened again, and kept up
//! between their commits.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kew_core::Timestamp;
use kew_store::Store;
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store_log::{DEDUPLICATION_FOLDER, Drive, LogOptions, LogStore, SimDisk};
use kew_testing::{UpkeepByCommits, Wrapped};
use parking_lot::Mutex;

/// A store that does its upkeep after a number of commits.
type WithUpkeep = Wrapped<LogStore, UpkeepByCommits<LogStore>>;

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
        let entropy = Arc::new(SeededEntropy::of_start(self.starts.fetch_add(1, Ordering::Relaxed)));
        let (store, _) = LogStore::open(Arc::new(disk.clone()), self.options, entropy, Timestamp(0)).unwrap();
        let wrap = UpkeepByCommits::new(self.commits_per_upkeep, |store| store);
        let store = Arc::new(WithUpkeep { store, wrap });
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
