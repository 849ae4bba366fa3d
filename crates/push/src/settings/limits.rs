//! The bounds and defaults of a consumer's settings, each by the name people write.

use std::time::Duration;

use thiserror::Error;

/// A setting's bounds and its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Its name, with its unit.
    pub name: &'static str,
    /// The least it may be.
    pub min: u32,
    /// The most it may be.
    pub max: u32,
    /// What it is when it is not set.
    pub default: u32,
}

/// Messages of one batch to a pushed consumer.
pub const PUSH_BATCH_SIZE: Limit = Limit { name: "batch_size", min: 1, max: 100, default: 10 };
/// Messages of one pull that does not say.
pub const PULL_BATCH_SIZE: Limit = Limit { name: "batch_size", min: 1, max: 100, default: 5 };
/// How long a batch waits to fill, from its first message.
pub const MAX_WAIT_MILLIS: Limit = Limit { name: "max_wait_time_ms", min: 0, max: 60_000, default: 5_000 };
/// Deliveries after the first.
pub const MAX_RETRIES: Limit = Limit { name: "max_retries", min: 0, max: 100, default: 3 };
/// How long a message rests before it is delivered again, when its retry names no delay.
pub const RETRY_DELAY_SECONDS: Limit = Limit { name: "retry_delay", min: 0, max: 86_400, default: 0 };
/// Batches under way at once; not set, it follows the backlog up to the most.
pub const MAX_CONCURRENCY: Limit = Limit { name: "max_concurrency", min: 1, max: 250, default: 250 };
/// How long a pulled message is leased when the pull does not say.
pub const VISIBILITY_TIMEOUT_MILLIS: Limit =
    Limit { name: "visibility_timeout_ms", min: 0, max: 43_200_000, default: 30_000 };
/// How long a webhook may take to answer.
pub const WEBHOOK_TIMEOUT_MILLIS: Limit =
    Limit { name: "timeout_ms", min: 1_000, max: 900_000, default: 30_000 };

/// A setting that is not what it may be.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{} must be a whole number from {} to {}, and is {given}", limit.name, limit.min, limit.max)]
pub struct OutOfRange {
    /// Which setting.
    pub limit: Limit,
    /// What was given instead.
    pub given: i64,
}

impl Limit {
    /// The setting, or its default when it is not given.
    pub fn check(&self, given: Option<i64>) -> Result<u32, OutOfRange> {
        let Some(given) = given else { return Ok(self.default) };
        match u32::try_from(given) {
            Ok(number) if (self.min..=self.max).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(OutOfRange { limit: *self, given }),
        }
    }

    /// The setting as milliseconds.
    pub fn check_millis(&self, given: Option<i64>) -> Result<Duration, OutOfRange> {
        self.check(given).map(|millis| Duration::from_millis(u64::from(millis)))
    }

    /// The setting as whole seconds.
    pub fn check_seconds(&self, given: Option<i64>) -> Result<Duration, OutOfRange> {
        self.check(given).map(|seconds| Duration::from_secs(u64::from(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Limit; 8] = [
        PUSH_BATCH_SIZE,
        PULL_BATCH_SIZE,
        MAX_WAIT_MILLIS,
        MAX_RETRIES,
        RETRY_DELAY_SECONDS,
        MAX_CONCURRENCY,
        VISIBILITY_TIMEOUT_MILLIS,
        WEBHOOK_TIMEOUT_MILLIS,
    ];

    #[test]
    fn settings_hold_at_their_edges_and_have_their_defaults() {
        for limit in ALL {
            let (min, max) = (i64::from(limit.min), i64::from(limit.max));
            assert_eq!(limit.check(None), Ok(limit.default), "{limit:?}");
            assert_eq!(limit.check(Some(min)), Ok(limit.min), "{limit:?}");
            assert_eq!(limit.check(Some(max)), Ok(limit.max), "{limit:?}");
            for given in [min - 1, max + 1, i64::MIN, i64::MAX] {
                assert_eq!(limit.check(Some(given)), Err(OutOfRange { limit, given }), "{limit:?}");
            }
        }
    }

    #[test]
    fn refusal_names_the_setting_its_bounds_and_what_was_given() {
        let refused = PUSH_BATCH_SIZE.check(Some(101)).expect_err("it is too large");
        assert_eq!(refused.to_string(), "batch_size must be a whole number from 1 to 100, and is 101");
    }
}
