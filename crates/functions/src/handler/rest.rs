//! How long a handler that ends of its own will rests before it is started again: not at all, unless it does so over
//! and over.

use std::time::Duration;

/// Who lives longer has done some work.
const LONG_LIFE: Duration = Duration::from_secs(60);
const MIN: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(30);

/// The rests of one handler.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Short lives in a row.
    short: u32,
}

impl Rest {
    /// The rest after a life of this length.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= LONG_LIFE {
            self.short = 0;
        }
        let Some(doublings) = self.short.checked_sub(1) else {
            self.short = 1;
            return Duration::ZERO;
        };
        self.short = self.short.saturating_add(1);
        MIN.saturating_mul(1 << doublings.min(16)).min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(rest: &mut Rest, lives: &[u64]) -> Vec<u128> {
        lives.iter().map(|seconds| rest.after(Duration::from_secs(*seconds)).as_millis()).collect()
    }

    #[test]
    fn who_ends_at_once_again_and_again_rests_longer_and_longer() {
        let mut rest = Rest::default();
        let expected = [0, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000];
        assert_eq!(millis(&mut rest, &[0; 11]), expected);
    }

    #[test]
    fn who_has_lived_for_a_while_is_started_at_once() {
        let mut rest = Rest::default();
        assert_eq!(millis(&mut rest, &[59, 59, 60, 0, 1_800, 1_800]), [0, 200, 0, 200, 0, 0]);
    }
}
