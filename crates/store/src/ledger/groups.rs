//! The groups of one queue, each with a slot, found by name.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

use kew_core::rules::fairness::NOISY_FROM;
use kew_core::{GroupId, Sequence};

use super::parts::{Parts, ShortHash};
use super::run::given_for;
use super::slab::Slab;

/// "No message" at the ends of a group.
pub(crate) const NO_SEQUENCE: Sequence = Sequence(u64::MAX);

/// Names that room is made for at once when a table is read: beyond that it grows with what is really there.
const ROOM_AT_ONCE: usize = 1 << 22;

/// A group's slot in the table of its queue. With or without one takes four bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GroupSlot(NonZeroU32);

impl GroupSlot {
    /// The slot with this index, counted from zero.
    #[inline]
    pub(crate) fn at(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    /// Its index, counted from zero.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0.get() - 1
    }

    /// As messages are written with it: zero is no group, and slots count from one.
    pub(crate) fn number_of(slot: Option<Self>) -> u32 {
        slot.map_or(0, |slot| slot.0.get())
    }

    /// The slot that was written as this number.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}

/// The neighbours of a group in a row of groups.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Turn {
    /// The one before it.
    pub before: Option<GroupSlot>,
    /// The one behind it.
    pub after: Option<GroupSlot>,
}

/// A group with something in it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Its name.
    pub name: Box<str>,
    /// Messages in it.
    pub messages: u32,
    /// Of those, leased ones.
    pub leased: u32,
    /// FIFO: its first and last message.
    pub ends: (Sequence, Sequence),
    /// FIFO: the shelf's mark when a message last left it.
    pub left_at: u64,
    /// FIFO: its neighbours in the rotation.
    pub turn: Option<Turn>,
}

impl Group {
    fn named(name: &str) -> Self {
        let ends = (NO_SEQUENCE, NO_SEQUENCE);
        Self { name: name.into(), messages: 0, leased: 0, ends, left_at: 0, turn: None }
    }
}

/// Where the group of a name is.
#[derive(Clone, Copy, Debug)]
struct Named {
    hash: ShortHash,
    slot: GroupSlot,
}

/// All groups of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    slots: Slab<Option<Group>>,
    by_name: Parts<Named>,
    /// The groups with enough leases that they may be noisy, by how many.
    busy: BTreeSet<(u32, GroupSlot)>,
    /// Standard queues: the groups with enough messages that they may be noisy, by how many bits that number has. So a
    /// group moves here seldom.
    crowded: BTreeSet<(u32, GroupSlot)>,
    hasher: RandomState,
}

impl Groups {
    /// The slot of the group of this name, made when there is none.
    pub(crate) fn slot(&mut self, group: &GroupId) -> GroupSlot {
        self.slot_of(group.0.as_str())
    }

    /// The same by name.
    pub(crate) fn slot_of(&mut self, name: &str) -> GroupSlot {
        if let Some(slot) = self.find_by(name) {
            return slot;
        }
        let slot = GroupSlot::at(self.slots.insert(Some(Group::named(name))));
        self.index(name, slot);
        slot
    }

    /// The slot of the group of this name, if there is one.
    pub(crate) fn find(&self, group: &GroupId) -> Option<GroupSlot> {
        self.find_by(group.0.as_str())
    }

    fn find_by(&self, name: &str) -> Option<GroupSlot> {
        let hash = self.hash(name);
        let is_meant = |named: &Named| {
            named.hash == hash && self.get(named.slot).is_some_and(|group| *group.name == *name)
        };
        self.by_name.find(hash.spread(), is_meant).map(|named| named.slot)
    }

    fn hash(&self, name: &str) -> ShortHash {
        ShortHash::of(self.hasher.hash_one(name))
    }

    /// The group in this slot.
    pub(crate) fn get(&self, slot: GroupSlot) -> Option<&Group> {
        self.slots.get(slot.index())?.as_ref()
    }

