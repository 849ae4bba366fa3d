//! How long the latest statements of a lane took.

use std::time::Duration;

/// Statements that are remembered.
const LATEST: usize = 512;

/// The latest of them.
#[derive(Default)]
pub(super) struct Took {
    latest: Vec<Duration>,
    /// Where the next one goes.
    next: usize,
}

impl Took {
    /// Notes one that has ended.
    pub fn note(&mut self, took: Duration) {
        match self.latest.get_mut(self.next) {
            Some(oldest) => *oldest = took,
            None => self.latest.push(took),
        }
        self.next = (self.next + 1) % LATEST;
    }

    /// All of them, in no order.
    pub fn latest(&self) -> Vec<Duration> {
        self.latest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_no_more() {
        let mut took = Took::default();
        assert_eq!(took.latest(), []);
        for number in 0..LATEST as u64 + 3 {
            took.note(Duration::from_millis(number));
        }
        let mut latest = took.latest();
        latest.sort_unstable();
        assert_eq!(latest.len(), LATEST);
        assert_eq!(latest.first(), Some(&Duration::from_millis(3)));
    }
}
