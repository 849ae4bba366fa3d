//! A backlog: messages in order, as a run of blocks of which only the first and the last are open.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use kew_core::{Sequence, Timestamp};

use super::block::{BLOCK_ITEMS, Block};
use super::expired::Expired;
use super::fifo::Sum;
use super::item::Item;
use super::row::Row;
use super::sink::Sink;
use super::varint::Reader;

#[cfg(test)]
mod tests;

/// Messages in the order of (rank, sequence).
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    blocks: Row<Block>,
    /// The number of the first block; numbers only grow. The indexes below know blocks by them.
    first_block: u64,
    live: usize,
    /// What is known of all blocks but the last.
    plain: Plain,
    last_key: (Timestamp, Sequence),
    /// Blocks by the earliest send of a message that expires with the queue's retention.
    by_age: Index,
    /// Blocks by the earliest expiry of a message with a life of its own.
    by_own: Index,
}

/// Blocks by an instant, each with its number.
pub(crate) type Index = BTreeSet<(Timestamp, u64)>;

/// Whether blocks may be taken out many at once.
#[derive(Clone, Copy, Debug)]
enum Plain {
    /// Every full block expires with the queue's retention, none before the one before it.
    Through {
        /// The newest send in them.
        newest: Timestamp,
        /// Whether no message of a full block was sent before one of the full block before it.
        rises: bool,
    },
    /// Some do not.
    Not,
}

impl Default for Plain {
    fn default() -> Self {
        Self::Through { newest: Timestamp::ZERO, rises: true }
    }
}

impl Plain {
    /// With one more full block.
    fn and(self, block: &Block) -> Self {
        match (self, block.newest_of_plain()) {
            (Self::Through { newest: before, rises }, Some(newest)) if newest >= before => {
                Self::Through { newest, rises: rises && block.oldest_by_queue >= before }
            }
            _ => Self::Not,
        }
    }

    /// Whether the ages of full blocks rise, so that an index of them has them in their order.
    fn rises(self) -> bool {
        matches!(self, Self::Through { rises: true, .. })
    }
}

/// Fewer blocks than this are taken out one by one.
const MANY_BLOCKS: usize = 256;

impl Lane {
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Whether `item` belongs behind everything here, in the order of keys and in that of sends.
    pub(crate) fn takes(&self, item: &Item) -> bool {
        self.live == 0 || self.is_behind(item)
    }

    fn is_behind(&self, item: &Item) -> bool {
        item.key() > self.last_key && item.sequence > self.last_key.1
    }

    /// Adds a message at the end. Its key is above every other.
    pub(crate) fn push(&mut self, item: Item) {
        if self.live == 0 && !self.is_behind(&item) {
            // The traces of those that left would mislead a search by sequence.
            *self = Self::default();
        }
        if self.blocks.back().is_none_or(Block::is_full) {
            // A full block that nothing was taken from yet is packed even if it is the first: most backlogs only grow.
            let is_first = self.blocks.len() == 1;
            self.note_last_full();
            if let Some(full) = self.blocks.back_mut().filter(|full| !is_first || full.live() == BLOCK_ITEMS)
            {
                full.pack();
            }
            self.blocks.push_back(Block::new());
        }
        let number = self.first_block + self.blocks.len() as u64 - 1;
        let Some(block) = self.blocks.back_mut() else { return };
        let (age, own) = (block.oldest_by_queue, block.earliest_own);
        block.push(item);
        let (new_age, new_own) = (block.oldest_by_queue, block.earliest_own);
        reindex(&mut self.by_age, number, age, new_age);
        reindex(&mut self.by_own, number, own, new_own);
        self.live += 1;
        self.last_key = item.key();
    }

    /// The last block, if there is one, is followed by another from now on.
    fn note_last_full(&mut self) {
        let Some(last) = self.blocks.back() else { return };
        // Where none is before it, it cannot be older than that.
        let before = if self.blocks.len() == 1 { Plain::default() } else { self.plain };
        self.plain = before.and(last);
    }

    /// The first message.
    pub(crate) fn front(&mut self) -> Option<&Item> {
        if self.live == 0 {
            return None;
        }
        if self.blocks.front()?.live() == 0 {
            self.drop_empty_front();
        }
        let block = self.blocks.front_mut()?;
        block.open();
        block.front()
    }

    /// Takes the first message out.
    pub(crate) fn pop_front(&mut self) -> Option<Item> {
        self.front()?;
        let block = self.blocks.front_mut()?;
        let item = block.pop_front()?;
        self.live -= 1;
        if block.live() == 0 {
            self.drop_empty_front();
        }
        Some(item)
    }

