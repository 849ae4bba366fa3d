//! Values by key, in a table that never grows all at once.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::Entry;

use super::parts::Parts;

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Parted<K, V> {
    parts: Parts<(K, V)>,
    hasher: DefaultHashBuilder,
}

impl<K, V> Default for Parted<K, V> {
    fn default() -> Self {
        Self { parts: Parts::default(), hasher: DefaultHashBuilder::default() }
    }
}

impl<K: Eq + Hash, V> Parted<K, V> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let hash = self.hasher.hash_one(key);
        self.parts.find(hash, |(known, _)| known == key).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        self.parts.find_mut(hash, |(known, _)| known == key).map(|(_, value)| value)
    }

    /// The value of a key; one is made where there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce(&K) -> V) -> &mut V {
        let Self { parts, hasher } = self;
        let hash_of = |(known, _): &(K, V)| hasher.hash_one(known);
        let hash = hasher.hash_one(&key);
        let (part, len) = parts.part_with_room(hash, hash_of);
        let entry = match part.entry(hash, |(known, _)| *known == key, hash_of) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                *len += 1;
                let value = make(&key);
                entry.insert((key, value))
            }
        };
        &mut entry.into_mut().1
    }

    /// Puts a value under a key. Answers the one that was there.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let mut new = Some(value);
        let there = self.get_or_insert_with(key, |_| new.take().expect("a missing value is made once"));
        new.map(|value| std::mem::replace(there, value))
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        self.parts.remove(hash, |(known, _)| known == key).map(|(_, value)| value)
    }

    /// Changes the value of a key; `change` answers what of it is wanted, and whether it stays.
    #[inline]
    pub(crate) fn change<T>(&mut self, key: &K, change: impl FnOnce(&mut V) -> (T, bool)) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        self.parts.change(hash, |(known, _)| known == key, |(_, value)| change(value))
    }

    /// Makes the parts that this number of further values will need.
    pub(crate) fn reserve(&mut self, more: usize) {
        let Self { parts, hasher } = self;
        parts.reserve(more, |(known, _)| hasher.hash_one(known));
    }

    /// All keys, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.parts.iter().map(|(key, _)| key)
    }

    /// Everything, in no particular order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        self.parts.into_values().map(|(_, value)| value)
    }

    /// Bytes held.
    pub(crate) fn allocation_size(&self) -> usize {
        self.parts.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::structures::parts::PART;

    #[test]
    fn values_are_found_whatever_part_they_are_in() {
        let mut parted = Parted::default();
        let count = 11 * PART as u64;
        for key in 0..count {
            assert_eq!(parted.insert(key, key * 3), None);
            assert_eq!(parted.len() as u64, key + 1);
            assert_eq!(parted.parts.parts(), parted.len().div_ceil(PART));
            assert_eq!(parted.get(&(key / 2)), Some(&(key / 2 * 3)));
        }
        assert!((0..count).all(|key| parted.get(&key) == Some(&(key * 3))));
        assert_eq!(parted.get(&count), None);
        assert_eq!(parted.remove(&count), None);
        assert_eq!((parted.insert(7, 1), parted.insert(7, 2)), (Some(21), Some(1)));
        assert_eq!(*parted.get_or_insert_with(7, |_| panic!("key 7 has a value")), 2);
        for key in (0..count).filter(|key| key % 3 != 0) {
            assert!(parted.remove(&key).is_some() && parted.remove(&key).is_none());
        }
        assert_eq!(parted.len() as u64, count.div_ceil(3));
        assert_eq!(parted.clone().into_values().count(), parted.len());
        (0..count).for_each(|key| assert_eq!(parted.get(&key).is_some(), key % 3 == 0));
    }

    #[test]
    fn no_part_holds_many_times_what_another_does() {
        for step in [1, 256, 1 << 20, 1 << 40] {
            let mut parted: Parted<u64, u64> = Parted::default();
            for number in 0..24 * PART as u64 {
                parted.insert(number * step, number);
            }
            // Of 24 parts 8 were split in the third round that began with 16: they have half of what the others have.
            let (least, most) = parted.parts.sizes();
            assert!(least > PART / 2 && most < 2 * PART, "{least} to {most}");
        }
    }

    #[test]
    fn parts_are_made_ahead_and_few_values_need_one() {
        let mut parted: Parted<u64, u64> = Parted::default();
        parted.reserve(PART);
        assert!(parted.len() == 0 && parted.parts.parts() == 1);
        parted.reserve(20 * PART);
        assert_eq!(parted.parts.parts(), 20);
        (0..20 * PART as u64).for_each(|key| assert_eq!(parted.insert(key, key), None));
        assert_eq!(parted.parts.parts(), 20);
        assert!((0..20 * PART as u64).all(|key| parted.get(&key) == Some(&key)));
    }
}
