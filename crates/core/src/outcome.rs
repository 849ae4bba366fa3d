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
