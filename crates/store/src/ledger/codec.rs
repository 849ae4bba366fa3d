//! Changes as bytes, for journals and checkpoints. `docs/storage-format.md` has every field in a table.
//!
//! The body comes last in a record, so that a content is read back as a slice of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use kew_core::event::Tag;
use kew_core::time::millis;
use kew_core::{
    AccountId, Carries, Content, ContentType, DeadLetterAction, DeadLetterRule, DeduplicationId,
    DeduplicationScope, DocumentKey, GroupId, MessageId, MoveReason, MoveTask, Origin, OwnerId, Policy,
    Queue, QueueId, QueueKey, QueueKind, Return, Sequence, TaskFailure, TaskId, TaskState, Text, Timestamp,
};

use super::block::{expiry_number, expiry_of};
use super::change::{Change, DeadLettered, Extended, Leased, Rewritten, Sent};
use super::shelf::{Address, Made, Place, Stored};
use super::varint::{Fields, Reader, put, put_bytes, put_fields, put_signed};

/// The kinds of record, as the byte in a frame's header.
pub mod kind {
    /// [`super::Change::QueueSet`]
    pub const QUEUE_SET: u8 = 1;
    /// [`super::Change::QueueDeleted`]
    pub const QUEUE_DELETED: u8 = 2;
    /// [`super::Change::Sent`]
    pub const SENT: u8 = 3;
    /// [`super::Change::Leased`]
    pub const LEASED: u8 = 4;
    /// [`super::Change::Repeated`]
    pub const REPEATED: u8 = 5;
    /// [`super::Change::Withdrawn`]
    pub const WITHDRAWN: u8 = 6;
    /// [`super::Change::Acked`]
    pub const ACKED: u8 = 7;
    /// [`super::Change::Extended`]
    pub const EXTENDED: u8 = 8;
    /// [`super::Change::Released`]
    pub const RELEASED: u8 = 9;
    /// [`super::Change::DeadLettered`]
    pub const DEAD_LETTERED: u8 = 10;
    /// [`super::Change::Dropped`]
    pub const DROPPED: u8 = 11;
    /// [`super::Change::Redriven`]
    pub const REDRIVEN: u8 = 12;
    /// [`super::Change::Purged`]
    pub const PURGED: u8 = 13;
    /// [`super::Change::TaskSet`]
    pub const TASK_SET: u8 = 14;
    /// [`super::Change::DocumentSet`]
    pub const DOCUMENT_SET: u8 = 15;
    /// The time, for a journal that had nothing else to say.
    pub const TICK: u8 = 16;
}

/// The kind of a change's record.
pub fn kind_of(change: &Change<'_>) -> u8 {
    match change {
        Change::QueueSet(_) => kind::QUEUE_SET,
        Change::QueueDeleted(_) => kind::QUEUE_DELETED,
        Change::Sent(_) => kind::SENT,
        Change::Leased(_) => kind::LEASED,
        Change::Repeated { .. } => kind::REPEATED,
        Change::Withdrawn { .. } => kind::WITHDRAWN,
        Change::Acked { .. } => kind::ACKED,
        Change::Extended(_) => kind::EXTENDED,
        Change::Released { .. } => kind::RELEASED,
        Change::DeadLettered(_) => kind::DEAD_LETTERED,
        Change::Dropped { .. } => kind::DROPPED,
        Change::Redriven { .. } => kind::REDRIVEN,
        Change::Purged(_) => kind::PURGED,
        Change::TaskSet(_) => kind::TASK_SET,
        Change::DocumentSet { .. } => kind::DOCUMENT_SET,
    }
}

/// Whether an answer that rests on this change must wait until it is synced. Leases need only be written: a power cut
/// may forget them, and the messages are offered again.
pub fn must_sync(change: &Change<'_>) -> bool {
    match change {
        Change::Leased(_) | Change::Repeated { .. } | Change::Withdrawn { .. } | Change::Released { .. } => {
            false
        }
        Change::Extended(extended) => extended.content.is_some(),
        Change::QueueSet(_)
        | Change::QueueDeleted(_)
        | Change::Sent(_)
        | Change::Acked { .. }
        | Change::DeadLettered(_)
        | Change::Dropped { .. }
        | Change::Redriven { .. }
        | Change::Purged(_)
        | Change::TaskSet(_)
        | Change::DocumentSet { .. } => true,
    }
}

