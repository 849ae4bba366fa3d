//! Alarms: rules that the settings hold, looked at every five seconds.
//!
//! A rule watches one metric of all queues that fit its pattern. An alarm begins when the metric was above the rule's
//! bound at every look for the rule's time, and ends at the first look at which it is not.

mod watch;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use watch::{Alarm, Alarms, Reading};

/// What an alarm watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmMetric {
    /// Age of a queue's oldest message, in seconds.
    OldestAge,
    /// Messages of a queue that can be leased.
    Visible,
    /// Messages of a queue that are leased.
    InFlight,
    /// Messages of a queue that are delayed.
    Delayed,
    /// Messages, whatever they are doing, in a queue that dead letters of another go to.
    DeadLetters,
    /// The share of the messages of a queue that may be in flight, from 0 to 1.
    InFlightShare,
    /// The share of the disk that is in use, from 0 to 1, where the store is a directory.
    DiskShare,
}

impl AlarmMetric {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OldestAge,
        Self::Visible,
        Self::InFlight,
        Self::Delayed,
        Self::DeadLetters,
        Self::InFlightShare,
        Self::DiskShare,
    ];

    /// Its name in settings, in the API and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::OldestAge => "oldest_age_seconds",
            Self::Visible => "visible",
            Self::InFlight => "in_flight",
            Self::Delayed => "delayed",
            Self::DeadLetters => "dead_letters",
            Self::InFlightShare => "in_flight_share",
            Self::DiskShare => "disk_share",
        }
    }

    /// Whether it is measured of each queue, and not of the server.
    pub fn is_of_queues(self) -> bool {
        self != Self::DiskShare
    }
}

/// One rule.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmRule {
    /// Its name, unique among the rules.
    pub name: Arc<str>,
    /// Which queues it is for, with `*` for any letters: by name, or by `account:region:name` where it has a colon.
    pub queue: Arc<str>,
    /// What is measured.
    pub metric: AlarmMetric,
    /// The bound.
    pub above: f64,
    /// How long the metric must be above it.
    pub lasting: Duration,
    /// Where changes are posted, if anywhere.
    pub webhook: Option<Arc<str>>,
}

/// An alarm that fires.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Firing {
    /// The rule's name.
    pub rule: String,
    /// The queue, as the admin API names it; `None` for what belongs to none.
    pub queue: Option<String>,
}

/// Whether a text is like a pattern, in which `*` stands for any letters.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, like, unlike) in [
            ("orders", &["orders"][..], &["orders2", "order", ""][..]),
            ("*", &["", "orders"], &[]),
            ("orders*", &["orders", "orders-dead"], &["my-orders"]),
            ("*-dead", &["orders-dead", "-dead"], &["orders-dead.fifo", "dead"]),
            ("a*b*c", &["abc", "a-b-b-c", "abcc"], &["acb", "ab", "a-c"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("000000000000:*:orders", &["000000000000:eu-west-1:orders"], &["orders"]),
        ] {
            like.iter().for_each(|text| assert!(is_like(text, pattern), "{text} is like {pattern}"));
            unlike.iter().for_each(|text| assert!(!is_like(text, pattern), "{text} is unlike {pattern}"));
        }
    }

    #[test]
    fn each_metric_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> =
            AlarmMetric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), AlarmMetric::ALL.len());
    }
}