    /// The group in this slot, to change.
    pub(crate) fn get_mut(&mut self, slot: GroupSlot) -> Option<&mut Group> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    /// A lease of a message in this group, if it has one, began (+1) or ended (-1).
    #[inline]
    pub(crate) fn count_lease(&mut self, slot: Option<GroupSlot>, change: i32) {
        if let Some(slot) = slot {
            self.count_lease_in(slot, change);
        }
    }

    fn count_lease_in(&mut self, slot: GroupSlot, change: i32) {
        let Some(group) = self.slots.get_mut(slot.index()).and_then(Option::as_mut) else { return };
        let before = group.leased;
        group.leased = before.saturating_add_signed(change);
        if before >= NOISY_FROM {
            self.busy.remove(&(before, slot));
        }
        if group.leased >= NOISY_FROM {
            self.busy.insert((group.leased, slot));
        }
    }

    /// The groups that may be noisy, those with most leases first.
    pub(crate) fn busiest(&self) -> impl Iterator<Item = &Group> {
        self.busy.iter().rev().filter_map(|(_, slot)| self.get(*slot))
    }

    /// A message of the group in this slot of a standard queue came (+1) or left (-1).
    #[inline]
    pub(crate) fn count_message(&mut self, slot: GroupSlot, change: i32) {
        let Some(group) = self.get_mut(slot) else { return };
        let before = group.messages;
        group.messages = before.saturating_add_signed(change);
        let (from, to) = (bits(before), bits(group.messages));
        if from != to {
            self.crowd(slot, from, to);
        }
    }

    fn crowd(&mut self, slot: GroupSlot, from: u32, to: u32) {
        self.crowded.remove(&(from, slot));
        if to >= bits(NOISY_FROM) {
            self.crowded.insert((to, slot));
        }
    }

    /// The groups that may hold over a tenth of `of` messages. There are at most twenty that really do or nearly.
    pub(crate) fn most_crowded(&self, of: u64) -> impl Iterator<Item = &Group> {
        let may_be_noisy =
            move |held_bits: u32| (u64::from(u32::MAX) >> (32 - held_bits)).saturating_mul(10) > of;
        let crowded = self.crowded.iter().rev().take_while(move |(held_bits, _)| may_be_noisy(*held_bits));
        crowded.filter_map(|(_, slot)| self.get(*slot))
    }

    /// Forgets the group in this slot if nothing is in it.
    pub(crate) fn forget_empty(&mut self, slot: GroupSlot) {
        let Some(group) = self.get(slot).filter(|group| group.messages == 0) else { return };
        let hash = self.hash(&group.name);
        self.by_name.remove(hash.spread(), |named| named.slot == slot);
        self.slots[slot.index()] = None;
        self.slots.give_back(slot.index());
    }

    /// Forgets every group in which nothing is.
    pub(crate) fn forget_all_empty(&mut self) {
        let empty: Vec<GroupSlot> =
            self.iter().filter(|(_, group)| group.messages == 0).map(|(slot, _)| slot).collect();
        empty.into_iter().for_each(|slot| self.forget_empty(slot));
    }

    /// How many slots there are, in use or free.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The names of all slots, in order; free ones have none.
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&str>> {
        self.slots.iter().map(|group| group.as_ref().map(|group| &*group.name))
    }

