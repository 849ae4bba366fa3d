//! What happened to a message: answers "why was this redelivered?".
//!
//! Events are of one size and kept in a ring: the history is best effort, newest first to stay.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::{MessageId, QueueId, Sequence, Timestamp};

/// Who took a lease, in sixteen bytes: enough for a person to recognise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag(pub [u8; 16]);

impl Tag {
    /// The beginning of `text`, cut at a character's end.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(16);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; 16];
        for (slot, byte) in bytes.iter_mut().zip(text.bytes().take(end)) {
            *slot = byte;
        }
        Self(bytes)
    }

    /// The address of a client. Of a longer one the end: the beginning names the network, which many share.
    pub fn of_address(address: IpAddr) -> Self {
        const MARK: &str = "…";
        let text = match address.to_canonical() {
            IpAddr::V4(address) => return Self::of_ipv4(address),
            IpAddr::V6(address) => address.to_string(),
        };
        if text.len() <= 16 {
            return Self::new(&text);
        }
        let from = text.len() - (16 - MARK.len());
        Self::new(&format!("{MARK}{}", text.get(from..).unwrap_or_default()))
    }

    /// Written by hand: each receive does it, and formatting takes ten times as long.
    fn of_ipv4(address: Ipv4Addr) -> Self {
        let mut bytes = [0; 16];
        let mut slots = bytes.iter_mut();
        let mut put = |byte: u8| {
            if let Some(slot) = slots.next() {
                *slot = byte;
            }
        };
        for (number, octet) in address.octets().into_iter().enumerate() {
            if number > 0 {
                put(b'.');
            }
            if octet >= 100 {
                put(b'0' + octet / 100);
            }
            if octet >= 10 {
                put(b'0' + octet / 10 % 10);
            }
            put(b'0' + octet % 10);
        }
        Self(bytes)
    }

    /// How many of its bytes the text takes.
    pub fn len(&self) -> usize {
        self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len())
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text it holds.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.0.get(..self.len()).unwrap_or_default()).unwrap_or_default()
    }
}

/// What is known of a failure, in words. Messages that failed together share it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(Option<Arc<str>>);

impl Words {
    /// Maximum bytes of the text.
    pub const BYTES_MAX: usize = 120;

