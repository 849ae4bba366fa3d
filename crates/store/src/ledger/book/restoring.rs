//! A queue into a checkpoint and back, and messages whose contents were copied elsewhere.

use std::cell::RefCell;
use std::ops::Range;

use hashbrown::HashMap;
use kew_core::{GroupId, MoveReason, QueueKey, Sequence, Timestamp};

use super::{Book, HIDDEN_AT_HAND};
use crate::ledger::block::Block;
use crate::ledger::far::Far;
use crate::ledger::fifo::{End, Rebuilt, Stand};
use crate::ledger::groups::{GroupSlot, Groups};
use crate::ledger::item::{Entry, Hold, Item};
use crate::ledger::ready::Ready;
use crate::ledger::shelf::{Address, Place};

impl Book {
    pub(crate) fn restore_tables(&mut self, origins: Vec<(QueueKey, MoveReason)>, groups: Groups) {
        self.held.origins = origins;
        self.held.groups = groups;
    }

    /// A standard queue's messages, from a slice. Those without an entry were counted when they were read.
    pub(crate) fn restore_order(
        &mut self,
        ready: Ready,
        far: Far,
        entries: Vec<Entry>,
        see: &mut dyn FnMut(&Item),
    ) -> Option<()> {
        (self.held.ready, self.held.far) = (ready, far);
        entries.into_iter().try_for_each(|entry| {
            see(&entry.item);
            self.restore_entry(entry)
        })?;
        // All messages of some had expired, and were not yet seen off.
        self.held.groups.forget_all_empty();
        Some(())
    }

    /// A FIFO queue's messages, from a slice: those at rest and those with an entry, each in order.
    pub(crate) fn restore_groups(
        &mut self,
        rest: impl Iterator<Item = Item>,
        delayed_from: Sequence,
        entries: Vec<Entry>,
        rotation: &[GroupSlot],
        see: &mut dyn FnMut(&Item),
    ) -> Option<()> {
        let mut rest = rest.peekable();
        let mut order = Rebuilt::of(self.held.groups.slots());
        for entry in entries {
            let sequence = entry.item.sequence;
            while let Some(item) = rest.next_if(|item| item.sequence < sequence) {
                self.restore_rest(&mut order, &item, delayed_from, see)?;
            }
            let stand = if matches!(entry.hold, Hold::Ready) { Stand::Ready } else { Stand::Held };
            order.push(&mut self.held.groups, &entry.item, stand)?;
            see(&entry.item);
            self.restore_entry(entry)?;
        }
        rest.try_for_each(|item| self.restore_rest(&mut order, &item, delayed_from, see))?;
        let held = &mut *self.held;
        let fifo = held.fifo.as_mut()?;
        **fifo = order.finish();
        for group in rotation {
            fifo.restore_turn(&mut held.groups, *group)?;
        }
        held.groups.forget_all_empty();
        Some(())
    }

    /// One message of an import; they come in the order of sends.
    pub(crate) fn restore_message(&mut self, item: Item, hold: Hold, rests: bool, now: Timestamp) {
        self.next_sequence = self.next_sequence.max(item.sequence.0 + 1);
        let held = &mut *self.held;
        let entry = |item| Entry { item, hold: hold.clone(), alarm: Timestamp::NEVER };
        let _counted = match (&mut held.fifo, &hold) {
            (Some(fifo), Hold::Ready | Hold::Delayed) if rests => {
                // An export of a running store may have looked at this one later than at one before it.
                let is_delayed = matches!(hold, Hold::Delayed) || fifo.first_delayed().is_some();
                fifo.push_rest(&mut held.groups, &item, is_delayed);
                self.restore_count(&item)
            }
            (Some(fifo), _) => {
                let stand = if matches!(hold, Hold::Ready) { Stand::Ready } else { Stand::Held };
                fifo.push(&mut held.groups, &item, stand);
                self.restore_entry(entry(item))
            }
            (None, Hold::Ready) => {
                held.ready.put(Item { visible_at: Timestamp::ZERO, ..item }, self.queue.policy.retention);
                self.restore_count(&item)
            }
            (None, Hold::Delayed) if held.delayed >= HIDDEN_AT_HAND => match self.put_far(item, now) {
                Some(item) => self.restore_entry(entry(item)),
                None => self.restore_count(&item),
            },
            (None, Hold::Delayed | Hold::Leased(_)) => self.restore_entry(entry(item)),
        };
    }

    /// The next group in the order of turns.
    pub(crate) fn restore_turn(&mut self, group: &GroupId) {
        if let Some(slot) = self.held.groups.find(group) {
            self.regroup(slot, End::Back);
        }
    }

