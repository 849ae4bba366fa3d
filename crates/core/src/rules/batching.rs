//! How many messages fit one reply or one batch.

/// Whether a message still fits beside `taken_bytes` of others; the first one always does.
pub fn fits(taken: usize, taken_bytes: u64, next_bytes: u64, bytes_max: u64) -> bool {
    taken == 0 || taken_bytes.saturating_add(next_bytes) <= bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_message_always_fits() {
        assert!(fits(0, 0, 1 << 20, 1));
        assert!(fits(1, 4, 6, 10));
        assert!(!fits(1, 5, 6, 10));
    }
}
