//! What a queue is set to do, and the figures it shows.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{QueueId, QueueKey, Timestamp};

/// The two kinds of queue; a queue keeps its kind for life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// Best-effort order, any number of leases at once.
    Standard,
    /// Strict order within each group.
    Fifo {
        /// Whether one id counts for the whole queue or for each group alone.
        scope: DeduplicationScope,
        /// Whether the body's hash stands in for a missing deduplication id.
        by_content: bool,
    },
}

impl QueueKind {
    /// Whether groups are kept in order.
    pub fn is_fifo(self) -> bool {
        matches!(self, Self::Fifo { .. })
    }
}

/// How far a deduplication id reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeduplicationScope {
    /// The whole queue.
    Queue,
    /// One group.
    Group,
}

/// What happens to a message that was leased as often as allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetterRule {
    /// Leases allowed; at least 1.
    pub attempts_max: u32,
    /// What then.
    pub then: DeadLetterAction,
    /// What the message keeps on the way.
    pub carries: Carries,
    /// Who wrote the rule: a front-end's own word, so that it recognises its rules.
    pub written_by: Arc<str>,
}

/// Where an exhausted message goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadLetterAction {
    /// To another queue, by name, resolved at the move.
    MoveTo(QueueKey),
    /// Nowhere: it is deleted.
    Drop,
}

/// What a dead-lettered message takes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// Its attempts and its send time; it arrives visible.
    History,
    /// Nothing: it starts afresh, and the target's own delay applies.
    Nothing,
}

/// The settings the laws look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Standard or FIFO.
    pub kind: QueueKind,
    /// How long a lease lasts when the request names no length.
    pub lease_length: Duration,
    /// How long a new message is hidden when it names no delay.
    pub delay: Duration,
    /// How long a message is kept.
    pub retention: Duration,
    /// How long a receive waits when the request names no time.
    pub wait: Duration,
    /// The largest body a front-end should accept.
    pub body_bytes_max: u32,
    /// Whether nothing is delivered, in whatever way; sends go on.
    pub paused: bool,
    /// What happens to a message that keeps failing.
    /// In a box, for most queues have none, and a rule is nearly as large as all the rest.
    pub dead_letters: Option<Box<DeadLetterRule>>,
}

impl Policy {
    /// A standard queue with the usual defaults.
    pub fn standard() -> Self {
        Self {
            kind: QueueKind::Standard,
            lease_length: Duration::from_secs(30),
            delay: Duration::ZERO,
            retention: Duration::from_secs(345_600),
            wait: Duration::ZERO,
            body_bytes_max: 1_048_576,
            paused: false,
            dead_letters: None,
        }
    }

    /// A FIFO queue with the usual defaults.
    pub fn fifo() -> Self {
        let kind = QueueKind::Fifo { scope: DeduplicationScope::Queue, by_content: false };
        Self { kind, ..Self::standard() }
    }
}

/// Names a document: the room that owns it, and its own key there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DocumentKey {
    /// The owning room's word for itself.
    pub owner: Arc<str>,
    /// The document's name within that room.
    pub key: Arc<str>,
}

impl DocumentKey {
    /// The key of `owner`'s document `key`.
    pub fn new(owner: &str, key: &str) -> Self {
        Self { owner: owner.into(), key: key.into() }
    }
}

/// The most bytes one document may hold.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// A queue's definition, as everyone sees it between two changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Its number.
    pub id: QueueId,
    /// Its full name.
    pub key: QueueKey,
    /// Its settings.
    pub policy: Policy,
    /// What front-ends keep with it.
    pub documents: BTreeMap<DocumentKey, Bytes>,
    /// Raised by every change.
    pub version: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub modified_at: Timestamp,
}

/// A queue compared by its full name, for sets in which it is looked up by that name: no name is stored twice.
#[derive(Clone, Debug)]
pub struct ByName(pub Arc<Queue>);

impl Borrow<QueueKey> for ByName {
    fn borrow(&self) -> &QueueKey {
        &self.0.key
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

/// How many messages a queue holds, by state. The three add up to what a full scan finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// May be leased now, or wait behind a locked group.
    pub visible: u64,
    /// Leased.
    pub in_flight: u64,
    /// Hidden by a delay.
    pub delayed: u64,
    /// Bytes of all their bodies.
    pub body_bytes: u64,
    /// When the oldest of them was sent.
    pub oldest_sent_at: Option<Timestamp>,
}

impl Counts {
    /// All messages stored.
    pub fn stored(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}
