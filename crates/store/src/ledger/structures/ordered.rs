//! Values in the order of their keys, in leaves of some hundred that an image shares.
//!
//! A shared leaf is copied when it is changed first, so values should be small or shared themselves.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Values in a full leaf.
const LEAF: usize = 128;

/// Values in order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<K, V> {
    /// None is empty. The keys of a leaf lie between its own key and that of the next.
    leaves: BTreeMap<K, Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { leaves: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Copy, V> Ordered<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.at_or_before(key).filter(|(found, _)| found == key).map(|(_, value)| value)
    }

    /// The last with this key or a smaller one.
    #[inline]
    pub(crate) fn at_or_before(&self, key: &K) -> Option<(K, &V)> {
        self.last_where(key, |other| other <= key)
    }

    /// The last with a smaller key.
    pub(crate) fn before(&self, key: &K) -> Option<(K, &V)> {
        self.last_where(key, |other| other < key)
    }

    #[inline]
    fn last_where(&self, key: &K, is_before: impl Fn(&K) -> bool) -> Option<(K, &V)> {
        // All of the leaf that the key belongs to may be behind it, but then the one before ends before it.
        self.leaves.range(..=*key).rev().find_map(|(_, leaf)| {
            let place = leaf.partition_point(|(other, _)| is_before(other));
            leaf.get(place.checked_sub(1)?).map(|(key, value)| (*key, value))
        })
    }

    /// The first with this key or a greater one.
    pub(crate) fn at_or_after(&self, key: &K) -> Option<(K, &V)> {
        let from = self.leaves.range(..=*key).next_back().map_or(*key, |(first, _)| *first);
        self.leaves.range(from..).find_map(|(_, leaf)| {
            let place = leaf.partition_point(|(other, _)| other < key);
            leaf.get(place).map(|(key, value)| (*key, value))
        })
    }

    /// All from the last one with this key or a smaller one on, in order.
    pub(crate) fn from(&self, key: K) -> impl Iterator<Item = &(K, V)> {
        let from = self.at_or_before(&key).map_or(key, |(first, _)| first);
        let leaf = self.leaves.range(..=from).next_back().map_or(from, |(leaf, _)| *leaf);
        self.leaves
            .range(leaf..)
            .flat_map(|(_, leaf)| leaf.iter())
            .skip_while(move |(other, _)| *other < from)
    }

    pub(crate) fn first(&self) -> Option<&(K, V)> {
        self.leaves.first_key_value()?.1.first()
    }

    pub(crate) fn last(&self) -> Option<&(K, V)> {
        self.leaves.last_key_value()?.1.last()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.leaves.values().flat_map(|leaf| leaf.iter())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values, in order. A leaf that an image shares is copied.
    pub(crate) fn into_values(self) -> impl Iterator<Item = V>
    where
        V: Clone,
    {
        self.leaves.into_values().flat_map(Arc::unwrap_or_clone).map(|(_, value)| value)
    }

    /// How many leaves an image shares.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Bytes held beside what the values hold themselves, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let leaves = self.leaves.values().map(|leaf| leaf.capacity() * size_of::<(K, V)>() + 40);
        // A tree's nodes have eleven places, and six of them filled where keys only rise.
        leaves.sum::<usize>() + self.leaves.len() * (size_of::<K>() + 8) * 11 / 6
    }
}

