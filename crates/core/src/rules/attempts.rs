//! Receive-attempt ids: a receive that is asked again gives the same messages again.

use std::time::Duration;

use crate::Timestamp;

/// How long after the first receive its id may be used again.
pub const WINDOW: Duration = Duration::from_secs(300);

/// Whether a receive `now` may repeat one first answered at `first_at`.
///
/// The caller adds: and each of its leases still runs and was never changed. Then the same messages come with the
/// same receipts and a fresh length; attempts are not raised and the cap's start does not move.
pub fn may_repeat(first_at: Timestamp, now: Timestamp) -> bool {
    now < first_at.plus(WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_may_be_repeated_for_five_minutes() {
        assert!(may_repeat(Timestamp(0), Timestamp(299_999)));
        assert!(!may_repeat(Timestamp(0), Timestamp(300_000)));
    }
}
