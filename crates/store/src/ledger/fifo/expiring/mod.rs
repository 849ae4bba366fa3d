//! Messages at rest on a FIFO queue that expire, millions at once perhaps when its retention is lowered.
//!
//! When all at rest are over, the order leaves as it is: see [`Fifo::is_over_at_rest`] and [`Fifo::take_run`]. Else
//! they are the oldest ones at rest, before the line of the module `over`, and are taken out in slices. A run of which
//! all messages are over, each the first of its group by then, is dropped as a whole: its groups begin behind it. All
//! others are taken out one by one.

use std::sync::Arc;

use kew_core::{Sequence, Timestamp};

use super::super::groups::{GroupSlot, Groups, NO_SEQUENCE};
use super::super::item::Item;
use super::{End, Fifo, Over, Side};

#[cfg(test)]
mod tests;

/// A run has 64 messages, and each of them at most two neighbours that are far away.
const FAR_PER_RUN: usize = 128;

/// The slots of groups that lost messages, each once, in the order in which they lost the first.
#[derive(Default)]
struct Losers {
    slots: Vec<GroupSlot>,
    known: Vec<u64>,
}

impl Losers {
    fn note(&mut self, slot: GroupSlot) {
        let (word, bit) = (slot.index() as usize / 64, 1 << (slot.index() % 64));
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
        }
        if self.known[word] & bit == 0 {
            self.known[word] |= bit;
            self.slots.push(slot);
        }
    }
}

/// Messages that were over and are taken out now.
#[derive(Default)]
pub(crate) struct Taken {
    /// Each with the instant at which its time was over.
    pub items: Vec<(Item, Timestamp)>,
    /// Their groups. What these offer now is not looked up.
    pub losers: Vec<GroupSlot>,
}

impl Fifo {
    /// Whether `is_over` says of every message at rest, by when it was sent, that its time is over, and none was yet.
    pub(crate) fn is_over_at_rest(&self, is_over: impl Fn(Timestamp) -> bool) -> bool {
        !self.has_over() && self.newest_at_rest().is_some_and(|newest| is_over(newest.sent_at))
    }

    fn newest_at_rest(&self) -> Option<Item> {
        let run = match self.filling.at_rest() {
            0 => self.full.get(self.resting.last_key_value()?.0)?,
            _ => &self.filling,
        };
        run.last_at_rest()
    }

    /// Takes the next run out of an order that has left its queue: its messages that are over, perhaps none, each with
    /// the instant at which its time was over.
    pub(crate) fn take_run(&mut self) -> Option<Vec<(Item, Timestamp)>> {
        let run = match self.full.pop_first() {
            Some((_, run)) => run,
            None if self.filling.live() > 0 => Arc::new(std::mem::take(&mut self.filling)),
            None => return None,
        };
        // What is kept beside the runs goes with them, a part each time.
        self.resting.pop_first();
        for _ in 0..FAR_PER_RUN {
            self.far.pop_first();
        }
        let over = run.rest_items().take_while(|item| item.sequence < self.over.to);
        Some(over.map(|item| (item, self.over.at(&item))).collect())
    }

    /// Takes out the oldest messages that are over, at most `max`.
    pub(crate) fn take_over(&mut self, groups: &mut Groups, max: usize) -> Taken {
        let (mut losers, mut taken) = (Losers::default(), Vec::new());
        while self.has_over() && taken.len() < max {
            let key = self.resting.first_key_value().map(|(key, _)| *key);
            let run = key.and_then(|key| self.full.get(&key)).map_or(&self.filling, |run| &**run);
            let items: Vec<Item> = run.rest_items().collect();
            let is_whole = key.is_some() && run.live() == items.len();
            let over = items.iter().take_while(|item| item.sequence < self.over.to).count();
            assert!(over > 0, "messages that are over stand before all others at rest");
            let left = max - taken.len();
            if over > left && !taken.is_empty() {
                // The next slice drops it as a whole.
                break;
            }
            let leaving = &items[..over.min(left)];
            for item in leaving {
                item.group.into_iter().for_each(|group| losers.note(group));
                taken.push(self.take_off(groups, item));
            }
            match key {
                Some(key) if is_whole && leaving.len() == items.len() && self.over.delayed_from.is_none() => {
                    self.drop_run(groups, key, &items);
                }
                _ => self.take_each(groups, leaving),
            }
        }
        self.end_over();
        Taken { items: taken, losers: losers.slots }
    }

    /// Takes out the messages that are over and stand first in a group, at most `max`.
    pub(crate) fn take_heads(&mut self, groups: &mut Groups, group: GroupSlot, max: usize) -> Taken {
        let mut taken = Vec::new();
        while taken.len() < max
            && self.begins_over(groups, group)
            && let Some(head) = groups.get(group).and_then(|group| self.item_at_rest(group.ends.0))
        {
            taken.push(self.take_off(groups, &head));
            self.remove(groups, &head);
        }
        self.end_over();
        Taken { items: taken, losers: vec![group] }
    }

    /// Counts a message that is over off its group and the others that are over.
    fn take_off(&mut self, groups: &mut Groups, item: &Item) -> (Item, Timestamp) {
        if let Some(group) = item.group.and_then(|group| groups.get_mut(group)) {
            group.messages -= 1;
        }
        self.over.messages -= 1;
        (*item, self.over.at(item))
    }

    /// When none is left that is over, there is no line any more.
    fn end_over(&mut self) {
        if self.over.messages == 0 {
            self.over = Over::default();
            self.serve_oldest();
        }
    }

    fn take_each(&mut self, groups: &mut Groups, items: &[Item]) {
        for item in items {
            self.remove(groups, item);
            if let Some(group) = item.group {
                self.regroup(groups, group, End::Back);
            }
        }
    }

    /// Drops a full run of these messages, all of them at rest, shown and over.
    fn drop_run(&mut self, groups: &mut Groups, key: Sequence, items: &[Item]) {
        let firsts = items.iter().take_while(|item| self.begin_behind(groups, item)).count();
        if firsts < items.len() {
            // Another one, which is touched, stands before the next of them in its group.
            for item in &items[..firsts] {
                self.unrest(item);
                self.vacate(item.sequence);
            }
            self.take_each(groups, &items[firsts..]);
            return;
        }
        self.full.remove(&key);
        self.resting.remove(&key);
        self.served = self.served.filter(|served| *served != key);
    }

    /// If this message is the first of its group, the group begins behind it. The next one may go on naming it as the
    /// one before: that is never asked of the first of a group.
    fn begin_behind(&mut self, groups: &mut Groups, item: &Item) -> bool {
        let group = item.group.and_then(|group| groups.get_mut(group));
        let Some(group) = group.filter(|group| group.ends.0 == item.sequence) else { return false };
        let next = self.neighbour(item.sequence, Side::After);
        group.ends.0 = next;
        if next == NO_SEQUENCE {
            group.ends.1 = NO_SEQUENCE;
        }
        self.forget_far((item.sequence, Side::After), (next, Side::Before));
        true
    }
}
