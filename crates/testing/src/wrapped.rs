//! A store with something of it changed for a test; all else passes through.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, Pause, QueueId, ShardId, Tally, Timestamp, Traffic, Waits};
use kew_store::{Elsewhere, Fill, Ring, Store, StoreError, Submission};

/// What a test changes of a store. Each method may call the store's own.
pub trait Wrap<S: Store>: Send + Sync {
    /// In place of [`Store::step`].
    fn step(&self, store: &S, now: Timestamp, command: &Command) -> Submission {
        store.step(now, command)
    }

    /// In place of [`Store::commit`].
    fn commit(&self, store: &S) -> bool {
        store.commit()
    }

    /// In place of [`Store::health`].
    fn health(&self, store: &S) -> Result<(), StoreError> {
        store.health()
    }

    /// In place of [`Store::keeps`].
    fn keeps(&self, store: &S, queue: QueueId) -> bool {
        store.keeps(queue)
    }

    /// In place of [`Store::shard_of`].
    fn shard_of(&self, store: &S, queue: QueueId) -> ShardId {
        store.shard_of(queue)
    }

    /// In place of [`Store::sees`].
    fn sees(&self, store: &S, queue: QueueId) -> bool {
        store.sees(queue)
    }

    /// In place of [`Store::may_answer`].
    fn may_answer(&self, store: &S) -> bool {
        store.may_answer()
    }
}

/// A store, and what is changed of it.
#[derive(Debug)]
pub struct Wrapped<S, W> {
    /// The store itself.
    pub store: S,
    /// What is changed of it.
    pub wrap: W,
}

impl<S: Store, W: Wrap<S>> Store for Wrapped<S, W> {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.wrap.step(&self.store, now, command)
    }

    fn step_in(&self, shard: ShardId, now: Timestamp, command: &Command) -> Submission {
        self.store.step_in(shard, now, command)
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
        self.wrap.commit(&self.store)
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.store.commit_at_once(may_sync)
    }

    fn hand_over(&self) -> Fill {
        self.store.hand_over()
    }

    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.store.ring_when_free(ring);
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
        self.wrap.health(&self.store)
    }

    fn health_for(&self, queue: QueueId) -> Result<(), StoreError> {
        self.wrap.health(&self.store)?;
        self.store.health_for(queue)
    }

    fn keeps(&self, queue: QueueId) -> bool {
        self.wrap.keeps(&self.store, queue)
    }

    fn shard_of(&self, queue: QueueId) -> ShardId {
        self.wrap.shard_of(&self.store, queue)
    }

    fn sees(&self, queue: QueueId) -> bool {
        self.wrap.sees(&self.store, queue)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.store.know_others(elsewhere);
    }

    fn knows_all(&self) -> bool {
        self.store.knows_all()
    }

    fn define(&self, command: &Command) -> Option<Submission> {
        self.store.define(command)
    }

    fn share(&self, pause: &Pause, until: Timestamp) -> Option<Submission> {
        self.store.share(pause, until)
    }

    fn lease_elsewhere(&self, lease: &Lease, wait: Duration) -> Option<Submission> {
        self.store.lease_elsewhere(lease, wait)
    }

    fn may_answer(&self) -> bool {
        self.wrap.may_answer(&self.store)
    }

    fn may_answer_for(&self, queue: QueueId) -> bool {
        self.may_answer() && self.store.may_answer_for(queue)
    }

    fn write(&self) {
        self.store.write();
    }
}
