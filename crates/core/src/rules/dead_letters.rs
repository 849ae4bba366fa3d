//! Dead letters: when a message has been tried often enough, and what it takes along.

use crate::{Carries, DeadLetterRule, Timestamp};

/// Whether a message leased so often gets no further lease.
pub fn is_exhausted(attempts: u32, rule: Option<&DeadLetterRule>) -> bool {
    rule.is_some_and(|rule| attempts >= rule.attempts_max)
}

/// When an exhausted message leaves whose lease ended by itself at `lease_end`.
///
/// The very next instant, not that one: an ack in the lease's last millisecond still counts.
pub fn leaves_at(lease_end: Timestamp) -> Timestamp {
    lease_end.next()
}

/// What a dead letter arrives with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// What retention counts from.
    pub sent_at: Timestamp,
    /// Its attempts so far.
    pub attempts: u32,
    /// When it was first leased, if that is kept.
    pub first_leased_at: Option<Timestamp>,
    /// Whether the target's own delay applies.
    pub delayed: bool,
}

/// What a dead letter takes along, by who wrote the rule.
pub fn arrival(
    carries: Carries,
    now: Timestamp,
    sent_at: Timestamp,
    attempts: u32,
    first_leased_at: Option<Timestamp>,
) -> Arrival {
    match carries {
        Carries::History => Arrival { sent_at, attempts, first_leased_at, delayed: false },
        Carries::Nothing => Arrival { sent_at: now, attempts: 0, first_leased_at: None, delayed: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeadLetterAction;

    fn rule(attempts_max: u32) -> DeadLetterRule {
        DeadLetterRule {
            attempts_max,
            then: DeadLetterAction::Drop,
            carries: Carries::History,
            written_by: "test".into(),
        }
    }

    #[test]
    fn message_is_exhausted_at_the_limit_and_not_before() {
        assert!(!is_exhausted(0, Some(&rule(1))));
        assert!(is_exhausted(1, Some(&rule(1))));
        assert!(!is_exhausted(2, Some(&rule(3))));
        assert!(is_exhausted(3, Some(&rule(3))));
        assert!(is_exhausted(4, Some(&rule(3))));
    }

    #[test]
    fn without_a_rule_nothing_is_ever_exhausted() {
        assert!(!is_exhausted(u32::MAX, None));
    }

    #[test]
    fn ack_in_the_last_millisecond_precedes_the_move() {
        assert_eq!(leaves_at(Timestamp(10)), Timestamp(11));
    }

    #[test]
    fn history_is_kept_or_begun_anew() {
        let (sent, first, now) = (Timestamp(1), Some(Timestamp(2)), Timestamp(9));
        let kept = arrival(Carries::History, now, sent, 3, first);
        assert_eq!(kept, Arrival { sent_at: sent, attempts: 3, first_leased_at: first, delayed: false });
        let anew = arrival(Carries::Nothing, now, sent, 3, first);
        assert_eq!(anew, Arrival { sent_at: now, attempts: 0, first_leased_at: None, delayed: true });
    }
}
