//! Changes as bytes, for journals and checkpoints. `docs/storage-format.md` has every field in a table.
//!
//! Here is which record a change becomes, and which change a record was; what has fields of its own has a file of its
//! own, with its writer beside its reader. The body comes last in a record, so that a content is read back as a slice
//! of it.

mod brought;
mod content;
mod dead_lettered;
mod extended;
pub mod kind;
mod leased;
mod pieces;
mod queue;
mod sent;
mod stamp;
mod task;

use std::sync::Arc;

use bytes::{Buf, Bytes};
use kew_core::{AccountId, Content, QueueId, Sequence, Timestamp};

use super::change::Change;
use super::shelf::{Made, Stored};
use super::varint::{Reader, put, put_bytes, put_fields};
use brought::{BroughtHead, put_brought};
use content::{read_content_head, read_content_parts};
use dead_lettered::{put_dead_lettered, read_dead_lettered};
use extended::{ExtendedHead, put_extended};
use leased::{LeasedParts, put_leased};
use pieces::{put_steps, read_flag, slice};
use sent::{SentHead, put_sent, read_sent_names};
use stamp::read_made;

pub use kind::kind_of;
pub(super) use pieces::{
    expiry_number, expiry_of, put_document_key, put_key, put_option, put_sequences, read_document_key,
    read_key, read_option, read_reason, read_return, read_sequences, reason_number, return_number,
};
pub(super) use queue::{put_queue, read_queue};
pub use stamp::Stamp;
pub(super) use task::{put_task, read_task};

/// Writes a change. `stamp` is what the last one left.
pub fn write(out: &mut Vec<u8>, stamp: &mut Stamp, made: Made, change: &Change<'_>) {
    stamp.set(made);
    match change {
        Change::Sent(sent) => put_sent(out, stamp, made.at, sent),
        Change::Leased(leased) => put_leased(out, stamp, made.at, leased),
        Change::Brought(brought) => put_brought(out, stamp, made.at, brought),
        Change::Withdrawn { queue, sequences } | Change::Acked { queue, sequences } => {
            put_settled(out, stamp, *queue, sequences);
        }
        _ => {
            put_fields(out, |fields| stamp.begin(fields));
            put_plain(out, change);
        }
    }
}

/// Writes a change that is not made for every message.
fn put_plain(out: &mut Vec<u8>, change: &Change<'_>) {
    match change {
        Change::Sent(_)
        | Change::Brought(_)
        | Change::Leased(_)
        | Change::Withdrawn { .. }
        | Change::Acked { .. } => {}
        Change::QueueSet(queue) => put_queue(out, queue),
        Change::QueueDeleted(queue) | Change::Purged(queue) => put(out, queue.0),
        Change::Repeated { queue, until, sequences } => {
            put(out, queue.0);
            put(out, until.0);
            put_sequences(out, sequences);
        }
        Change::Extended(extended) => put_extended(out, extended),
        Change::Released { queue, sequence, visible_at } => {
            put(out, queue.0);
            put(out, sequence.0);
            put(out, visible_at.0);
        }
        Change::DeadLettered(moved) => put_dead_lettered(out, moved),
        Change::Dropped { queue, sequence, due } => {
            put(out, queue.0);
            put(out, sequence.0);
            out.push(u8::from(*due));
        }
        Change::Stayed { queue, sequence } => {
            put(out, queue.0);
            put(out, sequence.0);
        }
        Change::Redriven { queue, sequence, to, as_sequence } => {
            for number in [queue.0, sequence.0, to.0, as_sequence.0] {
                put(out, number);
            }
        }
        Change::TaskSet(task) => put_task(out, task),
        Change::DocumentSet { account, key, bytes } => {
            put(out, account.0);
            put_document_key(out, key);
            put_option(out, bytes.as_ref(), |out, bytes| put_bytes(out, bytes));
        }
    }
}

/// Messages that were deleted by receipt, or whose leases were undone.
fn put_settled(out: &mut Vec<u8>, stamp: &Stamp, queue: QueueId, sequences: &[Sequence]) {
    let first = sequences.first();
    put_fields(out, |fields| {
        stamp.begin(fields);
        fields.number(queue.0);
        fields.number(sequences.len() as u64);
        if let Some(first) = first {
            fields.signed(first.0.cast_signed());
        }
    });
    put_steps(out, first, sequences.get(1..).unwrap_or_default());
}

