//! Values by key, of which an image can be made at any moment without a look at each.
//!
//! The values lie in the pieces of a [`Slab`], which an image shares. Where each lies is known beside them, and is no
//! part of the image.

use std::hash::Hash;

use super::parted::Parted;
use super::slab::Slab;

/// Slots that are kept when nothing is left.
const SLOTS_KEPT: usize = 256;

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, V> {
    slots: Slab<Option<(K, V)>>,
    places: Parted<K, u32>,
}

/// The values of a [`Keyed`] at one moment.
pub(crate) type KeyedImage<K, V> = Slab<Option<(K, V)>>;

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Self { slots: Slab::default(), places: Parted::default() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Keyed<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline]
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.places.get(key).is_some()
    }

    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (_, value) = self.slots.get(*self.places.get(key)?)?.as_ref()?;
        Some(value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, value) = self.slots.get_mut(*self.places.get(key)?)?.as_mut()?;
        Some(value)
    }

    /// Puts a value under a key; what was there is gone.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let mut new = Some(value);
        let slots = &mut self.slots;
        let slot = self
            .places
            .get_or_insert_with(key, |key| slots.insert(new.take().map(|value| (key.clone(), value))));
        if let (Some(value), Some(known)) = (new, self.slots[*slot].as_mut()) {
            known.1 = value;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.places.remove(key)?;
        let (_, value) = self.slots.get_mut(slot)?.take()?;
        if self.places.is_empty() && self.slots.len() > SLOTS_KEPT {
            self.slots = Slab::default();
        } else {
            self.slots.give_back(slot);
        }
        Some(value)
    }

    /// The values, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten().map(|(_, value)| value)
    }

    /// How many pieces the values lie in.
    pub(crate) fn pieces(&self) -> usize {
        self.slots.pieces()
    }

    /// The values in one piece.
    pub(crate) fn values_in(&self, piece: usize) -> impl Iterator<Item = &V> {
        self.slots.piece(piece).iter().flatten().map(|(_, value)| value)
    }

    /// Every value, piece by piece; a piece may hold none.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<V>> {
        let values = self.slots.into_values().map(|slot| slot.map(|(_, value)| value));
        values.chain(self.places.into_values().map(|_| None))
    }

    /// The values as they are now.
    pub(crate) fn image(&self) -> KeyedImage<K, V> {
        self.slots.image()
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.places.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_key_and_an_image_stays_as_it_was() {
        let mut keyed = Keyed::default();
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
        let seen: Vec<(u64, u64)> = image.iter().flatten().copied().collect();
        assert!(seen.into_iter().eq((0..1_000).map(|n| (n, n * 2))));
    }

    #[test]
    fn nothing_is_kept_of_very_many_that_left() {
        let mut keyed = Keyed::default();
        (0..10_000_u64).for_each(|n| keyed.insert(n, n));
        (0..10_000_u64).for_each(|n| assert!(keyed.remove(&n).is_some()));
        assert!(keyed.is_empty() && keyed.slots.len() == 0);
        keyed.insert(1, 1);
        assert_eq!(keyed.get(&1), Some(&1));
    }
}
