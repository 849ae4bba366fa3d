//! What happened lately, in a ring of fixed-size events.

use std::collections::VecDeque;

use kew_core::{Event, EventKind, QueueId, Sequence, Tally, Timestamp};

/// The newest events.
pub(crate) struct Ring {
    events: VecDeque<Event>,
    max: usize,
    /// All of them, counted, also those that had to make room.
    pub(crate) tally: Tally,
}

impl Ring {
    pub(crate) fn new(max: usize) -> Self {
        Self { events: VecDeque::new(), max, tally: Tally::default() }
    }

    /// Adds an event; the oldest makes room.
    #[inline]
    pub(crate) fn push(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence, kind: EventKind) {
        self.tally.count(&kind);
        self.keep(Event { at, queue, sequence, kind });
    }

    #[inline]
    fn keep(&mut self, event: Event) {
        if self.max == 0 {
            return;
        }
        if self.events.len() >= self.max {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(crate) fn expired(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence) {
        self.push(at, queue, sequence, EventKind::Expired);
    }

    /// A message that expired, and was counted when it did, is seen off.
    pub(crate) fn seen_off(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence) {
        self.keep(Event { at, queue, sequence, kind: EventKind::Expired });
    }

    pub(crate) fn lapsed(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence) {
        self.push(at, queue, sequence, EventKind::Lapsed);
    }

    /// What happened to one message, oldest first.
    pub(crate) fn of(&self, queue: QueueId, sequence: Sequence) -> Vec<Event> {
        self.events
            .iter()
            .filter(|event| event.queue == queue && event.sequence == sequence)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_event_makes_room() {
        let mut ring = Ring::new(2);
        for at in 1..=3 {
            ring.lapsed(Timestamp(at), QueueId(1), Sequence(1));
        }
        let instants: Vec<u64> = ring.of(QueueId(1), Sequence(1)).iter().map(|event| event.at.0).collect();
        assert_eq!(instants, [2, 3]);
    }
}