/// Reads a record and shows the change to `see`. `None` when the bytes are not one.
pub fn read<T>(kind: u8, record: &Bytes, see: impl FnOnce(Made, Option<&Change<'_>>) -> T) -> Option<T> {
    let mut from = Reader::new(record);
    let made = read_made(&mut from)?;
    let at = made.at;
    let mut see = Some(see);
    let mut done = |from: &Reader<'_>, change: Option<&Change<'_>>| -> Option<T> {
        if !from.is_empty() {
            return None;
        }
        Some(see.take()?(made, change))
    };
    match kind {
        kind::TICK => done(&from, None),
        kind::SENT => {
            let head = SentHead::read(&mut from, record, at)?;
            let content = read_content_parts(&mut from, record)?;
            done(&from, Some(&Change::Sent(head.sent(&content))))
        }
        kind::BROUGHT => {
            let head = BroughtHead::read(&mut from, record, at)?;
            let content = read_content_parts(&mut from, record)?;
            done(&from, Some(&Change::Brought(head.brought(&content))))
        }
        kind::EXTENDED => {
            let head = ExtendedHead::read(&mut from, record)?;
            let content = match &head.content {
                Some(_) => Some(read_content_parts(&mut from, record)?),
                None => None,
            };
            done(&from, Some(&Change::Extended(head.extended(content.as_ref()))))
        }
        kind::LEASED => {
            let parts = LeasedParts::read(&mut from, record, at)?;
            done(&from, Some(&Change::Leased(parts.leased())))
        }
        kind::REPEATED => {
            let (queue, until) = (QueueId(from.number()?), Timestamp(from.number()?));
            let sequences = read_sequences(&mut from)?;
            done(&from, Some(&Change::Repeated { queue, until, sequences: &sequences }))
        }
        kind::WITHDRAWN | kind::ACKED => {
            let (queue, sequences) = (QueueId(from.number()?), read_sequences(&mut from)?);
            done(&from, Some(&settled(kind, queue, &sequences)))
        }
        _ => {
            let change = read_plain(kind, &mut from, record)?;
            done(&from, Some(&change))
        }
    }
}

/// What [`put_settled`] wrote.
fn settled(kind: u8, queue: QueueId, sequences: &[Sequence]) -> Change<'_> {
    if kind == kind::ACKED {
        Change::Acked { queue, sequences }
    } else {
        Change::Withdrawn { queue, sequences }
    }
}

