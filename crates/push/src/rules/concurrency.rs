//! How many batches of one consumer may be under way: between one and the most, by backlog and failures.
//!
//! Looked at after each finished batch. While a whole batch more is waiting, one more may be under way; when less
//! waits, one less. When half of the latest invocations failed, half as many: what is failing is not helped by more of
//! it. Retries that a handler asks for are no failures.

use std::collections::VecDeque;

use crate::verdict::Ending;

/// Invocations that are remembered.
const REMEMBERED: usize = 8;
/// Invocations below which their share of failures says little.
const TELLING: usize = 2;

/// How many batches may be under way now.
#[derive(Debug)]
pub(crate) struct Concurrency {
    allowed: u32,
    endings: VecDeque<Ending>,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { allowed: 1, endings: VecDeque::new() }
    }
}

impl Concurrency {
    /// How many may be under way, of at most `max`.
    pub(crate) fn allowed(&self, max: u32) -> u32 {
        self.allowed.clamp(1, max.max(1))
    }

    /// A batch has ended, and `eligible` messages wait for batches of this size.
    pub(crate) fn finished(&mut self, ending: Ending, eligible: u64, batch_size: u32, max: u32) {
        self.endings.push_back(ending);
        if self.endings.len() > REMEMBERED {
            self.endings.pop_front();
        }
        let allowed = self.allowed(max);
        self.allowed = if self.is_failing() {
            allowed / 2
        } else if eligible >= u64::from(batch_size) {
            allowed.saturating_add(1)
        } else {
            allowed.saturating_sub(1)
        };
        self.allowed = self.allowed(max);
    }

    fn is_failing(&self) -> bool {
        let failed = self.endings.iter().filter(|ending| **ending != Ending::Returned).count();
        self.endings.len() >= TELLING && failed * 2 >= self.endings.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(concurrency: &mut Concurrency, times: u32, ending: Ending, eligible: u64, max: u32) -> u32 {
        for _ in 0..times {
            concurrency.finished(ending, eligible, 10, max);
        }
        concurrency.allowed(max)
    }

    #[test]
    fn starts_with_one_and_grows_with_the_backlog_to_the_most() {
        let mut concurrency = Concurrency::default();
        assert_eq!(concurrency.allowed(250), 1);
        assert_eq!(finish(&mut concurrency, 3, Ending::Returned, 10, 250), 4);
        assert_eq!(finish(&mut concurrency, 1_000, Ending::Returned, 10, 250), 250);
    }

    #[test]
    fn a_bound_of_one_stays_one() {
        let mut concurrency = Concurrency::default();
        assert_eq!(finish(&mut concurrency, 100, Ending::Returned, 1_000_000, 1), 1);
    }

    #[test]
    fn shrinks_to_one_when_less_than_a_batch_waits() {
        let mut concurrency = Concurrency::default();
        finish(&mut concurrency, 9, Ending::Returned, 10, 250);
        assert_eq!(finish(&mut concurrency, 4, Ending::Returned, 9, 250), 6);
        assert_eq!(finish(&mut concurrency, 100, Ending::Returned, 0, 250), 1);
    }

    #[test]
    fn halves_while_half_of_the_latest_fail_and_recovers_after() {
        let mut concurrency = Concurrency::default();
        assert_eq!(finish(&mut concurrency, 63, Ending::Returned, 10, 250), 64);
        let after_three = finish(&mut concurrency, 3, Ending::Failed, 10, 250);
        assert_eq!(after_three, 67, "three of eight are not half");
        assert_eq!(finish(&mut concurrency, 1, Ending::Failed, 10, 250), 33);
        assert_eq!(finish(&mut concurrency, 9, Ending::Failed, 10, 250), 1);
        assert_eq!(finish(&mut concurrency, 8, Ending::Returned, 10, 250), 5);
    }

    #[test]
    fn a_lower_bound_takes_effect_at_once() {
        let mut concurrency = Concurrency::default();
        finish(&mut concurrency, 20, Ending::Returned, 10, 250);
        assert_eq!(concurrency.allowed(3), 3);
    }
}
