//! Up to 256 messages in order, open or packed.
//!
//! A queue's backlog is mostly messages that no request touches for a while. Packed, one takes about six bytes: the
//! differences to the message before it, as variable-length numbers. Only the block being filled and the block being
//! served are open.

mod packed;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use kew_core::{Expiry, Sequence, Timestamp};

use super::groups::GroupSlot;
use super::item::Item;
use super::shelf::Address;
use super::varint::{self, Reader};
#[cfg(test)]
pub(super) use packed::UNPACKED;
pub(super) use packed::{Unpack, pack};

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
    /// Those that expire with the queue's retention, also of those that left.
    by_queue: [u64; 4],
    /// Whether it ever held one of a group.
    has_groups: bool,
    /// The smallest and largest sequence it ever held.
    pub sequences: (Sequence, Sequence),
    /// The earliest send of one that expires with the queue's retention, or earlier.
    pub oldest_by_queue: Timestamp,
    /// The earliest instant one with a life of its own expires, or earlier.
    pub earliest_own: Timestamp,
    /// The latest send of one that expires with the queue's retention, or later.
    newest_by_queue: Timestamp,
    /// The latest instant one with a life of its own expires, or later.
    latest_own: Timestamp,
    /// The lengths of the bodies of those that are live, all together.
    body_bytes: u64,
    /// Of that, the bodies of those that expire with the queue's retention.
    body_bytes_by_queue: u64,
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
            by_queue: [0; 4],
            has_groups: false,
            sequences: (Sequence(u64::MAX), Sequence(0)),
            oldest_by_queue: Timestamp::NEVER,
            earliest_own: Timestamp::NEVER,
            newest_by_queue: Timestamp::ZERO,
            latest_own: Timestamp::ZERO,
            body_bytes: 0,
            body_bytes_by_queue: 0,
            addresses: (Address(u64::MAX), Address(0)),
        }
    }

    /// What stays in its place when it is taken out as a whole: searches by sequence still pass it.
    pub(crate) fn emptied(&self) -> Self {
        Self { sequences: self.sequences, ..Self::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.count) == BLOCK_ITEMS
    }

    pub(crate) fn live(&self) -> usize {
        usize::from(self.live)
    }

    /// The groups of its messages, as [`Item::group`] has them, where any is of one.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupSlot> {
        let items = self.has_groups.then(|| self.live_items());
        items.into_iter().flatten().filter_map(|(_, item)| item.group)
    }

    /// The lengths of the bodies of all its messages together.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The latest send of its messages, or later, if all expire with the queue's retention and none is of a group.
    pub(crate) fn newest_of_plain(&self) -> Option<Timestamp> {
        let is_plain =
            !self.has_groups && self.earliest_own == Timestamp::NEVER && self.latest_own == Timestamp::ZERO;
        (is_plain && self.oldest_by_queue != Timestamp::NEVER).then_some(self.newest_by_queue)
    }

    /// Whether the time of all its messages is over, as far as can be said without looking at each.
    pub(crate) fn is_over(&self, now: Timestamp, retention: Duration) -> bool {
        let none_by_queue = self.oldest_by_queue == Timestamp::NEVER;
        (none_by_queue || self.is_over_by_queue(now, retention)) && self.latest_own <= now
    }

    /// Whether there are any that expire with the queue's retention, and the time of all of those is over.
    pub(crate) fn is_over_by_queue(&self, now: Timestamp, retention: Duration) -> bool {
        self.oldest_by_queue != Timestamp::NEVER && self.newest_by_queue.plus(retention) <= now
    }

    /// Takes out all that expire with the queue's retention, as a block of their own.
    pub(crate) fn split_by_queue(&mut self) -> Self {
        let mut split = self.clone();
        (split.earliest_own, split.latest_own) = (Timestamp::NEVER, Timestamp::ZERO);
        split.body_bytes = split.body_bytes_by_queue;
        for (word, by_queue) in self.by_queue.into_iter().enumerate() {
            // Places that nothing was put into yet are for the next messages.
            let places = u32::from(self.count).saturating_sub(64 * word as u32).min(64);
            let places = u64::MAX.checked_shr(64 - places).unwrap_or(0);
            self.gone[word] |= by_queue;
            split.gone[word] |= !by_queue & places;
        }
        (self.oldest_by_queue, self.newest_by_queue) = (Timestamp::NEVER, Timestamp::ZERO);
        self.body_bytes -= std::mem::take(&mut self.body_bytes_by_queue);
        self.recount();
        split.recount();
        split
    }

    /// Counts what is live after much of it left at once.
    fn recount(&mut self) {
        self.live = (0..self.count).filter(|place| !self.is_gone(usize::from(*place))).count() as u16;
        while self.head < self.count && self.is_gone(usize::from(self.head)) {
            self.head += 1;
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.body, Body::Open(_))
    }

    /// Adds a message at the end of a block that is not full.
    pub(crate) fn push(&mut self, item: Item) {
        self.open();
        let Body::Open(items) = &mut self.body else { return };
        items.push(item);
        self.count_in(usize::from(self.count), &item);
        self.count += 1;
    }

    /// A message is in this place.
    fn count_in(&mut self, place: usize, item: &Item) {
        self.live += 1;
        self.body_bytes += u64::from(item.body_bytes);
        self.has_groups |= item.group.is_some();
        if item.expiry == Expiry::ByQueue {
            self.by_queue[place / 64] |= 1 << (place % 64);
            self.body_bytes_by_queue += u64::from(item.body_bytes);
        }
        self.note(item);
    }

    fn note(&mut self, item: &Item) {
        self.sequences = (self.sequences.0.min(item.sequence), self.sequences.1.max(item.sequence));
        self.addresses = (self.addresses.0.min(item.address), self.addresses.1.max(item.address));
        match item.expiry {
            Expiry::ByQueue => {
                self.oldest_by_queue = self.oldest_by_queue.min(item.sent_at);
                self.newest_by_queue = self.newest_by_queue.max(item.sent_at);
            }
            Expiry::After { .. } => {
                let own = item.expires_at(Duration::ZERO);
                self.earliest_own = self.earliest_own.min(own);
                self.latest_own = self.latest_own.max(own);
            }
            Expiry::Never => self.latest_own = Timestamp::NEVER,
        }
    }

    /// Each live message, behind a piece for the block itself.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Option<Item>> + use<> {
        let items: Vec<Item> = self.live_items().map(|(_, item)| item).collect();
        std::iter::once(None).chain(items.into_iter().map(Some))
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
        self.mark_gone(usize::from(self.head), &item);
        Some(item)
    }

    /// Takes message `sequence` out, wherever it stands.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        let (place, item) = self.find(sequence)?;
        self.mark_gone(place, &item);
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

    fn mark_gone(&mut self, place: usize, item: &Item) {
        self.gone[place / 64] |= 1 << (place % 64);
        self.live -= 1;
        self.body_bytes -= u64::from(item.body_bytes);
        if item.expiry == Expiry::ByQueue {
            self.body_bytes_by_queue -= u64::from(item.body_bytes);
        }
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

    /// When the oldest of its live messages was sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Timestamp> {
        let Body::Open(items) = &self.body else {
            return self.live_items().map(|(_, item)| item.sent_at).min();
        };
        // All before its head are gone.
        let from_its_head = items.iter().enumerate().skip(usize::from(self.head));
        from_its_head.filter(|(place, _)| !self.is_gone(*place)).map(|(_, item)| item.sent_at).min()
    }

    /// The live messages with their places, in order.
    pub(crate) fn live_items(&self) -> impl Iterator<Item = (usize, Item)> + '_ {
        self.all_items().enumerate().filter(|(place, _)| !self.is_gone(*place))
    }

    /// Takes out every message for which `leaves` says so, and finds the earliest expiries of the rest anew.
    pub(crate) fn sweep(&mut self, mut leaves: impl FnMut(&Item) -> bool) {
        let items: Vec<(usize, Item)> = self.live_items().collect();
        (self.oldest_by_queue, self.earliest_own) = (Timestamp::NEVER, Timestamp::NEVER);
        // The newest send is kept: a search among blocks counts on it that no block's is before that of an earlier one.
        self.latest_own = Timestamp::ZERO;
        for (place, item) in items {
            if leaves(&item) {
                self.mark_gone(place, &item);
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

    /// Passes over a block.
    pub(crate) fn skip(from: &mut Reader<'_>) -> Option<()> {
        (0..1 + 4).try_for_each(|_| from.skip())?;
        from.bytes().map(drop)
    }

    /// The parts of a block as it was written: how many messages, which of them are gone, and all of them packed.
    fn read_parts<'a>(from: &mut Reader<'a>) -> Option<(u16, [u64; 4], &'a [u8])> {
        let count = u16::try_from(from.number()?).ok().filter(|count| usize::from(*count) <= BLOCK_ITEMS)?;
        let mut gone = [0; 4];
        for word in &mut gone {
            *word = from.number()?;
        }
        Some((count, gone, from.bytes()?))
    }

    /// Reads the messages of a block, without the block; `None` when the bytes are not one.
    pub(crate) fn read_items(from: &mut Reader<'_>) -> Option<Vec<Item>> {
        let (count, gone, bytes) = Self::read_parts(from)?;
        let (mut unpack, mut read) = (Unpack::new(bytes, count), 0);
        let mut items = Vec::with_capacity(usize::from(count));
        for (place, item) in unpack.by_ref().enumerate() {
            read += 1;
            if gone[place / 64] >> (place % 64) & 1 == 0 {
                items.push(item);
            }
        }
        (read == count && unpack.is_at_end()).then_some(items)
    }

    /// Reads a block back and shows each message that is live; `None` when the bytes are not one.
    pub(crate) fn read(from: &mut Reader<'_>, see: &mut dyn FnMut(&Item)) -> Option<Self> {
        let (count, gone, bytes) = Self::read_parts(from)?;
        let mut block = Self { gone, ..Self::new() };
        let mut unpack = Unpack::new(bytes, count);
        let mut read = 0;
        for (place, item) in unpack.by_ref().enumerate() {
            read += 1;
            if !block.is_gone(place) {
                block.count_in(place, &item);
                see(&item);
            }
        }
        if read != count || !unpack.is_at_end() {
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
