//! How long requests take, by dialect, operation and status.
//!
//! The program starts a stopwatch before it hands a request to a front-end and stops it with the reply, which names
//! the operation ([`Reply::operation`]). There are few operations and few statuses, so a short list is looked through;
//! a bound keeps it short whatever front-ends answer.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;

use crate::figures::histogram::{Distribution, Histogram};
use crate::reply::Reply;

/// Series beyond this many share one.
const SERIES_MAX: usize = 1_000;
/// What stands for an operation that a reply does not name.
const UNKNOWN: &str = "unknown";

/// What one series counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DurationKey {
    /// The dialect that was spoken.
    pub dialect: &'static str,
    /// What was asked.
    pub operation: &'static str,
    /// The status of the reply; 0 for what is beyond the bound of series.
    pub code: u16,
}

/// Durations of requests.
#[derive(Debug, Default)]
pub struct Durations {
    /// Guards the list; the counts in it are atomics.
    series: RwLock<Vec<(DurationKey, Arc<Histogram>)>>,
}

/// A request under way.
#[derive(Debug)]
pub struct Stopwatch(Instant);

impl Durations {
    /// Begins with a request.
    pub fn start(&self) -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Ends with its reply.
    pub fn stop(&self, stopwatch: Stopwatch, dialect: &'static str, reply: &Reply) {
        let operation = reply.operation.unwrap_or(UNKNOWN);
        let key = DurationKey { dialect, operation, code: reply.status.as_u16() };
        let took = stopwatch.0.elapsed();
        let known = self.series.read().iter().find(|(known, _)| *known == key).map(|(_, series)| {
            series.record(took);
        });
        if known.is_none() {
            self.add(key).record(took);
        }
    }

    /// Everything counted so far, in the order of keys.
    pub fn all(&self) -> Vec<(DurationKey, Distribution)> {
        let mut all: Vec<_> =
            self.series.read().iter().map(|(key, series)| (*key, series.distribution())).collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }

    fn add(&self, mut key: DurationKey) -> Arc<Histogram> {
        let mut series = self.series.write();
        if series.len() >= SERIES_MAX {
            key = DurationKey { operation: UNKNOWN, code: 0, ..key };
        }
        if let Some((_, known)) = series.iter().find(|(known, _)| *known == key) {
            return Arc::clone(known);
        }
        let added = Arc::new(Histogram::default());
        series.push((key, Arc::clone(&added)));
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn reply(status: u16, operation: Option<&'static str>) -> Reply {
        let status = StatusCode::from_u16(status).expect("the status is between 100 and 999");
        Reply { operation, ..Reply::text(status, "") }
    }

    #[test]
    fn requests_are_counted_by_dialect_operation_and_status() {
        let durations = Durations::default();
        for (status, operation) in
            [(200, Some("Send")), (200, Some("Send")), (400, Some("Send")), (404, None)]
        {
            durations.stop(durations.start(), "sqs", &reply(status, operation));
        }
        let found: Vec<(&str, u16, u64)> =
            durations.all().iter().map(|(key, found)| (key.operation, key.code, found.count)).collect();
        assert_eq!(found, [("Send", 200, 2), ("Send", 400, 1), ("unknown", 404, 1)]);
    }

    #[test]
    fn series_are_bounded_whatever_is_answered() {
        let durations = Durations::default();
        for code in 100..=999 {
            for operation in ["a", "b"] {
                durations.stop(durations.start(), "sqs", &reply(code, Some(operation)));
            }
        }
        let found = durations.all();
        assert_eq!(found.len(), SERIES_MAX + 1);
        let counted: u64 = found.iter().map(|(_, series)| series.count).sum();
        assert_eq!(counted, 1_800);
    }
}
