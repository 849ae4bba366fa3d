//! Messages at rest on a FIFO queue that expire, millions at once perhaps when its retention is lowered.
//!
//! When all at rest are over, the order leaves as it is: see [`Fifo::is_over_at_rest`] and [`Fifo::take_run`]. Else
//! they are the oldest ones at rest. A run of which all messages are over, each the first of its group by then, is
//! dropped as a whole: its groups begin behind it. All others are taken out one by one.

use std::sync::Arc;

use kew_core::{Sequence, Timestamp};

use super::super::groups::{Groups, NO_SEQUENCE};
use super::super::item::Item;
use super::{End, Fifo, Side};

#[cfg(test)]
mod tests;

/// A run has 64 messages, and each of them at most two neighbours that are far away.
const FAR_PER_RUN: usize = 128;

/// The slots of groups that lost messages, each once, in the order in which they lost the first.
#[derive(Default)]
struct Losers {
    slots: Vec<u32>,
    known: Vec<u64>,
}

impl Losers {
    fn note(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
        }
        if self.known[word] & bit == 0 {
            self.known[word] |= bit;
            self.slots.push(slot);
        }
    }
}

impl Fifo {
    /// Whether `is_over` says of every message at rest, by when it was sent, that its time is over.
    pub(crate) fn is_over_at_rest(&self, is_over: impl Fn(Timestamp) -> bool) -> bool {
        self.oldest.is_some() && is_over(self.newest_sent)
    }

    /// Takes the next run out of an order that has left its queue: its messages at rest, perhaps none.
    pub(crate) fn take_run(&mut self) -> Option<Vec<Item>> {
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
        Some(run.rest_items().collect())
    }

    /// Takes out the oldest messages at rest for which `is_over` says so, by when they were sent, up to the first for
    /// which it does not. Answers the groups that lost some; what they offer now is not looked up.
    pub(crate) fn expire_rest(
        &mut self,
        groups: &mut Groups,
        is_over: impl Fn(Timestamp) -> bool,
        mut gone: impl FnMut(Item),
    ) -> Vec<u32> {
        let mut losers = Losers::default();
        // Behind a first message that dies before it ever shows there may be one that does: groups then enter the
        // rotation in the order in which their first ones leave.
        let some_enter = self.first_delayed.is_some_and(|(_, sent_at)| is_over(sent_at));
        loop {
            let key = self.resting.first().copied();
            let run = key.and_then(|key| self.full.get(&key)).map_or(&self.filling, |run| &**run);
            let items: Vec<Item> = run.rest_items().collect();
            let is_whole = key.is_some() && run.live() == items.len();
            let over = items.iter().take_while(|item| is_over(item.sent_at)).count();
            for item in &items[..over] {
                losers.note(item.group - 1);
                if let Some(group) = groups.get_mut(item.group - 1) {
                    group.messages -= 1;
                }
                gone(*item);
            }
            match key {
                Some(key) if is_whole && over == items.len() && !some_enter => {
                    self.drop_run(groups, key, &items);
                }
                _ => self.take_each(groups, &items[..over]),
            }
            if over < items.len() || key.is_none() {
                break;
            }
        }
        self.serve_oldest();
        self.oldest = self.next_at_rest(Sequence(0));
        losers.slots
    }

    fn take_each(&mut self, groups: &mut Groups, items: &[Item]) {
        for item in items {
            self.remove(groups, item.group - 1, item.sequence);
            self.regroup(groups, item.group - 1, End::Back);
        }
    }

    /// Drops a full run of these messages, all of them at rest, shown and over.
    fn drop_run(&mut self, groups: &mut Groups, key: Sequence, items: &[Item]) {
        let firsts = items.iter().take_while(|item| self.begin_behind(groups, item)).count();
        if firsts < items.len() {
            // Another one, which is touched, stands before the next of them in its group.
            for item in &items[..firsts] {
                self.unrest(item.sequence);
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
    /// one before: nobody asks that of the first of a group.
    fn begin_behind(&mut self, groups: &mut Groups, item: &Item) -> bool {
        let Some(group) = groups.get_mut(item.group - 1).filter(|group| group.ends.0 == item.sequence) else {
            return false;
        };
        let next = self.neighbour(item.sequence, Side::After);
        group.ends.0 = next;
        if next == NO_SEQUENCE {
            group.ends.1 = NO_SEQUENCE;
        }
        self.forget_far((item.sequence, Side::After), (next, Side::Before));
        true
    }
}
