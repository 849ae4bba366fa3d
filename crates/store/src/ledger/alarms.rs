//! The alarms of one queue, in order: what happens to a message by itself, and when.
//!
//! Leases of a queue mostly end in the order they began, and mostly before that by a receipt. So alarms stand in a
//! row: a new one mostly belongs at its end, and one that is taken out is only marked. Those that belong further to
//! the front stand aside in an ordered set.

use std::collections::{BTreeSet, VecDeque};

use kew_core::{Sequence, Timestamp};

/// An alarm: its instant, and the message it is for.
type Alarm = (Timestamp, Sequence);

/// Marked places a row may have beside its live ones before it is packed.
const MARKED_MAX: usize = 64;
/// Places a row may have room for beyond a few times its length.
const ROOM_KEPT: usize = 4_096;

/// Alarms in order. No two are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    /// In order, each with whether it stands. The first and the last do.
    row: VecDeque<(Alarm, bool)>,
    /// How many in the row stand.
    standing: usize,
    aside: BTreeSet<Alarm>,
}

impl Alarms {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.standing + self.aside.len()
    }

    pub(crate) fn insert(&mut self, alarm: Alarm) {
        if self.row.back().is_none_or(|(last, _)| *last < alarm) {
            self.row.push_back((alarm, true));
            self.standing += 1;
        } else {
            self.aside.insert(alarm);
        }
    }

    /// Takes an alarm out. False when it does not stand here.
    pub(crate) fn remove(&mut self, alarm: &Alarm) -> bool {
        if self.row.front().is_some_and(|(first, _)| first == alarm) {
            self.row.pop_front();
            self.standing -= 1;
            self.tidy();
            return true;
        }
        let place = self.row.binary_search_by_key(alarm, |(alarm, _)| *alarm);
        match place.ok().and_then(|place| self.row.get_mut(place)) {
            Some((_, stands)) if *stands => {
                *stands = false;
                self.standing -= 1;
                self.tidy();
                true
            }
            _ => self.aside.remove(alarm),
        }
    }

    /// Drops what is marked at both ends; packs the row when little else is left of it.
    fn tidy(&mut self) {
        while self.row.front().is_some_and(|(_, stands)| !*stands) {
            self.row.pop_front();
        }
        while self.row.back().is_some_and(|(_, stands)| !*stands) {
            self.row.pop_back();
        }
        if self.row.len() > 2 * self.standing + MARKED_MAX {
            self.row.retain(|(_, stands)| *stands);
        }
        if self.row.capacity() > 4 * self.row.len() + ROOM_KEPT {
            self.row.shrink_to(2 * self.row.len());
        }
    }

    /// The earliest instant.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        let (row, aside) =
            (self.row.front().map(|(alarm, _)| alarm.0), self.aside.first().map(|alarm| alarm.0));
        match (row, aside) {
            (Some(row), Some(aside)) => Some(row.min(aside)),
            (row, aside) => row.or(aside),
        }
    }

    /// The earliest instant after `at`. Looks past those that are due by then without looking at each.
    pub(crate) fn first_after(&self, at: Timestamp) -> Option<Timestamp> {
        let behind = self.row.partition_point(|((due, _), _)| *due <= at);
        let row = self.row.range(behind..).find(|(_, stands)| *stands).map(|(alarm, _)| alarm.0);
        let aside = self.aside.range((at.next(), Sequence(0))..).next().map(|alarm| alarm.0);
        match (row, aside) {
            (Some(row), Some(aside)) => Some(row.min(aside)),
            (row, aside) => row.or(aside),
        }
    }

    /// How many alarms are due by `at`. Looks at each, unless none of the row was taken out.
    pub(crate) fn count_due(&self, at: Timestamp) -> u64 {
        let row = if self.standing == self.row.len() {
            self.row.partition_point(|((due, _), _)| *due <= at)
        } else {
            let due = self.row.iter().take_while(|((due, _), _)| *due <= at);
            due.filter(|(_, stands)| *stands).count()
        };
        (row + self.aside.iter().take_while(|(due, _)| *due <= at).count()) as u64
    }

    /// The messages whose alarms are due by `at`, in no particular order.
    pub(crate) fn due_by(&self, at: Timestamp) -> impl Iterator<Item = Sequence> + '_ {
        let row = self.row.iter().take_while(move |((due, _), _)| *due <= at);
        let row = row.filter(|(_, stands)| *stands).map(|(alarm, _)| alarm.1);
        row.chain(self.aside.iter().take_while(move |(due, _)| *due <= at).map(|alarm| alarm.1))
    }

    /// The same in order: by instants, then by messages.
    pub(crate) fn due_in_order(&self, at: Timestamp) -> impl Iterator<Item = Sequence> + '_ {
        let row = self.row.iter().take_while(move |((due, _), _)| *due <= at);
        let mut row = row.filter(|(_, stands)| *stands).map(|(alarm, _)| *alarm).peekable();
        let mut aside = self.aside.iter().take_while(move |(due, _)| *due <= at).copied().peekable();
        std::iter::from_fn(move || {
            let is_aside_next = match (row.peek(), aside.peek()) {
                (Some(row), Some(aside)) => aside < row,
                (None, aside) => aside.is_some(),
                (Some(_), None) => false,
            };
            let next = if is_aside_next { aside.next() } else { row.next() };
            next.map(|alarm| alarm.1)
        })
    }

    /// Everything that takes long to give back, piece by piece.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.aside.into_iter().map(drop)
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.row.capacity() * size_of::<(Alarm, bool)>() + self.aside.len() * 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(alarms: &Alarms, at: u64) -> BTreeSet<u64> {
        alarms.due_by(Timestamp(at)).map(|sequence| sequence.0).collect()
    }

    #[test]
    fn alarms_are_what_an_ordered_set_of_them_would_be() {
        let (mut alarms, mut plain) = (Alarms::default(), BTreeSet::new());
        let mut chance = 0x9e37_79b9_u64;
        for step in 0..20_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = chance >> 33;
            // Mostly at the end, sometimes anywhere; taken from anywhere, a little less often than put.
            let at = if number.is_multiple_of(5) { number % (step + 1) } else { step };
            let alarm = (Timestamp(at), Sequence(step));
            alarms.insert(alarm);
            plain.insert(alarm);
            while plain.len() > 300 || (!plain.is_empty() && number.is_multiple_of(3)) {
                let gone =
                    *plain.iter().nth(number as usize % plain.len()).expect("a list with alarms has a first");
                plain.remove(&gone);
                alarms.remove(&gone);
                if number.is_multiple_of(3) {
                    break;
                }
            }
            assert_eq!((alarms.len(), alarms.first_at()), (plain.len(), plain.first().map(|first| first.0)));
            assert!(alarms.row.len() <= 2 * alarms.standing + MARKED_MAX);
            if step % 100 == 0 {
                let at = step.saturating_sub(50);
                let expected: BTreeSet<u64> =
                    plain.iter().filter(|(due, _)| due.0 <= at).map(|alarm| alarm.1.0).collect();
                assert_eq!(due(&alarms, at), expected);
                assert_eq!(alarms.count_due(Timestamp(at)), expected.len() as u64);
                let in_order: Vec<u64> =
                    alarms.due_in_order(Timestamp(at)).map(|sequence| sequence.0).collect();
                let expected = plain.iter().filter(|(due, _)| due.0 <= at).map(|alarm| alarm.1.0);
                assert_eq!(in_order, expected.collect::<Vec<_>>());
                let after = plain.iter().map(|(due, _)| *due).find(|due| due.0 > at);
                assert_eq!(alarms.first_after(Timestamp(at)), after);
            }
        }
    }

    #[test]
    fn one_alarm_far_ahead_keeps_no_traces_of_those_behind_it() {
        let mut alarms = Alarms::default();
        alarms.insert((Timestamp(0), Sequence(0)));
        for number in 1..10_000 {
            alarms.insert((Timestamp(number), Sequence(number)));
            alarms.remove(&(Timestamp(number), Sequence(number)));
        }
        assert_eq!((alarms.len(), alarms.row.len()), (1, 1));
        (1..100_000).for_each(|number| alarms.insert((Timestamp(number), Sequence(number))));
        (1..100_000).for_each(|number| assert!(alarms.remove(&(Timestamp(number), Sequence(number)))));
        assert!(alarms.row.capacity() <= 2 * ROOM_KEPT);
        assert_eq!(due(&alarms, 10_000), BTreeSet::from([0]));
    }
}
