//! When a message expires, and what happens while the clock is in doubt.
//!
//! After a leap of the clock expiry can be held: until the hold is moved or lifted no message expires whose time is
//! over after the instant that it names. Leases and delays end as usual meanwhile.

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

/// Expiry is held: the clock leapt, and may be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiryHold {
    /// Messages whose time is over by this instant expire. Others do not, however late it is.
    pub through: Timestamp,
    /// What ends it.
    pub until: HoldEnd,
}

/// What ends a hold of expiry, beside a clock that comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldEnd {
    /// A person confirms that the clock is right.
    Confirmed,
    /// The clock has run evenly for a while.
    Settled,
}

/// The instant a message expires while nothing expires that is over after `through`; `None` is not for now.
pub fn expires_unless_held(expires_at: Option<Timestamp>, through: Timestamp) -> Option<Timestamp> {
    expires_at.filter(|at| *at <= through)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_message_expires_up_to_the_very_instant_of_the_hold() {
        let through = Timestamp(500);
        assert_eq!(expires_unless_held(Some(Timestamp(500)), through), Some(Timestamp(500)));
        assert_eq!(expires_unless_held(Some(Timestamp(501)), through), None);
        assert_eq!(expires_unless_held(Some(Timestamp(501)), Timestamp::NEVER), Some(Timestamp(501)));
        assert_eq!(expires_unless_held(None, Timestamp::NEVER), None);
    }

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
