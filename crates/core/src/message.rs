//! A message as it is sent, and as it is seen.

use bytes::Bytes;

use crate::{DeduplicationId, GroupId, MessageId, QueueId, QueueKey, Return, Sequence, Timestamp};
use std::time::Duration;

/// How a receiver has to decode a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ContentType {
    /// Plain text.
    #[default]
    Text,
    /// A JSON value.
    Json,
    /// Raw bytes.
    Bytes,
    /// A serialised JavaScript value.
    V8,
}

/// What a message carries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// How to read the body.
    pub content_type: ContentType,
    /// The body, byte for byte.
    pub body: Bytes,
    /// What a front-end wants back with the message. No law looks inside but at the first byte ([`Self::noted`]): no
    /// front-end's own begin with `R`.
    pub annotations: Bytes,
}

impl Content {
    /// The body as text, where its type says that it is text, and it is.
    #[inline]
    pub fn text(&self) -> Option<&str> {
        match self.content_type {
            ContentType::Text | ContentType::Json => std::str::from_utf8(&self.body).ok(),
            ContentType::Bytes | ContentType::V8 => None,
        }
    }

    /// This content in the place of an old one. Where it has no annotations, those of the old one stay, as
    /// [`Content::noted`] says: who changes a text need not know what another front-end wrote beside it.
    #[must_use]
    pub fn in_place_of(&self, old: &Self) -> Self {
        let annotations = match (self.annotations.is_empty(), old.annotations.first()) {
            (false, _) => self.annotations.clone(),
            (true, None | Some(&OF_OLD_BODY)) => old.annotations.clone(),
            (true, Some(_)) => [&[OF_OLD_BODY], &old.annotations[..]].concat().into(),
        };
        Self { annotations, ..self.clone() }
    }

    /// The annotations as a front-end wrote them, and whether it wrote them beside this body.
    #[inline]
    pub fn noted(&self) -> (&[u8], bool) {
        match &*self.annotations {
            [OF_OLD_BODY, noted @ ..] => (noted, false),
            noted => (noted, true),
        }
    }
}

/// The first byte of annotations that were written beside a body which another one replaced. What follows is as it was.
/// It is reserved: those of no front-end begin with it.
const OF_OLD_BODY: u8 = b'R';

/// When a message expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expiry {
    /// With the queue's retention, whatever it is when it matters.
    #[default]
    ByQueue,
    /// This number of whole seconds after it was sent, whatever the queue's delay is. Below `u32::MAX`.
    After {
        /// The message's own time to live.
        seconds: u32,
    },
    /// Never.
    Never,
}

/// A message on its way in.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Its id, made by the caller.
    pub id: MessageId,
    /// What it carries.
    pub content: Content,
    /// Its group: required on FIFO queues, a fair-dispatch tenant on standard ones.
    pub group: Option<GroupId>,
    /// The sender's own word for "the same send" (FIFO).
    pub deduplication: Option<DeduplicationId>,
    /// A hash of the body to use instead, where the queue allows it (FIFO).
    pub content_hash: Option<DeduplicationId>,
    /// How long to hide it first; `None` means the queue's delay.
    pub delay: Option<Duration>,
    /// Where it takes its place once the delay has ended.
    pub returns: Return,
    /// When it expires.
    pub expiry: Expiry,
}

impl NewMessage {
    /// A plain text message with nothing special about it.
    pub fn text(id: MessageId, body: impl Into<Bytes>) -> Self {
        Self {
            id,
            content: Content { body: body.into(), ..Content::default() },
            group: None,
            deduplication: None,
            content_hash: None,
            delay: None,
            returns: Return::InPlace,
            expiry: Expiry::ByQueue,
        }
    }
}

/// Why a message came from another queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveReason {
    /// It was leased as often as its queue allows.
    AttemptsExhausted,
    /// A move task or a person took it back.
    Redriven,
}

/// Where a moved message came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The queue it was in.
    pub queue: QueueKey,
    /// Why it left.
    pub reason: MoveReason,
    /// When it left.
    pub at: Timestamp,
}

/// What a stored message is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// May be leased now.
    Ready,
    /// Hidden by a delay until that instant.
    Delayed {
        /// The first instant it may be leased.
        until: Timestamp,
    },
    /// Leased until that instant; `NEVER` while an owner holds it.
    Leased {
        /// The first instant it may be leased again.
        until: Timestamp,
    },
}

/// A stored message, as a lease or a look shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The queue it is in.
    pub queue: QueueId,
    /// Its place in that queue's sends.
    pub sequence: Sequence,
    /// Its id.
    pub id: MessageId,
    /// What it carries.
    pub content: Content,
    /// Its group.
    pub group: Option<GroupId>,
    /// The id it was deduplicated by.
    pub deduplication: Option<DeduplicationId>,
    /// When it was sent: what retention counts from.
    pub sent_at: Timestamp,
    /// When it expires; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// How often it was leased.
    pub attempts: u32,
    /// When it was first leased.
    pub first_leased_at: Option<Timestamp>,
    /// Where it came from, when it was moved.
    pub origin: Option<Origin>,
    /// What it is doing.
    pub state: State,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_stay_marked_once_until_a_body_brings_its_own() {
        let content =
            |annotations: &'static str| Content { annotations: annotations.into(), ..Content::default() };
        for (new, old, kept, noted) in [
            ("", "", "", ("", true)),
            ("", "old", "Rold", ("old", false)),
            ("", "Rold", "Rold", ("old", false)),
            ("new", "old", "new", ("new", true)),
            ("new", "Rold", "new", ("new", true)),
        ] {
            let found = Content { body: "b".into(), ..content(new) }.in_place_of(&content(old));
            assert_eq!((found.body.clone(), found.annotations.clone()), ("b".into(), kept.into()));
            assert_eq!(found.noted(), (noted.0.as_bytes(), noted.1));
        }
    }
}
