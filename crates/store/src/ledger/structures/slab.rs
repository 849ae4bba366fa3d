//! Slots numbered from zero, in pieces: growing never copies what is there, nor doubles what is taken.
//!
//! An image shares the pieces; a shared piece is copied when it is changed first.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Slots in a piece. An image costs one look at each piece, the first change of a shared piece a copy of these slots.
const PIECE: usize = 256;

/// Values in numbered slots.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Arc<Vec<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T: Clone> Slab<T> {
    /// Puts a value into a slot that was given back, or into a new one.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self[slot] = value;
            return slot;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            // The first piece grows as it must: most queues are small.
            let room = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Arc::new(Vec::with_capacity(room)));
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let is_first = before == 0;
        let Some(piece) = self.pieces.last_mut() else { return 0 };
        let piece = Arc::make_mut(piece);
        if !is_first && piece.capacity() < PIECE {
            // A copy of a shared piece has no room left.
            piece.reserve_exact(PIECE - piece.len());
        }
        piece.push(value);
        (before + piece.len() - 1) as u32
    }

    /// Takes the value of a slot that is used; the one in the last slot takes its place. `None` when there is none at
    /// all. Only where no slot is ever given back: it would be used again.
    #[inline]
    pub(crate) fn swap_remove(&mut self, slot: u32) -> Option<T> {
        let (piece, place) = (slot as usize / PIECE, slot as usize % PIECE);
        let last = self.pieces.len().checked_sub(1)?;
        let in_last = Arc::make_mut(&mut self.pieces[last]);
        let value = if piece == last {
            in_last.swap_remove(place)
        } else {
            let moved = in_last.pop()?;
            std::mem::replace(&mut self[slot], moved)
        };
        // The first piece stays: most queues are small, and empty now and then.
        if last > 0 && self.pieces[last].is_empty() {
            self.pieces.pop();
        }
        Some(value)
    }

    /// Gives a slot back. What is in it stays until the slot is used again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The value in this slot, or one that was in it.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.pieces.get(slot as usize / PIECE)?.get(slot as usize % PIECE)
    }

    /// The value in this slot, or one that was in it, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        Arc::make_mut(self.pieces.get_mut(slot as usize / PIECE)?).get_mut(slot as usize % PIECE)
    }

    /// How many slots were ever used.
    pub(crate) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// What is or was in every slot that was ever used, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// What is or was in every slot, in order. A piece that an image shares is copied.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.pieces.into_iter().flat_map(Arc::unwrap_or_clone)
    }

    /// The same values, to be looked at only: the slots that were given back are not known here.
    pub(crate) fn image(&self) -> Self {
        Self { pieces: self.pieces.clone(), free: Vec::new() }
    }

    /// What is or was in the slots of one piece.
    pub(crate) fn piece(&self, piece: usize) -> &[T] {
        self.pieces.get(piece).map_or(&[], |piece| piece)
    }

    /// How many pieces an image shares.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let values: usize =
            self.pieces.iter().map(|piece| piece.capacity() * size_of::<T>() + 2 * size_of::<usize>()).sum();
        values + self.free.capacity() * size_of::<u32>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: u32) -> &T {
        &self.pieces[slot as usize / PIECE][slot as usize % PIECE]
    }
}

impl<T: Clone> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut Arc::make_mut(&mut self.pieces[slot as usize / PIECE])[slot as usize % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_values_over_many_pieces_and_are_used_again() {
        let mut slab = Slab::default();
        let slots: Vec<u32> = (0..5_000_u32).map(|n| slab.insert(n)).collect();
        assert!(slots.iter().all(|slot| slab[*slot] == *slot));
        slab.give_back(17);
        assert_eq!(slab.insert(99), 17);
        assert_eq!(slab[17], 99);
        assert_eq!(slab.insert(1), 5_000);
    }

    #[test]
    fn last_value_takes_the_place_of_one_that_leaves_across_pieces() {
        let mut slab = Slab::default();
        (0..=PIECE as u32).for_each(|n| assert_eq!(slab.insert(n), n));
        let image = slab.image();
        assert_eq!((slab.swap_remove(3), slab[3], slab.pieces()), (Some(3), PIECE as u32, 1));
        assert_eq!((slab.swap_remove(PIECE as u32 - 1), slab.len()), (Some(PIECE as u32 - 1), PIECE - 1));
        assert_eq!((slab.swap_remove(0), slab[0]), (Some(0), PIECE as u32 - 2));
        assert!(image.iter().copied().eq(0..=PIECE as u32));
        while slab.len() > 0 {
            assert!(slab.swap_remove(0).is_some());
        }
        assert_eq!((slab.pieces(), slab.insert(7)), (1, 0));
    }

    #[test]
    fn an_image_stays_as_it_was_whatever_is_changed_or_added() {
        let mut slab = Slab::default();
        (0..1_000_u32).for_each(|n| assert_eq!(slab.insert(n), n));
        let image = slab.image();
        assert_eq!(image.pieces(), 4);
        slab[3] = 77;
        slab.give_back(999);
        slab.insert(78);
        slab.insert(79);
        assert!(image.iter().copied().eq(0..1_000));
        assert_eq!((slab[3], slab[999], slab[1_000]), (77, 78, 79));
    }
}
