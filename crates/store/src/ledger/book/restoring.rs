//! A queue into a checkpoint and back, and messages whose contents were copied elsewhere.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashMap;
use kew_core::{MoveReason, QueueKey, Sequence, Text, Timestamp};

use super::{Attempt, Book};
use crate::ledger::block::Block;
use crate::ledger::far::Far;
use crate::ledger::fifo::{End, Fifo, Stand};
use crate::ledger::groups::Groups;
use crate::ledger::item::{Entry, Hold, Item};
use crate::ledger::ready::Ready;
use crate::ledger::shelf::{Address, Place};

impl Book {
    /// What a slice holds beside the definition and the counters.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            ready: &self.held.ready,
            far: &self.held.far,
            fifo: self.held.fifo.as_deref(),
            groups: &self.held.groups,
            origins: &self.held.origins,
            entries: &self.held.entries,
            departures: &self.held.departures,
            attempts: &self.held.attempts,
        }
    }

    pub(crate) fn restore_tables(&mut self, origins: Vec<(QueueKey, MoveReason)>, groups: Groups) {
        self.held.origins = origins;
        self.held.groups = groups;
    }

    /// A standard queue's messages, from a slice.
    pub(crate) fn restore_order(&mut self, ready: Ready, far: Far, entries: Vec<Entry>) -> Option<()> {
        for item in ready.iter_unordered().chain(far.iter()) {
            self.restore_count(&item)?;
        }
        (self.held.ready, self.held.far) = (ready, far);
        entries.into_iter().try_for_each(|entry| self.restore_entry(entry))
    }

    /// A FIFO queue's messages, from a slice: those at rest and those with an entry, each in order.
    pub(crate) fn restore_groups(
        &mut self,
        rest: impl Iterator<Item = Item>,
        delayed_from: Sequence,
        entries: Vec<Entry>,
        rotation: &[u32],
    ) -> Option<()> {
        let mut rest = rest.peekable();
        let mut last = None;
        for entry in entries {
            let sequence = entry.item.sequence;
            while let Some(item) = rest.next_if(|item| item.sequence < sequence) {
                self.restore_rest(&item, delayed_from, &mut last)?;
            }
            let stand = if matches!(entry.hold, Hold::Ready) { Stand::Ready } else { Stand::Held };
            self.restore_order_of(&entry.item, &mut last)?;
            let held = &mut *self.held;
            held.fifo.as_mut()?.push(&mut held.groups, &entry.item, stand);
            self.restore_entry(entry)?;
        }
        rest.try_for_each(|item| self.restore_rest(&item, delayed_from, &mut last))?;
        let held = &mut *self.held;
        let fifo = held.fifo.as_mut()?;
        for group in rotation {
            fifo.regroup(&mut held.groups, *group, End::Back);
        }
        Some(())
    }

    fn restore_rest(
        &mut self,
        item: &Item,
        delayed_from: Sequence,
        last: &mut Option<Sequence>,
    ) -> Option<()> {
        self.restore_order_of(item, last)?;
        let held = &mut *self.held;
        held.fifo.as_mut()?.push_rest(&mut held.groups, item, item.sequence >= delayed_from);
        self.restore_count(item)
    }

    /// The next message of a FIFO queue is behind the last one, and has a group.
    fn restore_order_of(&self, item: &Item, last: &mut Option<Sequence>) -> Option<()> {
        self.held.groups.get(item.group.checked_sub(1)?)?;
        let rises = item.sequence.0 < u64::MAX && last.is_none_or(|last| last < item.sequence);
        *last = Some(item.sequence);
        rises.then_some(())
    }

    fn restore_count(&mut self, item: &Item) -> Option<()> {
        self.held.stored += 1;
        self.held.body_bytes += u64::from(item.body_bytes);
        if let Some(slot) = item.group.checked_sub(1) {
            self.held.groups.get_mut(slot)?.messages += 1;
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
        self.held.entries.insert(sequence, entry);
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
        let move_block = |block: &mut Block| {
            if block.addresses.0 < range.end && block.addresses.1 >= range.start {
                block.relocate(new_place);
            }
        };
        self.held.ready.relocate(move_block, move_single);
        self.held.far.blocks_mut().for_each(move_block);
        self.held.entries.values_mut().for_each(|entry| move_single(&mut entry.item));
        if let Some(fifo) = &mut self.held.fifo {
            fifo.relocate(range, new_place);
        }
        moved.into_inner()
    }

    /// Bytes held in memory, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let fifo = self.held.fifo.as_ref().map_or(0, |fifo| fifo.heap_bytes());
        let entries =
            self.held.entries.capacity() * (size_of::<Entry>() + 32) + self.held.alarms.heap_bytes();
        size_of::<Self>()
            + self.held.heap_bytes()
            + self.held.ready.heap_bytes()
            + self.held.far.heap_bytes()
            + self.held.groups.heap_bytes()
            + fifo
            + entries
    }
}

/// The parts of a book that a slice holds.
pub(crate) struct Parts<'a> {
    pub ready: &'a Ready,
    pub far: &'a Far,
    pub fifo: Option<&'a Fifo>,
    pub groups: &'a Groups,
    pub origins: &'a [(QueueKey, MoveReason)],
    pub entries: &'a HashMap<Sequence, Entry>,
    pub departures: &'a BTreeSet<(Timestamp, Sequence)>,
    pub attempts: &'a HashMap<Text, Attempt>,
}
