//! The pace of a task that moves messages: as fast as it can, or a number of messages a second in even steps.

use std::time::Duration;

use kew_core::Timestamp;

/// Steps a second of a throttled task that is fast enough for them.
const STEPS_PER_SECOND: u32 = 10;
/// A task that is later than this does not hurry to catch up.
const LATENESS_MADE_GOOD: Duration = Duration::from_secs(1);
/// The longest rest for the sake of others. A step that took longer waited for something else than the disk: a store
/// that was away, or a clock that was set.
const REST_MAX: Duration = Duration::from_millis(100);

/// When a task takes its next step, and how many messages that step moves at most.
#[derive(Debug)]
pub struct Pace {
    /// Messages a second; `None` is as fast as possible.
    rate: Option<u64>,
    /// Messages in one step.
    step: u32,
    /// Where the pace counts from.
    since: Timestamp,
    /// Messages that were moved by then.
    moved_before: u64,
    next_at: Timestamp,
}

impl Pace {
    /// The pace of a task that has moved this number of messages, from now on: messages a second, and the most in one
    /// step.
    pub fn new((rate_max, batch): (Option<u32>, u32), moved: u64, now: Timestamp) -> Self {
        let batch = batch.max(1);
        let step = rate_max.map_or(batch, |rate| (rate / STEPS_PER_SECOND).clamp(1, batch));
        Self {
            rate: rate_max.map(|rate| u64::from(rate.max(1))),
            step,
            since: now,
            moved_before: moved,
            next_at: now,
        }
    }

    /// Messages that the next step moves at most.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// When the next step is due.
    pub fn next_at(&self) -> Timestamp {
        self.next_at
    }

    /// Puts the next step off.
    pub fn rest_until(&mut self, at: Timestamp) {
        self.next_at = at;
    }

    /// Puts the next step off for as long as the last one took, so that what others write meanwhile is synced without
    /// any of its messages.
    pub fn rest_as_long_as(&mut self, took: Duration, now: Timestamp) {
        self.next_at = self.next_at.max(now.plus(took.min(REST_MAX)));
    }

    /// Sets the instant of the next step, after `moved` messages in all: a step may move fewer than it
    /// was asked to, when they are large.
    pub fn stepped(&mut self, moved: u64, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        // Counted from the beginning, so that nothing is lost to rounding.
        let passed = moved.saturating_sub(self.moved_before).saturating_mul(1_000) / rate;
        self.next_at = self.since.plus(Duration::from_millis(passed));
        if now.since(self.next_at) > LATENESS_MADE_GOOD {
            self.since = now;
            self.moved_before = moved;
            self.next_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: u32) -> Pace {
        Pace::new((Some(rate), 100), 0, Timestamp(0))
    }

    fn instants(rate: u32, count: usize) -> Vec<(u64, u32)> {
        let (mut run, mut moved, mut instants) = (run(rate), 0, Vec::new());
        for _ in 0..count {
            instants.push((run.next_at.0, run.step));
            moved += u64::from(run.step);
            run.stepped(moved, run.next_at);
        }
        instants
    }

    #[test]
    fn a_step_that_moved_fewer_than_asked_is_followed_sooner() {
        let mut run = run(500);
        run.stepped(5, Timestamp(0));
        assert_eq!(run.next_at, Timestamp(10), "5 of 500 a second");
    }

    #[test]
    fn a_rest_is_as_long_as_the_step_was_and_never_long() {
        let mut run = Pace::new((None, 100), 0, Timestamp(0));
        run.rest_as_long_as(Duration::ZERO, Timestamp(8));
        assert_eq!(run.next_at, Timestamp(8));
        run.rest_as_long_as(Duration::from_millis(8), Timestamp(16));
        assert_eq!(run.next_at, Timestamp(24));
        run.rest_as_long_as(REST_MAX, Timestamp(1_000));
        assert_eq!(run.next_at, Timestamp(1_100));
        // The clock was set ahead by a month during the step.
        run.rest_as_long_as(Duration::from_hours(30 * 24), Timestamp(2_000));
        assert_eq!(run.next_at, Timestamp(2_100));
    }

    #[test]
    fn a_rest_brings_no_step_forward() {
        let mut run = run(500);
        run.stepped(50, Timestamp(0));
        run.rest_as_long_as(Duration::from_millis(8), Timestamp(0));
        assert_eq!(run.next_at, Timestamp(100));
    }

    #[test]
    fn slow_task_moves_one_message_at_a_time() {
        assert_eq!(instants(3, 4), [(0, 1), (333, 1), (666, 1), (1_000, 1)]);
    }

    #[test]
    fn fast_task_moves_a_tenth_of_a_seconds_worth_at_a_time() {
        assert_eq!(instants(500, 3), [(0, 50), (100, 50), (200, 50)]);
        assert_eq!(instants(20_000, 3), [(0, 100), (5, 100), (10, 100)]);
    }

    #[test]
    fn long_pause_is_not_made_good_by_a_burst() {
        let mut run = run(10);
        run.stepped(1, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_000));
        run.stepped(2, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_100));
    }
}
