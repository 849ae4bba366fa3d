//! Which queue is due next. Every step asks, so the answer is kept at hand.

use std::collections::BTreeSet;

use kew_core::{QueueId, Timestamp};

/// A queue, by the next instant something happens in it by itself, or an earlier one.
type Listed = (Timestamp, QueueId);

/// Queues by the next instant something happens in them.
#[derive(Default)]
pub(super) struct Due {
    queues: BTreeSet<Listed>,
    first: Option<Listed>,
}

impl Due {
    /// The queue that is due before all others.
    #[inline]
    pub(super) fn first(&self) -> Option<Listed> {
        self.first
    }

    pub(super) fn insert(&mut self, listed: Listed) {
        self.queues.insert(listed);
        self.first = Some(self.first.map_or(listed, |first| first.min(listed)));
    }

    pub(super) fn remove(&mut self, listed: Listed) {
        self.queues.remove(&listed);
        if self.first == Some(listed) {
            self.first = self.queues.first().copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_one_is_known_whatever_comes_and_goes() {
        let mut due = Due::default();
        let mut chance = 7_u64;
        for step in 0..2_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let listed = (Timestamp(chance >> 60), QueueId(chance >> 50 & 7));
            match step % 3 {
                0 => due.remove(listed),
                _ => due.insert(listed),
            }
            assert_eq!(due.first(), due.queues.first().copied());
        }
    }
}
