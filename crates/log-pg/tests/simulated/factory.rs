//! Stores on a simulated database whose connections are cut again and again, as contracts and histories of the model
//! ask for them. What is asked is answered late, and never wrongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Timestamp};
use kew_log_pg::simulated::{Rates, World};
use kew_log_pg::{PgDisk, PgStore};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store::{Store, Submission};
use kew_store_log::{LogOptions, LogStore};
use parking_lot::Mutex;

/// A store that does its upkeep after some commits.
struct Kept {
    world: Arc<World>,
    store: PgStore,
    disk: PgDisk,
    commits_per_upkeep: u32,
    commits: AtomicU32,
}

impl Store for Kept {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let _inside = self.world.enter();
        self.store.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
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
        let _inside = self.world.enter();
        let waited = self.store.commit();
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.commits_per_upkeep) {
            self.store.log().keep_up().unwrap();
        }
        // The caller waits for the answer without letting time pass.
        loop {
            self.world.pass(Duration::from_millis(1));
            if !self.store.commit() && self.disk.is_quiet() {
                self.world.settle();
                return waited;
            }
        }
    }
}

/// Opens such stores.
pub struct OnSimulated {
    options: LogOptions,
    commits_per_upkeep: u32,
    newest: Mutex<Option<Arc<Kept>>>,
    starts: AtomicU64,
}

impl OnSimulated {
    pub fn new(options: LogOptions, commits_per_upkeep: u32) -> Self {
        Self { options, commits_per_upkeep, newest: Mutex::new(None), starts: AtomicU64::new(1) }
    }

    fn start(&self, world: Arc<World>) -> Arc<dyn Store> {
        let _inside = world.enter();
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let disk = loop {
            match world.own(&start.to_string()) {
                Ok((disk, _)) => break disk,
                // The connection was cut, or the owner before is not known to be gone.
                Err(_) => world.pass(Duration::from_millis(50)),
            }
        };
        let tenure = Arc::clone(disk.tenure());
        let entropy = Arc::new(SeededEntropy::new(start));
        let opened = LogStore::open(Arc::new(disk.clone()), self.options, entropy, Timestamp(0));
        let store = PgStore::new(Arc::new(opened.unwrap().0), tenure);
        let (commits_per_upkeep, commits) = (self.commits_per_upkeep, AtomicU32::new(0));
        let kept = Arc::new(Kept { world: Arc::clone(&world), store, disk, commits_per_upkeep, commits });
        *self.newest.lock() = Some(Arc::clone(&kept));
        kept
    }
}

impl Factory for OnSimulated {
    fn open(&self) -> Arc<dyn Store> {
        let rates = Rates { per_mille: 30, latency_ms: 1, ..Rates::default() };
        let seed = self.starts.load(Ordering::Relaxed);
        self.start(Arc::new(World::new(seed, rates)))
    }

    fn remembers(&self) -> bool {
        true
    }

    fn reopen(&self, store: Arc<dyn Store>, ending: Ending) -> Arc<dyn Store> {
        let newest = self.newest.lock().take().unwrap();
        drop(store);
        let world = Arc::clone(&newest.world);
        if ending == Ending::Close {
            let _inside = world.enter();
            newest.store.log().close().unwrap();
        }
        drop(newest);
        self.start(world)
    }
}
