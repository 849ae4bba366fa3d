//! Figures of a store.

use std::sync::atomic::Ordering;

use kew_store::ledger::Ledger;

use super::inner::Inner;
use super::shelf::LogShelf;
use crate::journal::{BatchNumber, Journal};

/// Figures of a log store.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// The newest batch written.
    pub written_through: BatchNumber,
    /// The newest batch synced.
    pub durable_through: BatchNumber,
    /// Bytes in segments that messages need.
    pub live_bytes: u64,
    /// Bytes in segments that nothing needs any more.
    pub dead_bytes: u64,
    /// Bytes that survivors took when they were copied forward, since the store was opened.
    pub copied_bytes: u64,
    /// Checkpoints made since the store was opened.
    pub checkpoints: u64,
    /// The most that a checkpoint looked at under one hold of the writer's lock: pieces of images, ids, queues.
    pub checkpoint_hold_max: u64,
    /// Memory the queues hold, about.
    pub heap_bytes: u64,
    /// Records found damaged since the store was opened.
    pub damaged_records: u64,
}

impl Inner {
    pub(super) fn stats(&self) -> LogStats {
        let ledger = self.writer.lock();
        let (live_bytes, dead_bytes) = self.bytes_of(&ledger);
        let journal = ledger.shelf.journal.as_ref();
        LogStats {
            written_through: journal.map_or(BatchNumber::BEFORE_FIRST, Journal::written_through),
            durable_through: journal.map_or(BatchNumber::BEFORE_FIRST, Journal::durable_through),
            live_bytes,
            dead_bytes,
            copied_bytes: self.done.copied_bytes.load(Ordering::Relaxed),
            checkpoints: self.done.checkpoints.load(Ordering::Relaxed),
            checkpoint_hold_max: self.done.hold_max.load(Ordering::Relaxed),
            heap_bytes: ledger.heap_bytes() as u64,
            damaged_records: self.damaged.len() as u64,
        }
    }

    pub(super) fn live_and_dead_bytes(&self) -> (u64, u64) {
        self.bytes_of(&self.writer.lock())
    }

    fn bytes_of(&self, ledger: &Ledger<LogShelf>) -> (u64, u64) {
        let live: u64 = ledger.shelf.live.segments().map(|life| life.resting.record_bytes).sum();
        let used: u64 = self.segments.list().iter().map(|segment| segment.used()).sum();
        (live, used.saturating_sub(live))
    }
}
