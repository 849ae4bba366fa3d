//! Groups of a FIFO queue: what may be offered of one, and which group is next.
//!
//! A group offers its messages from the head up to the first that is leased or hidden. So nothing overtakes within a
//! group: a leased or delayed head blocks what is behind it and nothing else. Groups that offer something stand in a
//! rotation. A receive takes as much as it can from the first, then goes on with the next. A group that was served,
//! or that begins to offer again, stands at the back.

use crate::{State, Timestamp};

use super::visibility::is_visible;

/// Whether a message in this state may be offered, if nothing before it in its group is in the way.
pub fn is_offerable(state: State, now: Timestamp) -> bool {
    match state {
        State::Ready => true,
        State::Delayed { until } | State::Leased { until } => is_visible(until, now),
    }
}

/// How many messages a group offers, given the states of its messages in send order.
pub fn offered(states: impl IntoIterator<Item = State>, now: Timestamp) -> usize {
    states.into_iter().take_while(|state| is_offerable(*state, now)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: State = State::Ready;
    const LEASED: State = State::Leased { until: Timestamp(10) };
    const DELAYED: State = State::Delayed { until: Timestamp(10) };

    #[test]
    fn leased_head_blocks_its_group() {
        assert_eq!(offered([LEASED, READY, READY], Timestamp(9)), 0);
        assert_eq!(offered([LEASED, READY, READY], Timestamp(10)), 3);
    }

    #[test]
    fn head_made_visible_is_offered_alone_while_the_second_is_leased() {
        assert_eq!(offered([READY, LEASED, READY], Timestamp(0)), 1);
    }

    #[test]
    fn delayed_message_does_not_block_earlier_visible_ones() {
        assert_eq!(offered([READY, READY, DELAYED], Timestamp(0)), 2);
    }

    #[test]
    fn delayed_head_blocks_its_group() {
        assert_eq!(offered([DELAYED, READY], Timestamp(9)), 0);
    }

    #[test]
    fn empty_group_offers_nothing() {
        assert_eq!(offered([], Timestamp(0)), 0);
    }
}
