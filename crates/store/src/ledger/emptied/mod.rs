//! What purged and deleted queues held, until its room is given back: some of it at a time.
//!
//! A purge takes a queue's contents out of its book in one move, and from then on no step finds a message of them. What
//! is left to do grows with the queue, so it is done in slices: each message's place is vacated, and each piece of
//! memory is given back. None of it is seen from outside, so a journal needs no record of it.

use std::collections::VecDeque;

use super::item::Item;

#[cfg(test)]
mod tests;

/// The contents of one queue, taken apart as it is asked for: each piece is a message, or something kept beside them.
pub(super) type Remains = Box<dyn Iterator<Item = Option<Item>> + Send>;

/// The contents of queues that were emptied, oldest first.
#[derive(Default)]
pub(super) struct Emptied {
    waiting: VecDeque<Remains>,
}

impl Emptied {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn put(&mut self, remains: Remains) {
        self.waiting.push_back(remains);
    }

    /// Gives back at most `pieces_max` pieces, and shows each message among them.
    pub(super) fn give_back(&mut self, pieces_max: usize, mut gone: impl FnMut(&Item)) {
        let mut left = pieces_max;
        while left > 0
            && let Some(first) = self.waiting.front_mut()
        {
            match first.next() {
                Some(piece) => {
                    left -= 1;
                    piece.iter().for_each(&mut gone);
                }
                None => {
                    self.waiting.pop_front();
                }
            }
        }
    }
}
