//! Time that stands, and random numbers that are known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Clock, Entropy, Timestamp};
use kew_engine::TimeSource;

/// The instant at which every test begins: 2026-01-01.
pub const NOW: Timestamp = Timestamp(1_767_225_600_000);

/// Always [`NOW`]. A virtual engine over it moves only by [`advance`](crate::advance).
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }
}

impl TimeSource for FixedClock {
    fn system(&self) -> Timestamp {
        NOW
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

/// Numbers in order, each once.
#[derive(Debug, Default)]
pub struct CountingEntropy(AtomicU64);

impl CountingEntropy {
    /// Begins with this number.
    pub fn from(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }
}

impl Entropy for CountingEntropy {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
