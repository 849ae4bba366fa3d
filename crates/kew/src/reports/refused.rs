//! Failures of requests in the log, bounded: while a database is away every request fails, and a line for each would
//! fill a disk.

use std::time::{Duration, Instant};

use kew_http::RequestId;
use parking_lot::Mutex;

use crate::lines::Lines;
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

/// Logs when a node on PostgreSQL begins to refuse all requests, why, and when it ends. The lines are bounded, however
/// often it begins and ends; the last of them says how it is.
#[derive(Default)]
pub(crate) struct Refusing {
    /// Since when they are refused, if they are.
    since: Option<Instant>,
    /// What the log says of now, if that is that they are refused.
    logged: Option<Logged>,
    /// How often they began to be refused since the last line.
    times: u64,
    lines: Lines,
}

/// Why requests are refused as the log says, since when, and when it said so.
struct Logged {
    why: String,
    since: Instant,
    at: Instant,
}

/// A line about requests that are refused, or are no longer.
#[derive(PartialEq, Eq, Debug)]
enum Line {
    Refused { why: String },
    Still { why: String },
    Again { after: Duration },
}

impl Refusing {
    /// Looks at why requests are refused, if they are.
    pub fn look(&mut self, log: Log, why: Option<String>) {
        let Some((line, times)) = self.line(Instant::now(), why) else { return };
        let times = times.to_string();
        let mut fields = Vec::new();
        if !matches!(times.as_str(), "0" | "1") {
            fields.push(("times", times.as_str()));
        }
        match &line {
            Line::Refused { why } => {
                fields.insert(0, ("cause", why));
                log.tell(Level::Warn, "requests are refused with an error to try again", &fields);
            }
            Line::Still { why } => {
                fields.insert(0, ("cause", why));
                log.tell(Level::Warn, "requests are still refused", &fields);
            }
            Line::Again { after } => {
                let after = format!("{:.1}", after.as_secs_f64());
                fields.insert(0, ("after_seconds", &after));
                log.tell(Level::Info, "requests are answered again", &fields);
            }
        }
    }

    /// What is to be logged, and how often requests began to be refused since the last line.
    fn line(&mut self, now: Instant, why: Option<String>) -> Option<(Line, u64)> {
        if why.is_some() && self.since.is_none() {
            self.times += 1;
        }
        self.since = why.as_ref().map(|_| self.since.unwrap_or(now));
        let line = match (&self.logged, why) {
            (None, None) => return None,
            (None, Some(why)) => Line::Refused { why },
            (Some(logged), Some(why)) => {
                if why == logged.why || now.duration_since(logged.at) < REASON_AFTER {
                    return None;
                }
                Line::Still { why }
            }
            (Some(logged), None) => Line::Again { after: now.duration_since(logged.since) },
        };
        if !self.lines.take(now) {
            return None;
        }
        self.logged = match &line {
            Line::Again { .. } => None,
            Line::Refused { why } | Line::Still { why } => {
                let since = self.logged.as_ref().map_or(self.since, |logged| Some(logged.since));
                Some(Logged { why: why.clone(), since: since.unwrap_or(now), at: now })
            }
        };
        Some((line, std::mem::take(&mut self.times)))
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

    #[test]
    fn database_that_flaps_is_a_bounded_number_of_lines_of_which_the_last_says_how_it_is() {
        let (mut refusing, begun) = (Refusing::default(), Instant::now());
        let mut at = begun;
        let mut look = |refusing: &mut Refusing, why: Option<&str>| {
            at += Duration::from_millis(100);
            refusing.line(at, why.map(ToOwned::to_owned))
        };
        let mut lines = Vec::new();
        for second in 0..3_600 {
            for _ in 0..10 {
                lines.extend(look(&mut refusing, (second % 2 == 0).then_some("away")));
            }
        }
        assert!(lines.len() <= 6 * 60, "{} lines in an hour", lines.len());
        let times: u64 = lines.iter().map(|(_, times)| times).sum();
        assert!((1_750..=1_800).contains(&times), "the lines tell of {times} times");
        let rest = (0..700).filter_map(|_| look(&mut refusing, None)).count();
        assert!(rest <= 1);
        assert!(refusing.logged.is_none(), "the last line says that requests are answered");
    }

    #[test]
    fn refusal_is_logged_when_it_begins_and_when_it_ends() {
        let (mut refusing, begun) = (Refusing::default(), Instant::now());
        let away = || Some("away".to_owned());
        let first = Line::Refused { why: "away".to_owned() };
        assert_eq!(refusing.line(begun, away()), Some((first, 1)));
        let later = begun + Duration::from_secs(60);
        assert_eq!(refusing.line(later, away()), None);
        let again = Line::Again { after: Duration::from_secs(60) };
        assert_eq!(refusing.line(later, None), Some((again, 0)));
        assert_eq!(refusing.line(later, None), None);
    }
}
