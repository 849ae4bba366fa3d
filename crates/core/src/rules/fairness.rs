//! Fair dispatch on a standard queue: a group that holds most of the leases, or most of what is stored, does not starve
//! the others.

use crate::Timestamp;

/// How many ready messages are looked at for a quiet group's before the first one is taken anyway.
pub const LOOK_AHEAD: usize = 4_096;

/// After this many messages were looked at in vain, this many choices are made without looking. The look goes on where
/// the messages that were taken meanwhile have let it: with it each choice looks at sixteen messages on average.
pub const LOOK_AGAIN_AFTER: u32 = 256;

/// Fewer leases, and fewer messages, than this never make a group noisy.
pub const NOISY_FROM: u32 = 30;

/// One choice in this many takes the first message, also of a group with a noisy backlog.
const FRONT_EVERY: u64 = 10;

/// Whether a group holds enough of the leases, or enough of the stored messages, to stand back: thirty or more, and
/// over a tenth.
pub fn is_noisy(of_group: u64, of_queue: u64) -> bool {
    of_group >= u64::from(NOISY_FROM) && of_group.saturating_mul(10) > of_queue
}

/// Whether a choice takes the first message although its group's backlog is noisy, so that a backlog is worked off
/// however much quiet groups send. Within a receive that is every tenth choice, since each adds a lease; between
/// receives the clock decides. A group that is noisy by its leases stands back at every choice: they end.
pub fn is_turn_of_the_front(now: Timestamp, leases_of_queue: u64) -> bool {
    now.0.wrapping_add(leases_of_queue) % FRONT_EVERY == FRONT_EVERY - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_noisy_from_thirty_and_more_than_a_tenth() {
        assert!(!is_noisy(29, 29));
        assert!(is_noisy(30, 30));
        assert!(is_noisy(30, 299));
        assert!(!is_noisy(30, 300));
    }

    #[test]
    fn one_of_ten_choices_takes_the_front_in_a_receive_and_over_time() {
        for start in [0, 7, 1_767_225_600_123] {
            let of_receive =
                (0..100).filter(|leases| is_turn_of_the_front(Timestamp(start), *leases)).count();
            let of_time = (0..100).filter(|ms| is_turn_of_the_front(Timestamp(start + ms), 3)).count();
            assert_eq!((of_receive, of_time), (10, 10));
        }
    }
}
