//! Stores on a simulated database whose connections are cut again and again, as contracts and histories of the model
//! ask for them. What is asked is answered late, and never wrongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Command, Timestamp};
use kew_log_pg::simulated::{Rates, World};
use kew_log_pg::{PgDisk, PgStore};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store::{Store, Submission};
use kew_store_log::{LogOptions, LogStore};
use kew_testing::{UpkeepByCommits, Wrap, Wrapped};
use parking_lot::Mutex;

/// A store that does its upkeep after some commits, and lets time pass until each commit is answered.
type Kept = Wrapped<PgStore, InWorld>;

struct InWorld {
    world: Arc<World>,
    disk: PgDisk,
    upkeep: UpkeepByCommits<PgStore>,
}

impl Wrap<PgStore> for InWorld {
    fn step(&self, store: &PgStore, now: Timestamp, command: &Command) -> Submission {
        let _inside = self.world.enter();
        store.step(now, command)
    }

    fn commit(&self, store: &PgStore) -> bool {
        let _inside = self.world.enter();
        let waited = self.upkeep.commit(store);
        // The caller waits for the answer without letting time pass.
        loop {
            self.world.pass(Duration::from_millis(1));
            if !store.commit() && self.disk.is_quiet() {
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

    /// What happens in the next world is decided by this seed alone.
    pub fn begin(&self, seed: u64) {
        self.starts.store(seed, Ordering::Relaxed);
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
        let entropy = Arc::new(SeededEntropy::of_start(start));
        let opened = LogStore::open(Arc::new(disk.clone()), self.options, entropy, Timestamp(0));
        let store = PgStore::new(Arc::new(opened.unwrap().0), tenure);
        let upkeep = UpkeepByCommits::new(self.commits_per_upkeep, |store: &PgStore| store.log());
        let wrap = InWorld { world: Arc::clone(&world), disk, upkeep };
        let kept = Arc::new(Kept { store, wrap });
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
        let world = Arc::clone(&newest.wrap.world);
        if ending == Ending::Close {
            let _inside = world.enter();
            newest.store.log().close().unwrap();
        }
        drop(newest);
        self.start(world)
    }
}
