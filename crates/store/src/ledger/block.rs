//! Up to 256 messages in order, open or packed.
//!
//! A queue's backlog is mostly messages that nobody will touch for a while. Packed, one takes about six bytes: the
//! differences to the message before it, as variable-length numbers. Only the block being filled and the block being
//! served are open.

use std::time::Duration;

use kew_core::{Expiry, Sequence, Timestamp};

use super::item::{Item, NO_INSTANT};
use super::shelf::Address;
use super::varint::{self, Reader};

/// Messages in a full block.
pub(crate) const BLOCK_ITEMS: usize = 256;

#[derive(Clone, Debug)]
enum Body {
    Open(Vec<Item>),
    Packed(Box<[u8]>),
}

/// Some messages in order, those that left it marked.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    body: Body,
    count: u16,
    live: u16,
    /// The first that may still be live.
    head: u16,
    gone: [u64; 4],
    /// The smallest and largest sequence it ever held.
    pub sequences: (Sequence, Sequence),
    /// The earliest send of one that expires with the queue's retention, or earlier.
    pub oldest_by_queue: Timestamp,
    /// The earliest instant one with a life of its own expires, or earlier.
    pub earliest_own: Timestamp,
    /// The smallest and largest address it ever held.
    pub addresses: (Address, Address),
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            body: Body::Open(Vec::new()),
            count: 0,
            live: 0,
            head: 0,
            gone: [0; 4],
            sequences: (Sequence(u64::MAX), Sequence(0)),
            oldest_by_queue: NO_INSTANT,
            earliest_own: NO_INSTANT,
            addresses: (Address(u64::MAX), Address(0)),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.count) == BLOCK_ITEMS
    }

    pub(crate) fn live(&self) -> usize {
        usize::from(self.live)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.body, Body::Open(_))
    }

    /// Adds a message at the end of a block that is not full.
    pub(crate) fn push(&mut self, item: Item) {
        self.open();
        let Body::Open(items) = &mut self.body else { return };
        items.push(item);
        self.count += 1;
        self.live += 1;
        self.note(&item);
    }

    fn note(&mut self, item: &Item) {
        self.sequences = (self.sequences.0.min(item.sequence), self.sequences.1.max(item.sequence));
        self.addresses = (self.addresses.0.min(item.address), self.addresses.1.max(item.address));
        match item.expiry {
            Expiry::ByQueue => self.oldest_by_queue = self.oldest_by_queue.min(item.sent_at),
            Expiry::After { .. } => {
                self.earliest_own = self.earliest_own.min(item.expires_at(Duration::ZERO));
            }
            Expiry::Never => {}
        }
    }

    /// The first live message. The block must be open.
    pub(crate) fn front(&self) -> Option<&Item> {
        match &self.body {
            Body::Open(items) if self.live > 0 => items.get(usize::from(self.head)),
            _ => None,
        }
    }

    /// Takes the first live message out of an open block.
    pub(crate) fn pop_front(&mut self) -> Option<Item> {
        let item = *self.front()?;
        self.mark_gone(usize::from(self.head));
        Some(item)
    }

    /// Takes message `sequence` out, wherever it stands.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        let (place, item) = self.find(sequence)?;
        self.mark_gone(place);
        Some(item)
    }

    /// Message `sequence`, if it is here and live.
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Item> {
        self.find(sequence).map(|(_, item)| item)
    }

    fn find(&self, sequence: Sequence) -> Option<(usize, Item)> {
        if sequence < self.sequences.0 || sequence > self.sequences.1 {
            return None;
        }
        self.live_items().find(|(_, item)| item.sequence == sequence)
    }

    fn mark_gone(&mut self, place: usize) {
        self.gone[place / 64] |= 1 << (place % 64);
        self.live -= 1;
        if self.live == 0 {
            self.head = self.count;
            return;
        }
        while self.is_gone(usize::from(self.head)) {
            self.head += 1;
        }
    }

    fn is_gone(&self, place: usize) -> bool {
        self.gone.get(place / 64).is_none_or(|word| word & (1 << (place % 64)) != 0)
    }

    /// The live messages with their places, in order.
    pub(crate) fn live_items(&self) -> impl Iterator<Item = (usize, Item)> + '_ {
        let all: Items<'_> = match &self.body {
            Body::Open(items) => Items::Open(items.iter()),
            Body::Packed(bytes) => Items::Packed(Unpack::new(bytes, self.count)),
        };
        all.enumerate().filter(|(place, _)| !self.is_gone(*place))
    }

    /// Takes out every message for which `leaves` says so, and finds the earliest expiries of the rest anew.
    pub(crate) fn sweep(&mut self, mut leaves: impl FnMut(&Item) -> bool) {
        let items: Vec<(usize, Item)> = self.live_items().collect();
        self.oldest_by_queue = NO_INSTANT;
        self.earliest_own = NO_INSTANT;
        for (place, item) in items {
            if leaves(&item) {
                self.mark_gone(place);
            } else {
                self.note(&item);
            }
        }
    }

    /// Gives every message for which `to` knows a new address that address.
    pub(crate) fn relocate(&mut self, mut to: impl FnMut(&Item) -> Option<Address>) {
        let mut items: Vec<Item> = self.all_items().collect();
        self.addresses = (Address(u64::MAX), Address(0));
        for (place, item) in items.iter_mut().enumerate() {
            if self.is_gone(place) {
                continue;
            }
            if let Some(address) = to(item) {
                item.address = address;
            }
            self.addresses = (self.addresses.0.min(item.address), self.addresses.1.max(item.address));
        }
        self.body = if self.is_open() { Body::Open(items) } else { Body::Packed(pack(&items)) };
    }

    fn all_items(&self) -> Items<'_> {
        match &self.body {
            Body::Open(items) => Items::Open(items.iter()),
            Body::Packed(bytes) => Items::Packed(Unpack::new(bytes, self.count)),
        }
    }

    /// Unpacks the block.
    #[inline]
    pub(crate) fn open(&mut self) {
        if !self.is_open() {
            self.unpack();
        }
    }

    fn unpack(&mut self) {
        if let Body::Packed(_) = self.body {
            let mut items = Vec::with_capacity(BLOCK_ITEMS);
            items.extend(self.all_items());
            self.body = Body::Open(items);
        }
    }

    /// Packs the block.
    pub(crate) fn pack(&mut self) {
        if let Body::Open(items) = &self.body {
            self.body = Body::Packed(pack(items));
        }
    }

    /// Bytes held beside the block itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.body {
            Body::Open(items) => items.capacity() * size_of::<Item>(),
            Body::Packed(bytes) => bytes.len(),
        }
    }

    /// Writes the block for a checkpoint.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.count));
        for word in self.gone {
            varint::put(out, word);
        }
        match &self.body {
            Body::Packed(bytes) => varint::put_bytes(out, bytes),
            Body::Open(items) => varint::put_bytes(out, &pack(items)),
        }
    }

    /// Reads a block back; `None` when the bytes are not one.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let count = u16::try_from(from.number()?).ok().filter(|count| usize::from(*count) <= BLOCK_ITEMS)?;
        let mut block = Self::new();
        for word in &mut block.gone {
            *word = from.number()?;
        }
        let bytes = from.bytes()?;
        let mut unpack = Unpack::new(bytes, count);
        let mut read = 0;
        for (place, item) in unpack.by_ref().enumerate() {
            read += 1;
            if !block.is_gone(place) {
                block.live += 1;
                block.note(&item);
            }
        }
        if read != count || !unpack.reader.is_empty() {
            return None;
        }
        block.count = count;
        block.body = Body::Packed(bytes.into());
        while block.head < count && block.is_gone(usize::from(block.head)) {
            block.head += 1;
        }
        Some(block)
    }
}

