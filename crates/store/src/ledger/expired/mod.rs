//! Messages at rest whose time is over, millions at once perhaps: seen off some at a time.
//!
//! When the retention of a queue is lowered, a hold of expiry ends or the clock leaps, most of a backlog expires at
//! once. On a standard queue its blocks leave the order as they are, so from that instant on no read finds any of them;
//! the figures follow by one subtraction a block. Only where messages have fairness groups, which count one less each,
//! all are looked at. On a FIFO queue the whole order leaves when all at rest are over and few others are there; else a
//! line is drawn behind the last that is over, and they are taken out of their groups as they are seen off.
//!
//! What is left to do for each message (its place on the shelf is vacated, its end is put into the history, a group of
//! which nothing is left is forgotten) is done in slices, a millisecond apart, whatever becomes of the queue meanwhile.
//! None of that is in a journal or a checkpoint, so slices leave no record, and replay does it all where it happens.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Event, EventKind, QueueId, Sequence, Timestamp};

use super::Ledger;
use super::block::Block;
use super::book::Book;
use super::fifo::{Fifo, Sum};
use super::groups::GroupSlot;
use super::item::Item;
use super::lane::Index;
use super::row::Row;
use super::shelf::Shelf;

#[cfg(test)]
mod tests;

/// Messages of one queue that expired, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Expired {
    /// Each with the retention its messages expired under.
    blocks: VecDeque<(Arc<Block>, Duration)>,
    /// Many blocks at once, the same, and what is left of an index of them: it is given back with them.
    rows: VecDeque<(Row<Block>, Duration, Index)>,
    /// Orders that left a FIFO queue, of which the messages before a line expired.
    orders: VecDeque<Box<Fifo>>,
    /// How many messages there are in all of these.
    len: u64,
    /// What is left of the first block, each with the instant at which its time was over.
    first: std::vec::IntoIter<(Item, Timestamp)>,
    added: Added,
}

/// What came to those that expired since this was last asked.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// How many messages.
    pub messages: u64,
    /// The lengths of their bodies together.
    pub body_bytes: u64,
    /// The group of each that is of one.
    pub groups: Vec<GroupSlot>,
}

impl Expired {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a block of which all messages expired under this retention.
    pub(crate) fn add_block(&mut self, block: Arc<Block>, retention: Duration) {
        if block.live() > 0 {
            self.count(Sum { messages: block.live() as u64, body_bytes: block.body_bytes() });
            self.added.groups.extend(block.groups());
            self.blocks.push_back((block, retention));
        }
    }

    /// Adds many blocks at once, and an index of them, of which all messages expired under this retention, and none is
    /// of a group.
    pub(crate) fn add_blocks(&mut self, blocks: Row<Block>, index: Index, retention: Duration, live: Sum) {
        self.count(live);
        self.rows.push_back((blocks, retention, index));
    }

    /// Adds the order of a FIFO queue of which every message at rest expired under this retention.
    pub(crate) fn add_order(&mut self, mut order: Box<Fifo>, retention: Duration, at_rest: Sum) {
        order.end_all(at_rest.messages, retention);
        self.count(at_rest);
        self.orders.push_back(order);
    }

    /// Adds the messages of a FIFO queue that expired before it was emptied, and were counted then.
    pub(super) fn add_split(&mut self, order: Box<Fifo>) {
        self.len += order.over_count();
        self.orders.push_back(order);
    }

    fn count(&mut self, sum: Sum) {
        self.len += sum.messages;
        self.added.messages += sum.messages;
        self.added.body_bytes += sum.body_bytes;
    }

    /// Adds a message that expired under this retention.
    pub(crate) fn add(&mut self, item: Item, retention: Duration) {
        self.count(Sum { messages: 1, body_bytes: u64::from(item.body_bytes) });
        self.added.groups.extend(item.group);
        let last = self.blocks.back_mut().filter(|(_, kept)| *kept == retention);
        let last = last.and_then(|(block, _)| Arc::get_mut(block)).filter(|block| !block.is_full());
        if let Some(block) = last {
            block.push(item);
            if block.is_full() {
                block.pack();
            }
            return;
        }
        let mut block = Block::new();
        block.push(item);
        self.blocks.push_back((Arc::new(block), retention));
    }

