//! Messages on their way from one shard to another.
//!
//! A message that leaves for a queue of another shard goes into an outbox of its own shard first: from then on it is
//! *owed*. It is carried to the target, which takes each message of an outbox once, by its place there, and settled at
//! the outbox after that. See `docs/decisions/0023-messages-move-between-shards.md`.

use crate::{
    Content, DeduplicationId, Expiry, GroupId, MessageId, MoveReason, Origin, QueueId, Sequence, Timestamp,
};

/// An outbox, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owing {
    /// The outbox.
    pub outbox: QueueId,
    /// The queue that its messages are for.
    pub target: QueueId,
    /// How many messages are in it.
    pub messages: u64,
}

/// A message of an outbox.
#[derive(Clone, PartialEq, Debug)]
pub struct OwedMessage {
    /// Its place in the outbox: the target takes each once.
    pub sequence: Sequence,
    /// Its name.
    pub id: MessageId,
    /// What it carries.
    pub content: Content,
    /// Its group.
    pub group: Option<GroupId>,
    /// What it was deduplicated by.
    pub deduplication: Option<DeduplicationId>,
    /// How it expires.
    pub expiry: Expiry,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// How often it was leased.
    pub attempts: u32,
    /// When it was first leased.
    pub first_leased_at: Option<Timestamp>,
    /// The queue it left, why, and when.
    pub origin: Origin,
}

impl OwedMessage {
    /// Whether it enters the target like one that is sent there, under the target's own delay: moved by a task or by
    /// hand, or a dead letter that leaves its past behind. One that keeps it was leased at least once.
    pub fn starts_afresh(&self) -> bool {
        self.attempts == 0 || self.origin.reason == MoveReason::Redriven
    }
}