/// Whether a change's record holds a message's content, which is read back from it ([`read_content`]).
pub fn holds_content(change: &Change<'_>) -> bool {
    match change {
        Change::Sent(_) => true,
        Change::Extended(extended) => extended.content.is_some(),
        _ => false,
    }
}

/// When a change was made, as its record begins: most records begin like the one before.
#[derive(Clone, Default, Debug)]
pub struct Stamp {
    number: u64,
    bytes: [u8; 10],
    length: usize,
}

impl Stamp {
    #[inline]
    fn set(&mut self, made: Made) {
        let number = made.at.0 << 1 | u64::from(made.begins_step);
        if number != self.number || self.length == 0 {
            let mut bytes = Vec::with_capacity(16);
            put(&mut bytes, number);
            self.number = number;
            self.length = bytes.len();
            bytes.resize(self.bytes.len(), 0);
            self.bytes.copy_from_slice(&bytes);
        }
    }
}

/// Writes a change. `stamp` is what the last one left.
pub fn write(out: &mut Vec<u8>, stamp: &mut Stamp, made: Made, change: &Change<'_>) {
    stamp.set(made);
    match change {
        Change::Sent(sent) => put_sent(out, stamp, made.at, sent),
        Change::Leased(leased) => put_leased(out, stamp, made.at, leased),
        Change::Withdrawn { queue, sequences } | Change::Acked { queue, sequences } => {
            put_settled(out, stamp, *queue, sequences);
        }
        _ => {
            put_fields(out, |fields| fields.beginning(stamp.bytes, stamp.length));
            put_plain(out, change);
        }
    }
}

/// Writes a change that is not made for every message.
fn put_plain(out: &mut Vec<u8>, change: &Change<'_>) {
    match change {
        Change::Sent(_) | Change::Leased(_) | Change::Withdrawn { .. } | Change::Acked { .. } => {}
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
            let queue = QueueId(from.number()?);
            let sequences = &read_sequences(&mut from)?;
            let change = if kind == kind::ACKED {
                Change::Acked { queue, sequences }
            } else {
                Change::Withdrawn { queue, sequences }
            };
            done(&from, Some(&change))
        }
        _ => {
            let change = read_plain(kind, &mut from, record)?;
            done(&from, Some(&change))
        }
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
            due: from.byte()? == 1,
        },
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

// --- Pieces ---

#[inline]
fn read_made(from: &mut Reader<'_>) -> Option<Made> {
    let number = from.number()?;
    Some(Made { at: Timestamp(number >> 1), begins_step: number & 1 == 1 })
}

#[inline]
fn slice(from: &mut Reader<'_>, record: &Bytes) -> Option<Bytes> {
    from.bytes().map(|bytes| record.slice_ref(bytes))
}

pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            write(out, value);
        }
    }
}

pub(super) fn read_option<'a, T>(
    from: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match from.byte()? {
        0 => Some(None),
        1 => read(from).map(Some),
        _ => None,
    }
}

pub(super) fn put_sequences(out: &mut Vec<u8>, sequences: &[Sequence]) {
    put(out, sequences.len() as u64);
    put_steps(out, None, sequences);
}

/// Each sequence by what it is away from the one before it.
fn put_steps(out: &mut Vec<u8>, before: Option<&Sequence>, sequences: &[Sequence]) {
    let mut last = before.map_or(0, |before| before.0);
    for sequence in sequences {
        put_signed(out, sequence.0.wrapping_sub(last).cast_signed());
        last = sequence.0;
    }
}

