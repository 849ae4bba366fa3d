//! The clock by which a node judges how long it may answer: it cannot be set, and it goes on while the machine is
//! suspended. One that stood still would let a node answer after it wakes up, beside a node that has taken over.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Such a clock.
#[derive(Clone)]
pub(crate) enum Steady {
    /// This machine's.
    System,
    /// That of a simulated machine.
    #[cfg(feature = "simulated")]
    Simulated(crate::machine::Power),
}

impl Steady {
    /// Time since some instant that stays the same.
    pub fn now(&self) -> Duration {
        match self {
            Self::System => Duration::try_from(clock_gettime(CLOCK)).unwrap_or(Duration::ZERO),
            #[cfg(feature = "simulated")]
            Self::Simulated(power) => power.now(),
        }
    }

    /// Time since a reading.
    pub fn since(&self, reading: Duration) -> Duration {
        self.now().saturating_sub(reading)
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn clock_of_a_machine_counts_from_its_start_with_the_time_it_was_suspended() {
        // The first figure of this file is that time, in seconds.
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let (before, now, after) = (uptime(), Steady::System.now().as_secs_f64(), uptime());
        assert!(before - 0.1 <= now && now <= after + 0.1, "{before} {now} {after}");
    }
}
