//! With the feature `on`: a stretch that takes too much CPU time fails.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::cpu::cpu_time;

/// The most CPU time of a stretch. A step of the release build may take 10 ms; the build of tests takes up to four
/// times as long, and the slowest machines three times as long again.
const STRETCH_MAX: Duration = Duration::from_millis(120);

/// The CPU time of a thread is asked for this often at most: it is a system call, and most stretches take microseconds.
/// By as much a stretch may be longer than the most and pass; none that is not longer fails.
const ASKED_EVERY: Duration = Duration::from_millis(5);

/// A stretch of work during which others wait: from its beginning until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Stretch {
    what: &'static str,
    begun: Instant,
    /// Counted CPU time of the thread when it began, or a little more.
    begun_at_most: Duration,
}

thread_local! {
    /// CPU time of this thread that belongs to no stretch.
    static APART: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// When this thread was last asked for its CPU time, and what it was.
    static ASKED: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Runs what belongs to no stretch that has begun: a simulated wait, during which the thread that waits plays the rest
/// of the world.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let (begun, before) = (cpu_time(), APART.get());
    let result = work();
    // What was apart within `work` is part of its time.
    APART.set(before + cpu_time().saturating_sub(begun));
    result
}

impl Stretch {
    /// Begins one; `what` names it.
    pub fn begin(what: &'static str) -> Self {
        let begun = Instant::now();
        Self { what, begun, begun_at_most: cpu_time_at_most(begun).saturating_sub(APART.get()) }
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        // A thread takes no more CPU time than passes.
        if self.begun.elapsed() <= STRETCH_MAX {
            return;
        }
        let took = cpu_time().saturating_sub(APART.get()).saturating_sub(self.begun_at_most);
        // A second panic would hide the first.
        if !std::thread::panicking() {
            assert!(
                took <= STRETCH_MAX,
                "{} took {took:?} of CPU time in one piece: others wait for it",
                self.what
            );
        }
    }
}

/// CPU time this thread has taken by now, or up to [`ASKED_EVERY`] more.
fn cpu_time_at_most(now: Instant) -> Duration {
    let asked = ASKED.get().filter(|(at, _)| now.duration_since(*at) < ASKED_EVERY);
    let (at, was) = asked.unwrap_or_else(|| {
        let asked = (now, cpu_time());
        ASKED.set(Some(asked));
        asked
    });
    was + now.duration_since(at)
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;
    use crate::polls;

    fn spend(cpu: Duration) {
        let begun = cpu_time();
        while cpu_time() - begun < cpu {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_stretch_that_begins_between_two_looks_at_the_clock_is_timed_as_well() {
        drop(Stretch::begin("a test"));
        let long = std::panic::catch_unwind(|| {
            let _stretch = Stretch::begin("a test");
            spend(STRETCH_MAX + ASKED_EVERY);
        });
        assert!(long.is_err());
        // One that takes nearly as long as it may, behind a wait that took no CPU time.
        drop(Stretch::begin("a test"));
        std::thread::sleep(ASKED_EVERY / 2);
        let _stretch = Stretch::begin("a test");
        spend(STRETCH_MAX - Duration::from_millis(10));
    }

    #[test]
    fn a_short_stretch_passes_and_a_wait_does_not_count() {
        let begun = Instant::now();
        {
            let _stretch = Stretch::begin("a test");
            std::thread::sleep(STRETCH_MAX * 2);
            spend(STRETCH_MAX / 4);
        }
        assert!(begun.elapsed() > STRETCH_MAX);
    }

    #[test]
    fn what_runs_apart_does_not_count() {
        let _stretch = Stretch::begin("a test");
        apart(|| {
            apart(|| spend(STRETCH_MAX));
            spend(STRETCH_MAX);
        });
    }

    #[test]
    #[should_panic(expected = "a test took")]
    fn a_long_stretch_within_a_piece_that_runs_apart_fails() {
        apart(|| {
            let _stretch = Stretch::begin("a test");
            spend(STRETCH_MAX + Duration::from_millis(1));
        });
    }

    #[test]
    #[should_panic(expected = "a test took")]
    fn a_piece_that_ran_apart_makes_no_later_stretch_shorter() {
        let _outer = Stretch::begin("a test");
        apart(|| apart(|| spend(STRETCH_MAX)));
        spend(STRETCH_MAX + Duration::from_millis(1));
    }

    #[test]
    #[should_panic(expected = "a test took")]
    fn a_long_stretch_fails() {
        let _stretch = Stretch::begin("a test");
        spend(STRETCH_MAX + Duration::from_millis(1));
    }

    #[test]
    #[should_panic(expected = "a task took")]
    fn a_long_poll_fails() {
        let mut long = Box::pin(polls("a task", async { spend(STRETCH_MAX + Duration::from_millis(1)) }));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _ready = long.as_mut().poll(&mut context);
    }

    #[test]
    fn a_panic_within_a_stretch_stays_the_panic() {
        let ran = std::panic::catch_unwind(|| {
            let _stretch = Stretch::begin("a test");
            spend(STRETCH_MAX + Duration::from_millis(1));
            panic!("the first");
        });
        let panic = ran.expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the first"));
    }
}