    /// Takes every message that has expired at `now` out of a block in which others may stay. Those that expire with
    /// the queue's retention go as they are where the time of all of them is over.
    pub(crate) fn take_from(&mut self, block: &mut Block, now: Timestamp, retention: Duration) {
        if block.is_over_by_queue(now, retention) {
            self.add_block(Arc::new(block.split_by_queue()), retention);
        }
        if block.oldest_by_queue.plus(retention).min(block.earliest_own) > now {
            return;
        }
        block.sweep(|item| {
            let is_over = item.expires_at(retention) <= now;
            if is_over {
                self.add(*item, retention);
            }
            is_over
        });
    }

    /// What came since this was last asked.
    pub(crate) fn take_added(&mut self) -> Added {
        std::mem::take(&mut self.added)
    }

    /// The next message to be seen off, with the instant at which its time was over.
    pub(crate) fn next(&mut self) -> Option<(Item, Timestamp)> {
        loop {
            if let Some(first) = self.first.next() {
                self.len -= 1;
                return Some(first);
            }
            let block = self.blocks.pop_front().or_else(|| self.next_of_rows());
            let next = block.map(|(block, retention)| {
                let live = block.live_items().map(|(_, item)| (item, item.expires_at(retention)));
                live.collect::<Vec<_>>()
            });
            self.first = next.or_else(|| self.next_of_orders())?.into_iter();
        }
    }

    fn next_of_orders(&mut self) -> Option<Vec<(Item, Timestamp)>> {
        while let Some(order) = self.orders.front_mut() {
            if let Some(mut items) = order.take_run() {
                // The group has been put away with the others: its slot may be another one's by now.
                items.iter_mut().for_each(|(item, _)| item.group = None);
                return Some(items);
            }
            self.orders.pop_front();
        }
        None
    }

    fn next_of_rows(&mut self) -> Option<(Arc<Block>, Duration)> {
        while let Some((row, retention, index)) = self.rows.front_mut() {
            index.pop_first();
            if let Some(block) = row.pop_front_shared() {
                return Some((block, *retention));
            }
            self.rows.pop_front();
        }
        None
    }

    /// When the time of this message was over, if it is here.
    fn over_at(&self, sequence: Sequence) -> Option<Timestamp> {
        let first = self.first.as_slice().iter().find(|(item, _)| item.sequence == sequence);
        let first = first.map(|(_, over_at)| *over_at);
        let behind = || {
            let one = |block: &Block, kept: Duration| Some(block.get(sequence)?.expires_at(kept));
            let alone = self.blocks.iter().find_map(|(block, kept)| one(block, *kept));
            let many =
                || self.rows.iter().find_map(|(row, kept, _)| row.iter().find_map(|block| one(block, *kept)));
            let in_order = || self.orders.iter().find_map(|order| order.over_at(sequence));
            alone.or_else(many).or_else(in_order)
        };
        first.or_else(behind)
    }

    /// Adds those of another time, of which none was seen off yet.
    fn add_all(&mut self, later: Self) {
        if self.is_empty() {
            *self = later;
        } else {
            self.blocks.extend(later.blocks);
            self.rows.extend(later.rows);
            self.orders.extend(later.orders);
            self.len += later.len;
        }
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|(block, _)| size_of::<Block>() + block.heap_bytes());
        let rows = self.rows.iter().map(|(row, _, index)| {
            index.len() * size_of::<(Timestamp, u64)>()
                + row.heap_bytes()
                + row.iter().map(Block::heap_bytes).sum::<usize>()
        });
        blocks.sum::<usize>()
            + self.orders.iter().map(|order| order.heap_bytes()).sum::<usize>()
            + rows.sum::<usize>()
            + self.blocks.capacity() * size_of::<(Arc<Block>, Duration)>()
            + self.first.len() * size_of::<(Item, Timestamp)>()
    }
}

