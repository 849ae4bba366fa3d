//! When the leases of one queue end by themselves, and how many have ended that were not seen to yet.
//!
//! A million leases may end at one instant. All of them count as over from that instant on, by one subtraction; each
//! message is made ready some time later, a slice at a time. Only leases whose message shows at their very end stand
//! here; one that waits for a lapse delay, or expires before its lease ends, has an ordinary alarm.

use kew_core::{Sequence, Timestamp};

use super::alarms::Alarms;

/// The ends of leases, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    alarms: Alarms,
    /// Leases that end by then are over, though they stand here. Meaningless while there are none.
    over_through: Timestamp,
    /// How many of those there are.
    over: u64,
}

impl Ends {
    #[inline]
    pub(crate) fn insert(&mut self, end: (Timestamp, Sequence)) {
        self.alarms.insert(end);
        if self.over > 0 && end.0 <= self.over_through {
            self.over += 1;
        }
    }

    /// Takes the end of a lease out. False when it does not stand here.
    #[inline]
    pub(crate) fn remove(&mut self, end: &(Timestamp, Sequence)) -> bool {
        let was_here = self.alarms.remove(end);
        if was_here && self.over > 0 && end.0 <= self.over_through {
            self.over -= 1;
        }
        was_here
    }

    /// The next instant a lease ends that is not known to be over.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        if self.over == 0 { self.alarms.first_at() } else { self.alarms.first_after(self.over_through) }
    }

    /// Leases that are over and were not seen to.
    #[inline]
    pub(crate) fn over(&self) -> u64 {
        self.over
    }

    /// Whether a lease that ends then is over and was not seen to.
    #[inline]
    pub(crate) fn is_over(&self, end: Timestamp) -> bool {
        self.over > 0 && end <= self.over_through
    }

    /// The messages whose leases end by `at`, if there are at most `max`. Otherwise all those leases count as over, and
    /// are seen to in slices; and so while any others are.
    pub(crate) fn end_by(&mut self, at: Timestamp, max: usize) -> Vec<Sequence> {
        if self.over == 0 {
            let due: Vec<Sequence> = self.alarms.due_by(at).take(max.saturating_add(1)).collect();
            if due.len() <= max {
                return due;
            }
        }
        let known = (self.over > 0).then_some(self.over_through);
        self.over_through = known.map_or(at, |known| known.max(at));
        self.over += self.alarms.count_due(known, self.over_through);
        Vec::new()
    }

    /// At most `max` messages whose leases are over and were not seen to, in the order of their ends.
    pub(crate) fn some_over(&self, max: usize) -> Vec<Sequence> {
        let max = max.min(usize::try_from(self.over).unwrap_or(usize::MAX));
        self.alarms.due_in_order(self.over_through).take(max).collect()
    }

    /// Everything that takes long to give back, piece by piece.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.alarms.into_pieces()
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.alarms.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(at: &[u64]) -> Ends {
        let mut ends = Ends::default();
        at.iter().zip(1..).for_each(|(at, sequence)| ends.insert((Timestamp(*at), Sequence(sequence))));
        ends
    }

    #[test]
    fn as_many_as_are_allowed_end_at_once_and_one_more_makes_all_of_them_wait() {
        let mut fits = ends(&[5, 5, 5, 9]);
        assert_eq!(fits.end_by(Timestamp(5), 3), [Sequence(1), Sequence(2), Sequence(3)]);
        assert_eq!((fits.over(), fits.next_at()), (0, Some(Timestamp(5))));
        let mut late = ends(&[5, 5, 5, 9]);
        assert!(late.end_by(Timestamp(5), 2).is_empty());
        assert_eq!((late.over(), late.next_at()), (3, Some(Timestamp(9))));
        assert!(late.is_over(Timestamp(5)) && !late.is_over(Timestamp(6)));
        assert_eq!(late.some_over(2), [Sequence(1), Sequence(2)]);
        assert_eq!(late.some_over(9).len(), 3);
    }

    #[test]
    fn those_that_end_later_join_those_that_are_over_and_those_taken_out_leave_them() {
        let mut ends = ends(&[5, 5, 7, 9, 3]);
        assert!(ends.end_by(Timestamp(5), 1).is_empty());
        assert_eq!(ends.over(), 3);
        assert!(ends.end_by(Timestamp(7), 100).is_empty(), "one that ends now waits behind the others");
        assert_eq!((ends.over(), ends.next_at()), (4, Some(Timestamp(9))));
        assert!(ends.remove(&(Timestamp(3), Sequence(5))) && !ends.remove(&(Timestamp(3), Sequence(5))));
        assert!(ends.remove(&(Timestamp(9), Sequence(4))));
        assert_eq!((ends.over(), ends.next_at()), (3, None));
        ends.insert((Timestamp(7), Sequence(8)));
        ends.insert((Timestamp(8), Sequence(9)));
        assert_eq!((ends.over(), ends.next_at()), (4, Some(Timestamp(8))));
        for (at, sequence) in [(5, 1), (5, 2), (7, 3), (7, 8)] {
            assert!(ends.remove(&(Timestamp(at), Sequence(sequence))));
        }
        assert_eq!((ends.over(), ends.next_at()), (0, Some(Timestamp(8))));
        assert!(!ends.is_over(Timestamp(5)), "nothing is left of them");
    }
}
