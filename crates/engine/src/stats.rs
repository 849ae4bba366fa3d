//! Figures for the metrics: plain counters that anyone may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the engine has done since it started, and what it is doing.
#[derive(Debug, Default)]
pub struct Stats {
    /// Receives that were answered without a message.
    pub empty_receives: Counter,
    /// Receives that were answered, counted on a virtual clock only: its followers see this count.
    pub answered_receives: Counter,
    /// Receives that wait now.
    pub waiting_receives: Counter,
    /// Waiting receives that were served.
    pub served_waiters: Counter,
    /// Leases taken for somebody who was gone before they were committed.
    pub withdrawn_leases: Counter,
    /// Receives that found the queue at its in-flight limit.
    pub limited_receives: Counter,
    /// Steps the engine took by itself to do what was due.
    pub due_steps: Counter,
    /// Steps handed to the store, of all kinds.
    pub store_steps: Counter,
    /// Messages that left shards of this node for other shards, and have not arrived: as of the last look.
    pub owed_messages: Counter,
    /// Messages that were carried from shards of this node to other shards.
    pub carried_messages: Counter,
}

/// One figure.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The figure now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds one where writers come one after the other anyway: cheaper than counting against each other.
    pub(crate) fn count_in_turn(&self) {
        self.set(self.value() + 1);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
