//! The forms of ids, instants, keys, texts and receipts.

use kew_core::event::{Tag, Words};
use kew_core::{
    AccountId, DeduplicationId, DocumentKey, GroupId, LeaseToken, MessageId, OwnerId, QueueId, QueueKey,
    Sequence, ShardId, TaskId, Text, Timestamp,
};

use super::forms::{field, records, wrappers};
use super::{Fault, In, Out, Wire, WireError};

wrappers! { ShardId QueueId Sequence TaskId OwnerId AccountId GroupId DeduplicationId }

records! {
    QueueKey { account, region, name }
    DocumentKey { owner, key }
}

/// The milliseconds and one more, so that [`Timestamp::NEVER`] is a single byte.
impl Wire for Timestamp {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.number(self.0.wrapping_add(1));
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        Ok(Self(from.number()?.wrapping_sub(1)))
    }
}

impl Wire for MessageId {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.fixed(self.0);
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.fixed().map(Self)
    }
}

/// Its bytes up to the last one that is not 0.
impl Wire for Tag {
    #[inline]
    fn put(&self, out: &mut Out) {
        let used = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.bytes(self.0.get(..used).unwrap_or_default());
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let bytes = from.bytes()?;
        let mut tag = Self::default();
        match tag.0.get_mut(..bytes.len()) {
            Some(used) => used.copy_from_slice(bytes),
            None => return Err(WireError::new("Tag", Fault::TooLarge { number: bytes.len() as u64 })),
        }
        Ok(tag)
    }
}

/// Its text.
impl Wire for Words {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.bytes(self.as_str().as_bytes());
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let text = std::str::from_utf8(from.bytes()?).map_err(|_| WireError::from(Fault::NotText))?;
        if text.len() > Self::BYTES_MAX {
            return Err(WireError::new("Words", Fault::TooLarge { number: text.len() as u64 }));
        }
        Ok(Self::new(text))
    }
}

/// A slice of the frame. The ledger copies the texts that it keeps.
impl Wire for Text {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.bytes(self.as_bytes());
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        Self::from_utf8(from.slice()?).ok_or_else(|| Fault::NotText.into())
    }
}

/// The nonce and the seal are chance: they have all their bytes.
impl Wire for LeaseToken {
    #[inline]
    fn put(&self, out: &mut Out) {
        let Self { queue, sequence, nonce, mac } = *self;
        queue.put(out);
        sequence.put(out);
        out.fixed(nonce.to_be_bytes());
        out.fixed(mac.to_be_bytes());
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        Ok(Self {
            queue: field(from, "LeaseToken.queue")?,
            sequence: field(from, "LeaseToken.sequence")?,
            nonce: from.fixed().map(u64::from_be_bytes).map_err(|error| error.at("LeaseToken.nonce"))?,
            mac: from.fixed().map(u128::from_be_bytes).map_err(|error| error.at("LeaseToken.mac"))?,
        })
    }
}
