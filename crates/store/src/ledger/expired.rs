//! Messages at rest on standard queues whose time is over, millions at once perhaps: seen off some at a time.
//!
//! When the retention of a queue is lowered, a hold of expiry ends or the clock leaps, most of a backlog expires at once.
//! Its blocks leave the order of the queue as they are, so from that instant on no read finds any of them; the figures
//! follow by one subtraction a block. What is left to do for each message (its place on the shelf is vacated, its end is
//! put into the history, its fairness group counts one less) is done in slices, a millisecond apart. None of that is in a journal
//! or a checkpoint, so slices leave no record, and replay does it all where it happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Event, EventKind, QueueId, Sequence, Timestamp};

use super::Ledger;
use super::block::Block;
use super::item::Item;
use super::shelf::Shelf;

#[cfg(test)]
mod tests;

/// Messages of one queue that expired, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Expired {
    /// Each with the retention its messages expired under.
    blocks: VecDeque<(Arc<Block>, Duration)>,
    /// What is left of the first block.
    first: std::vec::IntoIter<Item>,
    first_kept: Duration,
    /// Messages, and lengths of their bodies, that came since this was last asked.
    added: (u64, u64),
}

impl Expired {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.first.len() == 0
    }

    /// Adds a block of which all messages expired under this retention.
    pub(crate) fn add_block(&mut self, block: Arc<Block>, retention: Duration) {
        if block.live() > 0 {
            self.added = (self.added.0 + block.live() as u64, self.added.1 + block.body_bytes());
            self.blocks.push_back((block, retention));
        }
    }

    /// Adds a message that expired under this retention.
    pub(crate) fn add(&mut self, item: Item, retention: Duration) {
        self.added = (self.added.0 + 1, self.added.1 + u64::from(item.body_bytes));
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

    /// Takes every message that has expired at `now` out of a block in which others may stay. Those that expire with the
    /// queue's retention go as they are where the time of all of them is over.
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

    /// How many messages came since this was last asked, and the lengths of their bodies together.
    pub(crate) fn take_added(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.added)
    }

    /// The next message to be seen off, with the instant at which its time was over.
    pub(crate) fn next(&mut self) -> Option<(Item, Timestamp)> {
        loop {
            if let Some(item) = self.first.next() {
                return Some((item, item.expires_at(self.first_kept)));
            }
            let Some((block, retention)) = self.blocks.pop_front() else {
                *self = Self { added: self.added, ..Self::default() };
                return None;
            };
            self.first = block.live_items().map(|(_, item)| item).collect::<Vec<_>>().into_iter();
            self.first_kept = retention;
        }
    }

    /// When the time of this message was over, if it is here.
    fn over_at(&self, sequence: Sequence) -> Option<Timestamp> {
        let first = self.first.as_slice().iter().find(|item| item.sequence == sequence);
        let first = first.map(|item| item.expires_at(self.first_kept));
        let behind = || {
            let found = |(block, kept): &(Arc<Block>, Duration)| Some(block.get(sequence)?.expires_at(*kept));
            self.blocks.iter().find_map(found)
        };
        first.or_else(behind)
    }

    /// Everything here, piece by piece; a piece may hold no message.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        let blocks = self.blocks.into_iter().flat_map(|(block, _)| block.pieces());
        self.first.map(Some).chain(blocks)
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|(block, _)| size_of::<Block>() + block.heap_bytes());
        blocks.sum::<usize>()
            + self.blocks.capacity() * size_of::<(Arc<Block>, Duration)>()
            + self.first.len() * size_of::<Item>()
    }
}

impl<S: Shelf> Ledger<S> {
    /// The end of a message that expired and was not seen off yet, as the history will have it.
    pub(super) fn end_to_be_seen(&self, queue: QueueId, sequence: Sequence) -> Option<Event> {
        let at = self.books.get(&queue).filter(|_| self.bounds.events > 0)?.expired().over_at(sequence)?;
        Some(Event { at, queue, sequence, kind: EventKind::Expired })
    }

    /// Sees a slice of the messages off that expired.
    pub(super) fn see_off_slice(&mut self) {
        while self.expired_left > 0
            && let Some(queue) = self.expiring.pop_first()
        {
            self.see_off_some_of(queue);
        }
    }

    /// The same for one queue. What is left of it is done by the next slices.
    pub(super) fn see_off_some_of(&mut self, queue: QueueId) {
        let Some(book) = self.books.get_mut(&queue).filter(|book| !book.expired().is_empty()) else { return };
        // While changes are replayed nobody waits for a step.
        let max = if self.replaying { usize::MAX } else { self.expired_left };
        let (shelf, history) = (&mut self.shelf, &mut self.history);
        let seen = book.see_off(max, |item, at| {
            shelf.vacate(item.place());
            history.seen_off(at, queue, item.sequence);
        });
        if !book.expired().is_empty() {
            self.expiring.insert(queue);
        }
        self.expired_left = self.expired_left.saturating_sub(seen);
    }
}
