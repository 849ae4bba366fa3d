//! How a log store is run.

use std::time::Duration;

use kew_core::ShardPlace;
use kew_store::ledger::Bounds;
use kew_store::token::TokenKey;

use crate::journal::SegmentOptions;

/// Settings of a log store; none changes what is stored.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Sizes of segments.
    pub segments: SegmentOptions,
    /// Bytes of recent batches kept in memory: what was just sent is read from there.
    pub recent_bytes: usize,
    /// The least bytes of journal between two checkpoints; more when the last one was large. Less than a segment, so
    /// that each one that is full asks for a checkpoint: while one is in use the one before it comes back as a spare,
    /// and no file of zeros has to be made for those that are freed two at a time and given back to the system.
    pub checkpoint_bytes: u64,
    /// Dead bytes beyond those of living messages that are left alone before survivors are copied together.
    pub slack_bytes: u64,
    /// The pause before upkeep that failed is tried again by itself; it doubles from one failure to the next, up to 64
    /// times this.
    pub retry_after: Duration,
    /// Whether answers wait for the disk.
    pub durability: Durability,
    /// Who writes batches and does the upkeep.
    pub drive: Drive,
    /// What may grow, and how far.
    pub bounds: Bounds,
    /// Which shard it is: its queues and tasks are numbered by that.
    pub place: ShardPlace,
    /// The key of the receipts, where the store is made now. All shards of a store have one key. Without it the key is
    /// chance.
    pub key: Option<TokenKey>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segments: SegmentOptions::default(),
            recent_bytes: 16 << 20,
            checkpoint_bytes: 48 << 20,
            slack_bytes: 256 << 20,
            retry_after: Duration::from_secs(1),
            durability: Durability::Sync,
            drive: Drive::Threads,
            bounds: Bounds::default(),
            place: ShardPlace::ONLY,
            key: None,
        }
    }
}

/// Whether answers wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Sends, deletes and settings are synced before they are answered.
    Sync,
    /// Everything is only handed to the operating system: a power cut may lose what was acknowledged.
    Os,
}

/// Who writes batches and does the upkeep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// Two threads of the store: one commits, one does the upkeep.
    Threads,
    /// The caller's event loop commits; a thread of the store does the upkeep.
    Loop,
    /// The caller does both, by `commit` and `keep_up`: for tests that must repeat exactly.
    Manual,
}
