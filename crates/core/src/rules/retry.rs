//! Retry delays: how long a message stays hidden after a lease that did not end in an ack.

use std::time::Duration;

use crate::Timestamp;

/// When a message given up `now` with this delay shows again; zero is at once.
pub fn after_release(now: Timestamp, delay: Duration) -> Timestamp {
    now.plus(delay)
}

/// When a message shows whose lease ended by itself, by the delay the lease was taken with.
pub fn after_lapse(lease_end: Timestamp, lapse_delay: Duration) -> Timestamp {
    lease_end.plus(lapse_delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_without_delay_shows_the_message_at_once() {
        assert_eq!(after_release(Timestamp(7), Duration::ZERO), Timestamp(7));
        assert_eq!(after_release(Timestamp(7), Duration::from_secs(60)), Timestamp(60_007));
    }

    #[test]
    fn lapse_delay_counts_from_the_lease_end_and_not_from_when_it_is_noticed() {
        assert_eq!(after_lapse(Timestamp(100), Duration::from_secs(5)), Timestamp(5_100));
    }
}
