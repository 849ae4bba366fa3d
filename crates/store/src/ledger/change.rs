//! What a step changed: enough to do it again, from the journal, without deciding anything.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::event::Tag;
use kew_core::{
    AccountId, Content, DeduplicationId, DocumentKey, Expiry, GroupId, MessageId, MoveTask, Origin, OwnerId,
    Queue, QueueId, QueueKey, Return, Sequence, Text, Timestamp,
};

/// One change to the ledger.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// A queue as it is from now on.
    QueueSet(Arc<Queue>),
    /// A queue is gone, with everything in it.
    QueueDeleted(QueueId),
    /// A message entered.
    Sent(Sent<'a>),
    /// Messages were leased together.
    Leased(Leased<'a>),
    /// A repeated receive gave the same leases a fresh end.
    Repeated {
        /// In which queue.
        queue: QueueId,
        /// The new end.
        until: Timestamp,
        /// The messages.
        sequences: &'a [Sequence],
    },
    /// Leases were undone.
    Withdrawn {
        /// In which queue.
        queue: QueueId,
        /// The messages.
        sequences: &'a [Sequence],
    },
    /// Messages were deleted by receipt.
    Acked {
        /// In which queue.
        queue: QueueId,
        /// The messages.
        sequences: &'a [Sequence],
    },
    /// A lease was given another end, or a free message was hidden.
    Extended(Extended<'a>),
    /// A lease was given up, or a delay was ended early.
    Released {
        /// In which queue.
        queue: QueueId,
        /// The message.
        sequence: Sequence,
        /// When it shows again.
        visible_at: Timestamp,
    },
    /// A message went to another queue as it is.
    DeadLettered(DeadLettered),
    /// A message came from another shard.
    Brought(Brought<'a>),
    /// A message was leased too often and is deleted.
    Dropped {
        /// In which queue.
        queue: QueueId,
        /// The message.
        sequence: Sequence,
        /// Whether it left by itself at the end of a lease, rather than in a step.
        due: bool,
    },
    /// A message was looked at when its lease had ended, and stayed: its next lease decides again.
    Stayed {
        /// In which queue.
        queue: QueueId,
        /// The message.
        sequence: Sequence,
    },
    /// A message left for another queue, where it was sent as a new one.
    Redriven {
        /// In which queue.
        queue: QueueId,
        /// The message.
        sequence: Sequence,
        /// Where it went.
        to: QueueId,
        /// As which message there.
        as_sequence: Sequence,
    },
    /// A queue was emptied.
    Purged(QueueId),
    /// A move task as it is from now on.
    TaskSet(Arc<MoveTask>),
    /// An account's document as it is from now on, or gone.
    DocumentSet {
        /// Whose.
        account: AccountId,
        /// Which.
        key: DocumentKey,
        /// Its bytes.
        bytes: Option<Bytes>,
    },
}

impl Change<'_> {
    /// Whether an answer that rests on this change must wait until it is synced. Leases need only be written: a power
    /// cut may forget them, and the messages are offered again.
    pub fn must_sync(&self) -> bool {
        match self {
            Self::Leased(_)
            | Self::Repeated { .. }
            | Self::Withdrawn { .. }
            | Self::Released { .. }
            | Self::Stayed { .. } => false,
            Self::Extended(extended) => extended.content.is_some(),
            Self::QueueSet(_)
            | Self::QueueDeleted(_)
            | Self::Sent(_)
            | Self::Acked { .. }
            | Self::DeadLettered(_)
            | Self::Brought(_)
            | Self::Dropped { .. }
            | Self::Redriven { .. }
            | Self::Purged(_)
            | Self::TaskSet(_)
            | Self::DocumentSet { .. } => true,
        }
    }
}

/// A message that entered.
#[derive(Clone, Debug)]
pub struct Sent<'a> {
    /// Into which queue.
    pub queue: QueueId,
    /// As which.
    pub sequence: Sequence,
    /// Its id.
    pub id: MessageId,
    /// What it carries.
    pub content: &'a Content,
    /// Its group.
    pub group: Option<&'a GroupId>,
    /// What it was deduplicated by.
    pub deduplication: Option<&'a DeduplicationId>,
    /// The hash its deduplication is remembered under.
    pub identity: Option<u128>,
    /// When it shows. On a FIFO queue it is looked at as the message enters, and then the queue's delay counts.
    pub visible_at: Timestamp,
    /// Its place among the ready ones.
    pub rank: Timestamp,
    /// How it expires.
    pub expiry: Expiry,
    /// Where it was moved from.
    pub origin: Option<&'a Origin>,
}

/// Messages leased together.
#[derive(Clone, Debug)]
pub struct Leased<'a> {
    /// In which queue.
    pub queue: QueueId,
    /// The leases' end.
    pub until: Timestamp,
    /// When the request arrived.
    pub received_at: Timestamp,
    /// The longest they may last from there.
    pub cap: Option<Duration>,
    /// How long a message stays hidden if its lease ends by itself.
    pub lapse_delay: Duration,
    /// Where they return to.
    pub returns: Return,
    /// Who keeps them without an end.
    pub owner: Option<OwnerId>,
    /// The receive attempt they belong to.
    pub attempt: Option<&'a Text>,
    /// Who asked.
    pub by: Tag,
    /// The messages with their new nonces.
    pub taken: &'a [(Sequence, u64)],
}

