//! The ready messages of a standard queue, offered by (rank, sequence).
//!
//! Nearly all stand in one lane in the order they were sent. Those that came back from a lease or delay stand aside in
//! an ordered set; when that grows it is folded into a lane of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use kew_core::{Sequence, Timestamp};

use super::block::{BLOCK_ITEMS, Block};
use super::expired::Expired;
use super::item::Item;
use super::lane::{self, Lane};
use super::row::Row;
use super::sink::Sink;
use super::varint::Reader;

/// Messages that stand aside before they are folded into a lane.
const ASIDE_MAX: usize = 4_096;

type Key = (Timestamp, Sequence);

/// Ready messages in order.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    lane: Lane,
    aside: BTreeMap<Key, Item>,
    /// Keys aside by sequence, for receipts of messages that are not leased.
    aside_keys: BTreeMap<Sequence, Timestamp>,
    /// Lanes folded from what stood aside, in the order of their first key.
    folded: BTreeMap<Key, Lane>,
    folded_live: usize,
    /// The earliest expiry among those aside and folded, or earlier.
    side_expiry: Timestamp,
}

#[derive(Clone, Copy)]
enum Front {
    Lane,
    Aside(Key),
    Folded(Key),
}

impl Default for Ready {
    fn default() -> Self {
        Self {
            lane: Lane::default(),
            aside: BTreeMap::new(),
            aside_keys: BTreeMap::new(),
            folded: BTreeMap::new(),
            folded_live: 0,
            side_expiry: Timestamp::NEVER,
        }
    }
}