impl<K: Ord + Copy, V: Clone> Ordered<K, V> {
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.at_or_before_mut(key).filter(|(found, _)| found == key).map(|(_, value)| value)
    }

    /// The last with this key or a smaller one, to change.
    #[inline]
    pub(crate) fn at_or_before_mut(&mut self, key: &K) -> Option<(K, &mut V)> {
        self.leaves.range_mut(..=*key).rev().find_map(|(_, leaf)| {
            let place = leaf.partition_point(|(other, _)| other <= key).checked_sub(1)?;
            Arc::make_mut(leaf).get_mut(place).map(|(key, value)| (*key, value))
        })
    }

    /// Puts a value under a key; what was there is gone.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let leaf = match self.leaves.range(..=key).next_back() {
            Some((leaf, _)) => *leaf,
            None => match self.leaves.pop_first() {
                // It comes before all others, into their first leaf.
                Some((_, first)) => {
                    self.leaves.insert(key, first);
                    key
                }
                None => return self.put_leaf(vec![(key, value)]),
            },
        };
        let Some(values) = self.leaves.get_mut(&leaf).map(Arc::make_mut) else { return };
        let place = values.partition_point(|(other, _)| *other < key);
        if let Some(known) = values.get_mut(place).filter(|(other, _)| *other == key) {
            known.1 = value;
        } else if values.len() < LEAF {
            values.insert(place, (key, value));
            self.len += 1;
        } else if place == LEAF {
            // Mostly keys rise: leaves that stay full are better than halves.
            self.put_leaf(vec![(key, value)]);
        } else {
            let later = values.split_off(LEAF / 2);
            self.len -= later.len();
            self.put_leaf(later);
            self.insert(key, value);
        }
    }

    /// Values whose keys rise.
    pub(crate) fn of(rising: Vec<(K, V)>) -> Self {
        let (mut leaves, mut rising) = (Self::default(), rising.into_iter().peekable());
        while rising.peek().is_some() {
            leaves.put_leaf(rising.by_ref().take(LEAF).collect());
        }
        leaves
    }

    fn put_leaf(&mut self, values: Vec<(K, V)>) {
        let Some((first, _)) = values.first() else { return };
        self.len += values.len();
        self.leaves.insert(*first, Arc::new(values));
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (leaf, values) = self.leaves.range_mut(..=*key).next_back()?;
        let (leaf, place) = (*leaf, values.binary_search_by_key(key, |(other, _)| *other).ok()?);
        let values = Arc::make_mut(values);
        let (_, value) = values.remove(place);
        let left = values.len();
        self.len -= 1;
        if left == 0 {
            self.leaves.remove(&leaf);
        } else if left < LEAF / 4 {
            self.join(leaf, left);
        }
        Some(value)
    }

    /// Puts a leaf with few values together with a neighbour that has few too.
    fn join(&mut self, leaf: K, left: usize) {
        let has_few = |(_, other): &(&K, &Arc<Vec<(K, V)>>)| left + other.len() <= LEAF / 2;
        let before = self.leaves.range(..leaf).next_back().filter(has_few).map(|(before, _)| *before);
        let after = self.leaves.range((Bound::Excluded(leaf), Bound::Unbounded)).next();
        let after = after.filter(has_few).map(|(after, _)| *after);
        let (first, second) = match (before, after) {
            (Some(before), _) => (before, leaf),
            (None, Some(after)) => (leaf, after),
            (None, None) => return,
        };
        if let Some(later) = self.leaves.remove(&second)
            && let Some(values) = self.leaves.get_mut(&first)
        {
            Arc::make_mut(values).extend(Arc::unwrap_or_clone(later));
        }
    }

    /// Takes out all with this key or a greater one.
    pub(crate) fn split_off(&mut self, key: &K) -> Self {
        let mut later = self.leaves.split_off(key);
        if let Some((_, leaf)) = self.leaves.last_key_value() {
            let place = leaf.partition_point(|(other, _)| other < key);
            if place < leaf.len()
                && let Some((first, mut leaf)) = self.leaves.pop_last()
            {
                let behind = Arc::make_mut(&mut leaf).split_off(place);
                later.extend(behind.first().map(|(first, _)| *first).map(|first| (first, Arc::new(behind))));
                if place > 0 {
                    self.leaves.insert(first, leaf);
                }
            }
        }
        let len = later.values().map(|leaf| leaf.len()).sum();
        self.len -= len;
        Self { leaves: later, len }
    }

    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        let key = self.first()?.0;
        self.remove(&key).map(|value| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_what_an_ordered_map_would_be_and_an_image_stays_as_it_was() {
        let (mut leaves, mut plain) = (Ordered::default(), BTreeMap::new());
        let mut image: Option<(Ordered<u64, u64>, BTreeMap<u64, u64>)> = None;
        let mut chance = 0x9e37_79b9_u64;
        for step in 0..40_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = chance >> 33;
            // Mostly at the end, sometimes anywhere; grows, shrinks and grows again.
            let key = if number.is_multiple_of(4) { number % 50_000 } else { step };
            let adds = if step / 10_000 % 2 == 0 { 4 } else { 1 };
            if number / 7 % 6 < adds {
                leaves.insert(key, step);
                plain.insert(key, step);
            } else if let Some(gone) = plain.range(number % 40_000..).next().map(|(key, _)| *key) {
                assert_eq!(leaves.remove(&gone), plain.remove(&gone));
            }
            let key = number % 41_000;
            assert_eq!(leaves.get(&key), plain.get(&key));
            let pair = |(key, value): (&u64, &u64)| (*key, *value);
            let own = |(key, value): (u64, &u64)| (key, *value);
            assert_eq!(leaves.before(&key).map(own), plain.range(..key).next_back().map(pair));
            assert_eq!(leaves.at_or_before(&key).map(own), plain.range(..=key).next_back().map(pair));
            assert_eq!(leaves.at_or_after(&key).map(own), plain.range(key..).next().map(pair));
            if let Some((_, value)) = leaves.at_or_before_mut(&key) {
                *value += 1;
            }
            if let Some((_, value)) = plain.range_mut(..=key).next_back() {
                *value += 1;
            }
            assert_eq!(leaves.len(), plain.len());
            if step % 1_000 == 0 {
                assert!(leaves.iter().copied().eq(plain.iter().map(pair)));
                if let Some((image, then)) = image.replace((leaves.clone(), plain.clone())) {
                    assert!(image.iter().copied().eq(then.iter().map(pair)));
                }
            }
        }
        while let Some((key, value)) = leaves.pop_first() {
            assert_eq!(plain.pop_first(), Some((key, value)));
        }
        assert!(plain.is_empty() && leaves.is_empty() && leaves.leaves() == 0);
    }

    #[test]
    fn rising_keys_fill_their_leaves() {
        let mut leaves = Ordered::default();
        (0..10_000_u64).for_each(|n| leaves.insert(n, ()));
        let at_once = Ordered::of((0..10_000_u64).map(|n| (n, ())).collect());
        assert!(at_once.iter().eq(leaves.iter()) && at_once.len() == leaves.len());
        assert_eq!(at_once.leaves(), leaves.leaves());
        assert_eq!(leaves.leaves(), 10_000_usize.div_ceil(LEAF));
        (0..10_000_u64).filter(|n| n % 50 != 0).for_each(|n| assert_eq!(leaves.remove(&n), Some(())));
        assert!(leaves.leaves() <= 10, "{}", leaves.leaves());
    }
}