/// A lease given another end.
#[derive(Clone, Debug)]
pub struct Extended<'a> {
    /// In which queue.
    pub queue: QueueId,
    /// The message.
    pub sequence: Sequence,
    /// The new end.
    pub until: Timestamp,
    /// A new receipt.
    pub nonce: Option<u64>,
    /// Where the message returns to, if it was free before.
    pub returns: Return,
    /// A content in place of the old one, under the same name.
    pub content: Option<Rewritten<'a>>,
}

/// A content that takes another's place.
#[derive(Clone, Debug)]
pub struct Rewritten<'a> {
    /// The message's id.
    pub id: MessageId,
    /// What it carries now.
    pub content: &'a Content,
    /// Its group, as before.
    pub group: Option<&'a GroupId>,
    /// What it was deduplicated by, as before.
    pub deduplication: Option<&'a DeduplicationId>,
}

/// A message that went to another queue as it is. Its content stays where it lies.
#[derive(Clone, Debug)]
pub struct DeadLettered {
    /// From which queue.
    pub from: QueueId,
    /// As which message there.
    pub sequence: Sequence,
    /// To which queue.
    pub to: QueueId,
    /// As which message there.
    pub as_sequence: Sequence,
    /// Where its content lies.
    pub place: super::shelf::Place,
    /// The length of its body.
    pub body_bytes: u32,
    /// Its group.
    pub group: Option<GroupId>,
    /// What retention counts from there.
    pub sent_at: Timestamp,
    /// How it expires.
    pub expiry: Expiry,
    /// Its attempts there.
    pub attempts: u32,
    /// When it was first leased, if that is kept.
    pub first_leased_at: Option<Timestamp>,
    /// When it shows there.
    pub visible_at: Timestamp,
    /// Whether the target's own delay applies, as to a fresh send.
    pub delayed: bool,
    /// The queue it came from, by name; an empty name where it comes back from an outbox.
    pub origin: QueueKey,
    /// Whether it left by itself at the end of a lease, rather than in a step.
    pub due: bool,
}

/// A message that came from another shard. Its content comes with it.
#[derive(Clone, Debug)]
pub struct Brought<'a> {
    /// As which message it entered, and what it carries.
    pub sent: Sent<'a>,
    /// The outbox it was in.
    pub from: QueueId,
    /// As which message there.
    pub from_sequence: Sequence,
    /// What retention counts from.
    pub sent_at: Timestamp,
    /// Its attempts so far.
    pub attempts: u32,
    /// When it was first leased, if that is kept.
    pub first_leased_at: Option<Timestamp>,
}

impl Change<'_> {
    /// The queues whose books this change touches.
    pub fn queues(&self) -> [Option<QueueId>; 2] {
        match self {
            Change::QueueSet(queue) => [Some(queue.id), None],
            Change::QueueDeleted(queue) | Change::Purged(queue) => [Some(*queue), None],
            Change::Sent(sent) => [Some(sent.queue), None],
            Change::Leased(leased) => [Some(leased.queue), None],
            Change::Extended(extended) => [Some(extended.queue), None],
            Change::DeadLettered(moved) => [Some(moved.from), Some(moved.to)],
            Change::Brought(brought) => [Some(brought.sent.queue), None],
            Change::Repeated { queue, .. }
            | Change::Withdrawn { queue, .. }
            | Change::Acked { queue, .. }
            | Change::Released { queue, .. }
            | Change::Dropped { queue, .. }
            | Change::Stayed { queue, .. }
            | Change::Redriven { queue, .. } => [Some(*queue), None],
            Change::TaskSet(_) | Change::DocumentSet { .. } => [None, None],
        }
    }
}