    /// Takes message `sequence` out, wherever it stands.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        if self.live == 0 {
            return None;
        }
        // Nearly always the first is wanted.
        if let Some(block) = self.blocks.front_mut()
            && block.is_open()
            && block.front().is_some_and(|first| first.sequence == sequence)
        {
            let item = block.pop_front();
            self.live -= 1;
            if block.live() == 0 {
                self.drop_empty_front();
            }
            return item;
        }
        let item = self.holding(sequence).find_map(|place| self.blocks.get_mut(place)?.take(sequence))?;
        self.live -= 1;
        self.drop_empty_front();
        Some(item)
    }

    /// Message `sequence`, if it is here.
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Item> {
        self.holding(sequence).find_map(|place| self.blocks.get(place)?.get(sequence))
    }

    /// The blocks that may hold `sequence`. Blocks follow the order of sends: a lane only takes what keeps it.
    fn holding(&self, sequence: Sequence) -> Range<usize> {
        let place = self.blocks.partition_point(|block| block.sequences.1 < sequence);
        place..(place + 1).min(self.blocks.len())
    }

    fn drop_empty_front(&mut self) {
        while let Some(block) = self.blocks.front()
            && block.live() == 0
            && (self.blocks.len() > 1 || block.is_full())
        {
            let (age, own) = (block.oldest_by_queue, block.earliest_own);
            reindex(&mut self.by_age, self.first_block, age, Timestamp::NEVER);
            reindex(&mut self.by_own, self.first_block, own, Timestamp::NEVER);
            self.blocks.pop_front();
            self.first_block += 1;
        }
    }

    /// The next instant at which a message here may expire, or an earlier one.
    pub(crate) fn next_expiry(&self, retention: Duration) -> Timestamp {
        let by_age = self.by_age.first().map_or(Timestamp::NEVER, |(sent_at, _)| sent_at.plus(retention));
        let by_own = self.by_own.first().map_or(Timestamp::NEVER, |(at, _)| *at);
        by_age.min(by_own)
    }

    /// Takes out every message that has expired at `now`, in no particular order. Blocks of which all have are taken
    /// out as they are.
    pub(crate) fn expire(&mut self, now: Timestamp, retention: Duration, expired: &mut Expired) {
        if self.next_expiry(retention) <= now {
            self.expire_front(now, retention, expired);
        }
        while self.next_expiry(retention) <= now {
            let by_age = self.by_age.first().filter(|(sent_at, _)| sent_at.plus(retention) <= now);
            let Some((_, number)) = by_age.or_else(|| self.by_own.first()).copied() else { return };
            let place = usize::try_from(number.wrapping_sub(self.first_block)).unwrap_or(usize::MAX);
            let Some(block) = self.blocks.get(place) else { return };
            let (age, own, live) = (block.oldest_by_queue, block.earliest_own, block.live());
            if place + 1 < self.blocks.len() && block.is_over(now, retention) {
                let emptied = block.emptied();
                let whole = self.blocks.replace(place, emptied);
                whole.into_iter().for_each(|block| expired.add_block(block, retention));
            } else if let Some(block) = self.blocks.get_mut(place) {
                expired.take_from(block, now, retention);
            }
            let Some(block) = self.blocks.get(place) else { return };
            self.live -= live - block.live();
            reindex(&mut self.by_age, number, age, block.oldest_by_queue);
            reindex(&mut self.by_own, number, own, block.earliest_own);
        }
        self.drop_empty_front();
    }

    /// Takes out the first blocks while the time of all their messages is over. The last one is kept: it is being
    /// filled.
    fn expire_front(&mut self, now: Timestamp, retention: Duration, expired: &mut Expired) {
        while self.blocks.len() > 1
            && self.blocks.front().is_some_and(|block| block.is_over(now, retention))
            && let Some(block) = self.blocks.pop_front_shared()
        {
            reindex(&mut self.by_age, self.first_block, block.oldest_by_queue, Timestamp::NEVER);
            reindex(&mut self.by_own, self.first_block, block.earliest_own, Timestamp::NEVER);
            self.first_block += 1;
            self.live -= block.live();
            expired.add_block(block, retention);
        }
    }

    /// How many blocks from the front are over, if they are many and each was sent after the one before: if one is over
    /// then, all before it are. The last one is not among them.
    pub(crate) fn many_over(&self, now: Timestamp, retention: Duration) -> Option<usize> {
        if self.blocks.len() <= MANY_BLOCKS || matches!(self.plain, Plain::Not) {
            return None;
        }
        let is_over =
            |block: &Block| block.newest_of_plain().is_some_and(|newest| newest.plus(retention) <= now);
        // Not among all: the last one may have messages that were sent before those of the others.
        let over = self.blocks.partition_point_among(self.blocks.len() - 1, is_over);
        (over >= MANY_BLOCKS).then_some(over)
    }

    /// Takes out most of those, without looking at each: what they hold is what the whole lane holds without the
    /// others, of which there are mostly few. `body_bytes` are the bytes of all its bodies.
    pub(crate) fn expire_many(
        &mut self,
        over: usize,
        body_bytes: u64,
        retention: Duration,
        expired: &mut Expired,
    ) {
        let before = self.live;
        let taken = self.blocks.take_front_chunks(over);
        let sum = |blocks: &Row<Block>| {
            blocks
                .iter()
                .fold((0, 0), |(live, bytes), block| (live + block.live(), bytes + block.body_bytes()))
        };
        let (live, body_bytes) = if taken.len() < self.blocks.len() {
            sum(&taken)
        } else {
            let rest = sum(&self.blocks);
            (before - rest.0, body_bytes - rest.1)
        };
        self.live -= live;
        self.first_block += taken.len() as u64;
        let newest = taken.back().and_then(Block::newest_of_plain).filter(|_| self.plain.rises());
        let cut = cut_before(&mut self.by_age, self.first_block, newest);
        cut_before(&mut self.by_own, self.first_block, None);
        if let Some(last) = self.blocks.back() {
            // It may have messages that were sent before those of the blocks before it.
            let number = self.first_block + self.blocks.len() as u64 - 1;
            reindex(&mut self.by_age, number, Timestamp::NEVER, last.oldest_by_queue);
        }
        expired.add_blocks(taken, cut, retention, Sum { messages: live as u64, body_bytes });
    }

    /// All messages, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        self.blocks.iter().flat_map(|block| block.live_items().map(|(_, item)| item))
    }

    /// The messages from this sequence on, in order.
    pub(crate) fn from(&self, sequence: Sequence) -> impl Iterator<Item = Item> + '_ {
        let places = self.holding(sequence).start..self.blocks.len();
        let blocks = places.filter_map(|place| self.blocks.get(place));
        let items = blocks.flat_map(|block| block.live_items().map(|(_, item)| item));
        items.skip_while(move |item| item.sequence < sequence)
    }

    /// Everything here, piece by piece; a piece may hold no message.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        let listed = self.by_age.into_iter().chain(self.by_own).map(|_| None);
        self.blocks.into_values().flat_map(|block| block.pieces()).chain(listed)
    }

    /// When the oldest message of the first block was sent: those behind were sent later, or moved here.
    pub(crate) fn oldest_sent_at(&self) -> Option<Timestamp> {
        self.blocks.iter().find(|block| block.live() > 0)?.oldest_sent_at()
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Changes where contents lie, in the blocks for which `is_near` says so.
    pub(crate) fn relocate(&mut self, is_near: impl Fn(&Block) -> bool, change: impl Fn(&mut Block)) {
        self.blocks.change(is_near, change);
    }

    /// The blocks as they are now.
    pub(crate) fn image(&self) -> Row<Block> {
        self.blocks.clone()
    }

    /// Bytes this lane holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.iter().map(Block::heap_bytes).sum::<usize>() + self.blocks.heap_bytes()
    }

    /// Reads a lane back.
    pub(crate) fn read(from: &mut Reader<'_>, see: &mut dyn FnMut(&Item)) -> Option<Self> {
        let mut lane = Self::default();
        for _ in 0..from.number()? {
            let block = Block::read(from, see)?;
            let number = lane.blocks.len() as u64;
            reindex(&mut lane.by_age, number, Timestamp::NEVER, block.oldest_by_queue);
            reindex(&mut lane.by_own, number, Timestamp::NEVER, block.earliest_own);
            lane.live += block.live();
            lane.note_last_full();
            lane.blocks.push_back(block);
        }
        if let Some(last) = lane.blocks.back().and_then(|block| block.live_items().last()) {
            lane.last_key = last.1.key();
        }
        Some(lane)
    }
}

