//! Names and numbers that tell one thing from another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A queue's number inside one store. Never reused, so a token of a deleted queue names nothing. It says which shard
/// the queue is in ([`crate::ShardCount::of_queue`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QueueId(pub u64);

/// A message's place in the order of sends of its queue, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl From<Sequence> for u64 {
    fn from(sequence: Sequence) -> Self {
        sequence.0
    }
}

/// A move task's number inside one store. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TaskId(pub u64);

/// Who holds a lease without an end: one start of one server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OwnerId(pub u64);

/// An account, by its twelve-digit number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AccountId(pub u64);

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}

/// Sixteen bytes that name one message everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId(pub [u8; 16]);

impl MessageId {
    /// A random (version 4) id from sixteen bytes of chance.
    pub fn from_chance(bits: u128) -> Self {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A short immutable text that is cheap to clone and may be a slice of a larger buffer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text {
    /// Always valid UTF-8.
    bytes: Bytes,
}

impl Text {
    /// The text in `bytes`, or `None` when they are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Option<Self> {
        std::str::from_utf8(&bytes).ok()?;
        Some(Self { bytes })
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    /// Its UTF-8 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A copy that shares no memory with a larger buffer.
    pub fn detached(&self) -> Self {
        Self { bytes: Bytes::copy_from_slice(&self.bytes) }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self { bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { bytes: Bytes::from(text) }
    }
}

impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// A FIFO message's group, or a standard message's fair-dispatch tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub Text);

/// What makes two sends the same send.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeduplicationId(pub Text);

/// The full name of a queue: rules name their targets by it, resolved when they act.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueKey {
    /// Whose queue.
    pub account: AccountId,
    /// In which region.
    pub region: Arc<str>,
    /// Under which name.
    pub name: Arc<str>,
}

impl QueueKey {
    /// The key of `name` in `region` of `account`.
    pub fn new(account: AccountId, region: &str, name: &str) -> Self {
        Self { account, region: region.into(), name: name.into() }
    }
}

/// Whether a text can be a region: it becomes part of a queue's name for ever.
pub fn is_region(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.account, self.region, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_id_reads_as_a_version_four_uuid() {
        assert_eq!(MessageId::from_chance(0).to_string(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(MessageId::from_chance(u128::MAX).to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn account_shows_twelve_digits() {
        assert_eq!(AccountId(0).to_string(), "000000000000");
        assert_eq!(AccountId(123).to_string(), "000000000123");
    }

    #[test]
    fn text_refuses_what_is_not_utf8() {
        assert!(Text::from_utf8(Bytes::from_static(&[0xff])).is_none());
        assert_eq!(Text::from("é").as_str(), "é");
    }

    #[test]
    fn regions_are_short_words() {
        for (text, legal) in
            [("us-east-1", true), ("local", true), ("", false), ("<b>", false), (&"r".repeat(33), false)]
        {
            assert_eq!(is_region(text), legal, "{text}");
        }
    }
}
