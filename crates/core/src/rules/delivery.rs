//! Pauses: a queue that is paused gives no message to any receive or consumer, of any dialect.
//!
//! Everything else goes on: sends, looks, acks and releases of messages that were leased before, moves and deaths.

use crate::Policy;

/// Whether a queue gives messages to those who ask for them.
pub fn is_open(policy: &Policy) -> bool {
    !policy.paused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_open_until_it_is_paused() {
        assert!(is_open(&Policy::standard()) && is_open(&Policy::fifo()));
        assert!(!is_open(&Policy { paused: true, ..Policy::standard() }));
    }
}
