//! Slots numbered from zero, in pieces: growing never copies what is there, nor doubles what is taken.

use std::ops::{Index, IndexMut};

/// Slots in a piece.
const PIECE: usize = 1_024;

/// Values in numbered slots.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a slot that was given back, or into a new one.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self[slot] = value;
            return slot;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            // The first piece grows as it must: most queues are small.
            let room = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let Some(piece) = self.pieces.last_mut() else { return 0 };
        piece.push(value);
        (before + piece.len() - 1) as u32
    }

    /// Gives a slot back. What is in it stays until the slot is used again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The value in this slot, or one that was in it.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.pieces.get(slot as usize / PIECE)?.get(slot as usize % PIECE)
    }

    /// The value in this slot, or one that was in it, to change.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.pieces.get_mut(slot as usize / PIECE)?.get_mut(slot as usize % PIECE)
    }

    /// How many slots were ever used.
    pub(crate) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// What is or was in every slot that was ever used, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let values: usize = self.pieces.iter().map(|piece| piece.capacity() * size_of::<T>()).sum();
        values + self.free.capacity() * size_of::<u32>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.pieces[slot as usize / PIECE][slot as usize % PIECE]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.pieces[slot as usize / PIECE][slot as usize % PIECE]
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
}
