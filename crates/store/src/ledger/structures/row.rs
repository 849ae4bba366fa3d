//! A row of large values: they come at the end, leave from the front and are changed anywhere.
//!
//! They lie in chunks, which an image shares. A shared chunk, and a shared value, is copied when it is changed first.

use std::collections::VecDeque;
use std::sync::Arc;

/// Places in a chunk.
const CHUNK: usize = 64;

/// Those that left the first chunk are missing; every chunk but the last has all its places.
type Chunk<T> = Vec<Option<Arc<T>>>;

/// Values in a row.
#[derive(Clone, Debug)]
pub(crate) struct Row<T> {
    chunks: VecDeque<Arc<Chunk<T>>>,
    /// How many left the first chunk.
    gone: usize,
    len: usize,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), gone: 0, len: 0 }
    }
}

impl<T> Row<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn spot(&self, place: usize) -> (usize, usize) {
        ((place + self.gone) / CHUNK, (place + self.gone) % CHUNK)
    }

    /// The value in a place, counted from the front.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        let (chunk, at) = self.spot(place);
        self.chunks.get(chunk)?.get(at)?.as_deref()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        self.chunks.back()?.last()?.as_deref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).flatten().map(|value| &**value)
    }

    /// The first place whose value is not in the first part, of a row of two parts.
    pub(crate) fn partition_point(&self, is_in_first_part: impl FnMut(&T) -> bool) -> usize {
        self.partition_point_among(self.len, is_in_first_part)
    }

    /// The same among the first places alone.
    pub(crate) fn partition_point_among(
        &self,
        places: usize,
        mut is_in_first_part: impl FnMut(&T) -> bool,
    ) -> usize {
        let (mut low, mut high) = (0, places.min(self.len));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&mut is_in_first_part) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// How many chunks an image shares.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes held beside the values' own, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        let chunks = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<usize>() + counts + 24);
        self.chunks.capacity() * size_of::<usize>()
            + chunks.sum::<usize>()
            + self.len * (size_of::<T>() + counts)
    }
}

