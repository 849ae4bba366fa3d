//! What happened lately, in a ring of fixed-size events.

use std::collections::VecDeque;

use kew_core::command::{Trace, Traced};
use kew_core::outcome::Trail;
use kew_core::{Event, EventKind, QueueId, Sequence, Tally, Timestamp};

/// The newest events.
pub(crate) struct Ring {
    events: VecDeque<Event>,
    max: usize,
    /// The number of the oldest one that is kept, counted from the first that ever was.
    first: u64,
    /// All of them, counted, also those that had to make room.
    pub(crate) tally: Tally,
}

impl Ring {
    pub(crate) fn new(max: usize) -> Self {
        Self { events: VecDeque::new(), max, first: 0, tally: Tally::default() }
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
            self.first += 1;
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

    /// Looks for events backwards, from the newest or from where a slice before ended.
    pub(crate) fn trace(&self, trace: &Trace) -> Trail {
        let end = self.first + self.events.len() as u64;
        let before = trace.before.unwrap_or(end).clamp(self.first, end);
        let from = before.saturating_sub(u64::from(trace.look_max.max(1))).max(self.first);
        let place = |number: u64| usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let is_wanted = |event: &&Event| match &trace.what {
            Traced::Id(id) => matches!(event.kind, EventKind::Sent { id: other, .. } if other == *id),
            Traced::Places(places) => {
                let is_one = |queue, sequence| places.contains(&(queue, sequence));
                is_one(event.queue, event.sequence)
                    || event.moved_to().is_some_and(|(queue, sequence)| is_one(queue, sequence))
            }
        };
        let slice = self.events.range(place(from)..place(before));
        let events = slice.rev().filter(is_wanted).copied().collect();
        Trail { events, next: (from > self.first).then_some(from) }
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
