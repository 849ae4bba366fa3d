//! Messages that were leased together.

use std::time::Duration;

use bytes::Bytes;
use kew_core::event::Tag;
use kew_core::time::millis;
use kew_core::{OwnerId, QueueId, Return, Sequence, Text, Timestamp};

use super::pieces::{read_option, read_return, read_text, return_number, slice};
use super::stamp::Stamp;
use crate::ledger::change::Leased;
use crate::ledger::varint::{Fields, Reader, put_bytes, put_fields};

pub(super) fn put_leased(out: &mut Vec<u8>, stamp: &Stamp, at: Timestamp, leased: &Leased<'_>) {
    let head = |fields: &mut Fields<'_>| {
        stamp.begin(fields);
        fields.number(leased.queue.0);
        fields.number(leased.until.0);
        fields.signed(at.0.wrapping_sub(leased.received_at.0).cast_signed());
        fields.option(leased.cap, |fields, cap| fields.number(millis(cap)));
        fields.number(millis(leased.lapse_delay));
        fields.byte(return_number(leased.returns));
        fields.option(leased.owner, |fields, owner| fields.number(owner.0));
        fields.byte(u8::from(leased.attempt.is_some()));
    };
    // The first goes with what stands before it: most leases are of one message.
    let (first, rest) = leased.taken.split_at(leased.taken.len().min(1));
    let end = |fields: &mut Fields<'_>| {
        let by = leased.by.len();
        fields.byte(by as u8);
        fields.beginning(leased.by.0, by);
        fields.number(leased.taken.len() as u64);
        put_taken(fields, 0, first);
    };
    if let Some(attempt) = leased.attempt {
        put_fields(out, head);
        put_bytes(out, attempt.as_bytes());
        put_fields(out, end);
    } else {
        put_fields(out, |fields| {
            head(fields);
            end(fields);
        });
    }
    let mut last = first.last();
    for some in rest.chunks(TAKEN_AT_ONCE) {
        put_fields(out, |fields| put_taken(fields, last.map_or(0, |(sequence, _)| sequence.0), some));
        last = some.last();
    }
}

/// Messages of a lease behind its first that are written together, each in at most 18 bytes.
const TAKEN_AT_ONCE: usize = 4;

#[inline]
fn put_taken(fields: &mut Fields<'_>, mut last: u64, taken: &[(Sequence, u64)]) {
    for (sequence, nonce) in taken {
        fields.signed(sequence.0.wrapping_sub(last).cast_signed());
        fields.bytes(nonce.to_le_bytes());
        last = sequence.0;
    }
}

pub(super) struct LeasedParts {
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
    pub(super) fn read(from: &mut Reader<'_>, record: &Bytes, at: Timestamp) -> Option<Self> {
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

    pub(super) fn leased(&self) -> Leased<'_> {
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
