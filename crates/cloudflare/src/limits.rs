//! The service's own limits, as published in November 2026, each by its public name.
//!
//! Where the service has widened a range since, the wider one is accepted; defaults are what they always were. Settings
//! of consumers have theirs where consumers are ([`kew_push::limits`]).

use std::time::Duration;

use kew_push::Limit;

/// Delivery delay of a queue, of a message and of a batch, in seconds: 24 hours (12 at first).
pub(crate) const DELIVERY_DELAY: Limit = Limit { name: "delivery_delay", min: 0, max: 86_400, default: 0 };
/// Message retention period in seconds: 60 seconds to 14 days.
pub(crate) const RETENTION: Limit =
    Limit { name: "message_retention_period", min: 60, max: 1_209_600, default: 345_600 };

/// Message size: 128 KB of 1000 bytes.
pub(crate) const MESSAGE_BYTES: usize = 128_000;
/// Messages per `sendBatch` call.
pub(crate) const BATCH_MESSAGES: usize = 100;
/// Size of a `sendBatch` call in total: 256 KB of 1000 bytes.
pub(crate) const BATCH_BYTES: usize = 256_000;
/// Messages of one pull or peek.
pub(crate) const PULL_MESSAGES: Limit = kew_push::limits::PULL_BATCH_SIZE;
/// How long a pulled message is leased, in milliseconds: up to 12 hours.
pub(crate) const VISIBILITY_TIMEOUT: Limit = kew_push::limits::VISIBILITY_TIMEOUT_MILLIS;
/// The longest a lease may be stretched, by whichever request.
pub(crate) const LEASE_CAP: Duration = Duration::from_secs(43_200);
/// Bytes of bodies in one reply; the first message always fits.
pub(crate) const REPLY_BODY_BYTES: u64 = 8 << 20;
/// Room that is kept for messages that are peeked at until their reply is made.
pub(crate) const PEEKED_BYTES: usize = 1 << 20;
/// Leases of one ack, and references of one purge: ours, ten times the largest pull.
pub(crate) const SETTLED_TOGETHER: usize = 1_000;

/// Queues of one page of the list that does not say; the service's clients read one page.
pub(crate) const PER_PAGE: u32 = 100;
/// Queues of one page at most.
pub(crate) const PER_PAGE_MAX: u32 = 1_000;

/// Characters of a Worker's name.
pub(crate) const SCRIPT_NAME_CHARACTERS: usize = 255;

/// Whether a queue of this name is one here: other dialects have names that are not.
pub(crate) fn is_queue_name(name: &str) -> bool {
    let ends_well = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= 63
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && ends_well(name.bytes().next())
        && ends_well(name.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_are_letters_digits_and_hyphens_within() {
        let longest = "a".repeat(63);
        let too_long = "a".repeat(64);
        for (name, legal) in [
            ("a", true),
            ("A-1", true),
            ("a--b", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a_b", false),
            ("a.fifo", false),
            ("Bad_Name!", false),
            ("é", false),
        ] {
            assert_eq!(is_queue_name(name), legal, "{name}");
        }
    }
}
