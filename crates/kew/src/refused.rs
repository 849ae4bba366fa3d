//! Failures of requests in the log, bounded: while a database is away every request fails, and a line for each would
//! fill a disk.

use std::time::{Duration, Instant};

use kew_http::RequestId;
use parking_lot::Mutex;

use crate::log::{Level, Log};

/// A cause that goes on is logged again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of different causes that are remembered at a time.
const CAUSES_MAX: usize = 16;
/// What the rest of them is called.
const OTHERS: &str = "requests fail for many reasons; this one stands for those that are not told apart";
/// Another reason why all requests are refused is logged no sooner than this.
const REASON_AFTER: Duration = Duration::from_secs(5);

/// Logs failures that are ours: each cause when it comes, and once a minute while it lasts, with how often it came.
pub(crate) struct Failures {
    log: Log,
    store: String,
    /// Guards what was logged.
    causes: Mutex<Causes>,
}

impl Failures {
    pub fn new(log: Log, store: String) -> Self {
        Self { log, store, causes: Mutex::default() }
    }

    /// A request failed.
    pub fn note(&self, id: RequestId, cause: &str) {
        let Some((cause, times)) = self.causes.lock().note(Instant::now(), cause) else { return };
        let mut fields = vec![("request", id.as_str()), ("store", self.store.as_str())];
        let times = times.to_string();
        if times != "1" {
            fields.push(("times", &times));
        }
        self.log.tell(Level::Error, &cause, &fields);
    }
}

#[derive(Default)]
struct Causes(Vec<Cause>);

struct Cause {
    text: String,
    logged: Instant,
    /// How often it came since.
    times: u64,
}

impl Causes {
    /// What is to be logged of a failure, and how often it came since it was logged last.
    fn note(&mut self, now: Instant, cause: &str) -> Option<(String, u64)> {
        let is_over = |known: &Cause| now.duration_since(known.logged) > AGAIN_AFTER;
        let is_new = !self.0.iter().any(|known| known.text == cause);
        if is_new && self.0.len() >= CAUSES_MAX {
            self.0.retain(|known| !is_over(known));
        }
        let cause = if is_new && self.0.len() >= CAUSES_MAX { OTHERS } else { cause };
        let Some(known) = self.0.iter_mut().find(|known| known.text == cause) else {
            self.0.push(Cause { text: cause.to_owned(), logged: now, times: 0 });
            return Some((cause.to_owned(), 1));
        };
        known.times += 1;
        if now.duration_since(known.logged) <= AGAIN_AFTER {
            return None;
        }
        known.logged = now;
        Some((cause.to_owned(), std::mem::take(&mut known.times)))
    }
}

/// Logs when a node on PostgreSQL begins to refuse all requests, why, and when it ends.
#[derive(Default)]
pub(crate) struct Refusing {
    /// Since when, what was logged last, and when.
    since: Option<(Instant, String, Instant)>,
}

impl Refusing {
    /// Looks at why requests are refused, if they are.
    pub fn look(&mut self, log: Log, why: Option<String>) {
        let now = Instant::now();
        match (self.since.take(), why) {
            (None, None) => {}
            (None, Some(why)) => {
                log.tell(Level::Warn, "requests are refused with an error to try again", &[("cause", &why)]);
                self.since = Some((now, why, now));
            }
            (Some((since, before, logged)), Some(why)) => {
                let is_news = why != before && now.duration_since(logged) >= REASON_AFTER;
                if is_news {
                    log.tell(Level::Warn, "requests are still refused", &[("cause", &why)]);
                }
                let (text, logged) = if is_news { (why, now) } else { (before, logged) };
                self.since = Some((since, text, logged));
            }
            (Some((since, _, _)), None) => {
                let after = format!("{:.1}", now.duration_since(since).as_secs_f64());
                log.tell(Level::Info, "requests are answered again", &[("after_seconds", &after)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_logged_when_it_comes_and_once_a_minute_with_its_count() {
        let (mut causes, begun) = (Causes::default(), Instant::now());
        assert_eq!(causes.note(begun, "away"), Some(("away".to_owned(), 1)));
        let lines = (1..=10_000).filter_map(|number| {
            let at = begun + Duration::from_millis(number * 10);
            causes.note(at, "away")
        });
        let lines: Vec<_> = lines.map(|(_, times)| times).collect();
        assert_eq!(lines, [6_001], "100 s of refusals are two lines");
        assert_eq!(causes.note(begun, "another"), Some(("another".to_owned(), 1)), "another cause is news");
    }

    #[test]
    fn causes_that_are_all_unlike_are_bounded() {
        let (mut causes, begun) = (Causes::default(), Instant::now());
        let lines = (0..10_000).filter_map(|number| causes.note(begun, &number.to_string())).count();
        assert_eq!(lines, CAUSES_MAX + 1);
        assert_eq!(causes.0.len(), CAUSES_MAX + 1);
        let later = begun + AGAIN_AFTER + Duration::from_secs(1);
        assert_eq!(causes.note(later, "late"), Some(("late".to_owned(), 1)), "old causes make room");
    }
}
