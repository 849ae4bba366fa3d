//! When messages that may have been tried too often are looked at, and which of them are undecided.

use kew_core::{Sequence, Timestamp};

use crate::ledger::ordered::Ordered;

/// Some of them, in the order of their instants.
type Departures = Ordered<(Timestamp, Sequence), ()>;

/// Messages that may have been tried too often, by the instant at which they leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct DepartureTimes {
    /// Those that are to be looked at when their instant comes.
    due: Departures,
    /// Those that were undecided, and are to be looked at again now: what was taken up at once lies in one of these.
    /// None is empty.
    again: Vec<Departures>,
    /// Those whose instant has come, and of which it is not decided whether they leave: while changes are replayed the
    /// journal has not said it yet; later there was no room, or it was not known whether there is a queue for them.
    /// They are looked at again when the store is opened, or the queues of other shards are known.
    undecided: Departures,
}

impl DepartureTimes {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.again.is_empty() && self.undecided.is_empty()
    }

    /// The first that is to be looked at.
    pub(crate) fn first(&self) -> Option<&(Timestamp, Sequence)> {
        let due = self.due.first();
        let first =
            if self.again.is_empty() { due } else { due.into_iter().chain(self.firsts_again()).min() };
        first.map(|(departure, ())| departure)
    }

    fn firsts_again(&self) -> impl Iterator<Item = &((Timestamp, Sequence), ())> {
        self.again.iter().filter_map(|departures| departures.first())
    }

    pub(crate) fn insert(&mut self, departure: (Timestamp, Sequence)) {
        self.due.insert(departure, ());
    }

    pub(crate) fn remove(&mut self, departure: &(Timestamp, Sequence)) {
        self.due.remove(departure);
        self.undecided.remove(departure);
        self.remove_again(departure);
    }

    fn remove_again(&mut self, departure: &(Timestamp, Sequence)) {
        self.again.retain_mut(|departures| {
            departures.remove(departure);
            !departures.is_empty()
        });
    }

    /// Takes the first of those that are to be looked at.
    pub(crate) fn pop_first(&mut self) {
        let Some(first) = self.first().copied() else { return };
        self.due.remove(&first);
        self.remove_again(&first);
    }

    pub(crate) fn leave_undecided(&mut self, departure: (Timestamp, Sequence)) {
        self.undecided.insert(departure, ());
    }

    /// All that are undecided are to be looked at again. None of them is touched here, however many they are.
    pub(crate) fn take_up_undecided(&mut self) {
        if !self.undecided.is_empty() {
            self.again.push(std::mem::take(&mut self.undecided));
        }
    }

    /// All of them, as a store that is opened later has to look at them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Timestamp, Sequence)> {
        let all =
            self.due.iter().chain(self.again.iter().flat_map(Ordered::iter)).chain(self.undecided.iter());
        all.map(|(departure, ())| departure)
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len() + self.again.iter().map(Ordered::len).sum::<usize>() + self.undecided.len()
    }

    pub(crate) fn leaves(&self) -> usize {
        self.due.leaves() + self.again.iter().map(Ordered::leaves).sum::<usize>() + self.undecided.leaves()
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = ()> {
        let all = [self.due, self.undecided].into_iter().chain(self.again);
        all.flat_map(Ordered::into_values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(at: u64) -> (Timestamp, Sequence) {
        (Timestamp(at), Sequence(at))
    }

    fn undecided(departures: impl IntoIterator<Item = u64>) -> DepartureTimes {
        let mut times = DepartureTimes::default();
        departures.into_iter().for_each(|at| times.leave_undecided(departure(at)));
        times
    }

    /// Takes the first out of those that are to be looked at.
    fn take(times: &mut DepartureTimes) -> Option<u64> {
        let first = times.first().map(|(at, _)| at.0);
        if first.is_some() {
            times.pop_first();
        }
        first
    }

    #[test]
    fn what_is_undecided_is_looked_at_again_only_when_it_is_taken_up() {
        let mut times = undecided([3, 1]);
        times.insert(departure(2));
        assert_eq!(take(&mut times), Some(2));
        assert_eq!((take(&mut times), times.len(), times.is_empty()), (None, 2, false));

        times.take_up_undecided();
        times.insert(departure(2));
        let looked_at: Vec<u64> = std::iter::from_fn(|| take(&mut times)).collect();
        assert_eq!((looked_at, times.is_empty()), (vec![1, 2, 3], true));
    }

    #[test]
    fn what_stays_undecided_is_looked_at_once_each_time_it_is_taken_up() {
        let mut times = undecided([1, 2]);
        for _ in 0..2 {
            times.take_up_undecided();
            for expected in [1, 2] {
                assert_eq!(take(&mut times), Some(expected));
                times.leave_undecided(departure(expected));
            }
            assert_eq!(take(&mut times), None);
        }
    }

    #[test]
    fn what_is_taken_up_meanwhile_is_looked_at_in_the_order_of_instants() {
        let mut times = undecided([1, 2, 3, 4]);
        times.take_up_undecided();
        for expected in [1, 2] {
            assert_eq!(take(&mut times), Some(expected));
            times.leave_undecided(departure(expected));
        }
        times.take_up_undecided();
        times.take_up_undecided();
        for expected in [1, 2, 3, 4] {
            assert_eq!((times.len(), take(&mut times)), (4, Some(expected)));
            times.leave_undecided(departure(expected));
        }
        assert_eq!((take(&mut times), times.len()), (None, 4));
        assert_eq!(times.iter().map(|(at, _)| at.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_departure_is_forgotten_wherever_it_is() {
        let mut times = undecided([1, 2, 3]);
        times.take_up_undecided();
        times.leave_undecided(departure(4));
        times.insert(departure(5));
        times.take_up_undecided();
        for at in [1, 2, 3] {
            times.remove(&departure(at));
        }
        assert_eq!((times.first(), times.len()), (Some(&departure(4)), 2));
        for at in [4, 5] {
            times.remove(&departure(at));
        }
        assert!(times.is_empty() && times.first().is_none());
    }
}
