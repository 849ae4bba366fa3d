//! Leases: when a message is hidden, when it is offered again, and which receipts still count.

use std::time::Duration;

use crate::{ReceiptRule, RuleError, Timestamp, WhenFree};

/// Offered from the very instant the lease or delay ends, not one tick later.
pub fn is_visible(visible_at: Timestamp, now: Timestamp) -> bool {
    visible_at <= now
}

/// The end of a lease taken `now`. A zero length ends it at once: leased, counted, and offered again.
pub fn lease_until(now: Timestamp, length: Duration) -> Timestamp {
    now.plus(length)
}

/// The new end of a lease, counted from the call and not from the lease.
///
/// The cap counts from the arrival of the request that took the lease, and extending never resets it.
pub fn extend_until(
    received_at: Timestamp,
    cap: Option<Duration>,
    now: Timestamp,
    length: Duration,
) -> Result<Timestamp, RuleError> {
    let until = now.plus(length);
    match cap {
        Some(cap) if until > received_at.plus(cap) => Err(RuleError::LeaseTooLong { cap }),
        _ => Ok(until),
    }
}

/// How the end of a lease is recorded and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LeaseEnd {
    /// Its time is over.
    #[default]
    RanOut,
    /// Its holder gave it back, by hiding the message for no time.
    GivenBack,
    /// A message that was free was hidden for no time: it was not leased, and nothing is recorded.
    Unrecorded,
}

/// How the end of a lease that is set to `until` now will be recorded; `was_leased` says whether one was running.
pub fn lease_end(was_leased: bool, until: Timestamp, now: Timestamp) -> LeaseEnd {
    match (until <= now, was_leased) {
        (false, _) => LeaseEnd::RanOut,
        (true, true) => LeaseEnd::GivenBack,
        (true, false) => LeaseEnd::Unrecorded,
    }
}

/// What an extension does to a message that is free: a caller that acts out of turn hides nothing.
pub fn when_free(rule: ReceiptRule, asked: WhenFree) -> WhenFree {
    match rule {
        ReceiptRule::OutOfTurn => WhenFree::Ignore,
        ReceiptRule::Any | ReceiptRule::Current | ReceiptRule::Unexpired => asked,
    }
}

/// What is known of a message when one of its receipts comes back.
#[derive(Clone, Copy, Debug)]
pub struct Receipts {
    /// The nonce of its newest receipt.
    pub newest: u64,
    /// Whether the newest receipt came from a lease, and when that lease ended or will end.
    pub lease_end: Option<Timestamp>,
}

/// Whether a genuine receipt with this `nonce` still counts.
pub fn check_receipt(
    rule: ReceiptRule,
    nonce: u64,
    known: Receipts,
    now: Timestamp,
) -> Result<(), RuleError> {
    match rule {
        ReceiptRule::Any | ReceiptRule::OutOfTurn => Ok(()),
        ReceiptRule::Current if nonce == known.newest => Ok(()),
        ReceiptRule::Current => Err(RuleError::TokenStale),
        // The last instant still counts: a consumer that acks in that very millisecond was in time.
        ReceiptRule::Unexpired if nonce == known.newest && known.lease_end.is_some_and(|end| now <= end) => {
            Ok(())
        }
        ReceiptRule::Unexpired => Err(RuleError::LeaseEnded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS_12: Duration = Duration::from_secs(43_200);

    #[test]
    fn message_is_offered_from_the_instant_its_lease_ends() {
        let until = lease_until(Timestamp(1_000), Duration::from_secs(30));
        assert!(!is_visible(until, Timestamp(30_999)));
        assert!(is_visible(until, Timestamp(31_000)));
    }

    #[test]
    fn zero_second_lease_ends_where_it_begins() {
        assert!(is_visible(lease_until(Timestamp(5), Duration::ZERO), Timestamp(5)));
    }

    #[test]
    fn extension_counts_from_the_call() {
        // A minute's lease, fifteen seconds in, set to ten seconds: visible at twenty-five.
        let until = extend_until(Timestamp(0), Some(HOURS_12), Timestamp(15_000), Duration::from_secs(10));
        assert_eq!(until, Ok(Timestamp(25_000)));
    }

    #[test]
    fn lease_that_is_set_to_end_now_is_given_back() {
        assert_eq!(lease_end(true, Timestamp(6), Timestamp(5)), LeaseEnd::RanOut);
        assert_eq!(lease_end(true, Timestamp(5), Timestamp(5)), LeaseEnd::GivenBack);
        assert_eq!(lease_end(false, Timestamp(5), Timestamp(5)), LeaseEnd::Unrecorded);
        assert_eq!(lease_end(false, Timestamp(6), Timestamp(5)), LeaseEnd::RanOut);
    }

    #[test]
    fn lease_stretches_to_its_cap_and_not_past_it() {
        let cap = Some(HOURS_12);
        let received = Timestamp(1_000);
        assert_eq!(extend_until(received, cap, received, HOURS_12), Ok(received.plus(HOURS_12)));
        let late = Timestamp(1_001);
        assert_eq!(
            extend_until(received, cap, late, HOURS_12),
            Err(RuleError::LeaseTooLong { cap: HOURS_12 })
        );
        assert!(extend_until(received, cap, late, Duration::from_secs(43_195)).is_ok());
        assert!(extend_until(received, None, late, HOURS_12 * 2).is_ok());
    }

    #[test]
    fn receipt_of_a_running_lease_counts_through_its_last_instant() {
        let known = Receipts { newest: 1, lease_end: Some(Timestamp(10)) };
        let rule = ReceiptRule::Unexpired;
        assert_eq!(check_receipt(rule, 1, known, Timestamp(9)), Ok(()));
        assert_eq!(check_receipt(rule, 1, known, Timestamp(10)), Ok(()));
        assert_eq!(check_receipt(rule, 1, known, Timestamp(11)), Err(RuleError::LeaseEnded));
        assert_eq!(check_receipt(rule, 2, known, Timestamp(9)), Err(RuleError::LeaseEnded));
        let never_leased = Receipts { newest: 1, lease_end: None };
        assert_eq!(check_receipt(rule, 1, never_leased, Timestamp(9)), Err(RuleError::LeaseEnded));
    }

    #[test]
    fn newest_receipt_outlives_its_lease_and_older_ones_do_not() {
        let known = Receipts { newest: 1, lease_end: Some(Timestamp(10)) };
        assert_eq!(check_receipt(ReceiptRule::Current, 1, known, Timestamp(99)), Ok(()));
        assert_eq!(check_receipt(ReceiptRule::Current, 2, known, Timestamp(5)), Err(RuleError::TokenStale));
        assert_eq!(check_receipt(ReceiptRule::Any, 2, known, Timestamp(99)), Ok(()));
    }
}
