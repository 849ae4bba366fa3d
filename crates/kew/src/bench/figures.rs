//! What a round took: messages, latencies by operation, and what the server used for it.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::process::Usage;
use super::tally::Faults;

/// Latencies of one operation, in microseconds up to a minute, three digits exact.
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    const LONGEST: u64 = 60_000_000;

    fn new() -> Self {
        Self(Histogram::new_with_bounds(1, Self::LONGEST, 3).expect("the bounds are in order"))
    }

    fn note(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(Self::LONGEST);
        self.0.saturating_record(micros.clamp(1, Self::LONGEST));
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this share of all do not exceed, in microseconds.
    pub(super) fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }
}

/// What was measured in one round, or in several together.
#[derive(Default)]
pub(super) struct Figures {
    /// Messages that went all the way the scenario takes them.
    pub(super) messages: u64,
    /// Requests that failed while the server was away.
    pub(super) interruptions: u64,
    /// Receives that found nothing.
    pub(super) empty: u64,
    /// Waiting receives that found nothing and were answered before their time was over.
    pub(super) early: u64,
    pub(super) elapsed: Duration,
    pub(super) latencies: BTreeMap<&'static str, Latencies>,
    pub(super) faults: Faults,
    /// CPU and bytes written over the round; resident bytes at its end.
    pub(super) usage: Option<Usage>,
}

impl Figures {
    /// Notes one request.
    pub(super) fn note(&mut self, operation: &'static str, took: Duration) {
        self.latencies.entry(operation).or_insert_with(Latencies::new).note(took);
    }

    /// Messages a second.
    pub(super) fn rate(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    /// Whether everything was as it should be.
    pub(super) fn is_right(&self, survived: bool) -> bool {
        self.faults.none(survived) && self.early == 0
    }

    /// The server's CPU per message, in microseconds.
    pub(super) fn cpu_each(&self) -> Option<f64> {
        Some(self.usage?.cpu_seconds * 1e6 / self.messages.max(1) as f64)
    }
}

/// The middle one of some figures.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
