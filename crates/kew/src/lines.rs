//! Bounds the lines about something that begins and ends again and again, such as a database that flaps.

use std::time::{Duration, Instant};

/// As many lines as this are logged in a window of time.
const LINES_MAX: u32 = 6;
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the lines about one thing.
#[derive(Default)]
pub(crate) struct Lines {
    /// When the window began, and how many lines it has.
    window: Option<(Instant, u32)>,
}

impl Lines {
    /// Whether one more line may be logged now; it is counted then.
    pub fn take(&mut self, now: Instant) -> bool {
        let window = self.window.filter(|(begun, _)| now.duration_since(*begun) < WINDOW);
        let (begun, lines) = window.unwrap_or((now, 0));
        let may = lines < LINES_MAX;
        self.window = Some((begun, lines + u32::from(may)));
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_window_are_bounded_and_the_next_window_has_its_own() {
        let (mut lines, begun) = (Lines::default(), Instant::now());
        let taken = |lines: &mut Lines, from: u64| {
            (0..600).filter(|tenths| lines.take(begun + Duration::from_millis(from + tenths * 100))).count()
        };
        assert_eq!(taken(&mut lines, 0), 6);
        assert_eq!(taken(&mut lines, 60_000), 6);
    }
}
