//! Moments at which the machine stood still. A test that failed in one has perhaps met a limit of real time, and who
//! reads the end of a run should know.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a look is due.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look that comes later than this is noted.
const NOTED: Duration = Duration::from_millis(500);

/// What was seen of them.
#[derive(Default)]
pub struct Stalls {
    /// When each ended, and how long it was.
    seen: Mutex<Vec<(Instant, Duration)>>,
}

impl Stalls {
    /// Looks for as long as the work takes.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let (over, wait) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut last = Instant::now();
                while wait.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let now = Instant::now();
                    self.note(now, now - last);
                    last = now;
                }
            });
            let done = work();
            drop(over);
            done
        })
    }

    fn note(&self, at: Instant, since: Duration) {
        let late = since.saturating_sub(LOOK_EVERY);
        if late >= NOTED {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push((at, late));
        }
    }

    /// The longest since then, as words for the end of an error; empty without one.
    pub fn since(&self, begun: Instant) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = seen.iter().filter(|(at, _)| *at >= begun).map(|(_, late)| *late).max();
        longest.map_or_else(String::new, |late| {
            format!("\n    meanwhile the machine stood still for {:.1} s", late.as_secs_f64())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_look_is_told_and_others_are_not() {
        let (stalls, begun) = (Stalls::default(), Instant::now());
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        stalls.note(at(1), LOOK_EVERY + NOTED - Duration::from_millis(1));
        assert_eq!(stalls.since(begun), "");
        stalls.note(at(2), LOOK_EVERY + NOTED);
        stalls.note(at(4), LOOK_EVERY + Duration::from_secs(2));
        stalls.note(at(5), LOOK_EVERY + Duration::from_secs(1));
        assert_eq!(stalls.since(begun), "\n    meanwhile the machine stood still for 2.0 s");
        assert_eq!(stalls.since(at(5)), "\n    meanwhile the machine stood still for 1.0 s");
        assert_eq!(stalls.since(at(6)), "");
    }

    #[test]
    fn work_ends_and_is_answered() {
        assert_eq!(Stalls::default().during(|| 7), 7);
    }
}