    /// The text, or its beginning and a mark that it goes on.
    pub fn new(text: &str) -> Self {
        const MARK: &str = "…";
        let text = text.trim();
        if text.is_empty() {
            return Self::default();
        }
        if text.len() <= Self::BYTES_MAX {
            return Self(Some(text.into()));
        }
        let end = text.floor_char_boundary(Self::BYTES_MAX - MARK.len());
        let beginning = text.get(..end).unwrap_or_default();
        Self(Some(format!("{beginning}{MARK}").into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Why the consumer of a message did not settle it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It asked for the message again.
    Retried,
    /// Its handler threw or crashed.
    Threw,
    /// It answered with this status.
    Status,
    /// It could not be reached.
    Unreachable,
    /// The server that held the lease for it is gone.
    OwnerGone,
    /// It did not answer within its time.
    TimedOut,
    /// What it answered is no answer.
    BadReply,
    /// It failed as often as its consumer allows, which put it into another queue and deleted it here: so dead letters
    /// of trigger hosts go.
    PutAside,
}

/// One thing that happened to one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// In which queue.
    pub queue: QueueId,
    /// To which message there.
    pub sequence: Sequence,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// Where the message went by this event, if it left its queue for another.
    pub fn moved_to(&self) -> Option<(QueueId, Sequence)> {
        match self.kind {
            EventKind::DeadLettered { to, sequence } | EventKind::Redriven { to, sequence } => {
                Some((to, sequence))
            }
            _ => None,
        }
    }

    /// The place that names a whole queue, where everything in it went because it was deleted.
    pub const WHOLE_QUEUE: Sequence = Sequence(u64::MAX);

    /// Whether a message at this place went by this event with everything else in its queue, if it was still there.
    pub fn purges(&self, queue: QueueId, sequence: Sequence) -> bool {
        self.kind == EventKind::Purged && self.queue == queue && sequence <= self.sequence
    }

    /// Whether by this event the queue was deleted, and not only what it held.
    pub fn deletes_queue(&self) -> bool {
        self.kind == EventKind::Purged && self.sequence == Self::WHOLE_QUEUE
    }

    /// Whether the message left its queue by this event.
    pub fn is_end(&self) -> bool {
        use EventKind::{Acked, DeadLettered, Dropped, Expired, Purged, Redriven};
        matches!(self.kind, Acked | Expired | Purged | Dropped | DeadLettered { .. } | Redriven { .. })
    }

    /// Where the message came from by this event, if it entered its queue from another.
    pub fn came_from(&self) -> Option<(QueueId, Sequence)> {
        match self.kind {
            EventKind::Arrived { from, sequence } => Some((from, sequence)),
            _ => None,
        }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// It was sent, to become visible then.
    Sent {
        /// Its name.
        id: MessageId,
        /// The end of its delay.
        visible_at: Timestamp,
    },
    /// It was leased.
    Leased {
        /// By whom.
        by: Tag,
        /// Until when.
        until: Timestamp,
        /// For the how-manieth time.
        attempts: u32,
    },
    /// Its lease ended by itself.
    Lapsed {
        /// When it may be leased again: later where the lease was taken with a delay for that.
        visible_at: Timestamp,
    },
    /// Its lease was given another end.
    Extended {
        /// The new end.
        until: Timestamp,
    },
    /// Its lease was given up.
    Released {
        /// When it may be leased again.
        visible_at: Timestamp,
    },
    /// Its consumer did not settle it: said before what becomes of it.
    Failed {
        /// Why.
        why: Failure,
        /// What is known beside that.
        detail: Words,
    },
    /// Its delay was ended early.
    Promoted,
    /// Its body was replaced.
    Rewritten,
    /// It was deleted by a receipt.
    Acked,
    /// Its time was over.
    Expired,
    /// Everything in the queue up to this place went: one event for all of it. [`Event::WHOLE_QUEUE`] is the queue's
    /// own end.
    Purged,
    /// It was leased too often and went to another queue.
    DeadLettered {
        /// To which.
        to: QueueId,
        /// As which message there.
        sequence: Sequence,
    },
    /// It came with the import that made this store. What happened before is not known here.
    Imported,
    /// It was leased too often and was deleted.
    Dropped,
    /// A move task or a person moved it.
    Redriven {
        /// To which queue.
        to: QueueId,
        /// As which message there.
        sequence: Sequence,
    },
    /// It came from another queue.
    Arrived {
        /// From which.
        from: QueueId,
        /// As which message there.
        sequence: Sequence,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_keeps_whole_characters() {
        assert_eq!(Tag::new("consumer").as_str(), "consumer");
        assert_eq!(Tag::new("0123456789abcdeé").as_str(), "0123456789abcde");
    }

    #[test]
    fn words_are_whole_up_to_their_bound_and_say_where_they_are_cut() {
        let whole = "x".repeat(120);
        assert_eq!(Words::new(&whole).as_str(), whole);
        assert_eq!(Words::new(&format!("{whole}x")).as_str(), format!("{}…", "x".repeat(117)));
        let cut = Words::new(&"é".repeat(100));
        assert_eq!(cut.as_str(), format!("{}…", "é".repeat(58)));
        assert!(Words::new(" \n").is_empty());
    }

    #[test]
    fn tag_of_a_long_address_keeps_its_end() {
        for (address, expected) in [
            ("127.0.0.1", "127.0.0.1"),
            ("255.255.255.255", "255.255.255.255"),
            ("0.10.100.9", "0.10.100.9"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8:85a3::8a2e:370:7334", "…8a2e:370:7334"),
        ] {
            let address = address.parse().expect("the test's addresses are addresses");
            assert_eq!(Tag::of_address(address).as_str(), expected);
        }
    }
}
