//! A lease that was given another end, and perhaps its message another content.

use bytes::Bytes;
use kew_core::{Content, DeduplicationId, GroupId, MessageId, QueueId, Return, Sequence, Text, Timestamp};

use super::content::put_content;
use super::pieces::{put_option, read_id, read_option, read_return, return_number, slice};
use crate::ledger::change::{Extended, Rewritten};
use crate::ledger::varint::{Reader, put, put_bytes};

pub(super) fn put_extended(out: &mut Vec<u8>, extended: &Extended<'_>) {
    put(out, extended.queue.0);
    put(out, extended.sequence.0);
    put(out, extended.until.0);
    put_option(out, extended.nonce, |out, nonce| out.extend_from_slice(&nonce.to_le_bytes()));
    out.push(return_number(extended.returns));
    put_option(out, extended.content.as_ref(), |out, content| {
        out.extend_from_slice(&content.id.0);
        put_option(out, content.group, |out, group| put_bytes(out, group.0.as_bytes()));
        put_option(out, content.deduplication, |out, id| put_bytes(out, id.0.as_bytes()));
        put_content(out, content.content);
    });
}

/// What stands before a new content.
pub(super) struct RewrittenHead {
    pub(super) id: MessageId,
    pub(super) group: Option<GroupId>,
    pub(super) deduplication: Option<DeduplicationId>,
}

/// An extended lease's record before its new content, if it brings one.
pub(super) struct ExtendedHead {
    queue: QueueId,
    sequence: Sequence,
    until: Timestamp,
    nonce: Option<u64>,
    returns: Return,
    pub(super) content: Option<RewrittenHead>,
}

impl ExtendedHead {
    pub(super) fn read(from: &mut Reader<'_>, record: &Bytes) -> Option<Self> {
        let (queue, sequence, until) =
            (QueueId(from.number()?), Sequence(from.number()?), Timestamp(from.number()?));
        let nonce = read_option(from, |from| Some(u64::from_le_bytes(from.take(8)?.try_into().ok()?)))?;
        let returns = read_return(from)?;
        let content = read_option(from, |from| {
            let id = read_id(from)?;
            let group = read_option(from, |from| Some(GroupId(Text::from_utf8(slice(from, record)?)?)))?;
            let deduplication =
                read_option(from, |from| Some(DeduplicationId(Text::from_utf8(slice(from, record)?)?)))?;
            Some(RewrittenHead { id, group, deduplication })
        })?;
        Some(Self { queue, sequence, until, nonce, returns, content })
    }

    pub(super) fn extended<'a>(&'a self, content: Option<&'a Content>) -> Extended<'a> {
        Extended {
            queue: self.queue,
            sequence: self.sequence,
            until: self.until,
            nonce: self.nonce,
            returns: self.returns,
            content: self.content.as_ref().zip(content).map(|(head, content)| Rewritten {
                id: head.id,
                content,
                group: head.group.as_ref(),
                deduplication: head.deduplication.as_ref(),
            }),
        }
    }
}
