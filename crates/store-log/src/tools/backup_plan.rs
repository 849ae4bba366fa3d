//! How a backup is made: what it shares with the store, what it leaves free, and how fast it reads.

use std::time::{Duration, Instant};

use crate::error::LogError;

/// Bytes that stay free beside a backup: for its list, and for others that write to that disk.
const FREE_KEPT: u64 = 64 << 20;
/// How fast files are read for their checksums that the file system shared: the disk may be the store's own.
const READ_PER_SECOND_MAX: u64 = 64 << 20;

/// What a backup has in common with the store it was made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Nothing: every file is a copy.
    Nothing,
    /// Files that do not change any more are the store's own, under a second name.
    Links,
}

/// How a backup is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackupPlan {
    /// What it shares with the store.
    pub sharing: Sharing,
    /// Bytes that must stay free on its disk; a backup that would leave less does not begin.
    pub free_kept: u64,
    /// How fast shared files are read for their checksums.
    pub read_per_second_max: u64,
}

impl BackupPlan {
    /// The plan for a store that others use meanwhile.
    pub fn of(sharing: Sharing) -> Self {
        Self { sharing, free_kept: FREE_KEPT, read_per_second_max: READ_PER_SECOND_MAX }
    }

    /// The plan for a store that is not in use: nothing waits for the disk.
    pub fn alone(sharing: Sharing) -> Self {
        Self { read_per_second_max: u64::MAX, ..Self::of(sharing) }
    }

    /// Refuses a backup of this number of bytes where so little is free.
    pub(super) fn check_room(&self, bytes: u64, free: u64) -> Result<(), LogError> {
        if bytes.checked_add(self.free_kept).is_some_and(|wanted| wanted <= free) {
            return Ok(());
        }
        let what = format!(
            "the backup: it takes {bytes} bytes, {} must stay free, and {free} are free",
            self.free_kept
        );
        Err(LogError::NoSpace { what })
    }
}

/// Keeps reads to a rate.
pub(super) struct Pacer {
    per_second: u64,
    begun: Instant,
    bytes: u64,
}

impl Pacer {
    pub(super) fn begin(per_second: u64) -> Self {
        Self { per_second, begun: Instant::now(), bytes: 0 }
    }

    /// Waits until these bytes and those before them may have been read.
    pub(super) fn read(&mut self, bytes: u64) {
        self.bytes += bytes;
        let pause = pause(self.bytes, self.begun.elapsed(), self.per_second);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// How long to wait after this number of bytes in this time.
fn pause(bytes: u64, passed: Duration, per_second: u64) -> Duration {
    let due = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.max(1));
    Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX)).saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_begins_where_exactly_enough_stays_free() {
        let plan = BackupPlan { free_kept: 10, ..BackupPlan::of(Sharing::Nothing) };
        assert!(plan.check_room(90, 100).is_ok() && plan.check_room(0, 10).is_ok());
        let refused = plan.check_room(91, 100).map_err(|error| error.to_string());
        let why = "no space left for the backup: it takes 91 bytes, 10 must stay free, and 100 are free";
        assert_eq!(refused, Err(why.to_owned()));
        assert!(plan.check_room(u64::MAX, u64::MAX).is_err(), "the sum is no smaller number");
    }

    #[test]
    fn reads_keep_to_their_rate_and_time_that_passed_counts() {
        let (second, none) = (Duration::from_secs(1), Duration::ZERO);
        for (bytes, passed, per_second, expected) in [
            (64, none, 64, second),
            (64, Duration::from_millis(400), 64, Duration::from_millis(600)),
            (64, second, 64, none),
            (64, 2 * second, 64, none),
            (0, none, 64, none),
            (1 << 40, none, u64::MAX, Duration::from_nanos(59)),
            (2, none, 0, 2 * second),
        ] {
            assert_eq!(pause(bytes, passed, per_second), expected, "{bytes} in {passed:?} at {per_second}");
        }
    }
}
