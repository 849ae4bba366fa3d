//! What a redrive by filter knows of the messages before it: those that its latest look chose and no step has moved.
//!
//! A slow task would read a thousand messages to move one, if it looked before each step. So it keeps what it chose,
//! for a few seconds: what was leased and came back since the look has another receipt, and would be passed by.

use std::collections::VecDeque;
use std::time::Duration;

use kew_core::{LeaseToken, Sequence, Timestamp};
use kew_engine::Chosen;

/// How long, in engine time, what a look chose may be moved by it.
const LASTS: Duration = Duration::from_secs(10);
/// Messages that a look brings at most.
const LOOK_MAX: u32 = 1_000;
/// And at least.
const LOOK_MIN: u32 = 10;

/// What is known of the messages that no step has taken.
#[derive(Debug, Default)]
pub(super) struct Looked {
    chosen: VecDeque<(Sequence, LeaseToken)>,
    /// Where the messages begin behind those; none when there are no more.
    next: Option<Sequence>,
    /// When they were chosen.
    at: Timestamp,
    /// Messages that the next look brings.
    max: u32,
    /// Messages that fit which a look had best find: what can be moved while it lasts.
    wanted: u32,
}

impl Looked {
    /// Nothing yet. The first look of a slow task brings what it can move while a look lasts.
    pub(super) fn new(rate_max: Option<u32>) -> Self {
        let per_look = rate_max.map_or(LOOK_MAX, |rate| rate.saturating_mul(LASTS.as_secs() as u32));
        let wanted = per_look.clamp(LOOK_MIN, LOOK_MAX);
        Self { next: Some(Sequence(0)), max: wanted, wanted, ..Self::default() }
    }

    /// Where a look is needed before the next step, and how many messages it brings.
    pub(super) fn next_look(&mut self, now: Timestamp) -> Option<(Sequence, u32)> {
        if let Some((first, _)) = self.chosen.front()
            && now.since(self.at) >= LASTS
        {
            self.again_from(*first);
        }
        if self.chosen.is_empty() { self.next.map(|from| (from, self.max)) } else { None }
    }

    /// Takes what a look found. Where few messages fit, the next one brings more; where many do, fewer.
    pub(super) fn put(&mut self, chosen: Chosen, now: Timestamp) {
        let found = u32::try_from(chosen.messages.len()).unwrap_or(u32::MAX);
        if found < self.wanted / 2 {
            self.max = self.max.saturating_mul(2).min(LOOK_MAX);
        } else if found > self.wanted {
            self.max = (self.max.saturating_mul(self.wanted) / found).max(self.wanted);
        }
        (self.chosen, self.next, self.at) = (chosen.messages, chosen.next, now);
    }

    /// Messages for one step, and the sequence of the first of them.
    pub(super) fn take(&mut self, max: u32) -> (Option<Sequence>, Vec<LeaseToken>) {
        let first = self.chosen.front().map(|(sequence, _)| *sequence);
        let count = self.chosen.len().min(max as usize);
        (first, self.chosen.drain(..count).map(|(_, token)| token).collect())
    }

    /// Has the next look begin there.
    pub(super) fn again_from(&mut self, first: Sequence) {
        self.chosen.clear();
        self.next = Some(first);
    }

    pub(super) fn is_over(&self) -> bool {
        self.chosen.is_empty() && self.next.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::QueueId;

    /// How many messages the look brings that follows one which found this many.
    fn next_max(looked: &mut Looked, found: u64) -> u32 {
        let token = LeaseToken { queue: QueueId(1), sequence: Sequence(1), nonce: 0, mac: 0 };
        let messages = (0..found).map(|number| (Sequence(number), token)).collect();
        looked.put(Chosen { messages, next: Some(Sequence(found)) }, Timestamp(0));
        let _all = looked.take(u32::MAX);
        looked.next_look(Timestamp(0)).expect("the selection has further messages").1
    }

    #[test]
    fn looks_grow_where_little_fits_and_shrink_again_where_much_does() {
        let mut looked = Looked::new(Some(1));
        let grown: Vec<u32> = (0..8).map(|_| next_max(&mut looked, 0)).collect();
        assert_eq!(grown, [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(next_max(&mut looked, 10), 1_000, "one in a hundred fits");
        assert_eq!(next_max(&mut looked, 100), 100, "one in ten");
        assert_eq!(next_max(&mut looked, 100), 10, "all do");
        assert_eq!(next_max(&mut looked, 10), 10);
        let mut fast = Looked::new(None);
        assert_eq!([0, 1_000].map(|found| next_max(&mut fast, found)), [1_000, 1_000]);
    }
}