impl Ready {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lane.len() + self.aside.len() + self.folded_live
    }

    /// Adds a message to a queue that keeps messages so long.
    pub(crate) fn put(&mut self, item: Item, retention: Duration) {
        if self.lane.takes(&item) {
            self.lane.push(item);
            return;
        }
        self.side_expiry = self.side_expiry.min(item.expires_at(retention));
        self.aside.insert(item.key(), item);
        self.aside_keys.insert(item.sequence, item.rank);
        if self.aside.len() >= ASIDE_MAX {
            self.fold();
        }
    }

    /// Folds what stands aside into lanes. A lane keeps the order of sends too, so one fold may make several.
    fn fold(&mut self) {
        self.aside_keys.clear();
        let mut lanes: Vec<Lane> = Vec::new();
        for item in std::mem::take(&mut self.aside).into_values() {
            self.folded_live += 1;
            match lanes.last_mut().filter(|lane| lane.takes(&item)) {
                Some(lane) => lane.push(item),
                None => {
                    let mut lane = Lane::default();
                    lane.push(item);
                    lanes.push(lane);
                }
            }
        }
        for lane in lanes {
            self.keep_folded(lane);
        }
    }

    fn keep_folded(&mut self, mut lane: Lane) {
        if let Some(key) = lane.front().map(Item::key) {
            self.folded.insert(key, lane);
        }
    }

    fn first(&mut self) -> Option<(Key, Front)> {
        let lane = self.lane.front().map(|item| (item.key(), Front::Lane));
        let aside = self.aside.first_key_value().map(|(key, _)| (*key, Front::Aside(*key)));
        let folded = self.folded.first_key_value().map(|(key, _)| (*key, Front::Folded(*key)));
        [lane, aside, folded].into_iter().flatten().min_by_key(|(key, _)| *key)
    }

    /// The message that is offered next.
    pub(crate) fn front(&mut self) -> Option<Item> {
        if self.aside.is_empty() && self.folded.is_empty() {
            return self.lane.front().copied();
        }
        match self.first()?.1 {
            Front::Lane => self.lane.front().copied(),
            Front::Aside(key) => self.aside.get(&key).copied(),
            Front::Folded(key) => self.folded.get_mut(&key)?.front().copied(),
        }
    }

    fn front_sequence(&mut self) -> Option<Sequence> {
        self.first().map(|(key, _)| key.1)
    }

    /// Takes the next message out.
    pub(crate) fn pop_front(&mut self) -> Option<Item> {
        if self.aside.is_empty() && self.folded.is_empty() {
            return self.lane.pop_front();
        }
        match self.first()?.1 {
            Front::Lane => self.lane.pop_front(),
            Front::Aside(key) => self.take_aside(key),
            Front::Folded(key) => self.take_folded(key, Lane::pop_front),
        }
    }

    fn take_aside(&mut self, key: Key) -> Option<Item> {
        self.aside_keys.remove(&key.1);
        self.aside.remove(&key)
    }

    fn take_folded(&mut self, key: Key, take: impl FnOnce(&mut Lane) -> Option<Item>) -> Option<Item> {
        let mut lane = self.folded.remove(&key)?;
        let item = take(&mut lane);
        if item.is_some() {
            self.folded_live -= 1;
        }
        self.keep_folded(lane);
        item
    }

    /// Takes message `sequence` out, wherever it stands.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        if self.aside.is_empty() && self.folded.is_empty() {
            return self.lane.take(sequence);
        }
        if self.front_sequence() == Some(sequence) {
            return self.pop_front();
        }
        if let Some(rank) = self.aside_keys.get(&sequence) {
            return self.take_aside((*rank, sequence));
        }
        if let Some(item) = self.lane.take(sequence) {
            return Some(item);
        }
        let key = self.folded.iter().find(|(_, lane)| lane.get(sequence).is_some()).map(|(key, _)| *key)?;
        self.take_folded(key, |lane| lane.take(sequence))
    }

    /// Message `sequence`, if it is ready.
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Item> {
        if let Some(rank) = self.aside_keys.get(&sequence) {
            return self.aside.get(&(*rank, sequence)).copied();
        }
        self.lane.get(sequence).or_else(|| self.folded.values().find_map(|lane| lane.get(sequence)))
    }

    /// All ready messages, in the order they are offered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        let lanes = std::iter::once(&self.lane).chain(self.folded.values());
        let mut heads: Vec<std::iter::Peekable<Box<dyn Iterator<Item = Item> + '_>>> = lanes
            .map(|lane| (Box::new(lane.iter()) as Box<dyn Iterator<Item = Item> + '_>).peekable())
            .collect();
        heads
            .push((Box::new(self.aside.values().copied()) as Box<dyn Iterator<Item = Item> + '_>).peekable());
        std::iter::from_fn(move || {
            let next =
                heads.iter_mut().enumerate().filter_map(|(at, head)| Some((head.peek()?.key(), at))).min()?;
            heads.get_mut(next.1)?.next()
        })
    }

    /// The ready messages from this sequence on, in the order of sends, wherever they are offered.
    pub(crate) fn from(&self, sequence: Sequence) -> impl Iterator<Item = Item> + '_ {
        type Items<'a> = std::iter::Peekable<Box<dyn Iterator<Item = Item> + 'a>>;
        let lanes = std::iter::once(&self.lane).chain(self.folded.values());
        let mut heads: Vec<Items<'_>> = lanes
            .map(|lane| (Box::new(lane.from(sequence)) as Box<dyn Iterator<Item = Item> + '_>).peekable())
            .filter_map(|mut items| items.peek().is_some().then_some(items))
            .collect();
        let aside = self.aside_keys.range(sequence..);
        let aside = aside.filter_map(|(sequence, rank)| self.aside.get(&(*rank, *sequence)).copied());
        heads.push((Box::new(aside) as Box<dyn Iterator<Item = Item> + '_>).peekable());
        std::iter::from_fn(move || {
            let next = heads
                .iter_mut()
                .enumerate()
                .filter_map(|(at, head)| Some((head.peek()?.sequence, at)))
                .min()?;
            heads.get_mut(next.1)?.next()
        })
    }

    /// All ready messages, in no particular order.
    pub(crate) fn iter_unordered(&self) -> impl Iterator<Item = Item> + '_ {
        let lanes = std::iter::once(&self.lane).chain(self.folded.values());
        lanes.flat_map(Lane::iter).chain(self.aside.values().copied())
    }

    /// Everything here, piece by piece; a piece may hold no message.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        let lanes = std::iter::once(self.lane).chain(self.folded.into_values());
        lanes.flat_map(Lane::into_pieces).chain(self.aside.into_values().map(Some))
    }

    /// The next instant at which a message may expire, or an earlier one.
    pub(crate) fn next_expiry(&self, retention: Duration) -> Timestamp {
        self.side_expiry.min(self.lane.next_expiry(retention))
    }

    /// Finds the earliest expiry beside the main lane anew, for this retention.
    pub(crate) fn review_expiry(&mut self, retention: Duration) {
        let aside =
            self.aside.values().map(|item| item.expires_at(retention)).min().unwrap_or(Timestamp::NEVER);
        let folded =
            self.folded.values().map(|lane| lane.next_expiry(retention)).min().unwrap_or(Timestamp::NEVER);
        self.side_expiry = aside.min(folded);
    }

    /// Whether very many messages that follow one another have expired at `now`.
    pub(crate) fn has_many_over(&self, now: Timestamp, retention: Duration) -> bool {
        self.lane.many_over(now, retention).is_some()
    }

    /// The bytes of bodies beside the backlog, if those are at most `max` messages.
    pub(crate) fn body_bytes_beside(&self, max: usize) -> Option<u64> {
        if self.aside.len() + self.folded_live > max {
            return None;
        }
        let folded = self.folded.values().flat_map(Lane::blocks).map(Block::body_bytes);
        let aside = self.aside.values().map(|item| u64::from(item.body_bytes));
        Some(folded.sum::<u64>() + aside.sum::<u64>())
    }

    /// Takes out most of them, many at once. `body_bytes` are the bytes of all bodies of it.
    pub(crate) fn expire_many(
        &mut self,
        now: Timestamp,
        body_bytes: u64,
        retention: Duration,
        expired: &mut Expired,
    ) {
        if let Some(over) = self.lane.many_over(now, retention) {
            self.lane.expire_many(over, body_bytes, retention, expired);
        }
    }

    /// Takes out every message that has expired at `now`.
    pub(crate) fn expire(&mut self, now: Timestamp, retention: Duration, expired: &mut Expired) {
        self.lane.expire(now, retention, expired);
        if self.side_expiry > now {
            return;
        }
        let aside: Vec<Key> = self
            .aside
            .iter()
            .filter(|(_, item)| item.expires_at(retention) <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in aside {
            if let Some(item) = self.take_aside(key) {
                expired.add(item, retention);
            }
        }
        if self.folded.values().any(|lane| lane.next_expiry(retention) <= now) {
            for mut lane in std::mem::take(&mut self.folded).into_values() {
                let before = lane.len();
                lane.expire(now, retention, expired);
                self.folded_live -= before - lane.len();
                self.keep_folded(lane);
            }
        }
        self.review_expiry(retention);
    }

    /// When the oldest of the first messages of each lane, and of those aside, was sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Timestamp> {
        let lanes = std::iter::once(&self.lane).chain(self.folded.values());
        lanes.filter_map(Lane::oldest_sent_at).chain(self.aside.values().map(|item| item.sent_at)).min()
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.lane.blocks().chain(self.folded.values().flat_map(Lane::blocks))
    }

    /// The messages that stand aside.
    pub(crate) fn aside_items(&self) -> impl Iterator<Item = &Item> {
        self.aside.values()
    }

    /// Changes where contents lie: in the blocks for which `is_near` says so, and of single messages.
    pub(crate) fn relocate(
        &mut self,
        is_near: impl Fn(&Block) -> bool,
        change: impl Fn(&mut Block),
        single: impl Fn(&mut Item),
    ) {
        for lane in std::iter::once(&mut self.lane).chain(self.folded.values_mut()) {
            lane.relocate(&is_near, &change);
        }
        self.aside.values_mut().for_each(single);
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let folded: usize = self.folded.values().map(|lane| lane.heap_bytes() + size_of::<Lane>()).sum();
        self.lane.heap_bytes() + folded + self.aside.len() * (size_of::<Item>() + 64)
    }

    /// The messages as they are now.
    pub(crate) fn image(&self) -> ReadyImage {
        ReadyImage {
            lane: self.lane.image(),
            folded: self.folded.values().map(Lane::image).collect(),
            aside: self.aside.values().copied().collect(),
        }
    }

    /// Reads everything back, and shows each message.
    pub(crate) fn read(
        from: &mut Reader<'_>,
        retention: Duration,
        see: &mut dyn FnMut(&Item),
    ) -> Option<Self> {
        let mut ready = Self { lane: Lane::read(from, see)?, ..Self::default() };
        for _ in 0..from.number()? {
            let lane = Lane::read(from, see)?;
            ready.folded_live += lane.len();
            ready.keep_folded(lane);
        }
        for _ in 0..from.number()? {
            for item in Block::read_items(from)? {
                see(&item);
                ready.aside.insert(item.key(), item);
                ready.aside_keys.insert(item.sequence, item.rank);
            }
        }
        ready.review_expiry(retention);
        Some(ready)
    }
}

/// The ready messages at one moment.
#[derive(Debug, Default)]
pub(crate) struct ReadyImage {
    lane: Row<Block>,
    folded: Vec<Row<Block>>,
    aside: Vec<Item>,
}

impl ReadyImage {
    /// What it shares or copied, in pieces and messages.
    pub(crate) fn pieces(&self) -> usize {
        let folded: usize = self.folded.iter().map(Row::chunks).sum();
        self.lane.chunks() + folded + self.folded.len() + self.aside.len()
    }

    /// Writes everything for a checkpoint.
    pub(crate) fn write(&self, out: &mut Sink<'_>) {
        lane::write_blocks(&self.lane, out);
        out.number(self.folded.len() as u64);
        for blocks in &self.folded {
            lane::write_blocks(blocks, out);
        }
        let aside = self.aside.chunks(BLOCK_ITEMS);
        out.number(aside.len() as u64);
        for items in aside {
            let mut block = Block::new();
            items.iter().for_each(|item| block.push(*item));
            out.with(|out| block.write(out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::tests::item;
    use super::super::sink::written;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    fn back(sequence: u64, rank: u64) -> Item {
        Item { rank: Timestamp(rank), nonce: 1, ..item(sequence) }
    }

    #[test]
    fn returned_messages_are_merged_into_the_order() {
        let mut ready = Ready::default();
        for sequence in [2, 4, 6] {
            ready.put(item(sequence), DAY);
        }
        ready.put(item(5), DAY);
        ready.put(item(1), DAY);
        let order: Vec<u64> = ready.iter().map(|item| item.sequence.0).collect();
        assert_eq!(order, [1, 2, 4, 5, 6]);
        assert_eq!(ready.take(Sequence(5)), Some(item(5)));
        let out: Vec<u64> = std::iter::from_fn(|| ready.pop_front()).map(|item| item.sequence.0).collect();
        assert_eq!(out, [1, 2, 4, 6]);
    }

    #[test]
    fn many_returned_messages_are_folded_and_still_found() {
        let mut ready = Ready::default();
        ready.put(item(100_000), DAY);
        for sequence in (1..=20_000).rev() {
            ready.put(back(sequence, sequence % 7), DAY);
        }
        assert_eq!(ready.len(), 20_001);
        assert!(ready.folded.len() > 1);
        assert_eq!(ready.get(Sequence(9_999)).map(|item| item.rank), Some(Timestamp(9_999 % 7)));
        assert!(ready.take(Sequence(9_999)).is_some());
        assert!(ready.get(Sequence(9_999)).is_none());
        let order: Vec<Key> = ready.iter().map(|item| item.key()).collect();
        assert!(order.is_sorted());
        assert_eq!(order.len(), 20_000);
        let bytes = written(|out| ready.image().write(out));
        let mut again = Ready::read(&mut Reader::new(&bytes), DAY, &mut |_| {})
            .expect("bytes that this test wrote are read back");
        let out: Vec<Key> = std::iter::from_fn(|| again.pop_front()).map(|item| item.key()).collect();
        assert_eq!(out, order);
    }

    #[test]
    fn messages_expire_wherever_they_stand() {
        let mut ready = Ready::default();
        ready.put(item(50), SECOND);
        for sequence in (1..=20).rev() {
            ready.put(back(sequence, 1), SECOND);
        }
        let mut gone = Expired::default();
        ready.expire(item(20).sent_at.plus(SECOND), SECOND, &mut gone);
        assert_eq!(gone.take_added().messages, 20);
        assert_eq!(ready.len(), 1);
    }
}