    /// Every group that offers something and has no turn yet takes one behind the others, the one with the oldest
    /// message first.
    pub(crate) fn restore_other_turns(&mut self) {
        let mut others: Vec<(Sequence, GroupSlot)> =
            self.held.groups.iter().map(|(slot, group)| (group.ends.0, slot)).collect();
        others.sort_unstable();
        for (_, slot) in others {
            self.regroup(slot, End::Back);
        }
    }

    fn restore_rest(
        &mut self,
        order: &mut Rebuilt,
        item: &Item,
        delayed_from: Sequence,
        see: &mut dyn FnMut(&Item),
    ) -> Option<()> {
        order.push_rest(&mut self.held.groups, item, item.sequence >= delayed_from)?;
        see(item);
        self.restore_count(item)
    }

    /// A message is here.
    pub(crate) fn restore_count(&mut self, item: &Item) -> Option<()> {
        self.held.stored += 1;
        self.held.body_bytes += u64::from(item.body_bytes);
        if let Some(slot) = item.group {
            match &self.held.fifo {
                Some(_) => self.held.groups.get_mut(slot)?.messages += 1,
                None => {
                    self.held.groups.get(slot)?;
                    self.held.groups.count_message(slot, 1);
                }
            }
        }
        Some(())
    }

    fn restore_entry(&mut self, entry: Entry) -> Option<()> {
        self.restore_count(&entry.item)?;
        match &entry.hold {
            Hold::Ready => {}
            Hold::Delayed => self.held.delayed += 1,
            Hold::Leased(_) => {
                self.held.in_flight += 1;
                self.held.groups.count_lease(entry.item.group, 1);
            }
        }
        let sequence = entry.item.sequence;
        self.held.put_entry(entry);
        self.set_alarm(sequence);
        Some(())
    }

    pub(crate) fn restore_departure(&mut self, at: Timestamp, sequence: Sequence) {
        self.held.departures.insert((at, sequence));
    }

    /// The places within `range` that messages here rest on.
    pub(crate) fn places_in(&self, range: &Range<Address>, places: &mut Vec<Address>) {
        let mut note = |item: &Item| {
            if range.contains(&item.address) {
                places.push(item.address);
            }
        };
        let near = |block: &&Block| block.addresses.0 < range.end && block.addresses.1 >= range.start;
        for block in self.held.ready.blocks().chain(self.held.far.blocks()).filter(near) {
            block.live_items().for_each(|(_, item)| note(&item));
        }
        self.held.ready.aside_items().for_each(&mut note);
        self.held.entries.values().for_each(|entry| note(&entry.item));
        if let Some(fifo) = &self.held.fifo {
            fifo.rest_near(range).for_each(|item| note(&item));
        }
    }

    /// Gives every message that rests on one of these places its new one. Returns how many did, as (old, new).
    pub(crate) fn relocate(
        &mut self,
        range: &Range<Address>,
        to: &HashMap<Address, Address>,
    ) -> Vec<(Place, Place)> {
        let moved = RefCell::new(Vec::new());
        let new_place = |item: &Item| {
            let new = *to.get(&item.address)?;
            moved.borrow_mut().push((item.place(), Place { address: new, ..item.place() }));
            Some(new)
        };
        let move_single = |item: &mut Item| {
            if let Some(new) = new_place(item) {
                item.address = new;
            }
        };
        let is_near = |block: &Block| block.addresses.0 < range.end && block.addresses.1 >= range.start;
        let move_block = |block: &mut Block| block.relocate(new_place);
        self.held.ready.relocate(is_near, move_block, move_single);
        self.held.far.relocate(is_near, move_block);
        let entries = self.held.entries.values().filter(|entry| to.contains_key(&entry.item.address));
        let touched: Vec<Sequence> = entries.map(|entry| entry.item.sequence).collect();
        for sequence in touched {
            if let Some(entry) = self.held.entries.get_mut(&sequence) {
                move_single(&mut entry.item);
            }
        }
        if let Some(fifo) = &mut self.held.fifo {
            fifo.relocate(range, new_place);
        }
        moved.into_inner()
    }

    /// How many groups have a name and a slot.
    #[cfg(test)]
    pub(crate) fn group_count(&self) -> usize {
        self.held.groups.iter().count()
    }

    /// Bytes held in memory, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let fifo = self.held.fifo.as_ref().map_or(0, |fifo| fifo.heap_bytes());
        let alarms = self.held.alarms.heap_bytes() + self.held.ends.heap_bytes();
        let entries = self.held.entries.heap_bytes() + alarms;
        size_of::<Self>()
            + self.held.heap_bytes()
            + self.held.ready.heap_bytes()
            + self.held.far.heap_bytes()
            + self.held.groups.heap_bytes()
            + fifo
            + entries
    }
}
