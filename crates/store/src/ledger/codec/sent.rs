//! A message that was sent.

use bytes::Bytes;
use kew_core::{
    Content, DeduplicationId, Expiry, GroupId, MessageId, Origin, QueueId, Sequence, Text, Timestamp,
};

use super::content::put_content;
use super::pieces::{
    expiry_number, expiry_of, put_key, read_id, read_key, read_reason, reason_number, slice,
};
use super::stamp::Stamp;
use crate::ledger::change::Sent;
use crate::ledger::varint::{Reader, put, put_bytes, put_fields};

// Which optional fields a sent message's record has.
const LATER: u8 = 1;
const RANKED: u8 = 1 << 1;
const GROUPED: u8 = 1 << 2;
const DEDUPLICATED: u8 = 1 << 3;
const REMEMBERED: u8 = 1 << 4;
const MOVED: u8 = 1 << 5;
/// All of them: a record with another bit is damaged. A new one raises the store's version (`docs/storage-format.md`).
const KNOWN: u8 = LATER | RANKED | GROUPED | DEDUPLICATED | REMEMBERED | MOVED;

#[inline]
fn read_flags(from: &mut Reader<'_>) -> Option<u8> {
    from.byte().filter(|flags| flags & !KNOWN == 0)
}

pub(super) fn put_sent(out: &mut Vec<u8>, stamp: &Stamp, at: Timestamp, sent: &Sent<'_>) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(sent.visible_at != at, LATER)
        | flag(sent.rank != at, RANKED)
        | flag(sent.group.is_some(), GROUPED)
        | flag(sent.deduplication.is_some(), DEDUPLICATED)
        | flag(sent.identity.is_some(), REMEMBERED)
        | flag(sent.origin.is_some(), MOVED);
    put_fields(out, |fields| {
        stamp.begin(fields);
        fields.number(sent.queue.0);
        fields.number(sent.sequence.0);
        fields.bytes(sent.id.0);
        fields.byte(flags);
        fields.number(expiry_number(sent.expiry));
        if flags & LATER != 0 {
            fields.number(sent.visible_at.0);
        }
        if flags & RANKED != 0 {
            fields.number(sent.rank.0);
        }
    });
    if let Some(group) = sent.group {
        put_bytes(out, group.0.as_bytes());
    }
    if let Some(id) = sent.deduplication {
        put_bytes(out, id.0.as_bytes());
    }
    if let Some(identity) = sent.identity {
        out.extend_from_slice(&identity.to_le_bytes());
    }
    if let Some(origin) = sent.origin {
        put_key(out, &origin.queue);
        out.push(reason_number(origin.reason));
        put(out, origin.at.0);
    }
    put_content(out, sent.content);
}

/// A sent message's record before its content.
pub(super) struct SentHead {
    queue: QueueId,
    sequence: Sequence,
    id: MessageId,
    expiry: Expiry,
    visible_at: Timestamp,
    rank: Timestamp,
    group: Option<GroupId>,
    deduplication: Option<DeduplicationId>,
    identity: Option<u128>,
    origin: Option<Origin>,
}

/// The names in a sent message's record: id, group and deduplication id, which the ledger does not hold. The other
/// fields of [`SentHead`] are in its `Item`.
#[inline]
pub(super) fn read_sent_names(
    from: &mut Reader<'_>,
    record: &Bytes,
) -> Option<(MessageId, Option<GroupId>, Option<DeduplicationId>)> {
    from.skip()?;
    from.skip()?;
    let id = read_id(from)?;
    let flags = read_flags(from)?;
    from.skip()?;
    for later in [LATER, RANKED] {
        if flags & later != 0 {
            from.skip()?;
        }
    }
    let text = |from: &mut Reader<'_>| Text::from_utf8(slice(from, record)?);
    let group = if flags & GROUPED != 0 { Some(GroupId(text(from)?)) } else { None };
    let deduplication = if flags & DEDUPLICATED != 0 { Some(DeduplicationId(text(from)?)) } else { None };
    if flags & REMEMBERED != 0 {
        from.take(16)?;
    }
    if flags & MOVED != 0 {
        read_key(from)?;
        read_reason(from)?;
        from.skip()?;
    }
    Some((id, group, deduplication))
}

impl SentHead {
    pub(super) fn read(from: &mut Reader<'_>, record: &Bytes, at: Timestamp) -> Option<Self> {
        let (queue, sequence, id) = (QueueId(from.number()?), Sequence(from.number()?), read_id(from)?);
        let flags = read_flags(from)?;
        let expiry = expiry_of(from.number()?)?;
        let visible_at = if flags & LATER != 0 { Timestamp(from.number()?) } else { at };
        let rank = if flags & RANKED != 0 { Timestamp(from.number()?) } else { at };
        let text = |from: &mut Reader<'_>| Text::from_utf8(slice(from, record)?);
        let group = if flags & GROUPED != 0 { Some(GroupId(text(from)?)) } else { None };
        let deduplication = if flags & DEDUPLICATED != 0 { Some(DeduplicationId(text(from)?)) } else { None };
        let identity = if flags & REMEMBERED != 0 {
            Some(u128::from_le_bytes(from.take(16)?.try_into().ok()?))
        } else {
            None
        };
        let origin = if flags & MOVED != 0 {
            Some(Origin { queue: read_key(from)?, reason: read_reason(from)?, at: Timestamp(from.number()?) })
        } else {
            None
        };
        Some(Self { queue, sequence, id, expiry, visible_at, rank, group, deduplication, identity, origin })
    }

    pub(super) fn sent<'a>(&'a self, content: &'a Content) -> Sent<'a> {
        Sent {
            queue: self.queue,
            sequence: self.sequence,
            id: self.id,
            content,
            group: self.group.as_ref(),
            deduplication: self.deduplication.as_ref(),
            identity: self.identity,
            visible_at: self.visible_at,
            rank: self.rank,
            expiry: self.expiry,
            origin: self.origin.as_ref(),
        }
    }
}
