//! What the console reads of the program beside its engine: figures of the store, and what came of pushes.

use std::time::Duration;

use kew_core::{QueueKey, Timestamp};

/// Tells how many bytes of a store's files messages need, and how many nothing needs any more.
pub type StoreBytes = dyn Fn() -> (u64, u64) + Send + Sync;

/// What and where a store is, and whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorePlace {
    /// `memory`, `directory` or `postgres`.
    pub kind: &'static str,
    /// Where, for people; without secrets.
    pub text: String,
    /// The node that owns it.
    pub owner: String,
    /// Raised by every take-over; 0 where no other node can take it.
    pub epoch: u64,
    /// Since when this node owns it.
    pub since: Timestamp,
}

/// One setting of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownSetting {
    /// The section of the file.
    pub section: String,
    /// The key there.
    pub key: String,
    /// Its value; a secret is hidden. `None` when it is not set.
    pub value: Option<String>,
    /// Where that came from.
    pub origin: String,
}

/// Counts batches brought to consumers, by outcome.
pub type PushAttempts = dyn Fn() -> [(&'static str, u64); 3] + Send + Sync;

/// One batch brought to a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushAttempt {
    /// When it left, in engine time.
    pub at: Timestamp,
    /// From which queue.
    pub queue: QueueKey,
    /// To which consumer: its id.
    pub consumer: String,
    /// What that is, for people.
    pub target: String,
    /// Which delivery it was.
    pub batch: String,
    /// Messages in it.
    pub messages: u32,
    /// Messages that are done.
    pub acked: u32,
    /// How it ended, in the word of the metrics.
    pub outcome: &'static str,
    /// How long it took, in real time.
    pub took: Duration,
    /// The status of the reply, where there was one.
    pub status: Option<u16>,
    /// What went wrong, for people.
    pub error: Option<String>,
}

/// A consumer whose target cannot be reached: nothing is leased for it until a try succeeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushCircuit {
    /// Which queue waits.
    pub queue: QueueKey,
    /// For which consumer: its id.
    pub consumer: String,
    /// What that is, for people.
    pub target: String,
    /// Since when, in engine time.
    pub since: Timestamp,
    /// Tries that failed since then.
    pub tries: u32,
    /// The pause between the latest try and the next, in real time.
    pub pause: Duration,
    /// Why the latest failed.
    pub error: String,
}

/// Tells which consumers cannot be reached, the longest so first.
pub type OpenCircuits = dyn Fn() -> Vec<PushCircuit> + Send + Sync;

/// Tells the latest batches brought to consumers, the newest first.
pub type LatestPushes = dyn Fn() -> Vec<PushAttempt> + Send + Sync;
