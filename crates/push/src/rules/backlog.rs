//! Since when messages wait for a batch: what the timer of a batch that is not full counts from.
//!
//! Counts say how many messages are eligible, and not since when. So each look notes how many more there are than at
//! the look before; batches take the earliest first. What was there at the first look counts from then.

use std::collections::VecDeque;

use kew_core::Timestamp;

/// Looks that are kept apart; beyond it the newest are taken together, so that their timer may run out early.
const LOOKS_MAX: usize = 64;

/// How many messages wait, and since when.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Messages that became eligible at one look, the earliest first; none is empty.
    looks: VecDeque<(Timestamp, u64)>,
    eligible: u64,
}

impl Backlog {
    /// How many messages may be leased, as far as is known.
    pub(crate) fn eligible(&self) -> u64 {
        self.eligible
    }

    /// When the first of them became eligible.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.looks.front().map(|(at, _)| *at)
    }

    /// Takes the number of messages that are eligible now.
    pub(crate) fn seen(&mut self, now: Timestamp, eligible: u64) {
        if eligible < self.eligible {
            // Somebody else took or deleted them, and who takes begins with the first.
            self.took(self.eligible - eligible);
        }
        let more = eligible - self.eligible;
        if more == 0 {
            return;
        }
        self.eligible = eligible;
        let is_full = self.looks.len() >= LOOKS_MAX;
        match self.looks.back_mut() {
            Some((at, count)) if *at == now || is_full => *count += more,
            Some(_) | None => self.looks.push_back((now, more)),
        }
    }

    /// Takes the number of eligible messages that were leased.
    pub(crate) fn took(&mut self, mut taken: u64) {
        self.eligible = self.eligible.saturating_sub(taken);
        while let Some((_, count)) = self.looks.front_mut() {
            if *count > taken {
                *count -= taken;
                return;
            }
            taken -= *count;
            self.looks.pop_front();
        }
    }

    /// There are none, whatever was counted.
    pub(crate) fn found_nothing(&mut self) {
        self.looks.clear();
        self.eligible = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(backlog: &Backlog) -> (u64, Option<u64>) {
        (backlog.eligible(), backlog.first_at().map(|at| at.0))
    }

    #[test]
    fn timer_counts_from_the_first_message_that_waits() {
        let mut backlog = Backlog::default();
        assert_eq!(state(&backlog), (0, None));
        backlog.seen(Timestamp(10), 1);
        backlog.seen(Timestamp(20), 5);
        backlog.seen(Timestamp(30), 5);
        assert_eq!(state(&backlog), (5, Some(10)));
    }

    #[test]
    fn rest_of_a_full_batch_waits_for_its_own_timer() {
        let mut backlog = Backlog::default();
        backlog.seen(Timestamp(10), 8);
        backlog.seen(Timestamp(20), 12);
        backlog.took(10);
        assert_eq!(state(&backlog), (2, Some(20)));
        backlog.took(2);
        assert_eq!(state(&backlog), (0, None));
    }

    #[test]
    fn messages_that_others_took_are_the_first_ones() {
        let mut backlog = Backlog::default();
        backlog.seen(Timestamp(10), 3);
        backlog.seen(Timestamp(20), 5);
        backlog.seen(Timestamp(30), 2);
        assert_eq!(state(&backlog), (2, Some(20)));
        backlog.seen(Timestamp(40), 0);
        assert_eq!(state(&backlog), (0, None));
    }

    #[test]
    fn more_may_be_taken_than_were_seen() {
        let mut backlog = Backlog::default();
        backlog.seen(Timestamp(10), 3);
        backlog.took(9);
        assert_eq!(state(&backlog), (0, None));
    }

    #[test]
    fn memory_is_bounded_and_nothing_waits_longer_for_it() {
        let mut backlog = Backlog::default();
        for look in 1..=10_000 {
            backlog.seen(Timestamp(look), look);
        }
        assert_eq!(backlog.looks.len(), LOOKS_MAX);
        backlog.took(9_999);
        assert_eq!(state(&backlog), (1, Some(64)));
    }

    #[test]
    fn nothing_found_is_nothing_there() {
        let mut backlog = Backlog::default();
        backlog.seen(Timestamp(10), 3);
        backlog.found_nothing();
        assert_eq!(state(&backlog), (0, None));
    }
}
