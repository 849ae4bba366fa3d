//! Neighbours in a group: each message knows how far away they are.

use kew_core::Sequence;

use super::{FAR, Fifo, NO_SEQUENCE, NONE, Side};

impl Fifo {
    /// The next message of a group on this side, or [`NO_SEQUENCE`].
    pub(super) fn neighbour(&self, sequence: Sequence, side: Side) -> Sequence {
        let Some((run, place)) = self.find(sequence) else { return NO_SEQUENCE };
        let links = run.links(place);
        let distance = if side == Side::Before { links.before } else { links.after };
        match (distance, side) {
            (NONE, _) => NO_SEQUENCE,
            (FAR, _) => self.far.get(&(sequence, side)).copied().unwrap_or(NO_SEQUENCE),
            (distance, Side::Before) => Sequence(sequence.0 - u64::from(distance)),
            (distance, Side::After) => Sequence(sequence.0 + u64::from(distance)),
        }
    }

    /// Makes two messages of a group neighbours; either may be [`NO_SEQUENCE`].
    pub(super) fn link(&mut self, before: Sequence, after: Sequence) {
        let is_end = before == NO_SEQUENCE || after == NO_SEQUENCE;
        let distance = if is_end { NONE } else { distance(before, after) };
        if distance == FAR {
            self.far.insert((before, Side::After), after);
            self.far.insert((after, Side::Before), before);
        } else {
            self.forget_far((before, Side::After), (after, Side::Before));
        }
        if let Some((_, run, place)) = self.find_mut(before) {
            run.links_mut(place).after = distance;
        }
        if let Some((_, run, place)) = self.find_mut(after) {
            run.links_mut(place).before = distance;
        }
    }

    pub(super) fn forget_far(&mut self, one: (Sequence, Side), other: (Sequence, Side)) {
        if !self.far.is_empty() {
            self.far.remove(&one);
            self.far.remove(&other);
        }
    }
}

/// How far one message is behind another, as links say it.
pub(super) fn distance(before: Sequence, after: Sequence) -> u32 {
    u32::try_from(after.0.wrapping_sub(before.0)).unwrap_or(FAR)
}
