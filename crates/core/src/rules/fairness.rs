//! Fair dispatch on a standard queue: a group that holds most of the leases does not starve the others.

/// How many ready messages are looked at for a quiet group's before the first one is taken anyway.
pub const LOOK_AHEAD: usize = 4_096;

/// Fewer leases than this never make a group noisy.
pub const NOISY_LEASES: u32 = 30;

/// Whether a group holds enough of the leases to stand back: thirty or more, and over a tenth.
pub fn is_noisy(leases_of_group: u64, leases_of_queue: u64) -> bool {
    leases_of_group >= u64::from(NOISY_LEASES) && leases_of_group.saturating_mul(10) > leases_of_queue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_noisy_from_thirty_leases_and_more_than_a_tenth() {
        assert!(!is_noisy(29, 29));
        assert!(is_noisy(30, 30));
        assert!(is_noisy(30, 299));
        assert!(!is_noisy(30, 300));
    }
}
