//! What may not be done again for a while: names of deleted queues, purges.
//!
//! Kept in memory and bounded; measured in engine time. The node that begins a pause tells it to the others. A restart
//! forgets all, which only allows something earlier.

use std::collections::{HashMap, VecDeque};

use kew_core::{Pause, Timestamp};
use parking_lot::Mutex;

/// Maximum pauses that are remembered; beyond it the oldest is forgotten.
const REMEMBERED_MAX: usize = 100_000;

/// Pauses, each with its end.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// Guards both halves of what is remembered, which belong together.
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    ends: HashMap<Pause, Timestamp>,
    /// In the order in which they were noted; an entry whose end is not the one above counts for nothing.
    order: VecDeque<(Timestamp, Pause)>,
}

impl Pauses {
    pub(crate) fn runs(&self, pause: &Pause, now: Timestamp) -> bool {
        self.remembered.lock().runs(pause, now)
    }

    pub(crate) fn begin(&self, pause: &Pause, (now, until): (Timestamp, Timestamp)) -> bool {
        let mut remembered = self.remembered.lock();
        if remembered.runs(pause, now) {
            return false;
        }
        remembered.note(pause.clone(), (now, until));
        true
    }

    pub(crate) fn note(&self, pause: Pause, during: (Timestamp, Timestamp)) {
        self.remembered.lock().note(pause, during);
    }

    pub(crate) fn forget(&self, pause: &Pause) {
        self.remembered.lock().ends.remove(pause);
    }
}

impl Remembered {
    fn runs(&self, pause: &Pause, now: Timestamp) -> bool {
        self.ends.get(pause).is_some_and(|end| *end > now)
    }

    fn note(&mut self, pause: Pause, (now, until): (Timestamp, Timestamp)) {
        while self.order.front().is_some_and(|(end, _)| *end <= now) || self.order.len() >= REMEMBERED_MAX {
            self.drop_oldest();
        }
        if until > now {
            self.order.push_back((until, pause.clone()));
            self.ends.insert(pause, until);
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((end, pause)) = self.order.pop_front()
            && self.ends.get(&pause) == Some(&end)
        {
            self.ends.remove(&pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use kew_core::QueueId;

    use super::*;

    const A: Pause = Pause::Purge(QueueId(1));
    const B: Pause = Pause::Purge(QueueId(2));

    fn minute(from: u64) -> (Timestamp, Timestamp) {
        (Timestamp(from), Timestamp(from + 60_000))
    }

    #[test]
    fn pause_ends_at_its_very_instant() {
        let pauses = Pauses::default();
        assert!(pauses.begin(&A, minute(1_000)));
        assert!(!pauses.begin(&A, minute(60_999)));
        assert!(pauses.begin(&B, minute(60_999)));
        assert!(pauses.begin(&A, minute(61_000)));
        assert!(pauses.runs(&A, Timestamp(120_999)) && !pauses.runs(&A, Timestamp(121_000)));
    }

    #[test]
    fn pause_without_length_forbids_nothing() {
        let pauses = Pauses::default();
        let none = (Timestamp(1), Timestamp(1));
        pauses.note(A, none);
        assert!(pauses.begin(&A, none) && pauses.begin(&A, none));
        assert!(!pauses.runs(&A, Timestamp(1)));
    }

    #[test]
    fn what_was_not_done_after_all_is_forgotten() {
        let pauses = Pauses::default();
        assert!(pauses.begin(&A, minute(0)));
        pauses.forget(&A);
        assert!(pauses.begin(&A, minute(5)));
        pauses.note(B, minute(60_001));
        assert!(pauses.runs(&A, Timestamp(60_004)), "the end of the first changes nothing");
    }

    #[test]
    fn memory_is_bounded_and_the_newest_are_kept() {
        let pauses = Pauses::default();
        let of = |number: usize| Pause::Purge(QueueId(number as u64));
        for number in 0..=REMEMBERED_MAX {
            pauses.note(of(number), minute(7));
        }
        let remembered = pauses.remembered.lock();
        assert_eq!((remembered.ends.len(), remembered.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(remembered.ends.contains_key(&of(REMEMBERED_MAX)) && !remembered.ends.contains_key(&of(0)));
    }
}
