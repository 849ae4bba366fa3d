//! Values by key, of which an image can be made at any moment without a look at each.
//!
//! The values lie in the pieces of a [`Slab`], which an image shares. Where each lies is known beside them, and is no
//! part of the image. They lie without gaps: the last one takes the place of one that leaves, so that a look at all
//! costs as much as there are, however many there were.

use std::hash::Hash;

use super::parted::Parted;
use super::slab::Slab;

/// Where the value of each key lies: a slot below `u32::MAX`.
pub(crate) trait Places<K>: Default {
    fn len(&self) -> usize;

    fn get(&self, key: &K) -> Option<u32>;

    /// The slot of a key; one is made where there is none.
    fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> u32) -> u32;

    /// Gives a key that is there another slot.
    fn set(&mut self, key: &K, slot: u32);

    fn remove(&mut self, key: &K) -> Option<u32>;

    /// Everything that takes long to give back, piece by piece.
    fn into_pieces(self) -> impl Iterator<Item = ()>;

    /// Bytes held, about.
    fn heap_bytes(&self) -> usize;
}

impl<K: Eq + Hash> Places<K> for Parted<K, u32> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u32> {
        self.get(key).copied()
    }

    #[inline]
    fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> u32) -> u32 {
        *self.get_or_insert_with(key, |_| make())
    }

    #[inline]
    fn set(&mut self, key: &K, slot: u32) {
        if let Some(known) = self.get_mut(key) {
            *known = slot;
        }
    }

    #[inline]
    fn remove(&mut self, key: &K) -> Option<u32> {
        self.remove(key)
    }

    fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.into_values().map(|_| ())
    }

    fn heap_bytes(&self) -> usize {
        self.allocation_size()
    }
}

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V, P = Parted<K, u32>> {
    slots: Slab<(K, V)>,
    places: P,
}

/// The values of a [`Keyed`] at one moment.
pub(crate) type KeyedImage<K, V> = Slab<(K, V)>;

impl<K, V, P: Default> Default for Keyed<K, V, P> {
    fn default() -> Self {
        Self { slots: Slab::default(), places: P::default() }
    }
}

impl<K: Clone, V: Clone, P: Places<K>> Keyed<K, V, P> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.places.get(key).is_some()
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (_, value) = self.slots.get(self.places.get(key)?)?;
        Some(value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, value) = self.slots.get_mut(self.places.get(key)?)?;
        Some(value)
    }

    /// Puts a value under a key; what was there is gone.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let mut new = Some((key.clone(), value));
        let slots = &mut self.slots;
        let slot = self
            .places
            .get_or_insert_with(key, || slots.insert(new.take().expect("a missing value is put in once")));
        if let Some(new) = new {
            self.slots[slot] = new;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.places.remove(key)?;
        let last = self.slots.len() as u32 - 1;
        if slot != last {
            let (moved, _) = self.slots.get(last)?;
            self.places.set(moved, slot);
        }
        let (_, value) = self.slots.swap_remove(slot)?;
        Some(value)
    }

    /// The values, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().map(|(_, value)| value)
    }

    /// How many pieces the values lie in.
    pub(crate) fn pieces(&self) -> usize {
        self.slots.pieces()
    }

    /// The values in one piece. One that changes its place goes to this piece or one before it.
    pub(crate) fn values_in(&self, piece: usize) -> impl Iterator<Item = &V> {
        self.slots.piece(piece).iter().map(|(_, value)| value)
    }

    /// Every value, piece by piece; a piece may hold none.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<V>> {
        let values = self.slots.into_values().map(|(_, value)| Some(value));
        values.chain(self.places.into_pieces().map(|()| None))
    }

    /// The values as they are now.
    pub(crate) fn image(&self) -> KeyedImage<K, V> {
        self.slots.image()
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.places.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::near::Near;

    type Hashed = Parted<u64, u32>;

    #[test]
    fn values_are_found_by_key_wherever_their_slots_are_known() {
        an_image_stays::<Hashed>();
        an_image_stays::<Near>();
        nothing_is_kept::<Hashed>();
        nothing_is_kept::<Near>();
        few_lie_close::<Hashed>();
        few_lie_close::<Near>();
    }

    /// Values are found by key, and an image stays as it was.
    fn an_image_stays<P: Places<u64>>() {
        let mut keyed = Keyed::<u64, u64, P>::default();
        (0..1_000_u64).for_each(|n| keyed.insert(n, n * 2));
        let image = keyed.image();
        (0..1_000_u64).filter(|n| n % 3 == 0).for_each(|n| assert_eq!(keyed.remove(&n), Some(n * 2)));
        keyed.insert(1, 7);
        keyed.insert(5_000, 8);
        if let Some(value) = keyed.get_mut(&2) {
            *value = 9;
        }
        assert_eq!((keyed.get(&1), keyed.get(&2), keyed.get(&3)), (Some(&7), Some(&9), None));
        assert_eq!((keyed.len(), keyed.values().count(), keyed.places.len()), (667, 667, 667));
        assert!(image.iter().copied().eq((0..1_000).map(|n| (n, n * 2))));
        let mut left: Vec<u64> = keyed.values().copied().collect();
        left.sort_unstable();
        let mut expected: Vec<u64> = (0..1_000).filter(|n| n % 3 != 0).map(|n| n * 2).collect();
        expected.retain(|value| ![2, 4].contains(value));
        expected.extend([7, 8, 9]);
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    /// Nothing is kept of very many that left.
    fn nothing_is_kept<P: Places<u64>>() {
        let mut keyed = Keyed::<u64, u64, P>::default();
        (0..10_000_u64).for_each(|n| keyed.insert(n, n));
        (0..10_000_u64).for_each(|n| assert!(keyed.remove(&n).is_some()));
        assert!(keyed.is_empty() && keyed.slots.len() == 0 && keyed.pieces() == 1);
        keyed.insert(1, 1);
        assert_eq!(keyed.get(&1), Some(&1));
    }

    /// Few that are left of very many lie close together.
    fn few_lie_close<P: Places<u64>>() {
        let mut keyed = Keyed::<u64, u64, P>::default();
        (0..100_000_u64).for_each(|n| keyed.insert(n, n));
        let stays = |n: &u64| n % 1_000 == 7;
        (0..100_000).filter(|n| !stays(n)).for_each(|n| assert_eq!(keyed.remove(&n), Some(n)));
        assert_eq!((keyed.len(), keyed.pieces()), (100, 1));
        assert!((0..100_000).filter(stays).all(|n| keyed.get(&n) == Some(&n)));
    }
}