impl<S: Shelf> Ledger<S> {
    /// The end of a message that expired and was not seen off yet, as the history will have it.
    pub(super) fn end_to_be_seen(&self, queue: QueueId, sequence: Sequence) -> Option<Event> {
        let expired = self.expiring.get(&queue).filter(|_| self.bounds.events > 0)?;
        let in_place = self.books.get(&queue).and_then(|book| book.over_at(sequence));
        let at = in_place.or_else(|| expired.over_at(sequence))?;
        Some(Event { at, queue, sequence, kind: EventKind::Expired })
    }

    /// Messages expired: they count at once, and are seen off as soon as this step may.
    pub(super) fn see_off_later(&mut self, queue: QueueId, expired: Expired) {
        let has_over = self.books.get(&queue).is_some_and(Book::has_over);
        if has_over || !expired.is_empty() {
            self.history.count_expired(queue, expired.len);
            self.expiring.entry(queue).or_default().add_all(expired);
            self.see_off_some_of(queue);
        }
    }

    /// Messages that expired go on to be seen off when their queue is emptied.
    pub(super) fn see_off_split(&mut self, queue: QueueId, order: Box<Fifo>) {
        self.expiring.entry(queue).or_default().add_split(order);
    }

    /// Sees a slice of the messages off that expired.
    pub(super) fn see_off_slice(&mut self) {
        let mut next = self.expiring.first_key_value().map(|(queue, _)| *queue);
        while self.pace.left.expired.min(self.pace.left.in_groups) > 0
            && let Some(queue) = next
        {
            self.see_off_some_of(queue);
            next =
                self.expiring.range((Bound::Excluded(queue), Bound::Unbounded)).next().map(|(next, _)| *next);
        }
    }

    /// The same for one queue. What is left of it is done by the next slices.
    fn see_off_some_of(&mut self, queue: QueueId) {
        let Some(expired) = self.expiring.get_mut(&queue) else { return };
        let mut book = self.books.get_mut(&queue);
        while self.pace.left.expired > 0
            && let Some((item, at)) = expired.next()
        {
            self.pace.left.expired = self.pace.left.expired.saturating_sub(1);
            self.shelf.vacate(item.place());
            self.history.seen_off(at, queue, item.sequence);
            if let Some(book) = &mut book {
                book.see_off(&item);
            }
        }
        let mut is_done = expired.is_empty();
        if let Some(book) = book.filter(|book| book.has_over()) {
            let gone = book.take_over(self.pace.left.in_groups, self.shelf.mark());
            is_done &= !book.has_over();
            self.pace.left.in_groups = self.pace.left.in_groups.saturating_sub(gone.len());
            self.note_gone(queue, &gone);
        }
        if is_done {
            self.expiring.remove(&queue);
        }
    }

    /// The group of a FIFO queue whose turn it is. Messages of it that are over and stand before what it offers are
    /// seen off first; `None` also when that was all this step may do.
    pub(super) fn first_turn(&mut self, queue: QueueId) -> Option<GroupSlot> {
        loop {
            let book = self.books.get_mut(&queue)?;
            let turn = book.first_turn();
            let is_found = turn.is_some_and(|group| !book.begins_over(group));
            if is_found || self.pace.left.heads == 0 || !book.may_begin_to_offer() {
                return turn.filter(|_| is_found);
            }
            let (max, mark) = (self.pace.left.heads, self.shelf.mark());
            let gone = match turn {
                Some(group) => book.take_heads(group, max, mark),
                // Groups that begin with some that never showed have no turn.
                None => book.take_over(max, mark),
            };
            self.pace.left.heads = self.pace.left.heads.saturating_sub(gone.len());
            self.note_gone(queue, &gone);
        }
    }

    /// Whether messages of this queue are over that may keep others of their groups from being offered.
    pub(super) fn is_expiring(&self, queue: QueueId) -> bool {
        self.books.get(&queue).is_some_and(Book::may_begin_to_offer)
    }

    /// Messages that were over were taken out of their groups: what stands behind them may be offered.
    pub(super) fn note_gone(&mut self, queue: QueueId, gone: &[(Item, Timestamp)]) {
        for (item, over_at) in gone {
            self.shelf.vacate(item.place());
            self.history.seen_off(*over_at, queue, item.sequence);
        }
        if !gone.is_empty() {
            self.free(queue);
        }
    }
}
