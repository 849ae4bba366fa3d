//! The log store equals the model over random histories, with tiny segments, eager checkpoints and copying forward,
//! clean stops and kills.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kew_core::{Command, Timestamp};
use kew_store::contract::model::{SeededEntropy, histories};
use kew_store::contract::{Ending, Factory};
use kew_store::ledger::Bounds;
use kew_store::{Store, Submission};
use kew_store_log::{DEDUPLICATION_FOLDER, Drive, LogOptions, LogStore, SegmentOptions, SimDisk};
use parking_lot::Mutex;

/// Every so many commits a checkpoint is made and survivors are copied.
const COMMITS_PER_UPKEEP: u32 = 3;

fn options() -> LogOptions {
    LogOptions {
        segments: SegmentOptions {
            first_bytes: 4 << 10,
            largest_bytes: 8 << 10,
            reserve_spares: 1,
            spares_max: 3,
        },
        recent_bytes: 2 << 10,
        checkpoint_bytes: 512,
        slack_bytes: 0,
        drive: Drive::Manual,
        bounds: Bounds { deduplication_ids: 2, ..Bounds::default() },
        ..LogOptions::default()
    }
}

/// A log store that does its upkeep between commits.
struct Eager {
    store: LogStore,
    commits: AtomicU32,
}

impl Store for Eager {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.store.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn commit(&self) -> bool {
        let waited = self.store.commit();
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(COMMITS_PER_UPKEEP) {
            self.store.keep_up().unwrap();
        }
        waited
    }
}

#[derive(Default)]
struct OnSimDisk {
    /// The disk of the newest store, and how to end it.
    newest: Mutex<Option<(SimDisk, Arc<Eager>)>>,
    /// Chance goes on after a restart; it never repeats.
    starts: AtomicU32,
    checkpoints: AtomicU64,
    copied_bytes: AtomicU64,
    put_away: AtomicU64,
}

impl OnSimDisk {
    fn tally(&self, store: &LogStore) {
        let stats = store.stats();
        self.checkpoints.fetch_add(stats.checkpoints, Ordering::Relaxed);
        self.copied_bytes.fetch_add(stats.copied_bytes, Ordering::Relaxed);
        let away = store.segments().disk().list(DEDUPLICATION_FOLDER).unwrap().len();
        self.put_away.fetch_add(away as u64, Ordering::Relaxed);
    }

    fn start(&self, disk: SimDisk) -> Arc<dyn Store> {
        let start = u64::from(self.starts.fetch_add(1, Ordering::Relaxed));
        let entropy = Arc::new(SeededEntropy::new(start));
        let (store, _) = LogStore::open(Arc::new(disk.clone()), options(), entropy, Timestamp(0)).unwrap();
        let store = Arc::new(Eager { store, commits: AtomicU32::new(0) });
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
        self.tally(&newest.store);
        drop(newest);
        self.start(disk.reopen_process_crash())
    }
}

#[test]
fn log_store_equals_the_model() {
    let factory = OnSimDisk::default();
    histories(&factory);
    let (checkpoints, copied) = (factory.checkpoints.into_inner(), factory.copied_bytes.into_inner());
    println!("{checkpoints} checkpoints were made and {copied} bytes of survivors copied on the way");
    let away = factory.put_away.into_inner();
    println!("{away} generations of deduplication ids were put away");
    assert!(checkpoints > 0 && copied > 0 && away > 0, "the histories never reached the upkeep");
}
