//! The pace of a task that moves messages: as fast as it can, or a number of messages a second in even steps.

use std::time::Duration;

use kew_core::Timestamp;

/// Steps a second of a throttled task that is fast enough for them.
const STEPS_PER_SECOND: u32 = 10;
/// A task that is later than this does not hurry to catch up.
const LATENESS_MADE_GOOD: Duration = Duration::from_secs(1);

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
    /// Messages that were moved by the last step.
    moved: u64,
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
            moved,
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

    /// Sets the instant of the next step, after `moved` messages in all. A step that moved fewer than it was asked to
    /// met large ones, which keep the disk busy: the next one waits for as long as it took, so that what others write
    /// meanwhile is synced without any of them.
    pub fn stepped(&mut self, moved: u64, took: Duration, now: Timestamp) {
        let by_this_step = moved.saturating_sub(self.moved);
        let is_short = by_this_step > 0 && by_this_step < u64::from(self.step);
        self.moved = moved;
        self.keep_to_rate(moved, now);
        if is_short {
            self.next_at = self.next_at.max(now.plus(took));
        }
    }

    fn keep_to_rate(&mut self, moved: u64, now: Timestamp) {
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
            run.stepped(moved, Duration::ZERO, run.next_at);
        }
        instants
    }

    #[test]
    fn a_step_that_moved_fewer_than_asked_is_followed_sooner() {
        let mut run = run(500);
        run.stepped(5, Duration::ZERO, Timestamp(0));
        assert_eq!(run.next_at, Timestamp(10), "5 of 500 a second");
    }

    #[test]
    fn a_step_that_met_large_messages_leaves_others_as_long_as_it_took() {
        let took = Duration::from_millis(8);
        let mut run = Pace::new((None, 100), 0, Timestamp(0));
        run.stepped(100, took, Timestamp(8));
        assert_eq!(run.next_at, Timestamp(0), "as many as were asked for");
        run.stepped(199, took, Timestamp(16));
        assert_eq!(run.next_at, Timestamp(24));
        run.stepped(199, took, Timestamp(32));
        assert_eq!(run.next_at, Timestamp(24), "nothing was moved, and nothing written");
        // A task that keeps to a rate, and is not due before that anyway.
        let mut run = self::run(500);
        run.stepped(5, took, Timestamp(0));
        assert_eq!(run.next_at, Timestamp(10));
        run.stepped(6, took, Timestamp(20));
        assert_eq!(run.next_at, Timestamp(28));
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
        run.stepped(1, Duration::ZERO, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_000));
        run.stepped(2, Duration::ZERO, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_100));
    }
}
