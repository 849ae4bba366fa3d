//! A hash table that never grows all at once.
//!
//! A table that doubles moves all it holds in one step: for four million that takes a fifth of a second. This one is
//! made of parts of some thousands. Whenever they hold too many on the average the next part in turn is split in two,
//! so that one insert moves what one part holds at most. Which part a key belongs to says its hash: by as many bits as
//! there are parts, and by one more where the part was split in this round (linear hashing).

use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Values in a part, on the average at most. A table of fewer is one part.
const PART: usize = 1 << 12;

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Parted<K, V> {
    /// The first part, which is all of most tables.
    first: HashTable<(K, V)>,
    /// The other parts.
    others: Vec<HashTable<(K, V)>>,
    /// Parts at the begin of this round, which is a power of two. As many of them were split in it as there are more.
    round: usize,
    len: usize,
    hasher: DefaultHashBuilder,
}

impl<K, V> Default for Parted<K, V> {
    fn default() -> Self {
        let (first, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        Self { first, others: Vec::new(), round: 1, len: 0, hasher }
    }
}

impl<K: Eq + Hash, V> Parted<K, V> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn parts(&self) -> usize {
        1 + self.others.len()
    }

    /// The place among the others of the part that a hash belongs to; none where that is the first.
    fn other_of(&self, hash: u64) -> Option<usize> {
        let bits = part_bits(hash);
        let part = bits & (self.round - 1);
        let was_split = part < self.parts() - self.round;
        if was_split { bits & (2 * self.round - 1) } else { part }.checked_sub(1)
    }

    #[inline]
    fn part(&self, hash: u64) -> &HashTable<(K, V)> {
        if self.others.is_empty() {
            return &self.first;
        }
        self.other_of(hash).map_or(&self.first, |other| &self.others[other])
    }

    #[inline]
    fn part_mut(&mut self, hash: u64) -> &mut HashTable<(K, V)> {
        if self.others.is_empty() {
            return &mut self.first;
        }
        match self.other_of(hash) {
            None => &mut self.first,
            Some(other) => &mut self.others[other],
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let hash = self.hasher.hash_one(key);
        self.part(hash).find(hash, |(known, _)| known == key).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        self.part_mut(hash).find_mut(hash, |(known, _)| known == key).map(|(_, value)| value)
    }

    /// The value of a key; one is made where there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce(&K) -> V) -> &mut V {
        if self.len >= PART && self.len >= self.parts() * PART {
            self.split();
        }
        let hash = self.hasher.hash_one(&key);
        let other = if self.others.is_empty() { None } else { self.other_of(hash) };
        let Self { first, others, len, hasher, .. } = self;
        let part = other.map_or(first, |other| &mut others[other]);
        let rehash = |(known, _): &(K, V)| hasher.hash_one(known);
        let entry = match part.entry(hash, |(known, _)| *known == key, rehash) {
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
        let found = self.part_mut(hash).find_entry(hash, |(known, _)| known == key).ok()?;
        let ((_, value), _) = found.remove();
        self.len -= 1;
        Some(value)
    }

    /// Changes the value of a key; `change` answers what of it is wanted, and whether it stays.
    #[inline]
    pub(crate) fn change<T>(&mut self, key: &K, change: impl FnOnce(&mut V) -> (T, bool)) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        let mut found = self.part_mut(hash).find_entry(hash, |(known, _)| known == key).ok()?;
        let (answer, stays) = change(&mut found.get_mut().1);
        if !stays {
            found.remove();
            self.len -= 1;
        }
        Some(answer)
    }

    /// Makes the parts that this number of further values will need.
    pub(crate) fn reserve(&mut self, more: usize) {
        while self.parts() * PART < self.len + more {
            self.split();
        }
    }

    /// Splits the next part in turn.
    #[cold]
    fn split(&mut self) {
        let next = self.parts() - self.round;
        let Self { first, others, round, hasher, .. } = self;
        let rehash = |(known, _): &(K, V)| hasher.hash_one(known);
        let part = match next.checked_sub(1) {
            None => first,
            Some(other) => &mut others[other],
        };
        let old = std::mem::take(part);
        let room = old.len() / 2 + old.len() / 16;
        let mut halves = [HashTable::with_capacity(room), HashTable::with_capacity(room)];
        for (key, value) in old {
            let hash = hasher.hash_one(&key);
            let goes = part_bits(hash) & *round != 0;
            halves[usize::from(goes)].insert_unique(hash, (key, value), rehash);
        }
        let [stay, go] = halves;
        *part = stay;
        others.push(go);
        if others.len() + 1 == 2 * *round {
            *round *= 2;
        }
    }

    /// Everything, in no particular order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        std::iter::once(self.first).chain(self.others).flatten().map(|(_, value)| value)
    }

    /// Bytes held.
    pub(crate) fn allocation_size(&self) -> usize {
        let others: usize = self.others.iter().map(HashTable::allocation_size).sum();
        self.first.allocation_size() + self.others.capacity() * size_of::<HashTable<(K, V)>>() + others
    }
}

/// The bits of a hash that say which part it belongs to. Mixed once more: the hashes of numbers in a row are a row too.
#[inline]
fn part_bits(hash: u64) -> usize {
    ((hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least and the most values that a part has.
    fn sizes(parted: &Parted<u64, u64>) -> (usize, usize) {
        let sizes = std::iter::once(&parted.first).chain(&parted.others).map(HashTable::len);
        (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0))
    }

    #[test]
    fn values_are_found_whatever_part_they_are_in() {
        let mut parted = Parted::default();
        let count = 11 * PART as u64;
        for key in 0..count {
            assert_eq!(parted.insert(key, key * 3), None);
            assert_eq!(parted.len() as u64, key + 1);
            assert_eq!(parted.parts(), parted.len().div_ceil(PART));
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
            let (least, most) = sizes(&parted);
            assert!(least > PART / 2 && most < 2 * PART, "{least} to {most}");
        }
    }

    #[test]
    fn parts_are_made_ahead_and_few_values_need_one() {
        let mut parted: Parted<u64, u64> = Parted::default();
        parted.reserve(PART);
        assert!(parted.len() == 0 && parted.others.is_empty());
        parted.reserve(20 * PART);
        assert_eq!(parted.parts(), 20);
        (0..20 * PART as u64).for_each(|key| assert_eq!(parted.insert(key, key), None));
        assert_eq!(parted.parts(), 20);
        assert!((0..20 * PART as u64).all(|key| parted.get(&key) == Some(&key)));
    }
}
