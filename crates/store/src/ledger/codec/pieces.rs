//! What several records are made of: fields that may be missing, flags, runs of sequences, names, keys, expiries.

use std::sync::Arc;

use bytes::Bytes;
use kew_core::{AccountId, DocumentKey, Expiry, MessageId, MoveReason, QueueKey, Return, Sequence};

use crate::ledger::varint::{Reader, put, put_bytes, put_signed};

#[inline]
pub(super) fn slice(from: &mut Reader<'_>, record: &Bytes) -> Option<Bytes> {
    from.bytes().map(|bytes| record.slice_ref(bytes))
}

pub(in crate::ledger) fn put_option<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    write: impl FnOnce(&mut Vec<u8>, T),
) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            write(out, value);
        }
    }
}

pub(in crate::ledger) fn read_option<'a, T>(
    from: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match from.byte()? {
        0 => Some(None),
        1 => read(from).map(Some),
        _ => None,
    }
}

/// A byte that is 1 or 0.
pub(super) fn read_flag(from: &mut Reader<'_>) -> Option<bool> {
    match from.byte()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

pub(in crate::ledger) fn put_sequences(out: &mut Vec<u8>, sequences: &[Sequence]) {
    put(out, sequences.len() as u64);
    put_steps(out, None, sequences);
}

/// Each sequence by what it is away from the one before it.
pub(super) fn put_steps(out: &mut Vec<u8>, before: Option<&Sequence>, sequences: &[Sequence]) {
    let mut last = before.map_or(0, |before| before.0);
    for sequence in sequences {
        put_signed(out, sequence.0.wrapping_sub(last).cast_signed());
        last = sequence.0;
    }
}

pub(in crate::ledger) fn read_sequences(from: &mut Reader<'_>) -> Option<Vec<Sequence>> {
    let count = from.number()?;
    let mut sequences = Vec::new();
    let mut last = 0_u64;
    for _ in 0..count {
        last = last.wrapping_add(from.signed()?.cast_unsigned());
        sequences.push(Sequence(last));
    }
    Some(sequences)
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(super) fn read_text(from: &mut Reader<'_>) -> Option<Arc<str>> {
    std::str::from_utf8(from.bytes()?).ok().map(Arc::from)
}

pub(in crate::ledger) fn put_key(out: &mut Vec<u8>, key: &QueueKey) {
    put(out, key.account.0);
    put_text(out, &key.region);
    put_text(out, &key.name);
}

pub(in crate::ledger) fn read_key(from: &mut Reader<'_>) -> Option<QueueKey> {
    Some(QueueKey { account: AccountId(from.number()?), region: read_text(from)?, name: read_text(from)? })
}

pub(in crate::ledger) fn put_document_key(out: &mut Vec<u8>, key: &DocumentKey) {
    put_text(out, &key.owner);
    put_text(out, &key.key);
}

pub(in crate::ledger) fn read_document_key(from: &mut Reader<'_>) -> Option<DocumentKey> {
    Some(DocumentKey { owner: read_text(from)?, key: read_text(from)? })
}

#[inline]
pub(super) fn read_id(from: &mut Reader<'_>) -> Option<MessageId> {
    Some(MessageId(from.take(16)?.try_into().ok()?))
}

pub(in crate::ledger) fn reason_number(reason: MoveReason) -> u8 {
    match reason {
        MoveReason::AttemptsExhausted => 0,
        MoveReason::Redriven => 1,
    }
}

pub(in crate::ledger) fn read_reason(from: &mut Reader<'_>) -> Option<MoveReason> {
    match from.byte()? {
        0 => Some(MoveReason::AttemptsExhausted),
        1 => Some(MoveReason::Redriven),
        _ => None,
    }
}

pub(in crate::ledger) fn return_number(returns: Return) -> u8 {
    match returns {
        Return::InPlace => 0,
        Return::Behind => 1,
    }
}

pub(in crate::ledger) fn read_return(from: &mut Reader<'_>) -> Option<Return> {
    match from.byte()? {
        0 => Some(Return::InPlace),
        1 => Some(Return::Behind),
        _ => None,
    }
}

/// An expiry as a number: 0 by queue, 1 never, else seconds + 2.
pub(in crate::ledger) fn expiry_number(expiry: Expiry) -> u64 {
    match expiry {
        Expiry::ByQueue => 0,
        Expiry::Never => 1,
        Expiry::After { seconds } => u64::from(seconds) + 2,
    }
}

/// The expiry of a number.
pub(in crate::ledger) fn expiry_of(number: u64) -> Option<Expiry> {
    match number {
        0 => Some(Expiry::ByQueue),
        1 => Some(Expiry::Never),
        _ => u32::try_from(number - 2).ok().map(|seconds| Expiry::After { seconds }),
    }
}
