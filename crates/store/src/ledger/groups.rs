//! The groups of one queue, each with a slot, found by name.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use kew_core::GroupId;
use kew_core::rules::fairness::NOISY_LEASES;

/// "No slot" in links between nodes and groups.
pub(crate) const NIL: u32 = u32::MAX;

/// A group with something in it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Its name.
    pub name: Box<str>,
    /// Messages in it.
    pub messages: u32,
    /// Of those, leased ones.
    pub leased: u32,
    /// FIFO: its first and last message's nodes.
    pub ends: (u32, u32),
    /// FIFO: the shelf's mark when a message last left it.
    pub left_at: u64,
    /// FIFO: its neighbours in the rotation.
    pub turn: Option<(u32, u32)>,
}

impl Group {
    fn named(name: &str) -> Self {
        Self { name: name.into(), messages: 0, leased: 0, ends: (NIL, NIL), left_at: 0, turn: None }
    }
}

/// All groups of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<u32>,
    by_name: HashTable<u32>,
    /// The groups with so many leases that they may be noisy, by how many.
    busy: BTreeSet<(u32, u32)>,
    hasher: RandomState,
}

impl Groups {
    /// The slot of the group of this name, made when there is none.
    pub(crate) fn slot(&mut self, group: &GroupId) -> u32 {
        let name = group.0.as_str();
        let hash = self.hasher.hash_one(name);
        let named = |slot: &u32| {
            self.slots.get(*slot as usize).and_then(Option::as_ref).is_some_and(|g| *g.name == *name)
        };
        if let Some(slot) = self.by_name.find(hash, named) {
            return *slot;
        }
        let group = Group::named(name);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(group);
                slot
            }
            None => {
                self.slots.push(Some(group));
                (self.slots.len() - 1) as u32
            }
        };
        self.index(hash, slot);
        slot
    }

    /// The group in this slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Group> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The group in this slot, to change.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Group> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// A lease in the group of [`super::item::Item::group`] began (+1) or ended (-1).
    #[inline]
    pub(crate) fn count_lease(&mut self, group: u32, change: i32) {
        if let Some(slot) = group.checked_sub(1) {
            self.count_lease_in(slot, change);
        }
    }

    fn count_lease_in(&mut self, slot: u32, change: i32) {
        let Some(group) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let before = group.leased;
        group.leased = before.saturating_add_signed(change);
        if before >= NOISY_LEASES {
            self.busy.remove(&(before, slot));
        }
        if group.leased >= NOISY_LEASES {
            self.busy.insert((group.leased, slot));
        }
    }

    /// The groups that may be noisy, those with most leases first.
    pub(crate) fn busiest(&self) -> impl Iterator<Item = &Group> {
        self.busy.iter().rev().filter_map(|(_, slot)| self.get(*slot))
    }

    /// Forgets the group in this slot if nothing is in it.
    pub(crate) fn forget_empty(&mut self, slot: u32) {
        let Some(group) = self.get(slot).filter(|group| group.messages == 0) else { return };
        let hash = self.hasher.hash_one(&*group.name);
        if let Ok(found) = self.by_name.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        self.slots[slot as usize] = None;
        self.free.push(slot);
    }

    /// The names of all slots, in order.
    pub(crate) fn names(&self) -> Vec<Option<&str>> {
        self.slots.iter().map(|group| group.as_ref().map(|group| &*group.name)).collect()
    }

    /// A table with these names in these slots; those without one are free.
    pub(crate) fn with_names(names: &[Option<&str>]) -> Self {
        let mut groups = Self::default();
        for (slot, name) in (0..).zip(names) {
            let Some(name) = name else {
                groups.slots.push(None);
                groups.free.push(slot);
                continue;
            };
            groups.slots.push(Some(Group::named(name)));
            groups.index(groups.hasher.hash_one(*name), slot);
        }
        groups
    }

    fn index(&mut self, hash: u64, slot: u32) {
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, slot, |slot| {
            hasher
                .hash_one(slots.get(*slot as usize).and_then(Option::as_ref).map_or("", |group| &group.name))
        });
    }

    /// All slots in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.slots.iter().enumerate().filter_map(|(slot, group)| Some((slot as u32, group.as_ref()?)))
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let names: usize = self.iter().map(|(_, group)| group.name.len()).sum();
        self.slots.capacity() * size_of::<Option<Group>>() + self.by_name.capacity() * 8 + names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Text;

    #[test]
    fn group_keeps_its_slot_until_it_is_empty_and_forgotten() {
        let mut groups = Groups::default();
        let name = |n: u32| GroupId(Text::from(format!("g{n}")));
        let slots: Vec<u32> = (0..1_000).map(|n| groups.slot(&name(n))).collect();
        assert_eq!(groups.slot(&name(500)), slots[500]);
        groups.get_mut(slots[1]).expect("there").messages = 1;
        groups.forget_empty(slots[1]);
        groups.forget_empty(slots[2]);
        assert_eq!(groups.slot(&name(1)), slots[1]);
        assert_eq!(groups.slot(&name(5_000)), slots[2]);
        assert_eq!(groups.iter().count(), 1_000);
    }
}
