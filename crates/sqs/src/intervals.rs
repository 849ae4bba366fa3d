//! Things that may not be done again for a while: names of deleted queues, purges.
//!
//! Kept in memory and bounded; measured in engine time. A restart forgets them, which only allows something earlier.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use kew_core::Timestamp;
use parking_lot::Mutex;

/// Maximum entries that are remembered; beyond it the oldest is forgotten.
const REMEMBERED_MAX: usize = 100_000;

/// Instants at which something was done last, for as long as that matters.
#[derive(Debug)]
pub(crate) struct Intervals<K> {
    /// How long it may not be done again; zero is not at all.
    length: Duration,
    /// Guards both halves of what is remembered, which belong together.
    remembered: Mutex<Remembered<K>>,
}

#[derive(Debug)]
struct Remembered<K> {
    last: HashMap<K, Timestamp>,
    /// In the order of time; an entry whose instant is not the last one of its key counts for nothing.
    order: VecDeque<(Timestamp, K)>,
}

impl<K: Clone + Eq + Hash> Intervals<K> {
    pub(crate) fn of(length: Duration) -> Self {
        Self { length, remembered: Mutex::new(Remembered { last: HashMap::new(), order: VecDeque::new() }) }
    }

    /// Whole seconds of the interval, for the text of a refusal.
    pub(crate) fn seconds(&self) -> u64 {
        self.length.as_secs()
    }

    /// Whether it was done within the interval.
    pub(crate) fn runs(&self, key: &K, now: Timestamp) -> bool {
        let mut remembered = self.remembered.lock();
        remembered.forget_past(now, self.length);
        remembered.last.contains_key(key)
    }

    /// Begins an interval now; false, and nothing changed, while one runs.
    pub(crate) fn begin(&self, key: &K, now: Timestamp) -> bool {
        if self.length.is_zero() {
            return true;
        }
        let mut remembered = self.remembered.lock();
        remembered.forget_past(now, self.length);
        if remembered.last.contains_key(key) {
            return false;
        }
        remembered.note(key.clone(), now);
        true
    }

    /// Begins an interval now, whether or not one runs.
    pub(crate) fn restart(&self, key: K, now: Timestamp) {
        if !self.length.is_zero() {
            let mut remembered = self.remembered.lock();
            remembered.forget_past(now, self.length);
            remembered.note(key, now);
        }
    }

    /// Ends the interval: what began it was not done after all.
    pub(crate) fn forget(&self, key: &K) {
        self.remembered.lock().last.remove(key);
    }
}

impl<K: Clone + Eq + Hash> Remembered<K> {
    fn note(&mut self, key: K, now: Timestamp) {
        if self.order.len() >= REMEMBERED_MAX {
            self.drop_oldest();
        }
        self.order.push_back((now, key.clone()));
        self.last.insert(key, now);
    }

    fn forget_past(&mut self, now: Timestamp, length: Duration) {
        while self.order.front().is_some_and(|(at, _)| at.plus(length) <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.last.get(&key) == Some(&at)
        {
            self.last.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_interval_ends_at_its_very_instant() {
        let intervals = Intervals::of(MINUTE);
        assert!(intervals.begin(&"q", Timestamp(1_000)));
        assert!(!intervals.begin(&"q", Timestamp(60_999)));
        assert!(intervals.begin(&"r", Timestamp(60_999)));
        assert!(intervals.begin(&"q", Timestamp(61_000)));
        assert!(intervals.runs(&"q", Timestamp(62_000)));
    }

    #[test]
    fn a_length_of_zero_forbids_nothing() {
        let intervals = Intervals::of(Duration::ZERO);
        intervals.restart("q", Timestamp(1));
        assert!(intervals.begin(&"q", Timestamp(1)) && intervals.begin(&"q", Timestamp(1)));
        assert!(!intervals.runs(&"q", Timestamp(1)));
    }

    #[test]
    fn what_was_not_done_after_all_is_forgotten() {
        let intervals = Intervals::of(MINUTE);
        assert!(intervals.begin(&"q", Timestamp(0)));
        intervals.forget(&"q");
        assert!(intervals.begin(&"q", Timestamp(5)));
        assert!(intervals.runs(&"q", Timestamp(60_004)), "the end of the first changes nothing");
    }

    #[test]
    fn memory_is_bounded_and_the_newest_are_kept() {
        let intervals = Intervals::of(MINUTE);
        for key in 0..=REMEMBERED_MAX {
            intervals.restart(key, Timestamp(7));
        }
        let remembered = intervals.remembered.lock();
        assert_eq!((remembered.last.len(), remembered.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(remembered.last.contains_key(&REMEMBERED_MAX) && !remembered.last.contains_key(&0));
    }
}
