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

/// Messages in the order of (rank, sequence).
#[derive(Clone, Debug)]
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
    /// Whether no message of a full block was sent before one of the full block before it.
    rises: bool,
}

/// Blocks by an instant, each with its number.
pub(crate) type Index = BTreeSet<(Timestamp, u64)>;

impl Default for Lane {
    fn default() -> Self {
        Self {
            blocks: Row::default(),
            first_block: 0,
            live: 0,
            plain: Plain::default(),
            last_key: <(Timestamp, Sequence)>::default(),
            by_age: Index::new(),
            by_own: Index::new(),
            rises: true,
        }
    }
}

/// Whether blocks may be taken out many at once.
#[derive(Clone, Copy, Debug)]
enum Plain {
    /// Every full block expires with the queue's retention, none before the one before it. The newest send in them.
    Through(Timestamp),
    /// Some do not.
    Not,
}

impl Default for Plain {
    fn default() -> Self {
        Self::Through(Timestamp::ZERO)
    }
}

impl Plain {
    /// With one more full block.
    fn and(self, block: &Block) -> Self {
        match (self, block.newest_of_plain()) {
            (Self::Through(before), Some(newest)) if newest >= before => Self::Through(newest),
            _ => Self::Not,
        }
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
        if self.blocks.len() == 1 {
            // Nothing is before it that it could be older than.
            (self.plain, self.rises) = (Plain::default(), true);
        }
        if let Plain::Through(newest) = self.plain {
            self.rises &= last.oldest_by_queue >= newest;
        }
        self.plain = self.plain.and(last);
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
        let newest = taken.back().and_then(Block::newest_of_plain).filter(|_| self.rises);
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
        let first = self.blocks.iter().find(|block| block.live() > 0)?;
        first.live_items().map(|(_, item)| item.sent_at).min()
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

#[cfg(test)]
mod tests {
    use super::super::block::tests::item;
    use super::super::sink::written;
    use super::*;

    fn lane(sequences: std::ops::RangeInclusive<u64>) -> Lane {
        let mut lane = Lane::default();
        for sequence in sequences {
            lane.push(item(sequence));
        }
        lane
    }

    #[test]
    fn messages_come_out_in_order_over_many_blocks() {
        let mut lane = lane(1..=2_000);
        assert!(lane.take(Sequence(700)).is_some());
        assert!(lane.get(Sequence(700)).is_none());
        assert_eq!(lane.get(Sequence(701)), Some(item(701)));
        let out: Vec<u64> = std::iter::from_fn(|| lane.pop_front()).map(|item| item.sequence.0).collect();
        assert!(out.iter().copied().eq((1..=2_000).filter(|n| *n != 700)));
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn deep_lane_is_packed() {
        let lane = lane(1..=100_000);
        assert!(lane.heap_bytes() < 100_000 * 8, "{}", lane.heap_bytes());
    }

    #[test]
    fn empty_lane_takes_up_an_older_message_and_finds_everything_after_it() {
        let mut lane = lane(1..=200);
        while lane.pop_front().is_some() {}
        for sequence in 100..=500 {
            assert!(lane.takes(&item(sequence)));
            lane.push(item(sequence));
        }
        assert!((100..=500).all(|sequence| lane.get(Sequence(sequence)).is_some()));
    }

    #[test]
    fn messages_expire_from_the_instant() {
        let mut lane = lane(1..=600);
        let retention = Duration::from_secs(1);
        let at = item(300).sent_at.plus(retention);
        let mut gone = Expired::default();
        lane.expire(at, retention, &mut gone);
        let gone: Vec<u64> = std::iter::from_fn(|| gone.next()).map(|(item, _)| item.sequence.0).collect();
        assert_eq!(gone, (1..=302).collect::<Vec<_>>());
        assert_eq!(lane.len(), 298);
        assert_eq!(lane.next_expiry(retention), item(303).sent_at.plus(retention));
        lane.expire(Timestamp::NEVER, retention, &mut Expired::default());
        assert_eq!(lane.len(), 0);
        lane.push(item(601));
        assert_eq!(lane.pop_front(), Some(item(601)));
    }

    /// What a lane lets go at `now`, and what stays, by the slow way and by the quick one.
    fn expired(lane: &mut Lane, now: Timestamp, retention: Duration) -> (Vec<u64>, Vec<u64>) {
        let mut gone = Expired::default();
        let bytes = |lane: &Lane| lane.iter().map(|item| u64::from(item.body_bytes)).sum::<u64>();
        let (live_before, bytes_before) = (lane.len() as u64, bytes(lane));
        if let Some(over) = lane.many_over(now, retention) {
            lane.expire_many(over, bytes_before, retention, &mut gone);
        }
        lane.expire(now, retention, &mut gone);
        let added = gone.take_added();
        assert_eq!(lane.iter().count(), lane.len());
        assert_eq!(
            (lane.len() as u64, bytes(lane)),
            (live_before - added.messages, bytes_before - added.body_bytes)
        );
        let mut gone: Vec<u64> =
            std::iter::from_fn(|| gone.next()).map(|(item, _)| item.sequence.0).collect();
        assert_eq!(gone.len() as u64, added.messages);
        gone.sort_unstable();
        (gone, lane.iter().map(|item| item.sequence.0).collect())
    }

    #[test]
    fn many_blocks_expire_at_once_and_none_before_its_time() {
        let (retention, last) = (Duration::from_secs(1), 300_000_u64);
        for through in [1, 255 * 256, 256 * 256, 257 * 256 + 7, 150_000, last - 1, last] {
            let mut lane = lane(1..=last);
            (1..=300).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
            (290_000..290_100).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
            let all: Vec<u64> = lane.iter().map(|item| item.sequence.0).collect();
            let at = item(through).sent_at.plus(retention);
            let is_over = |n: &u64| item(*n).sent_at.plus(retention) <= at;
            let (gone, stay): (Vec<u64>, Vec<u64>) = all.into_iter().partition(is_over);
            assert_eq!(lane.many_over(at, retention).is_some(), through > 256 * 256, "through {through}");
            assert_eq!(expired(&mut lane, at, retention), (gone, stay), "through {through}");
            lane.push(item(last + 1));
            assert!(lane.get(Sequence(last + 1)).is_some());
            assert_index(&lane);
        }
    }

    /// The indexes have each block that they should, and no other.
    fn assert_index(lane: &Lane) {
        let numbered = || (lane.first_block..).zip(lane.blocks());
        let has_any = |(at, _): &(Timestamp, u64)| *at != Timestamp::NEVER;
        let by_age: BTreeSet<_> = numbered().map(|(n, block)| (block.oldest_by_queue, n)).collect();
        assert!(lane.by_age.iter().eq(by_age.iter().filter(|entry| has_any(entry))));
        let by_own: BTreeSet<_> = numbered().map(|(n, block)| (block.earliest_own, n)).collect();
        assert!(lane.by_own.iter().eq(by_own.iter().filter(|entry| has_any(entry))));
    }

    #[test]
    fn blocks_that_leave_together_leave_the_index_in_whatever_order_their_messages_were_sent() {
        let (retention, last) = (Duration::from_secs(1), 200_000_u64);
        // Each block has one message that was sent long before the others: the later the block, the earlier.
        let sent_at =
            |n: u64| if n % 256 == 9 { Timestamp(10_000_000 - n) } else { Timestamp(20_000_000 + n) };
        let message = |n: u64| Item { sent_at: sent_at(n), ..item(n) };
        for through in [80_000, 150_000, last] {
            let mut lane = Lane::default();
            (1..=last).for_each(|n| lane.push(message(n)));
            (last - 255..=last).step_by(3).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
            let at = sent_at(through).plus(retention);
            let over = lane.many_over(at, retention).expect("hundreds of blocks are over");
            let bytes = lane.iter().map(|item| u64::from(item.body_bytes)).sum();
            lane.expire_many(over, bytes, retention, &mut Expired::default());
            assert!(lane.first_block > 250);
            assert_index(&lane);
        }
    }

    #[test]
    fn an_older_message_in_the_last_block_expires_with_those_before_it() {
        let (retention, last) = (Duration::from_secs(1), 300 * 256 + 6_u64);
        for (sent_with, expires) in [(60_000, true), (70_000, false)] {
            let mut lane = lane(1..=last - 1);
            lane.push(Item { sent_at: item(sent_with).sent_at, ..item(last) });
            let at = item(68_000).sent_at.plus(retention);
            assert!(lane.rises && lane.many_over(at, retention).is_some());
            let (gone, _) = expired(&mut lane, at, retention);
            assert_eq!((gone.contains(&last), lane.first_block > 250), (expires, true));
            assert_index(&lane);
        }
    }

    /// A number below `below`, by a plain generator (xorshift).
    fn chance(state: &mut u64, below: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % below
    }

    #[test]
    fn lanes_with_a_few_older_messages_let_exactly_those_go_that_are_over() {
        let retention = Duration::from_secs(1);
        for seed in 1..=40_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let last = match seed % 2 {
                0 => 300 * 256 + chance(&mut state, 100_000),
                // The last block is the first of a chunk.
                _ => (5 + chance(&mut state, 4)) * 64 * 256 + 1 + chance(&mut state, 3),
            };
            let (mut sent, mut lane) = (Vec::new(), Lane::default());
            for n in 1..=last {
                // A few older messages, at times many in a row, now and then just a little older.
                let older = n == last
                    || chance(&mut state, 20_000) == 0
                    || (n % 256 == 1 && chance(&mut state, 200) == 0);
                let by =
                    if chance(&mut state, 2) == 0 { chance(&mut state, 900) } else { chance(&mut state, n) };
                let sent_at =
                    if older && seed % 4 != 0 { item(n.saturating_sub(by)).sent_at } else { item(n).sent_at };
                sent.push(sent_at);
                lane.push(Item { sent_at, ..item(n) });
            }
            let sent_at = |n: u64| sent[usize::try_from(n - 1).expect("messages are counted from 1")];
            for _ in 0..4 {
                // Some messages leave by receipts: single ones, and nearly all of a block.
                for _ in 0..50 {
                    lane.take(Sequence(1 + chance(&mut state, last)));
                }
                let block = chance(&mut state, last / 256) * 256;
                for n in block + 3..=block + 256 {
                    lane.take(Sequence(n));
                }
                let through = match chance(&mut state, 2) {
                    0 => chance(&mut state, last),
                    _ => last - chance(&mut state, 600),
                };
                let at = item(through).sent_at.plus(retention);
                let is_over = |n: &u64| sent_at(*n).plus(retention) <= at;
                let all = lane.iter().map(|item| item.sequence.0);
                let (over, left): (Vec<u64>, Vec<u64>) = all.partition(is_over);
                let (gone, stay) = expired(&mut lane, at, retention);
                assert!(gone == over && stay == left, "seed {seed}: others went than those that are over");
                assert_index(&lane);
            }
        }
    }

    #[test]
    fn a_search_for_what_is_over_does_not_ask_the_last_block() {
        let retention = Duration::from_secs(1);
        for full in [384, 448, 768] {
            let mut lane = lane(1..=full * 256);
            let last = full * 256 + 1;
            lane.push(Item { sent_at: item(1).sent_at, ..item(last) });
            let at = item((full - 1) * 256).sent_at.plus(retention);
            let (gone, stay) = expired(&mut lane, at, retention);
            let is_over = |n: &u64| *n == last || item(*n).sent_at.plus(retention) <= at;
            assert!(gone.iter().all(is_over), "{:?} went before its time", gone.iter().find(|n| !is_over(n)));
            assert!(!stay.iter().any(is_over));
        }
    }

    #[test]
    fn none_expires_before_its_time_because_an_older_one_stands_behind_it() {
        let retention = Duration::from_secs(1);
        // The block in the middle, which a search looks at first, begins with two that were sent earlier. It is the
        // last of a chunk, and chunks leave as a whole.
        let (blocks, odd) = (638_u64, 319_u64);
        let in_odd = |n: u64| (n - 1) / 256 == odd;
        let early = |n: u64| if n % 256 == 1 { item(1).sent_at } else { item(odd * 256 - 5).sent_at };
        let message = |n: u64| {
            if in_odd(n) && (1..=2).contains(&(n % 256)) {
                Item { sent_at: early(n), ..item(n) }
            } else {
                item(n)
            }
        };
        let mut lane = Lane::default();
        (1..=blocks * 256).for_each(|n| lane.push(message(n)));
        // Only the early ones of it are left, and of these one expires.
        (1..=blocks * 256).filter(|n| in_odd(*n) && !(1..=2).contains(&(n % 256))).for_each(|n| {
            assert!(lane.take(Sequence(n)).is_some());
        });
        expired(&mut lane, item(1).sent_at.plus(retention), retention);
        let at = item(odd * 256 - 5).sent_at.plus(retention);
        let (gone, stay) = expired(&mut lane, at, retention);
        let is_over = |n: &u64| message(*n).sent_at.plus(retention) <= at;
        assert!(gone.iter().all(is_over), "{:?} went before its time", gone.iter().find(|n| !is_over(n)));
        assert!(!stay.iter().any(is_over));
    }

    #[test]
    fn a_lane_with_older_messages_behind_newer_ones_lets_only_those_go_that_are_over() {
        let retention = Duration::from_secs(1);
        let mut lane = lane(1..=100_000);
        for sequence in 100_001..=200_000 {
            // As dead letters come: the time they were sent is kept.
            lane.push(Item { sent_at: item(1).sent_at, ..item(sequence) });
        }
        (200_001..=200_300).for_each(|sequence| lane.push(item(sequence)));
        let at = item(50_000).sent_at.plus(retention);
        let over = |sequence: &u64| item(*sequence).sent_at.plus(retention) <= at;
        assert_eq!(lane.many_over(Timestamp::NEVER, retention), None);
        let (gone, stay) = expired(&mut lane, at, retention);
        assert!(gone.into_iter().eq((1..=100_000).filter(over).chain(100_001..=200_000)));
        assert!(stay.into_iter().eq((1..=100_000).filter(|n| !over(n)).chain(200_001..=200_300)));
    }

    #[test]
    fn lane_survives_its_bytes() {
        let mut lane = lane(1..=1_000);
        for sequence in 1..=300 {
            lane.take(Sequence(sequence));
        }
        let bytes = written(|out| write_blocks(&lane.image(), out));
        let mut again = Lane::read(&mut Reader::new(&bytes), &mut |_| {})
            .expect("bytes that this test wrote are read back");
        assert!(again.iter().eq(lane.iter()));
        assert_eq!(again.len(), 700);
        assert!(again.takes(&item(1_001)));
        assert!(!again.takes(&item(999)));
        again.push(item(1_001));
        assert_eq!(again.front(), Some(&item(301)));
    }
}
