//! When a message dies unread.

use std::time::Duration;

use crate::{Expiry, Timestamp};

/// The instant a message is gone, whatever it is doing; `None` is never.
pub fn expires_at(sent_at: Timestamp, expiry: Expiry, retention: Duration) -> Option<Timestamp> {
    match expiry {
        Expiry::ByQueue => Some(sent_at.plus(retention)),
        Expiry::After { seconds } => Some(sent_at.plus(Duration::from_secs(u64::from(seconds)))),
        Expiry::Never => None,
    }
}

/// Gone from the very instant.
pub fn is_expired(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|at| at <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_gone_from_the_instant_its_time_is_over() {
        let at = expires_at(Timestamp(500), Expiry::ByQueue, Duration::from_secs(60));
        assert!(!is_expired(at, Timestamp(60_499)));
        assert!(is_expired(at, Timestamp(60_500)));
    }

    #[test]
    fn own_time_to_live_beats_the_queue_both_ways() {
        let day = Duration::from_secs(86_400);
        assert_eq!(expires_at(Timestamp(0), Expiry::After { seconds: 1 }, day), Some(Timestamp(1_000)));
        assert_eq!(expires_at(Timestamp(0), Expiry::Never, day), None);
        assert!(!is_expired(None, Timestamp::NEVER));
    }
}
