//! A hash table that never grows all at once.
//!
//! A table that doubles moves all it holds in one step: for four million that takes a fifth of a second. This one is
//! made of parts of some thousands. Whenever they hold too many on the average the next part in turn is split in two,
//! so that one insert moves what one part holds at most. Which part a value belongs to says its hash: by as many bits
//! as there are parts, and by one more where the part was split in this round (linear hashing).

use hashbrown::HashTable;

/// Values in a part, on the average at most. A table of fewer is one part.
pub(crate) const PART: usize = 1 << 12;

/// Values by their hashes. Who holds it says what the hash of a value is, and which value is meant.
#[derive(Clone, Debug)]
pub(crate) struct Parts<T> {
    /// The first part, which is all of most tables.
    first: HashTable<T>,
    /// The other parts.
    others: Vec<HashTable<T>>,
    /// Parts at the begin of this round, which is a power of two. As many of them were split in it as there are more.
    round: usize,
    len: usize,
}

/// Half of a hash, kept beside a value. With it a table that makes room need not look at what the hash is of, which may
/// lie anywhere in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShortHash(u32);

impl ShortHash {
    #[inline]
    pub(crate) fn of(hash: u64) -> Self {
        Self((hash >> 32) as u32)
    }

    /// A hash as tables need it: its lowest bits say the place, its highest are kept to compare.
    #[inline]
    pub(crate) fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { first: HashTable::new(), others: Vec::new(), round: 1, len: 0 }
    }
}

impl<T> Parts<T> {
    /// A table in which this number of values finds room, mostly.
    pub(crate) fn with_room(values: usize) -> Self {
        let hash_of = |_: &T| unreachable!("an empty table has nothing to move");
        let mut table = Self::default();
        table.reserve(values, hash_of);
        let each = values / table.parts();
        std::iter::once(&mut table.first)
            .chain(&mut table.others)
            .for_each(|part| part.reserve(each, hash_of));
        table
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn parts(&self) -> usize {
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
    fn part(&self, hash: u64) -> &HashTable<T> {
        if self.others.is_empty() {
            return &self.first;
        }
        self.other_of(hash).map_or(&self.first, |other| &self.others[other])
    }

    #[inline]
    fn part_mut(&mut self, hash: u64) -> &mut HashTable<T> {
        if self.others.is_empty() {
            return &mut self.first;
        }
        match self.other_of(hash) {
            None => &mut self.first,
            Some(other) => &mut self.others[other],
        }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_meant: impl FnMut(&T) -> bool) -> Option<&T> {
        self.part(hash).find(hash, is_meant)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: u64, is_meant: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.part_mut(hash).find_mut(hash, is_meant)
    }

    /// The part that a value with this hash belongs to, for one that may come; and the number of all values, which
    /// rises when it does.
    #[inline]
    pub(super) fn part_with_room(
        &mut self,
        hash: u64,
        hash_of: impl Fn(&T) -> u64,
    ) -> (&mut HashTable<T>, &mut usize) {
        if self.len >= PART && self.len >= self.parts() * PART {
            self.split(hash_of);
        }
        let other = if self.others.is_empty() { None } else { self.other_of(hash) };
        let Self { first, others, len, .. } = self;
        (other.map_or(first, |other| &mut others[other]), len)
    }

    /// Puts a value in that is not there.
    pub(crate) fn insert_unique(&mut self, hash: u64, value: T, hash_of: impl Fn(&T) -> u64) {
        let (part, len) = self.part_with_room(hash, &hash_of);
        part.insert_unique(hash, value, hash_of);
        *len += 1;
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, is_meant: impl FnMut(&T) -> bool) -> Option<T> {
        let found = self.part_mut(hash).find_entry(hash, is_meant).ok()?;
        let (value, _) = found.remove();
        self.len -= 1;
        Some(value)
    }

    /// Changes the value that is meant; `change` answers what of it is wanted, and whether it stays.
    #[inline]
    pub(crate) fn change<A>(
        &mut self,
        hash: u64,
        is_meant: impl FnMut(&T) -> bool,
        change: impl FnOnce(&mut T) -> (A, bool),
    ) -> Option<A> {
        let mut found = self.part_mut(hash).find_entry(hash, is_meant).ok()?;
        let (answer, stays) = change(found.get_mut());
        if !stays {
            found.remove();
            self.len -= 1;
        }
        Some(answer)
    }

    /// Makes the parts that this number of further values will need.
    pub(crate) fn reserve(&mut self, more: usize, hash_of: impl Fn(&T) -> u64) {
        while self.parts() * PART < self.len + more {
            self.split(&hash_of);
        }
    }

    /// Splits the next part in turn.
    #[cold]
    fn split(&mut self, hash_of: impl Fn(&T) -> u64) {
        let next = self.parts() - self.round;
        let Self { first, others, round, .. } = self;
        let part = match next.checked_sub(1) {
            None => first,
            Some(other) => &mut others[other],
        };
        let old = std::mem::take(part);
        let room = old.len() / 2 + old.len() / 16;
        let mut halves = [HashTable::with_capacity(room), HashTable::with_capacity(room)];
        for value in old {
            let hash = hash_of(&value);
            let goes = part_bits(hash) & *round != 0;
            halves[usize::from(goes)].insert_unique(hash, value, &hash_of);
        }
        let [stay, go] = halves;
        *part = stay;
        others.push(go);
        if others.len() + 1 == 2 * *round {
            *round *= 2;
        }
    }

    /// All values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others).flatten()
    }

    /// Everything, in no particular order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        std::iter::once(self.first).chain(self.others).flatten()
    }

    /// Bytes held.
    pub(crate) fn allocation_size(&self) -> usize {
        let others: usize = self.others.iter().map(HashTable::allocation_size).sum();
        self.first.allocation_size() + self.others.capacity() * size_of::<HashTable<T>>() + others
    }

    /// The least and the most values that a part has.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let sizes = std::iter::once(&self.first).chain(&self.others).map(HashTable::len);
        (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0))
    }
}

/// The bits of a hash that say which part it belongs to. Mixed once more: the hashes of numbers in a row are a row too.
#[inline]
fn part_bits(hash: u64) -> usize {
    ((hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn short_hashes_of_one_part_differ_in_the_bits_that_are_compared() {
        let hashes = (0..1 << 20_u32).map(|hash| ShortHash(hash).spread());
        let of_one_part: Vec<u64> = hashes.filter(|hash| part_bits(*hash) % 256 == 7).collect();
        let tags: BTreeSet<u64> = of_one_part.iter().map(|hash| hash >> 57).collect();
        let places: BTreeSet<u64> = of_one_part.iter().map(|hash| hash % 4096).collect();
        assert!(of_one_part.len() > 3_500 && tags.len() == 128 && places.len() > 2_000, "{}", places.len());
    }

    #[test]
    fn table_with_room_takes_as_many_values_without_growing() {
        for values in [0, 1, PART - 1, PART, PART + 1, 16 * PART] {
            let mut table = Parts::with_room(values);
            let bytes = table.allocation_size();
            assert_eq!(table.parts(), values.div_ceil(PART).max(1));
            for value in 0..values as u32 {
                // Spread evenly over the parts.
                let hash = ShortHash(value.wrapping_mul(0x9e37_79b1)).spread();
                table.insert_unique(hash, hash, |hash| *hash);
            }
            assert_eq!(table.len(), values);
            assert!(table.allocation_size() <= 2 * bytes, "{values}");
        }
    }
}