fn read_plain(kind: u8, from: &mut Reader<'_>, record: &Bytes) -> Option<Change<'static>> {
    let change = match kind {
        kind::QUEUE_SET => Change::QueueSet(Arc::new(read_queue(from, record)?)),
        kind::QUEUE_DELETED => Change::QueueDeleted(QueueId(from.number()?)),
        kind::PURGED => Change::Purged(QueueId(from.number()?)),
        kind::RELEASED => Change::Released {
            queue: QueueId(from.number()?),
            sequence: Sequence(from.number()?),
            visible_at: Timestamp(from.number()?),
        },
        kind::DEAD_LETTERED => Change::DeadLettered(read_dead_lettered(from, record)?),
        kind::DROPPED => Change::Dropped {
            queue: QueueId(from.number()?),
            sequence: Sequence(from.number()?),
            due: read_flag(from)?,
        },
        kind::STAYED => Change::Stayed { queue: QueueId(from.number()?), sequence: Sequence(from.number()?) },
        kind::REDRIVEN => Change::Redriven {
            queue: QueueId(from.number()?),
            sequence: Sequence(from.number()?),
            to: QueueId(from.number()?),
            as_sequence: Sequence(from.number()?),
        },
        kind::TASK_SET => Change::TaskSet(Arc::new(read_task(from)?)),
        kind::DOCUMENT_SET => Change::DocumentSet {
            account: AccountId(from.number()?),
            key: read_document_key(from)?,
            bytes: read_option(from, |from| slice(from, record).map(|bytes| Bytes::copy_from_slice(&bytes)))?,
        },
        _ => return None,
    };
    Some(change)
}

/// Reads the content a record brings; `None` when it brings none. The body takes the record over: it is its end.
pub fn read_content(kind: u8, mut record: Bytes) -> Option<Stored> {
    let mut from = Reader::new(&record);
    from.skip()?;
    let (id, group, deduplication) = match kind {
        kind::SENT => read_sent_names(&mut from, &record)?,
        kind::BROUGHT => {
            BroughtHead::skip(&mut from)?;
            read_sent_names(&mut from, &record)?
        }
        kind::EXTENDED => {
            let head = ExtendedHead::read(&mut from, &record)?.content?;
            (head.id, head.group, head.deduplication)
        }
        _ => return None,
    };
    let (content_type, annotations) = read_content_head(&mut from, &record)?;
    let body = from.bytes()?.len();
    if !from.is_empty() {
        return None;
    }
    record.advance(record.len() - body);
    Some(Stored { id, content: Content { content_type, annotations, body: record }, group, deduplication })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kew_core::event::Tag;
    use kew_core::{ContentType, DeduplicationId, Expiry, GroupId, MessageId, OwnerId, Return, Text};

    use super::*;
    use crate::ledger::change::{Leased, Sent};

    const MAX: u64 = u64::MAX;

    fn round(made: Made, change: &Change<'_>) {
        let mut out = Vec::new();
        let mut stamp = Stamp::default();
        write(&mut out, &mut stamp, Made { at: Timestamp(1), ..made }, &Change::Purged(QueueId(1)));
        out.clear();
        write(&mut out, &mut stamp, made, change);
        let read = read(kind_of(change), &Bytes::from(out), |made, change| format!("{made:?} {change:?}"));
        assert_eq!(read, Some(format!("{made:?} {:?}", Some(change))));
    }

    fn bytes_of(change: &Change<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, &mut Stamp::default(), Made { at: Timestamp(1), begins_step: true }, change);
        out
    }

    fn is_read(kind: u8, bytes: &[u8]) -> bool {
        read(kind, &Bytes::copy_from_slice(bytes), |_, _| ()).is_some()
    }

    #[test]
    fn flags_that_no_program_writes_are_damage() {
        let content = Content::default();
        let sent = Sent {
            queue: QueueId(1),
            sequence: Sequence(1),
            id: MessageId([9; 16]),
            content: &content,
            group: None,
            deduplication: None,
            identity: None,
            visible_at: Timestamp(1),
            rank: Timestamp(1),
            expiry: Expiry::ByQueue,
            origin: None,
        };
        let bytes = bytes_of(&Change::Sent(sent));
        let flags = 3 + 16;
        assert_eq!(bytes[flags - 1..=flags], [9, 0], "flags stand behind the id");
        assert!(is_read(kind::SENT, &bytes) && read_content(kind::SENT, bytes.clone().into()).is_some());
        for bit in [6, 7] {
            let mut bytes = bytes.clone();
            bytes[flags] |= 1 << bit;
            let new = "where it has a meaning now, it leaves this list and STORE_VERSION is raised";
            assert!(!is_read(kind::SENT, &bytes), "bit {bit}: {new}");
            assert!(read_content(kind::SENT, bytes.into()).is_none(), "bit {bit}");
        }
        let mut bytes = bytes_of(&Change::Dropped { queue: QueueId(1), sequence: Sequence(1), due: true });
        assert!(is_read(kind::DROPPED, &bytes));
        *bytes.last_mut().expect("a record is not empty") = 2;
        assert!(!is_read(kind::DROPPED, &bytes));
    }

    #[test]
    fn a_message_that_stayed_is_a_record_of_two_numbers() {
        let stayed = Change::Stayed { queue: QueueId(300), sequence: Sequence(MAX) };
        for begins_step in [false, true] {
            round(Made { at: Timestamp(7), begins_step }, &stayed);
        }
        let bytes = bytes_of(&stayed);
        assert!(!is_read(kind::STAYED, &bytes[..bytes.len() - 1]));
    }

    #[test]
    fn longest_records_fit_the_room_of_their_fields_and_come_back() {
        let (body, text) = (Bytes::from(vec![7; 300]), Text::from("x".repeat(200)));
        let content = Content { content_type: ContentType::V8, body, annotations: Bytes::from_static(b"a") };
        let taken: Vec<(Sequence, u64)> = (0..11).map(|place| (Sequence(MAX / (place + 1)), MAX)).collect();
        let sequences: Vec<Sequence> = taken.iter().map(|(sequence, _)| *sequence).collect();
        let millis_max = Duration::from_millis(MAX);
        for (begins_step, at) in [(true, Timestamp(1)), (false, Timestamp(MAX >> 1))] {
            let made = Made { at, begins_step };
            let sent = Sent {
                queue: QueueId(MAX),
                sequence: Sequence(MAX),
                id: MessageId([255; 16]),
                content: &content,
                group: Some(&GroupId(text.clone())),
                deduplication: Some(&DeduplicationId(text.clone())),
                identity: Some(u128::MAX),
                visible_at: Timestamp(MAX),
                rank: Timestamp(MAX - 1),
                expiry: Expiry::After { seconds: u32::MAX - 1 },
                origin: None,
            };
            round(made, &Change::Sent(sent.clone()));
            round(made, &Change::Sent(Sent { group: None, deduplication: None, identity: None, ..sent }));
            let leased = Leased {
                queue: QueueId(MAX),
                until: Timestamp(MAX),
                received_at: Timestamp(MAX),
                cap: Some(millis_max),
                lapse_delay: millis_max,
                returns: Return::Behind,
                owner: Some(OwnerId(MAX)),
                attempt: Some(&text),
                by: Tag([b'x'; 16]),
                taken: &taken,
            };
            round(made, &Change::Leased(leased.clone()));
            let farthest = [(Sequence(1 << 63), MAX)];
            round(made, &Change::Leased(Leased { taken: &farthest, attempt: None, ..leased }));
            for sequences in [&sequences[..], &sequences[..1], &[]] {
                round(made, &Change::Acked { queue: QueueId(MAX), sequences });
            }
        }
    }
}