pub(super) fn read_sequences(from: &mut Reader<'_>) -> Option<Vec<Sequence>> {
    let count = from.number()?;
    let mut sequences = Vec::new();
    let mut last = 0_u64;
    for _ in 0..count {
        last = last.wrapping_add(from.signed()?.cast_unsigned());
        sequences.push(Sequence(last));
    }
    Some(sequences)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn read_text(from: &mut Reader<'_>) -> Option<Arc<str>> {
    std::str::from_utf8(from.bytes()?).ok().map(Arc::from)
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &QueueKey) {
    put(out, key.account.0);
    put_text(out, &key.region);
    put_text(out, &key.name);
}

pub(super) fn read_key(from: &mut Reader<'_>) -> Option<QueueKey> {
    Some(QueueKey { account: AccountId(from.number()?), region: read_text(from)?, name: read_text(from)? })
}

pub(super) fn put_document_key(out: &mut Vec<u8>, key: &DocumentKey) {
    put_text(out, &key.owner);
    put_text(out, &key.key);
}

pub(super) fn read_document_key(from: &mut Reader<'_>) -> Option<DocumentKey> {
    Some(DocumentKey { owner: read_text(from)?, key: read_text(from)? })
}

#[inline]
fn read_id(from: &mut Reader<'_>) -> Option<MessageId> {
    Some(MessageId(from.take(16)?.try_into().ok()?))
}

pub(super) fn reason_number(reason: MoveReason) -> u8 {
    match reason {
        MoveReason::AttemptsExhausted => 0,
        MoveReason::Redriven => 1,
    }
}

pub(super) fn read_reason(from: &mut Reader<'_>) -> Option<MoveReason> {
    match from.byte()? {
        0 => Some(MoveReason::AttemptsExhausted),
        1 => Some(MoveReason::Redriven),
        _ => None,
    }
}

pub(super) fn return_number(returns: Return) -> u8 {
    match returns {
        Return::InPlace => 0,
        Return::Behind => 1,
    }
}

pub(super) fn read_return(from: &mut Reader<'_>) -> Option<Return> {
    match from.byte()? {
        0 => Some(Return::InPlace),
        1 => Some(Return::Behind),
        _ => None,
    }
}

// --- Messages ---

fn put_content(out: &mut Vec<u8>, content: &Content) {
    out.push(match content.content_type {
        ContentType::Text => 0,
        ContentType::Json => 1,
        ContentType::Bytes => 2,
        ContentType::V8 => 3,
    });
    put_bytes(out, &content.annotations);
    put_bytes(out, &content.body);
}

/// All of a content but its body.
fn read_content_head(from: &mut Reader<'_>, record: &Bytes) -> Option<(ContentType, Bytes)> {
    let content_type = match from.byte()? {
        0 => ContentType::Text,
        1 => ContentType::Json,
        2 => ContentType::Bytes,
        3 => ContentType::V8,
        _ => return None,
    };
    Some((content_type, slice(from, record)?))
}

fn read_content_parts(from: &mut Reader<'_>, record: &Bytes) -> Option<Content> {
    let (content_type, annotations) = read_content_head(from, record)?;
    Some(Content { content_type, annotations, body: slice(from, record)? })
}

// Which optional fields a sent message's record has.
const LATER: u8 = 1;
const RANKED: u8 = 1 << 1;
const GROUPED: u8 = 1 << 2;
const DEDUPLICATED: u8 = 1 << 3;
const REMEMBERED: u8 = 1 << 4;
const MOVED: u8 = 1 << 5;

fn put_sent(out: &mut Vec<u8>, stamp: &Stamp, at: Timestamp, sent: &Sent<'_>) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(sent.visible_at != at, LATER)
        | flag(sent.rank != at, RANKED)
        | flag(sent.group.is_some(), GROUPED)
        | flag(sent.deduplication.is_some(), DEDUPLICATED)
        | flag(sent.identity.is_some(), REMEMBERED)
        | flag(sent.origin.is_some(), MOVED);
    put_fields(out, |fields| {
        fields.beginning(stamp.bytes, stamp.length);
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
struct SentHead {
    queue: QueueId,
    sequence: Sequence,
    id: MessageId,
    expiry: kew_core::Expiry,
    visible_at: Timestamp,
    rank: Timestamp,
    group: Option<GroupId>,
    deduplication: Option<DeduplicationId>,
    identity: Option<u128>,
    origin: Option<Origin>,
}

/// The names in a sent message's record, which its receivers are told; the rest, [`SentHead`] has it, the ledger knows.
#[inline]
fn read_sent_names(
    from: &mut Reader<'_>,
    record: &Bytes,
) -> Option<(MessageId, Option<GroupId>, Option<DeduplicationId>)> {
    from.skip()?;
    from.skip()?;
    let id = read_id(from)?;
    let flags = from.byte()?;
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
    fn read(from: &mut Reader<'_>, record: &Bytes, at: Timestamp) -> Option<Self> {
        let (queue, sequence, id) = (QueueId(from.number()?), Sequence(from.number()?), read_id(from)?);
        let flags = from.byte()?;
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

    fn sent<'a>(&'a self, content: &'a Content) -> Sent<'a> {
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

fn put_leased(out: &mut Vec<u8>, stamp: &Stamp, at: Timestamp, leased: &Leased<'_>) {
    put_fields(out, |fields| {
        fields.beginning(stamp.bytes, stamp.length);
        fields.number(leased.queue.0);
        fields.number(leased.until.0);
        fields.signed(at.0.wrapping_sub(leased.received_at.0).cast_signed());
        fields.option(leased.cap, |fields, cap| fields.number(millis(cap)));
        fields.number(millis(leased.lapse_delay));
        fields.byte(return_number(leased.returns));
        fields.option(leased.owner, |fields, owner| fields.number(owner.0));
        fields.byte(u8::from(leased.attempt.is_some()));
    });
    if let Some(attempt) = leased.attempt {
        put_bytes(out, attempt.as_bytes());
    }
    let (first, rest) = leased.taken.split_at(leased.taken.len().min(TAKEN_AT_ONCE));
    put_fields(out, |fields| {
        let by = leased.by.len();
        fields.byte(by as u8);
        fields.beginning(leased.by.0, by);
        fields.number(leased.taken.len() as u64);
        put_taken(fields, 0, first);
    });
    let mut last = first.last();
    for some in rest.chunks(TAKEN_AT_ONCE) {
        put_fields(out, |fields| put_taken(fields, last.map_or(0, |(sequence, _)| sequence.0), some));
        last = some.last();
    }
}

/// Messages of a lease that are written together, each in at most 18 bytes.
const TAKEN_AT_ONCE: usize = 4;

#[inline]
fn put_taken(fields: &mut Fields<'_>, mut last: u64, taken: &[(Sequence, u64)]) {
    for (sequence, nonce) in taken {
        fields.signed(sequence.0.wrapping_sub(last).cast_signed());
        fields.bytes(nonce.to_le_bytes());
        last = sequence.0;
    }
}

/// Messages that were deleted by receipt, or whose leases were undone.
fn put_settled(out: &mut Vec<u8>, stamp: &Stamp, queue: QueueId, sequences: &[Sequence]) {
    let first = sequences.first();
    put_fields(out, |fields| {
        fields.beginning(stamp.bytes, stamp.length);
        fields.number(queue.0);
        fields.number(sequences.len() as u64);
        if let Some(first) = first {
            fields.signed(first.0.cast_signed());
        }
    });
    put_steps(out, first, sequences.get(1..).unwrap_or_default());
}

struct LeasedParts {
    queue: QueueId,
    until: Timestamp,
    received_at: Timestamp,
    cap: Option<Duration>,
    lapse_delay: Duration,
    returns: Return,
    owner: Option<OwnerId>,
    attempt: Option<Text>,
    by: Tag,
    taken: Vec<(Sequence, u64)>,
}

impl LeasedParts {
    fn read(from: &mut Reader<'_>, record: &Bytes, at: Timestamp) -> Option<Self> {
        let (queue, until) = (QueueId(from.number()?), Timestamp(from.number()?));
        let received_at = Timestamp(at.0.wrapping_sub(from.signed()?.cast_unsigned()));
        let cap = read_option(from, |from| Some(Duration::from_millis(from.number()?)))?;
        let lapse_delay = Duration::from_millis(from.number()?);
        let returns = read_return(from)?;
        let owner = read_option(from, |from| Some(OwnerId(from.number()?)))?;
        let attempt = read_option(from, |from| Text::from_utf8(slice(from, record)?))?;
        let by = Tag::new(&read_text(from)?);
        let count = from.number()?;
        let mut taken = Vec::new();
        let mut last = 0_u64;
        for _ in 0..count {
            last = last.wrapping_add(from.signed()?.cast_unsigned());
            taken.push((Sequence(last), u64::from_le_bytes(from.take(8)?.try_into().ok()?)));
        }
        Some(Self { queue, until, received_at, cap, lapse_delay, returns, owner, attempt, by, taken })
    }

    fn leased(&self) -> Leased<'_> {
        Leased {
            queue: self.queue,
            until: self.until,
            received_at: self.received_at,
            cap: self.cap,
            lapse_delay: self.lapse_delay,
            returns: self.returns,
            owner: self.owner,
            attempt: self.attempt.as_ref(),
            by: self.by,
            taken: &self.taken,
        }
    }
}

fn put_extended(out: &mut Vec<u8>, extended: &Extended<'_>) {
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
struct RewrittenHead {
    id: MessageId,
    group: Option<GroupId>,
    deduplication: Option<DeduplicationId>,
}

/// An extended lease's record before its new content, if it brings one.
struct ExtendedHead {
    queue: QueueId,
    sequence: Sequence,
    until: Timestamp,
    nonce: Option<u64>,
    returns: Return,
    content: Option<RewrittenHead>,
}

impl ExtendedHead {
    fn read(from: &mut Reader<'_>, record: &Bytes) -> Option<Self> {
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

    fn extended<'a>(&'a self, content: Option<&'a Content>) -> Extended<'a> {
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

fn put_dead_lettered(out: &mut Vec<u8>, moved: &DeadLettered) {
    for number in [moved.from.0, moved.sequence.0, moved.to.0, moved.as_sequence.0, moved.place.address.0] {
        put(out, number);
    }
    put(out, u64::from(moved.place.bytes));
    put(out, u64::from(moved.body_bytes));
    put_option(out, moved.group.as_ref(), |out, group| put_bytes(out, group.0.as_bytes()));
    put(out, moved.sent_at.0);
    put(out, expiry_number(moved.expiry));
    put(out, u64::from(moved.attempts));
    put_option(out, moved.first_leased_at, |out, at| put(out, at.0));
    put(out, moved.visible_at.0);
    out.push(u8::from(moved.delayed) | (u8::from(moved.due) << 1));
    put_key(out, &moved.origin);
}

fn read_dead_lettered(from: &mut Reader<'_>, record: &Bytes) -> Option<DeadLettered> {
    let mut moved = DeadLettered {
        from: QueueId(from.number()?),
        sequence: Sequence(from.number()?),
        to: QueueId(from.number()?),
        as_sequence: Sequence(from.number()?),
        place: Place { address: Address(from.number()?), bytes: u32::try_from(from.number()?).ok()? },
        body_bytes: u32::try_from(from.number()?).ok()?,
        group: read_option(from, |from| Some(GroupId(Text::from_utf8(slice(from, record)?)?)))?,
        sent_at: Timestamp(from.number()?),
        expiry: expiry_of(from.number()?)?,
        attempts: u32::try_from(from.number()?).ok()?,
        first_leased_at: read_option(from, |from| Some(Timestamp(from.number()?)))?,
        visible_at: Timestamp(from.number()?),
        delayed: false,
        due: false,
        origin: QueueKey::new(AccountId(0), "", ""),
    };
    let flags = from.byte().filter(|flags| *flags < 4)?;
    (moved.delayed, moved.due) = (flags & 1 != 0, flags & 2 != 0);
    moved.origin = read_key(from)?;
    Some(moved)
}

// --- Definitions ---

/// Writes a queue's definition.
pub fn put_queue(out: &mut Vec<u8>, queue: &Queue) {
    put(out, queue.id.0);
    put_key(out, &queue.key);
    put(out, queue.version);
    put(out, queue.created_at.0);
    put(out, queue.modified_at.0);
    put_policy(out, &queue.policy);
    put(out, queue.documents.len() as u64);
    for (key, bytes) in &queue.documents {
        put_document_key(out, key);
        put_bytes(out, bytes);
    }
}

/// Reads a queue's definition.
pub fn read_queue(from: &mut Reader<'_>, record: &Bytes) -> Option<Queue> {
    let (id, key) = (QueueId(from.number()?), read_key(from)?);
    let (version, created_at, modified_at) =
        (from.number()?, Timestamp(from.number()?), Timestamp(from.number()?));
    let policy = read_policy(from)?;
    let mut documents = BTreeMap::new();
    for _ in 0..from.number()? {
        let key = read_document_key(from)?;
        documents.insert(key, Bytes::copy_from_slice(&slice(from, record)?));
    }
    Some(Queue { id, key, policy, documents, version, created_at, modified_at })
}

fn put_policy(out: &mut Vec<u8>, policy: &Policy) {
    out.push(match policy.kind {
        QueueKind::Standard => 0,
        QueueKind::Fifo { scope, by_content } => {
            1 + u8::from(scope == DeduplicationScope::Group) + 2 * u8::from(by_content)
        }
    });
    for length in [policy.lease_length, policy.delay, policy.retention, policy.wait] {
        put(out, millis(length));
    }
    put(out, u64::from(policy.body_bytes_max));
    out.push(u8::from(policy.paused));
    put_option(out, policy.dead_letters.as_deref(), |out, rule| {
        put(out, u64::from(rule.attempts_max));
        out.push(match rule.carries {
            Carries::History => 0,
            Carries::Nothing => 1,
        });
        put_text(out, &rule.written_by);
        match &rule.then {
            DeadLetterAction::Drop => out.push(0),
            DeadLetterAction::MoveTo(key) => {
                out.push(1);
                put_key(out, key);
            }
        }
    });
}

fn read_policy(from: &mut Reader<'_>) -> Option<Policy> {
    let kind = match from.byte()? {
        0 => QueueKind::Standard,
        code @ 1..=4 => {
            let bits = code - 1;
            let scope = if bits & 1 == 0 { DeduplicationScope::Queue } else { DeduplicationScope::Group };
            QueueKind::Fifo { scope, by_content: bits & 2 != 0 }
        }
        _ => return None,
    };
    let length = |from: &mut Reader<'_>| Some(Duration::from_millis(from.number()?));
    Some(Policy {
        kind,
        lease_length: length(from)?,
        delay: length(from)?,
        retention: length(from)?,
        wait: length(from)?,
        body_bytes_max: u32::try_from(from.number()?).ok()?,
        paused: from.byte()? == 1,
        dead_letters: read_option(from, read_rule)?.map(Box::new),
    })
}

fn read_rule(from: &mut Reader<'_>) -> Option<DeadLetterRule> {
    let attempts_max = u32::try_from(from.number()?).ok()?;
    let carries = match from.byte()? {
        0 => Carries::History,
        1 => Carries::Nothing,
        _ => return None,
    };
    let written_by = read_text(from)?;
    let then = match from.byte()? {
        0 => DeadLetterAction::Drop,
        1 => DeadLetterAction::MoveTo(read_key(from)?),
        _ => return None,
    };
    Some(DeadLetterRule { attempts_max, then, carries, written_by })
}

/// Writes a move task.
pub fn put_task(out: &mut Vec<u8>, task: &MoveTask) {
    put(out, task.id.0);
    put(out, task.source.0);
    put_key(out, &task.source_key);
    put_option(out, task.destination.as_ref(), put_key);
    put_option(out, task.rate_max, |out, rate| put(out, u64::from(rate)));
    out.push(match task.state {
        TaskState::Running => 0,
        TaskState::Completed => 1,
        TaskState::Cancelled => 2,
        TaskState::Failed(TaskFailure::DestinationMissing) => 3,
        TaskState::Failed(TaskFailure::OriginUnknown) => 4,
        TaskState::Failed(TaskFailure::KindMismatch) => 5,
        TaskState::Failed(TaskFailure::SourceMissing) => 6,
        TaskState::Failed(TaskFailure::TookTooLong) => 7,
    });
    put(out, task.moved);
    put(out, task.to_move);
    put(out, task.started_at.0);
}

/// Reads a move task.
pub fn read_task(from: &mut Reader<'_>) -> Option<MoveTask> {
    Some(MoveTask {
        id: TaskId(from.number()?),
        source: QueueId(from.number()?),
        source_key: read_key(from)?,
        destination: read_option(from, read_key)?,
        rate_max: read_option(from, |from| u32::try_from(from.number()?).ok())?,
        state: match from.byte()? {
            0 => TaskState::Running,
            1 => TaskState::Completed,
            2 => TaskState::Cancelled,
            3 => TaskState::Failed(TaskFailure::DestinationMissing),
            4 => TaskState::Failed(TaskFailure::OriginUnknown),
            5 => TaskState::Failed(TaskFailure::KindMismatch),
            6 => TaskState::Failed(TaskFailure::SourceMissing),
            7 => TaskState::Failed(TaskFailure::TookTooLong),
            _ => return None,
        },
        moved: from.number()?,
        to_move: from.number()?,
        started_at: Timestamp(from.number()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
                expiry: kew_core::Expiry::After { seconds: u32::MAX - 1 },
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
            round(made, &Change::Leased(Leased { taken: &taken[..1], attempt: None, ..leased }));
            for sequences in [&sequences[..], &sequences[..1], &[]] {
                round(made, &Change::Acked { queue: QueueId(MAX), sequences });
            }
        }
    }
}
