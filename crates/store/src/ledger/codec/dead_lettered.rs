//! A message that went from one queue to another by the first one's rule. Its content stays where it lies.

use bytes::Bytes;
use kew_core::{AccountId, GroupId, QueueId, QueueKey, Sequence, Text, Timestamp};

use super::pieces::{expiry_number, expiry_of, put_key, put_option, read_key, read_option, slice};
use crate::ledger::change::DeadLettered;
use crate::ledger::shelf::{Address, Place};
use crate::ledger::varint::{Reader, put, put_bytes};

// The byte of flags.
const DELAYED: u8 = 1;
const DUE: u8 = 1 << 1;
/// All of them: a record with another bit is damaged. A new one raises the store's version (`docs/storage-format.md`).
const KNOWN: u8 = DELAYED | DUE;

pub(super) fn put_dead_lettered(out: &mut Vec<u8>, moved: &DeadLettered) {
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
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.push(flag(moved.delayed, DELAYED) | flag(moved.due, DUE));
    put_key(out, &moved.origin);
}

pub(super) fn read_dead_lettered(from: &mut Reader<'_>, record: &Bytes) -> Option<DeadLettered> {
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
    let flags = from.byte().filter(|flags| flags & !KNOWN == 0)?;
    (moved.delayed, moved.due) = (flags & DELAYED != 0, flags & DUE != 0);
    moved.origin = read_key(from)?;
    Some(moved)
}
