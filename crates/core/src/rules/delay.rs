//! Delays of new messages, and the place a message takes when it shows.

use std::time::Duration;

use crate::{Policy, Return, RuleError, Timestamp};

/// How long a new message is hidden: its own delay, which may be zero, else the queue's.
///
/// A FIFO queue delays all its messages alike, or order would break: zero is accepted and means the queue's delay.
pub fn of_new_message(own: Option<Duration>, policy: &Policy) -> Result<Duration, RuleError> {
    match own {
        Some(own) if !policy.kind.is_fifo() => Ok(own),
        Some(own) if !own.is_zero() => Err(RuleError::DelayNotAllowed),
        _ => Ok(policy.delay),
    }
}

/// A message's rank among the ready ones: they are offered by (rank, sequence).
pub fn rank(returns: Return, in_place: Timestamp, visible_at: Timestamp) -> Timestamp {
    match returns {
        Return::InPlace => in_place,
        Return::Behind => visible_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn own_delay_wins_also_when_it_is_zero() {
        let policy = Policy { delay: SECOND * 60, ..Policy::standard() };
        assert_eq!(of_new_message(None, &policy), Ok(SECOND * 60));
        assert_eq!(of_new_message(Some(Duration::ZERO), &policy), Ok(Duration::ZERO));
        assert_eq!(of_new_message(Some(SECOND * 90), &policy), Ok(SECOND * 90));
    }

    #[test]
    fn fifo_messages_take_the_delay_of_their_queue() {
        let policy = Policy { delay: SECOND * 60, ..Policy::fifo() };
        assert_eq!(of_new_message(Some(Duration::ZERO), &policy), Ok(SECOND * 60));
        assert_eq!(of_new_message(Some(SECOND), &policy), Err(RuleError::DelayNotAllowed));
    }

    #[test]
    fn message_returns_to_its_place_or_behind() {
        assert_eq!(rank(Return::InPlace, Timestamp(1), Timestamp(9)), Timestamp(1));
        assert_eq!(rank(Return::Behind, Timestamp(1), Timestamp(9)), Timestamp(9));
    }
}
