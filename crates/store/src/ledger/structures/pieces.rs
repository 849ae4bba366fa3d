//! A queue of values that never grows all at once.
//!
//! A queue that doubles moves all it holds in one step: for a million events that takes up to 43 ms. This one lies in
//! pieces of some thousands, and a new one is begun where another would move.

use std::collections::VecDeque;
use std::ops::Range;

/// Values in a full piece.
const PIECE: usize = 1 << 12;

/// Values in order.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<T> {
    /// Every piece between the first and the last is full; none is empty but one that is alone.
    row: VecDeque<VecDeque<T>>,
    /// A piece that became empty, for the next one: a queue that stays as long as it is makes none.
    spare: Option<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { row: VecDeque::new(), spare: None, len: 0 }
    }
}

impl<T> Pieces<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        self.len += 1;
        match self.row.back_mut() {
            Some(last) if last.len() < PIECE => last.push_back(value),
            _ => self.begin_piece(value),
        }
    }

    #[cold]
    fn begin_piece(&mut self, value: T) {
        // The first piece grows as it must: most are small.
        let room = if self.row.is_empty() { 0 } else { PIECE };
        let mut piece = self.spare.take().unwrap_or_else(|| VecDeque::with_capacity(room));
        piece.push_back(value);
        self.row.push_back(piece);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.row.front_mut()?;
        let value = first.pop_front()?;
        self.len -= 1;
        if first.is_empty() && self.row.len() > 1 {
            self.spare = self.row.pop_front();
        }
        Some(value)
    }

    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<T> {
        let last = self.row.back_mut()?;
        let value = last.pop_back()?;
        self.len -= 1;
        if last.is_empty() && self.row.len() > 1 {
            self.spare = self.row.pop_back();
        }
        Some(value)
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        let first = self.row.front()?;
        let Some(beyond) = place.checked_sub(first.len()) else { return first.get(place) };
        self.row.get(1 + beyond / PIECE)?.get(beyond % PIECE)
    }

    /// The values in these places, as far as there are any.
    pub(crate) fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &T> {
        let end = places.end.min(self.len);
        (places.start.min(end)..end).filter_map(|place| self.get(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in it, by each way of asking.
    fn all(pieces: &Pieces<u64>) -> Vec<u64> {
        let all: Vec<u64> = pieces.range(0..usize::MAX).copied().collect();
        assert_eq!(all.len(), pieces.len());
        assert!((0..=all.len()).all(|place| pieces.get(place) == all.get(place)));
        let mut backwards: Vec<u64> = pieces.range(0..all.len()).rev().copied().collect();
        backwards.reverse();
        assert_eq!(all, backwards);
        all
    }

    #[test]
    fn values_come_in_the_order_in_which_they_went_in() {
        let mut pieces = Pieces::default();
        assert_eq!(
            (pieces.pop_front(), pieces.pop_back(), pieces.get(0), pieces.len()),
            (None, None, None, 0)
        );
        let count = 3 * PIECE as u64 + 5;
        (0..count).for_each(|value| pieces.push_back(value));
        assert!(all(&pieces).into_iter().eq(0..count));
        for value in 0..PIECE as u64 + 2 {
            assert_eq!(pieces.pop_front(), Some(value));
        }
        assert!(all(&pieces).into_iter().eq(PIECE as u64 + 2..count));
        for value in (PIECE as u64 + 7..count).rev() {
            assert_eq!(pieces.pop_back(), Some(value));
        }
        assert!(all(&pieces).into_iter().eq(PIECE as u64 + 2..PIECE as u64 + 7));
        let range: Vec<u64> = pieces.range(3..100).copied().collect();
        assert_eq!(range, [PIECE as u64 + 5, PIECE as u64 + 6]);
        assert_eq!(pieces.range(7..9).count(), 0);
    }

    #[test]
    fn a_queue_that_stays_as_long_as_it_is_makes_no_piece() {
        let mut pieces = Pieces::default();
        let length = 2 * PIECE as u64 + 17;
        (0..length).for_each(|value| pieces.push_back(value));
        for value in 0..20 * PIECE as u64 {
            assert_eq!(pieces.pop_front(), Some(value));
            pieces.push_back(value + length);
            assert!(pieces.row.len() + usize::from(pieces.spare.is_some()) <= 4);
            assert!(pieces.row.iter().all(|piece| piece.capacity() <= PIECE));
        }
        assert_eq!(pieces.len() as u64, length);
        assert!(pieces.spare.is_some());
    }

    #[test]
    fn one_that_is_never_long_stays_in_one_piece() {
        let mut pieces = Pieces::default();
        for value in 0..3 * PIECE as u64 {
            pieces.push_back(value);
            if value >= 10 {
                assert_eq!(pieces.pop_front(), Some(value - 10));
            }
        }
        assert_eq!((pieces.row.len(), pieces.len()), (1, 10));
        assert!(pieces.row[0].capacity() < 100);
    }
}
