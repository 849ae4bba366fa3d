//! What a store answers: one outcome per command, with one entry per entry asked.

use crate::{LeaseToken, Message, MessageId, Sequence, Timestamp};

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

/// One page of a queue's messages, in the order of sends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The messages that are wanted; maybe none, though more follow.
    pub messages: Vec<Seen>,
    /// Where the next page begins; `None` when nothing follows.
    pub next: Option<Sequence>,
}

/// One message, as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The message.
    pub message: Message,
    /// A receipt that [`crate::ReceiptRule::Any`] accepts.
    pub token: LeaseToken,
    /// When the request arrived that took its running lease.
    pub leased_at: Option<Timestamp>,
    /// Whether its content could be read. Where not, id and body are empty and everything else holds.
    pub is_readable: bool,
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
