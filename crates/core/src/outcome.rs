//! What a store answers: one outcome per command, with one entry per entry asked.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Counts, DocumentKey, Event, LeaseToken, Message, MessageId, MoveTask, Queue, RuleError, Sequence,
    Timestamp,
};

/// The answer to a [`crate::Command`] of the same place.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// The queue as it is now (create, update).
    Queue(Arc<Queue>),
    /// The queue and its messages are deleted.
    QueueDeleted {
        /// Messages that went with it.
        messages: u64,
    },
    /// One entry per message sent.
    Sent(Vec<Sent>),
    /// The messages claimed; maybe none.
    Leased(Vec<Leased>),
    /// Number of leases that were undone.
    Withdrawn(u32),
    /// One entry per receipt.
    Acked(Vec<Result<(), RuleError>>),
    /// One entry per extension.
    Extended(Vec<Result<Extended, RuleError>>),
    /// One entry per release: when the message shows again.
    Released(Vec<Result<Timestamp, RuleError>>),
    /// The messages seen, each with a receipt that [`crate::ReceiptRule::Any`] accepts.
    Peeked(Vec<(Message, LeaseToken)>),
    /// The name of the message a receipt is of.
    Identified(MessageId),
    /// Number of messages that were deleted.
    Purged(u64),
    /// The figures.
    Counts(Counts),
    /// The task as it is now (start, continue, cancel).
    Move(Arc<MoveTask>),
    /// Tasks, newest first.
    Moves(Vec<Arc<MoveTask>>),
    /// One entry per message chosen.
    MovedChosen(Vec<Result<Sequence, RuleError>>),
    /// All queues.
    Queues(Vec<Arc<Queue>>),
    /// An account's documents.
    Documents(Vec<(DocumentKey, Bytes)>),
    /// What happened, oldest first.
    History(Vec<Event>),
    /// Done; nothing to say.
    Done,
}

/// One message accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its name; of a duplicate, the first one's.
    pub id: MessageId,
    /// Its place; of a duplicate, the first one's.
    pub sequence: Sequence,
    /// When it was sent: now, also for a duplicate.
    pub sent_at: Timestamp,
    /// When it shows.
    pub visible_at: Timestamp,
    /// When it dies.
    pub expires_at: Option<Timestamp>,
    /// Its first receipt, where the send asked for it.
    pub token: Option<LeaseToken>,
    /// Whether the same send was accepted before, so that this one adds nothing.
    pub duplicate: bool,
}

/// One message claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leased {
    /// The message, attempts already counted.
    pub message: Message,
    /// Its receipt.
    pub token: LeaseToken,
    /// The end of the lease; `NEVER` while an owner keeps it.
    pub until: Timestamp,
}

/// One lease given another end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    /// It ends then; the token is the receipt to use from now on.
    Until {
        /// The end.
        until: Timestamp,
        /// The receipt.
        token: LeaseToken,
    },
    /// No lease was running and the caller wanted nothing done then.
    Free,
}
