//! How long a listener pauses after a poll that found nothing: random, growing, up to the longest polling interval.

use std::time::Duration;

const MIN: Duration = Duration::from_millis(100);
const DELTA: Duration = Duration::from_millis(100);

/// The pauses of one listener.
#[derive(Debug)]
pub(crate) struct BackOff {
    max: Duration,
    current: Duration,
    exponent: u32,
}

impl BackOff {
    /// Pauses of at most `max`.
    pub(crate) fn new(max: Duration) -> Self {
        Self { max, current: Duration::ZERO, exponent: 0 }
    }

    /// The next pause. `found` says whether a message was found since the one before; `chance` is uniform in [0, 1).
    pub(crate) fn next(&mut self, found: bool, chance: f64) -> Duration {
        if found {
            self.current = MIN;
            self.exponent = 1;
        } else if self.current != self.max {
            let spread = 0.8 + 0.4 * chance.clamp(0.0, 1.0);
            // The very first pause has no random part.
            let times =
                self.exponent.checked_sub(1).map_or(0.0, |power| 2_f64.powi(power.min(62).cast_signed()));
            let next = MIN.saturating_add(
                Duration::try_from_secs_f64(DELTA.as_secs_f64() * times * spread).unwrap_or(Duration::MAX),
            );
            if next < self.max {
                self.current = next;
                self.exponent += 1;
            } else {
                self.current = self.max;
            }
        }
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(pauses: &mut BackOff, founds: &[bool]) -> Vec<u128> {
        founds.iter().map(|found| pauses.next(*found, 0.5).as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_stay_there() {
        let mut pauses = BackOff::new(Duration::from_secs(60));
        let expected = [100, 200, 300, 500, 900, 1_700, 3_300, 6_500, 12_900, 25_700, 51_300, 60_000, 60_000];
        assert_eq!(millis(&mut pauses, &[false; 13]), expected);
    }

    #[test]
    fn a_message_brings_the_shortest_pause_back() {
        let mut pauses = BackOff::new(Duration::from_secs(2));
        assert_eq!(millis(&mut pauses, &[false; 7]), [100, 200, 300, 500, 900, 1_700, 2_000]);
        assert_eq!(millis(&mut pauses, &[true, false, false, true]), [100, 200, 300, 100]);
    }

    #[test]
    fn the_shortest_interval_allowed_is_kept_to() {
        let mut pauses = BackOff::new(Duration::from_millis(100));
        assert_eq!(millis(&mut pauses, &[false, false, true, false]), [100, 100, 100, 100]);
    }

    proptest! {
        #[test]
        fn the_random_part_is_a_fifth_either_way(chance in 0.0..1.0_f64) {
            let mut pauses = BackOff::new(Duration::from_secs(60));
            let all: Vec<f64> = (0..6).map(|_| pauses.next(false, chance).as_secs_f64()).collect();
            prop_assert_eq!(all[0], 0.1);
            for (place, pause) in all.iter().enumerate().skip(1) {
                let random = pause - 0.1;
                let middle = 0.1 * 2_f64.powi(i32::try_from(place).unwrap() - 1);
                prop_assert!(random >= middle * 0.79 && random <= middle * 1.21, "{place}: {pause}");
            }
        }
    }
}