impl<T: Clone> Row<T> {
    /// The value in a place, counted from the front, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        let (chunk, at) = self.spot(place);
        Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(at)?.as_mut().map(Arc::make_mut)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    #[inline]
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        Arc::make_mut(self.chunks.back_mut()?).last_mut()?.as_mut().map(Arc::make_mut)
    }

    pub(crate) fn push_back(&mut self, value: T) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows as it must: most queues are small.
            let room = if self.chunks.is_empty() { 1 } else { CHUNK };
            self.chunks.push_back(Arc::new(Vec::with_capacity(room)));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            Arc::make_mut(chunk).push(Some(Arc::new(value)));
            self.len += 1;
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.pop_front_shared().map(Arc::unwrap_or_clone)
    }

    /// The first value, as an image may share it.
    pub(crate) fn pop_front_shared(&mut self) -> Option<Arc<T>> {
        let value = Arc::make_mut(self.chunks.front_mut()?).get_mut(self.gone)?.take()?;
        (self.gone, self.len) = (self.gone + 1, self.len - 1);
        if self.gone == CHUNK || self.len == 0 {
            self.chunks.pop_front();
            self.gone = 0;
        }
        Some(value)
    }

    /// Puts another value into a place. Returns the one that was there, as an image may share it.
    pub(crate) fn replace(&mut self, place: usize, value: T) -> Option<Arc<T>> {
        let (chunk, at) = self.spot(place);
        let place = Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(at)?.as_mut()?;
        Some(std::mem::replace(place, Arc::new(value)))
    }

    /// Takes out the chunks of which all values are among the first `places`, without looking at any.
    pub(crate) fn take_front_chunks(&mut self, places: usize) -> Self {
        let chunks = ((places.min(self.len) + self.gone) / CHUNK).min(self.chunks.len());
        let rest = self.chunks.split_off(chunks);
        let len = (chunks * CHUNK).saturating_sub(self.gone).min(self.len);
        let front = Self { chunks: std::mem::replace(&mut self.chunks, rest), gone: self.gone, len };
        self.len -= len;
        if len > 0 {
            self.gone = 0;
        }
        if len > 0 { front } else { Self::default() }
    }

    /// All values from the front, each as an image may share it.
    pub(crate) fn into_values(self) -> impl Iterator<Item = Arc<T>> {
        self.chunks.into_iter().flat_map(Arc::unwrap_or_clone).flatten()
    }

    /// Changes the values for which `is_wanted` says so. The others stay shared with images.
    pub(crate) fn change(&mut self, is_wanted: impl Fn(&T) -> bool, mut change: impl FnMut(&mut T)) {
        for place in 0..self.len {
            if self.get(place).is_some_and(&is_wanted)
                && let Some(value) = self.get_mut(place)
            {
                change(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_a_queue_would_be_and_an_image_stays_as_it_was() {
        let (mut row, mut plain) = (Row::default(), VecDeque::new());
        let mut image: Option<(Row<u64>, Vec<u64>)> = None;
        let mut chance = 0x9e37_79b9_u64;
        for step in 0..20_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = chance >> 33;
            match number % 5 {
                0 | 1 => {
                    row.push_back(step);
                    plain.push_back(step);
                }
                2 if step % 4_000 < 3_000 => {
                    row.push_back(step);
                    plain.push_back(step);
                }
                3 if !plain.is_empty() => {
                    let place = number as usize % plain.len();
                    (*row.get_mut(place).expect("a place below the length has a value"), plain[place]) =
                        (step, step);
                }
                _ => assert_eq!(row.pop_front(), plain.pop_front()),
            }
            assert_eq!((row.len(), row.front(), row.back()), (plain.len(), plain.front(), plain.back()));
            if step % 500 == 0 {
                assert!(row.iter().eq(&plain));
                if let Some((image, then)) = image.replace((row.clone(), plain.iter().copied().collect())) {
                    assert!(image.iter().eq(&then));
                }
            }
        }
    }

    #[test]
    fn whole_chunks_are_taken_from_the_front_and_nothing_more() {
        let row = |from: u64, to: u64| {
            let mut row = Row::default();
            (0..to).for_each(|n| row.push_back(n));
            (0..from).for_each(|n| assert_eq!(row.pop_front(), Some(n)));
            row
        };
        for (from, places, taken) in [
            (0, 63, 0..0),
            (0, 64, 0..64),
            (0, 65, 0..64),
            (10, 53, 0..0),
            (10, 54, 10..64),
            (63, 1, 63..64),
            (64, 63, 0..0),
            (10, 118, 10..128),
            (10, 1_000, 10..192),
            (0, 0, 0..0),
        ] {
            let mut row = row(from, 200);
            let mut front = row.take_front_chunks(places);
            assert_eq!(front.len(), taken.clone().count(), "{places} places from {from}");
            let rest = if taken.is_empty() { from..200 } else { taken.end..200 };
            assert!(row.iter().copied().eq(rest.clone()), "{places} places from {from}");
            assert_eq!((row.len(), row.front()), (rest.clone().count(), Some(&rest.start)));
            row.push_back(200);
            assert_eq!(row.back(), Some(&200));
            assert!(std::iter::from_fn(|| front.pop_front()).eq(taken));
        }
    }

    #[test]
    fn only_what_is_wanted_is_changed_and_found_by_its_side_of_a_line() {
        let mut row = Row::default();
        (0..1_000_u64).for_each(|n| row.push_back(n));
        (0..100).for_each(|n| assert_eq!(row.pop_front(), Some(n)));
        assert_eq!((row.partition_point(|n| *n < 500), row.get(400)), (400, Some(&500)));
        row.change(|n| n % 2 == 0, |n| *n += 1);
        assert!(row.iter().all(|n| n % 2 == 1));
        assert_eq!(row.len(), 900);
    }
}
