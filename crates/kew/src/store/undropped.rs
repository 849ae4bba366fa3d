//! Logs that tables of removed files cannot be dropped in PostgreSQL: they take space meanwhile.

use std::time::{Duration, Instant};

use kew_log_pg::Undropped;

use crate::lines::Lines;
use crate::log::{Level, Log};

/// A reader that goes on for less than this is not worth a line.
const TELLS_AFTER: Duration = Duration::from_secs(30);
/// It is logged again after this, while it lasts.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// What was logged about them.
#[derive(Default)]
pub(crate) struct Leftovers {
    /// When it was logged last that tables cannot be dropped, until it was logged that they can.
    logged: Option<Instant>,
    lines: Lines,
}

impl Leftovers {
    /// Looks at the tables that cannot be dropped.
    pub fn look(&mut self, log: Log, undropped: Option<Undropped>) {
        let now = Instant::now();
        let lasts = undropped.as_ref().map(|undropped| undropped.lasts);
        if !self.is_news(now, lasts) {
            return;
        }
        match undropped {
            Some(undropped) => {
                let line = "tables of removed files cannot be dropped yet and take space; that is tried again until it can";
                let tables = undropped.tables.to_string();
                log.tell(Level::Warn, line, &[("tables", &tables), ("cause", &undropped.cause)]);
            }
            None => log.tell(Level::Info, "the tables of removed files were dropped", &[]),
        }
    }

    /// Whether something is to be logged of a state that has lasted for so long; `None` where all were dropped.
    fn is_news(&mut self, now: Instant, lasts: Option<Duration>) -> bool {
        let is_due = match (self.logged, lasts) {
            (None, Some(lasts)) => lasts > TELLS_AFTER,
            (Some(logged), Some(_)) => now.duration_since(logged) > AGAIN_AFTER,
            (Some(_), None) => true,
            (None, None) => false,
        };
        let is_news = is_due && self.lines.take(now);
        if is_news {
            self.logged = lasts.map(|_| now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_that_goes_on_is_logged_once_an_hour_and_when_it_has_ended() {
        let (mut leftovers, begun) = (Leftovers::default(), Instant::now());
        let mut news = |second: u64, lasts: Option<u64>| {
            leftovers.is_news(begun + Duration::from_secs(second), lasts.map(Duration::from_secs))
        };
        let day = (0..24 * 3_600).filter(|second| news(*second, Some(*second))).count();
        assert_eq!(day, 24, "a reader of a day");
        assert!(news(24 * 3_600, None));
        assert!(!news(24 * 3_600 + 1, None));
        let short =
            (0..1_000).filter(|round| news(90_000 + round * 60, Some(20)) || news(90_030 + round * 60, None));
        assert_eq!(short.count(), 0, "readers that end soon");
    }
}