enum Items<'a> {
    Open(std::slice::Iter<'a, Item>),
    Packed(Unpack<'a>),
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        match self {
            Items::Open(items) => items.next().copied(),
            Items::Packed(items) => items.next(),
        }
    }
}

// Which fields of a packed message differ from what its predecessor lets one expect.
const SKIPS: u8 = 1;
const LATER: u8 = 1 << 1;
const RANKED: u8 = 1 << 2;
const OWN_LIFE: u8 = 1 << 3;
const GROUPED: u8 = 1 << 4;
const TOUCHED: u8 = 1 << 5;
const RESIZED: u8 = 1 << 6;
/// A second byte follows, with those that are rare.
const MORE: u8 = 1 << 7;
const MOVED: u8 = 1;
const HIDDEN: u8 = 1 << 1;

fn before_first() -> Item {
    Item {
        sequence: Sequence(0),
        address: Address(0),
        record_bytes: 0,
        body_bytes: 0,
        sent_at: Timestamp::ZERO,
        rank: Timestamp::ZERO,
        visible_at: Timestamp::ZERO,
        expiry: Expiry::ByQueue,
        group: 0,
        attempts: 0,
        first_leased_at: NO_INSTANT,
        nonce: 0,
        lease_end: NO_INSTANT,
        origin: 0,
        moved_at: Timestamp::ZERO,
    }
}

