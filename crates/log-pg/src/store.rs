//! The store on a log in PostgreSQL: it answers only while this node owns the shard.

use std::sync::Arc;

use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, QueueId, Tally, Timestamp, Traffic, Waits};
use kew_store::{Store, StoreError, Submission};
use kew_store_log::LogStore;

use crate::Tenure;

/// A store whose answers count only while its shard is owned.
pub struct PgStore {
    store: Arc<LogStore>,
    tenure: Arc<Tenure>,
}

impl PgStore {
    /// Puts the tenure before a store.
    pub fn new(store: Arc<LogStore>, tenure: Arc<Tenure>) -> Self {
        Self { store, tenure }
    }

    /// The store behind it.
    pub fn log(&self) -> &Arc<LogStore> {
        &self.store
    }
}

impl Store for PgStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        if let Some(cause) = self.tenure.refusal() {
            return Submission::settled(Err(StoreError::Unavailable { cause }));
        }
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

    fn commit(&self) -> bool {
        self.store.commit()
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.store.commit_at_once(may_sync)
    }

    fn syncs(&self) -> u64 {
        self.store.syncs()
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

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()?;
        match self.tenure.refusal() {
            None => Ok(()),
            Some(cause) => Err(StoreError::Unavailable { cause }),
        }
    }

    fn write(&self) {
        self.store.write();
    }
}
