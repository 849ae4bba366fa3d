//! A store that is taken from its node, as the shard of an owner whose tenure ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, QueueId, Tally, Timestamp, Traffic, Waits};
use kew_store::{MemoryStore, Store, Submission};

use crate::CountingEntropy;

/// A store in memory. It takes steps also while it is away, as those of an owner may that were begun before.
pub struct LentStore {
    store: MemoryStore,
    is_away: AtomicBool,
}

impl LentStore {
    /// An empty store that is there.
    pub fn new() -> Arc<Self> {
        let store = MemoryStore::new(Arc::new(CountingEntropy::default()));
        Arc::new(Self { store, is_away: AtomicBool::new(false) })
    }

    /// From now on its node may not answer for it, or may again.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Release);
    }
}

impl Store for LentStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
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

    fn tally(&self) -> Tally {
        self.store.tally()
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.store.tallies(queues)
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.store.waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.store.take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.store.traffic(queues)
    }

    fn may_answer(&self) -> bool {
        !self.is_away.load(Ordering::Acquire)
    }
}
