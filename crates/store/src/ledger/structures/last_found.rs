//! A map with a cache of one entry: the value looked up last is found without hashing its key.
//!
//! A step looks its queue up several times, and the next step is often about the same queue.

use std::cell::Cell;
use std::hash::Hash;

use super::parted::Parted;

/// Things by their keys.
pub(crate) struct LastFound<K, T> {
    /// The place of each thing in `things`.
    places: Parted<K, u32>,
    things: Vec<Option<Box<T>>>,
    /// Places without a thing.
    free: Vec<u32>,
    /// The key that was found last, with its place: never one that was taken out. It makes this map, and so the ledger,
    /// not `Sync`: who looks a queue up holds the store's lock.
    last: Cell<Option<(K, u32)>>,
}

impl<K, T> Default for LastFound<K, T> {
    fn default() -> Self {
        Self { places: Parted::default(), things: Vec::new(), free: Vec::new(), last: Cell::new(None) }
    }
}

impl<K: Copy + Eq + Hash, T> LastFound<K, T> {
    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&T> {
        let place = self.place(key)?;
        self.things[place].as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        let place = self.place(key)?;
        self.things[place].as_deref_mut()
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.places.get(key).is_some()
    }

    /// Adds a thing, or replaces the one of this key.
    pub(crate) fn insert(&mut self, key: K, thing: T) {
        let thing = Some(Box::new(thing));
        if let Some(place) = self.place(&key) {
            self.things[place] = thing;
            return;
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = thing;
                place
            }
            None => {
                self.things.push(thing);
                u32::try_from(self.things.len() - 1).expect("memory holds fewer than 2^32 things")
            }
        };
        self.places.insert(key, place);
    }

    /// Takes a thing out. Its place is for the next one that comes.
    pub(crate) fn remove(&mut self, key: &K) -> Option<Box<T>> {
        let place = self.places.remove(key)?;
        self.last.set(None);
        self.free.push(place);
        self.things[place as usize].take()
    }

    /// All keys, in any order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.places.keys()
    }

    /// All things, in any order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.things.iter().flatten().map(Box::as_ref)
    }

    /// The same, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.iter_mut().flatten().map(Box::as_mut)
    }

    #[inline]
    fn place(&self, key: &K) -> Option<usize> {
        match self.last.get() {
            Some((last, place)) if last == *key => Some(place as usize),
            _ => self.look_for(key),
        }
    }

    #[inline(never)]
    fn look_for(&self, key: &K) -> Option<usize> {
        let place = *self.places.get(key)?;
        self.last.set(Some((*key, place)));
        Some(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_last_is_found_again_until_it_is_taken_out() {
        let mut map = LastFound::default();
        map.insert(1, "one");
        map.insert(2, "two");
        for _ in 0..2 {
            assert_eq!((map.get(&1), map.get(&2), map.get(&3)), (Some(&"one"), Some(&"two"), None));
        }
        assert_eq!(map.remove(&2).as_deref(), Some(&"two"));
        assert_eq!((map.get(&2), map.contains_key(&2)), (None, false));
        assert_eq!(map.remove(&2), None);
        assert_eq!(map.get(&1), Some(&"one"));
    }

    #[test]
    fn place_that_is_free_is_given_to_another_key() {
        let mut map = LastFound::default();
        map.insert(1, "one");
        assert_eq!(map.get(&1), Some(&"one"));
        map.remove(&1);
        map.insert(2, "two");
        assert_eq!((map.get(&1), map.get(&2)), (None, Some(&"two")));
        assert_eq!(map.things.len(), 1);
    }

    #[test]
    fn thing_of_a_known_key_is_replaced() {
        let mut map = LastFound::default();
        map.insert(1, "first");
        map.insert(1, "second");
        assert_eq!(map.values().collect::<Vec<_>>(), [&"second"]);
        *map.get_mut(&1).expect("key 1 was inserted") = "third";
        assert_eq!(map.get(&1), Some(&"third"));
        map.values_mut().for_each(|thing| *thing = "fourth");
        assert_eq!((map.keys().copied().collect::<Vec<_>>(), map.get(&1)), (vec![1], Some(&"fourth")));
    }
}