/// Writes the blocks of a lane for a checkpoint.
pub(crate) fn write_blocks(blocks: &Row<Block>, out: &mut Sink<'_>) {
    out.number(blocks.iter().filter(|block| block.live() > 0).count() as u64);
    for block in blocks.iter().filter(|block| block.live() > 0) {
        out.with(|out| block.write(out));
    }
}

#[inline]
fn reindex(index: &mut Index, number: u64, old: Timestamp, new: Timestamp) {
    if old != new {
        reindex_anew(index, number, old, new);
    }
}

fn reindex_anew(index: &mut Index, number: u64, old: Timestamp, new: Timestamp) {
    if old != Timestamp::NEVER {
        index.remove(&(old, number));
    }
    if new != Timestamp::NEVER {
        index.insert((new, number));
    }
}

/// Takes the blocks before `first` out of an index, and answers an index with them in it. Where ages rise none of them
/// was sent after `newest`, and none of the others before, but perhaps the last one: they are cut off as they are. Else
/// the others are listed anew. To take forty thousand out one by one takes 25 to 50 ms.
fn cut_before(index: &mut Index, first: u64, newest: Option<Timestamp>) -> Index {
    let behind = match newest {
        Some(newest) => index.split_off(&(newest, first)),
        None => index.iter().copied().filter(|(_, number)| *number >= first).collect(),
    };
    std::mem::replace(index, behind)
}
