//! A message that came from another shard: where it was and what it keeps, then a record of it as if it were sent.

use bytes::Bytes;
use kew_core::{Content, QueueId, Sequence, Timestamp};

use super::pieces::{put_option, read_option};
use super::sent::{SentHead, put_sent};
use super::stamp::Stamp;
use crate::ledger::change::Brought;
use crate::ledger::varint::{Reader, put, put_fields};

pub(super) fn put_brought(out: &mut Vec<u8>, stamp: &Stamp, at: Timestamp, brought: &Brought<'_>) {
    put_fields(out, |fields| stamp.begin(fields));
    for number in [brought.from.0, brought.from_sequence.0, brought.sent_at.0, u64::from(brought.attempts)] {
        put(out, number);
    }
    put_option(out, brought.first_leased_at, |out, at| put(out, at.0));
    put_sent(out, stamp, at, &brought.sent);
}

/// Such a record before its content.
pub(super) struct BroughtHead {
    from: QueueId,
    from_sequence: Sequence,
    sent_at: Timestamp,
    attempts: u32,
    first_leased_at: Option<Timestamp>,
    sent: SentHead,
}

impl BroughtHead {
    pub(super) fn read(from: &mut Reader<'_>, record: &Bytes, at: Timestamp) -> Option<Self> {
        let (outbox, from_sequence) = (QueueId(from.number()?), Sequence(from.number()?));
        let (sent_at, attempts) = (Timestamp(from.number()?), u32::try_from(from.number()?).ok()?);
        let first_leased_at = read_option(from, |from| Some(Timestamp(from.number()?)))?;
        // The record of a send begins with the instant once more.
        from.skip()?;
        let sent = SentHead::read(from, record, at)?;
        Some(Self { from: outbox, from_sequence, sent_at, attempts, first_leased_at, sent })
    }

    /// Passes over what stands before the record of the send, and over the instant that begins that.
    pub(super) fn skip(from: &mut Reader<'_>) -> Option<()> {
        (0..4).try_for_each(|_| from.skip())?;
        read_option(from, Reader::skip)?;
        from.skip()
    }

    pub(super) fn brought<'a>(&'a self, content: &'a Content) -> Brought<'a> {
        Brought {
            sent: self.sent.sent(content),
            from: self.from,
            from_sequence: self.from_sequence,
            sent_at: self.sent_at,
            attempts: self.attempts,
            first_leased_at: self.first_leased_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use kew_core::{
        AccountId, DeduplicationId, Expiry, GroupId, MessageId, MoveReason, Origin, QueueKey, Text,
    };

    use super::*;
    use crate::ledger::change::{Change, Sent};
    use crate::ledger::codec::{Stamp, kind, read, read_content, write};
    use crate::ledger::shelf::{Made, Stored};

    #[test]
    fn message_of_another_shard_comes_back_from_its_record() {
        let content = Content { body: Bytes::from_static(b"body"), ..Content::default() };
        let origin = Origin {
            queue: QueueKey::new(AccountId(1), "r", "source"),
            reason: MoveReason::AttemptsExhausted,
            at: Timestamp(9),
        };
        let (group, deduplication) = (GroupId(Text::from("g")), DeduplicationId(Text::from("d")));
        let sent = Sent {
            queue: QueueId(300),
            sequence: Sequence(7),
            id: MessageId([3; 16]),
            content: &content,
            group: Some(&group),
            deduplication: Some(&deduplication),
            identity: None,
            visible_at: Timestamp::ZERO,
            rank: Timestamp(9),
            expiry: Expiry::After { seconds: 70 },
            origin: Some(&origin),
        };
        for first_leased_at in [None, Some(Timestamp(5))] {
            let brought = Brought {
                sent: sent.clone(),
                from: QueueId(17),
                from_sequence: Sequence(u64::MAX),
                sent_at: Timestamp(4),
                attempts: 3,
                first_leased_at,
            };
            let (mut out, change) = (Vec::new(), Change::Brought(brought));
            let made = Made { at: Timestamp(9), begins_step: true };
            write(&mut out, &mut Stamp::default(), made, &change);
            let record = Bytes::from(out);
            let again = read(kind::BROUGHT, &record, |_, change| format!("{change:?}"));
            assert_eq!(again, Some(format!("{:?}", Some(&change))));
            let stored = Stored {
                id: sent.id,
                content: content.clone(),
                group: Some(group.clone()),
                deduplication: Some(deduplication.clone()),
            };
            assert_eq!(read_content(kind::BROUGHT, record.clone()), Some(stored));
            for end in 0..record.len() {
                assert!(read(kind::BROUGHT, &record.slice(..end), |_, _| ()).is_none(), "cut at {end}");
            }
        }
    }
}