fn pack(items: &[Item]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(items.len() * 8);
    let mut last = before_first();
    for item in items {
        pack_one(&mut out, &last, item);
        last = *item;
    }
    out.into_boxed_slice()
}

fn pack_one(out: &mut Vec<u8>, last: &Item, item: &Item) {
    let touched = item.nonce != 0
        || item.attempts != 0
        || item.lease_end != NO_INSTANT
        || item.first_leased_at != NO_INSTANT;
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(item.sequence.0 != last.sequence.0.wrapping_add(1), SKIPS)
        | flag(item.sent_at != last.sent_at, LATER)
        | flag(item.rank != item.sent_at, RANKED)
        | flag(item.expiry != Expiry::ByQueue, OWN_LIFE)
        | flag(item.group != 0, GROUPED)
        | flag(touched, TOUCHED)
        | flag((item.record_bytes, item.body_bytes) != (last.record_bytes, last.body_bytes), RESIZED);
    let more = flag(item.origin != 0, MOVED) | flag(item.visible_at != Timestamp::ZERO, HIDDEN);
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
        varint::put(out, u64::from(item.group));
    }
    if flags & TOUCHED != 0 {
        varint::put(out, u64::from(item.attempts));
        varint::put(out, item.nonce);
        varint::put_signed(out, item.first_leased_at.0.wrapping_sub(item.sent_at.0).cast_signed());
        varint::put_signed(out, item.lease_end.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
    if more & MOVED != 0 {
        varint::put(out, u64::from(item.origin));
        varint::put_signed(out, item.moved_at.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
    if more & HIDDEN != 0 {
        varint::put_signed(out, item.visible_at.0.wrapping_sub(item.sent_at.0).cast_signed());
    }
}

/// An expiry as a number: 0 by queue, 1 never, else seconds + 2.
pub(crate) fn expiry_number(expiry: Expiry) -> u64 {
    match expiry {
        Expiry::ByQueue => 0,
        Expiry::Never => 1,
        Expiry::After { seconds } => u64::from(seconds) + 2,
    }
}

/// The expiry of a number.
pub(crate) fn expiry_of(number: u64) -> Option<Expiry> {
    match number {
        0 => Some(Expiry::ByQueue),
        1 => Some(Expiry::Never),
        _ => u32::try_from(number - 2).ok().map(|seconds| Expiry::After { seconds }),
    }
}

struct Unpack<'a> {
    reader: Reader<'a>,
    left: u16,
    last: Item,
}

impl<'a> Unpack<'a> {
    fn new(bytes: &'a [u8], count: u16) -> Self {
        Self { reader: Reader::new(bytes), left: count, last: before_first() }
    }

    fn read_one(&mut self) -> Option<Item> {
        let from = &mut self.reader;
        let last = &self.last;
        let flags = from.byte()?;
        let more = if flags & MORE != 0 { from.byte()? } else { 0 };
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
            item.group = u32::try_from(from.number()?).ok()?;
        }
        if flags & TOUCHED != 0 {
            item.attempts = u32::try_from(from.number()?).ok()?;
            item.nonce = from.number()?;
            item.first_leased_at = since(item.sent_at, from.signed()?);
            item.lease_end = since(item.sent_at, from.signed()?);
        }
        if more & MOVED != 0 {
            item.origin = u32::try_from(from.number()?).ok()?;
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
        self.left -= 1;
        self.last = item;
        Some(item)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn item(sequence: u64) -> Item {
        let sent_at = Timestamp(1_700_000_000_000 + sequence / 3);
        Item {
            sequence: Sequence(sequence),
            address: Address(sequence * 340),
            record_bytes: 330,
            body_bytes: 256,
            sent_at,
            rank: sent_at,
            ..before_first()
        }
    }

    fn odd(sequence: u64) -> Item {
        Item {
            record_bytes: 70,
            body_bytes: 1,
            rank: Timestamp(5),
            visible_at: Timestamp(1_700_000_600_000),
            expiry: Expiry::After { seconds: 7 },
            group: 3,
            attempts: 4,
            first_leased_at: Timestamp(9),
            nonce: u64::MAX,
            lease_end: Timestamp(11),
            origin: 2,
            moved_at: Timestamp(12),
            ..item(sequence)
        }
    }

    fn block(items: &[Item]) -> Block {
        let mut block = Block::new();
        for item in items {
            block.push(*item);
        }
        block
    }

    #[test]
    fn packed_block_holds_what_the_open_one_held() {
        let items: Vec<Item> = (1..200).map(|n| if n % 7 == 0 { odd(n) } else { item(n) }).collect();
        let mut block = block(&items);
        block.pack();
        assert!(block.live_items().map(|(_, item)| item).eq(items));
    }

    #[test]
    fn ordinary_messages_take_about_six_bytes() {
        let items: Vec<Item> = (1..=256).map(item).collect();
        let mut block = block(&items);
        block.pack();
        assert!(block.heap_bytes() < 256 * 6, "{} bytes", block.heap_bytes());
    }

    #[test]
    fn messages_leave_in_any_order_and_the_front_follows() {
        let mut block = block(&[item(1), item(2), item(3)]);
        block.pack();
        assert_eq!(block.take(Sequence(1)), Some(item(1)));
        assert_eq!(block.take(Sequence(1)), None);
        block.open();
        assert_eq!(block.pop_front(), Some(item(2)));
        assert_eq!(block.pop_front(), Some(item(3)));
        assert_eq!(block.pop_front(), None);
        assert_eq!(block.live(), 0);
    }

    #[test]
    fn block_survives_its_bytes_with_its_gaps() {
        let items: Vec<Item> = (1..=256).map(|n| if n % 5 == 0 { odd(n) } else { item(n) }).collect();
        let mut block = block(&items);
        for gone in [1, 2, 100, 256] {
            assert!(block.take(Sequence(gone)).is_some());
        }
        let mut bytes = Vec::new();
        block.write(&mut bytes);
        let again = Block::read(&mut Reader::new(&bytes)).expect("just written");
        assert!(again.live_items().eq(block.live_items()));
        assert_eq!(again.live(), 252);
    }

    #[test]
    fn cut_bytes_are_no_block() {
        let mut bytes = Vec::new();
        block(&[item(1), odd(2)]).write(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Block::read(&mut Reader::new(&bytes[..end])).is_none());
        }
    }

    #[test]
    fn sweep_finds_the_earliest_expiries_of_the_rest() {
        let mut block = block(&[item(1), item(9), odd(20)]);
        assert_eq!(block.oldest_by_queue, item(1).sent_at);
        block.sweep(|item| item.sequence == Sequence(1));
        assert_eq!(block.oldest_by_queue, item(9).sent_at);
        assert_eq!(block.live(), 2);
    }
}
