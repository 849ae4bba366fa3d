//! Messages packed: what each differs in from the one before it, in as few bytes as that needs.

use kew_core::{Expiry, Sequence, Timestamp};

use crate::ledger::codec::{expiry_number, expiry_of};
use crate::ledger::groups::GroupSlot;
use crate::ledger::item::{Item, MaybeInstant, OriginSlot};
use crate::ledger::shelf::Address;
use crate::ledger::varint::{self, Reader};

// Which fields of a packed message differ from what its predecessor lets one expect.
const SKIPS: u8 = 1;
const LATER: u8 = 1 << 1;
const RANKED: u8 = 1 << 2;
const OWN_LIFE: u8 = 1 << 3;
const GROUPED: u8 = 1 << 4;
const LEASED: u8 = 1 << 5;
const RESIZED: u8 = 1 << 6;
/// A second byte follows, with those that are rare.
const MORE: u8 = 1 << 7;
const MOVED: u8 = 1;
const HIDDEN: u8 = 1 << 1;
/// All that the second byte may have: bytes with another bit are damaged.
const RARE: u8 = MOVED | HIDDEN;

#[cfg(test)]
thread_local! {
    /// Messages that were unpacked on this thread.
    pub(in crate::ledger) static UNPACKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What the first message differs from.
pub(super) fn before_first() -> Item {
    Item {
        sequence: Sequence(0),
        address: Address(0),
        record_bytes: 0,
        body_bytes: 0,
        sent_at: Timestamp::ZERO,
        rank: Timestamp::ZERO,
        visible_at: Timestamp::ZERO,
        expiry: Expiry::ByQueue,
        group: None,
        attempts: 0,
        first_leased_at: MaybeInstant::NONE,
        nonce: 0,
        lease_end: MaybeInstant::NONE,
        origin: None,
        moved_at: Timestamp::ZERO,
    }
}

/// Messages as bytes, each as its differences to the one before it.
pub(in crate::ledger) fn pack(items: &[Item]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(items.len() * 8);
    let mut last = before_first();
    for item in items {
        pack_one(&mut out, &last, item);
        last = *item;
    }
    out.into_boxed_slice()
}

/// Writes what the message before it does not let one expect.
fn pack_one(out: &mut Vec<u8>, last: &Item, item: &Item) {
    let leased =
        item.nonce != 0 || item.attempts != 0 || item.lease_end.is_some() || item.first_leased_at.is_some();
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(item.sequence.0 != last.sequence.0.wrapping_add(1), SKIPS)
        | flag(item.sent_at != last.sent_at, LATER)
        | flag(item.rank != item.sent_at, RANKED)
        | flag(item.expiry != Expiry::ByQueue, OWN_LIFE)
        | flag(item.group.is_some(), GROUPED)
        | flag(leased, LEASED)
        | flag((item.record_bytes, item.body_bytes) != (last.record_bytes, last.body_bytes), RESIZED);
    let more = flag(item.origin.is_some(), MOVED) | flag(item.visible_at != Timestamp::ZERO, HIDDEN);
    out.push(flags | flag(more != 0, MORE));
    if more != 0 {
        out.push(more);
    }
    varint::put_signed(out, item.address.0.wrapping_sub(last.address.0).cast_signed());
    if flags & RESIZED != 0 {
        varint::put_signed(out, i64::from(item.record_bytes) - i64::from(last.record_bytes));
        varint::put_signed(out, i64::from(item.body_bytes) - i64::from(last.body_bytes));
    }
    if flags & SKIPS != 0 {
        varint::put_signed(out, item.sequence.0.wrapping_sub(last.sequence.0).cast_signed());
    }
    if flags & LATER != 0 {
        varint::put_signed(out, item.sent_at.0.wrapping_sub(last.sent_at.0).cast_signed());
    }
    if flags & RANKED != 0 {
        varint::put_signed(out, item.rank.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
    if flags & OWN_LIFE != 0 {
        varint::put(out, expiry_number(item.expiry));
    }
    if flags & GROUPED != 0 {
        varint::put(out, u64::from(GroupSlot::number_of(item.group)));
    }
    if flags & LEASED != 0 {
        varint::put(out, u64::from(item.attempts));
        varint::put(out, item.nonce);
        varint::put_signed(out, item.first_leased_at.number().wrapping_sub(item.sent_at.0).cast_signed());
        varint::put_signed(out, item.lease_end.number().wrapping_sub(item.sent_at.0).cast_signed());
    }
    if more & MOVED != 0 {
        varint::put(out, u64::from(OriginSlot::number_of(item.origin)));
        varint::put_signed(out, item.moved_at.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
    if more & HIDDEN != 0 {
        varint::put_signed(out, item.visible_at.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
}

/// Reads packed messages one after the other; ends early where the bytes are none.
pub(in crate::ledger) struct Unpack<'a> {
    reader: Reader<'a>,
    left: u16,
    last: Item,
}

impl<'a> Unpack<'a> {
    pub(in crate::ledger) fn new(bytes: &'a [u8], count: u16) -> Self {
        Self { reader: Reader::new(bytes), left: count, last: before_first() }
    }

    /// Whether nothing is left of the bytes.
    pub(super) fn is_at_end(&self) -> bool {
        self.reader.is_empty()
    }

    fn read_one(&mut self) -> Option<Item> {
        let from = &mut self.reader;
        let last = &self.last;
        let flags = from.byte()?;
        let more = if flags & MORE != 0 { from.byte().filter(|more| more & !RARE == 0)? } else { 0 };
        let since = |base: Timestamp, delta: i64| Timestamp(base.0.wrapping_add(delta.cast_unsigned()));
        let mut item = before_first();
        item.address = Address(last.address.0.wrapping_add(from.signed()?.cast_unsigned()));
        (item.record_bytes, item.body_bytes) = (last.record_bytes, last.body_bytes);
        if flags & RESIZED != 0 {
            item.record_bytes =
                u32::try_from(i64::from(last.record_bytes).checked_add(from.signed()?)?).ok()?;
            item.body_bytes = u32::try_from(i64::from(last.body_bytes).checked_add(from.signed()?)?).ok()?;
        }
        let step = if flags & SKIPS != 0 { from.signed()?.cast_unsigned() } else { 1 };
        item.sequence = Sequence(last.sequence.0.wrapping_add(step));
        item.sent_at = if flags & LATER != 0 { since(last.sent_at, from.signed()?) } else { last.sent_at };
        item.rank = if flags & RANKED != 0 { since(item.sent_at, from.signed()?) } else { item.sent_at };
        if flags & OWN_LIFE != 0 {
            item.expiry = expiry_of(from.number()?)?;
        }
        if flags & GROUPED != 0 {
            item.group = GroupSlot::of_number(u32::try_from(from.number()?).ok()?);
        }
        if flags & LEASED != 0 {
            item.attempts = u32::try_from(from.number()?).ok()?;
            item.nonce = from.number()?;
            item.first_leased_at = MaybeInstant::of_number(since(item.sent_at, from.signed()?).0);
            item.lease_end = MaybeInstant::of_number(since(item.sent_at, from.signed()?).0);
        }
        if more & MOVED != 0 {
            item.origin = OriginSlot::of_number(u32::try_from(from.number()?).ok()?);
            item.moved_at = since(item.sent_at, from.signed()?);
        }
        if more & HIDDEN != 0 {
            item.visible_at = since(item.sent_at, from.signed()?);
        }
        Some(item)
    }
}

impl Iterator for Unpack<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.left == 0 {
            return None;
        }
        let item = self.read_one()?;
        #[cfg(test)]
        UNPACKED.set(UNPACKED.get() + 1);
        self.left -= 1;
        self.last = item;
        Some(item)
    }
}