    /// A table of `slots` slots, each with the next name that is read; those without one are free.
    pub(crate) fn read<'a>(slots: u64, mut name: impl FnMut() -> Option<Option<&'a str>>) -> Option<Self> {
        let room = usize::try_from(slots).ok()?.min(ROOM_AT_ONCE);
        let mut groups = Self { by_name: Parts::with_room(room), ..Self::default() };
        let mut free = Vec::new();
        for _ in 0..slots {
            let name = name()?;
            let slot = GroupSlot::at(groups.slots.insert(name.map(Group::named)));
            match name {
                Some(name) => groups.index(name, slot),
                None => free.push(slot),
            }
        }
        free.into_iter().for_each(|slot| groups.slots.give_back(slot.index()));
        Some(groups)
    }

    /// The groups as they are now, to be looked at by slot only.
    pub(crate) fn image(&self) -> Self {
        Self { slots: self.slots.image(), ..Self::default() }
    }

    /// How many pieces an image shares.
    pub(crate) fn pieces(&self) -> usize {
        self.slots.pieces()
    }

    fn index(&mut self, name: &str, slot: GroupSlot) {
        let hash = self.hash(name);
        self.by_name.insert_unique(hash.spread(), Named { hash, slot }, |named| named.hash.spread());
    }

    /// All slots in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupSlot, &Group)> {
        (0..)
            .map(GroupSlot::at)
            .zip(self.slots.iter())
            .filter_map(|(slot, group)| Some((slot, group.as_ref()?)))
    }

    /// Everything that takes long to give back, piece by piece.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.slots.into_values().map(drop).chain(self.busy.into_iter().chain(self.crowded).map(drop))
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let names: usize = self.iter().map(|(_, group)| given_for(group.name.len())).sum();
        self.slots.heap_bytes() + self.by_name.allocation_size() + names
    }
}

/// How many bits a number has.
fn bits(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::parts::PART;
    use kew_core::Text;

    #[test]
    fn groups_are_found_by_name_and_none_that_comes_moves_all_the_others() {
        let mut groups = Groups::default();
        let count = 9 * PART as u32;
        for number in 0..count {
            assert_eq!(groups.slot_of(&format!("group-{number}")), GroupSlot::at(number));
        }
        let (least, most) = groups.by_name.sizes();
        assert!(least > PART / 4 && most < 2 * PART, "{least} to {most} in each part");
        for number in (0..count).filter(|number| number % 2 == 0) {
            groups.forget_empty(GroupSlot::at(number));
        }
        for number in 0..count {
            let found = groups.find(&GroupId(Text::from(format!("group-{number}"))));
            assert_eq!(found, (number % 2 == 1).then(|| GroupSlot::at(number)));
        }
        assert_eq!(groups.by_name.len(), count as usize / 2);
    }

    #[test]
    fn groups_that_may_hold_over_a_tenth_are_found_and_none_far_below() {
        let mut groups = Groups::default();
        let name = |n: u32| GroupId(Text::from(format!("g{n}")));
        let mut fill = |n: u32, messages: u32| {
            let slot = groups.slot(&name(n));
            (0..messages).for_each(|_| groups.count_message(slot, 1));
            slot
        };
        let large = fill(1, 1_000);
        fill(2, 30);
        fill(3, 15);
        let found =
            |groups: &Groups, of| groups.most_crowded(of).map(|group| group.messages).collect::<Vec<_>>();
        assert_eq!(found(&groups, 100), [1_000, 30], "fifteen are too few whatever the rest is");
        assert_eq!(found(&groups, 2_000), [1_000]);
        assert!(found(&groups, 20_000).is_empty());
        (0..971).for_each(|_| groups.count_message(large, -1));
        assert_eq!(found(&groups, 100), [30, 29], "by the bits of their numbers");
        (0..29).for_each(|_| groups.count_message(large, -1));
        assert_eq!(found(&groups, 0), [30]);
    }

    #[test]
    fn group_keeps_its_slot_until_it_is_empty_and_forgotten() {
        let mut groups = Groups::default();
        let name = |n: u32| GroupId(Text::from(format!("g{n}")));
        let slots: Vec<GroupSlot> = (0..1_000).map(|n| groups.slot(&name(n))).collect();
        assert_eq!(groups.slot(&name(500)), slots[500]);
        groups.get_mut(slots[1]).expect("the slot of a group that was named has it").messages = 1;
        groups.forget_empty(slots[1]);
        groups.forget_empty(slots[2]);
        assert_eq!(groups.slot(&name(1)), slots[1]);
        assert_eq!(groups.slot(&name(5_000)), slots[2]);
        assert_eq!(groups.iter().count(), 1_000);
    }
}
