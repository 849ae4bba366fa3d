//! What a store answers: one outcome per command, with one entry per entry asked.

use crate::{Event, GroupId, LeaseToken, Message, MessageId, Sequence, Timestamp};

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
    /// When it expires.
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

/// Some of a queue's groups, in no particular order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupPage {
    /// The groups.
    pub groups: Vec<SeenGroup>,
    /// Where the next page begins; `None` when nothing follows.
    pub next: Option<u32>,
}

/// One group with messages in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenGroup {
    /// Its name.
    pub group: GroupId,
    /// Messages in it that are not leased.
    pub waiting: u64,
    /// On a FIFO queue: its first leased message, which locks it.
    pub lock: Option<GroupLock>,
}

/// What locks a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLock {
    /// The leased message.
    pub sequence: Sequence,
    /// Its name.
    pub id: MessageId,
    /// The end of its lease; `NEVER` while an owner keeps it.
    pub until: Timestamp,
}

/// The first send of a deduplication id: later ones repeat it until its window closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct First {
    /// The message.
    pub id: MessageId,
    /// Its place.
    pub sequence: Sequence,
    /// From then on the id may be sent again.
    pub until: Timestamp,
}

/// Some of what happened lately, the newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trail {
    /// The events.
    pub events: Vec<Event>,
    /// The number to go on before; `None` when no older event is remembered.
    pub next: Option<u64>,
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
