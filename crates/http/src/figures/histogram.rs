//! How long things take: counts of durations by fixed bounds, kept in atomics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds: from a request served from memory to the longest poll.
const BOUNDS: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// Durations, counted.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One count for each bound; what is longer than the last stands in `count` only.
    buckets: [AtomicU64; BOUNDS.len()],
    micros: AtomicU64,
    count: AtomicU64,
}

/// What a histogram held at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// For each bound in seconds, how many durations were at most that long.
    pub at_most: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// Their sum, in seconds.
    pub seconds: f64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(BOUNDS.partition_point(|bound| *bound < micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// What it holds. Durations that are recorded meanwhile count wholly or not at all in `count`.
    pub fn distribution(&self) -> Distribution {
        let mut so_far = 0;
        let at_most: Vec<(f64, u64)> = BOUNDS
            .iter()
            .zip(&self.buckets)
            .map(|(bound, bucket)| {
                so_far += bucket.load(Ordering::Relaxed);
                (Duration::from_micros(*bound).as_secs_f64(), so_far)
            })
            .collect();
        // Read last, so that it is never below a bucket.
        let count = self.count.load(Ordering::Relaxed).max(so_far);
        let seconds = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        Distribution { at_most, count, seconds }
    }
}

impl Distribution {
    /// The smallest bound, in seconds, that this share of all durations does not exceed: for those beyond the largest
    /// bound, that one. `None` before the first duration.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let wanted = (self.count as f64 * share).ceil();
        let reached = self.at_most.iter().find(|(_, count)| *count as f64 >= wanted);
        reached.or(self.at_most.last()).map(|(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_that_so_many_do_not_exceed() {
        let histogram = Histogram::default();
        assert_eq!(histogram.distribution().quantile(0.5), None);
        for micros in [50, 60, 70, 60_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let found = histogram.distribution();
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75].map(|share| found.quantile(share)),
            [0.000_05, 0.000_05, 0.000_1, 0.000_1].map(Some)
        );
        assert_eq!(found.quantile(1.0), Some(30.0), "beyond the largest bound");
    }

    #[test]
    fn durations_count_up_to_and_including_their_bound() {
        let histogram = Histogram::default();
        for micros in [0, 50, 51, 30_000_000, 30_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let found = histogram.distribution();
        let at_most =
            |seconds: f64| found.at_most.iter().find(|(bound, _)| *bound == seconds).map(|(_, n)| *n);
        assert_eq!(at_most(0.000_05), Some(2));
        assert_eq!(at_most(0.000_1), Some(3));
        assert_eq!(at_most(30.0), Some(4));
        assert_eq!(found.count, 5);
        assert!((found.seconds - 60.000_102).abs() < 1e-9, "{}", found.seconds);
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS.is_sorted());
    }
}
