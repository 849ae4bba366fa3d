//! What happened lately, in a ring of fixed-size events.

use hashbrown::HashMap;
use kew_core::command::{Trace, Traced};
use kew_core::outcome::Trail;
use kew_core::rules::visibility::LeaseEnd;
use kew_core::{
    Departure, Departures, Event, EventKind, Failure, QueueId, Sequence, Tally, Timestamp, Waits,
};

use super::book::Ended;
use super::parted::Parted;
use super::pieces::Pieces;

/// Departures that are kept until somebody asks for them; more are only counted.
const DEPARTURES_MAX: usize = 1_000;

/// The newest events.
pub(crate) struct Ring {
    events: Pieces<Event>,
    max: usize,
    /// What the texts of the kept events take, each counted for every event that has it.
    words_bytes: usize,
    /// The number of the oldest one that is kept, counted from the first that ever was.
    first: u64,
    /// All of them, counted, also those that had to make room.
    tally: Tally,
    /// What is counted by queue here: what happens to few messages. A queue to which none of it happened has no entry;
    /// what happens to every message is counted in its book.
    apart: Parted<QueueId, Apart>,
    /// Places that a queue had given away when the store was opened, of queues that had given any.
    given_before: HashMap<QueueId, u64>,
    departures: Departures,
    /// How long messages waited for their first lease, of queues that had any.
    waits: Parted<QueueId, Box<Waits>>,
    /// The latest of them that are not in there yet: all of one queue, and counted at one place. Busy queues have many
    /// in a row, and looking the queue up for each would cost more than the rest of the count.
    waited: Waited,
}

/// Waits of one queue that are counted at one place.
#[derive(Clone, Copy)]
struct Waited {
    queue: QueueId,
    place: usize,
    messages: u32,
}

impl Waited {
    const NONE: Self = Self { queue: QueueId(0), place: 0, messages: 0 };
}

/// What happened to messages of one queue that does not happen to all of them.
#[derive(Clone, Copy, Default)]
struct Apart {
    tally: Tally,
    /// Messages that came from another queue, and were sent there.
    arrived: u64,
}

impl Ring {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            events: Pieces::default(),
            max,
            words_bytes: 0,
            first: 0,
            tally: Tally::default(),
            apart: Parted::default(),
            given_before: HashMap::new(),
            departures: Departures::default(),
            waits: Parted::default(),
            waited: Waited::NONE,
        }
    }

    /// Adds an event; the oldest makes room.
    #[inline]
    pub(crate) fn push(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence, kind: EventKind) {
        self.tally.count(&kind);
        let event = Event { at, queue, sequence, kind };
        if is_apart(&event.kind) {
            self.count_apart(&event);
        }
        self.keep(event);
    }

    #[inline(never)]
    fn count_apart(&mut self, event: &Event) {
        let apart = self.apart.get_or_insert_with(event.queue, |_| Default::default());
        apart.tally.count(&event.kind);
        let to = match event.kind {
            EventKind::Arrived { .. } => {
                apart.arrived += 1;
                return;
            }
            EventKind::DeadLettered { to, .. } => Some(to),
            EventKind::Dropped => None,
            _ => return,
        };
        if self.departures.first.len() < DEPARTURES_MAX {
            let Event { at, queue, sequence, .. } = *event;
            self.departures.first.push(Departure { at, queue, sequence, to });
        } else {
            self.departures.more += 1;
        }
    }

    /// What has happened in all queues.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// The same of one queue, but for its leases and acks. `given` is how many places it has given to messages.
    pub(crate) fn tally_of(&self, queue: QueueId, given: u64) -> Tally {
        let apart = self.apart.get(&queue).copied().unwrap_or_default();
        let before = self.given_before.get(&queue).copied().unwrap_or_default();
        Tally { sent: given.saturating_sub(before).saturating_sub(apart.arrived), ..apart.tally }
    }

    /// A message was sent.
    #[inline]
    pub(crate) fn count_sent(&mut self) {
        self.tally.sent += 1;
    }

    /// A message came from another queue by a task: its place there is no send.
    pub(crate) fn count_moved_in(&mut self, queue: QueueId) {
        self.apart.get_or_insert_with(queue, |_| Default::default()).arrived += 1;
    }

    /// A send repeated an earlier one.
    pub(crate) fn count_deduplicated(&mut self, queue: QueueId) {
        self.count_many(queue, |tally| tally.deduplicated += 1);
    }

    /// Messages expired that are seen off later.
    pub(crate) fn count_expired(&mut self, queue: QueueId, messages: u64) {
        if messages > 0 {
            self.count_many(queue, |tally| tally.expired += messages);
        }
    }

    /// Leases ended; most of the messages are offered again.
    pub(crate) fn leases_ended(&mut self, queue: QueueId, ended: &[Ended]) {
        let (mut lapsed, mut released) = (0, 0);
        for Ended { at, sequence, visible_at, ending, is_last } in ended.iter().copied() {
            let (kind, count) = match ending {
                LeaseEnd::RanOut => (EventKind::Lapsed { visible_at }, &mut lapsed),
                LeaseEnd::GivenBack => (EventKind::Released { visible_at }, &mut released),
                LeaseEnd::Unrecorded => continue,
            };
            *count += u64::from(!is_last);
            self.keep(Event { at, queue, sequence, kind });
        }
        if lapsed + released > 0 {
            self.count_many(queue, |tally| {
                tally.lapsed += lapsed;
                tally.released += released;
            });
        }
    }

    fn count_many(&mut self, queue: QueueId, count: impl Fn(&mut Tally)) {
        count(&mut self.tally);
        count(&mut self.apart.get_or_insert_with(queue, |_| Default::default()).tally);
    }

    /// Counts from now on. `given` says of each queue how many places it has given to messages.
    pub(crate) fn begin_to_count(&mut self, given: impl Iterator<Item = (QueueId, u64)>) {
        self.tally = Tally::default();
        self.apart = Parted::default();
        self.given_before = given.filter(|(_, given)| *given > 0).collect();
        self.departures = Departures::default();
        (self.waits, self.waited) = (Parted::default(), Waited::NONE);
    }

    /// A queue is gone.
    pub(crate) fn forget(&mut self, queue: QueueId) {
        self.apart.remove(&queue);
        self.waits.remove(&queue);
        if self.waited.queue == queue {
            self.waited = Waited::NONE;
        }
        self.given_before.remove(&queue);
    }

    /// A message waited this number of milliseconds for its first lease.
    #[inline]
    pub(crate) fn count_wait(&mut self, queue: QueueId, millis: u64) {
        let place = Waits::place(millis);
        if (self.waited.queue, self.waited.place) == (queue, place) && self.waited.messages < u32::MAX {
            self.waited.messages += 1;
        } else {
            self.put_waited();
            self.waited = Waited { queue, place, messages: 1 };
        }
    }

    #[inline(never)]
    fn put_waited(&mut self) {
        let Waited { queue, place, messages } = self.waited;
        if messages > 0 {
            self.waits.get_or_insert_with(queue, |_| Default::default()).note(place, messages);
        }
    }

    /// How long messages of a queue waited for their first lease.
    pub(crate) fn waits_of(&self, queue: QueueId) -> Waits {
        let mut waits = self.waits.get(&queue).map_or_else(Waits::default, |waits| **waits);
        if self.waited.queue == queue {
            waits.note(self.waited.place, self.waited.messages);
        }
        waits
    }

    /// Departures since it was last asked.
    pub(crate) fn take_departures(&mut self) -> Departures {
        std::mem::take(&mut self.departures)
    }

    #[inline]
    fn keep(&mut self, event: Event) {
        if self.max == 0 {
            return;
        }
        self.words_bytes += words_bytes(&event);
        // Texts take the room of events: a million failures take no more memory than a million sends.
        while self.events.len() + self.words_bytes.div_ceil(size_of::<Event>()) >= self.max {
            let Some(oldest) = self.events.pop_front() else { break };
            self.words_bytes -= words_bytes(&oldest);
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
                let is_one_of = |place: Option<(QueueId, Sequence)>| {
                    place.is_some_and(|(queue, sequence)| is_one(queue, sequence))
                };
                // A move from one shard to another is an event in each: both name the place between them.
                let is_purge = event.kind == EventKind::Purged;
                is_one(event.queue, event.sequence)
                    || is_purge && places.iter().any(|(queue, sequence)| event.purges(*queue, *sequence))
                    || is_one_of(event.moved_to())
                    || is_one_of(event.came_from())
            }
            Traced::Queue(queue) => event.queue == *queue,
        };
        let slice = self.events.range(place(from)..place(before));
        let events = slice.rev().filter(is_wanted).cloned().collect();
        Trail { events, next: (from > self.first).then_some(from) }
    }

    /// What happened to one message, oldest first.
    pub(crate) fn of(&self, queue: QueueId, sequence: Sequence) -> Vec<Event> {
        let events = self.events.range(0..usize::MAX);
        events.filter(|event| event.queue == queue && event.sequence == sequence).cloned().collect()
    }
}

/// The memory that an event takes beside its own size.
#[inline]
fn words_bytes(event: &Event) -> usize {
    /// The counts of those who share a text, and what the allocator adds.
    const AROUND: usize = 32;
    match &event.kind {
        EventKind::Failed { detail, .. } if !detail.is_empty() => detail.as_str().len() + AROUND,
        _ => 0,
    }
}

/// Whether this is counted by queue apart from its book.
#[inline]
fn is_apart(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Released { .. }
            | EventKind::Expired
            | EventKind::DeadLettered { .. }
            | EventKind::Dropped
            | EventKind::Arrived { .. }
            | EventKind::Failed { why: Failure::PutAside, .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_queue_in_whatever_order_they_come() {
        let mut ring = Ring::new(0);
        let mut expected = [Waits::default(); 2];
        for (queue, millis) in [(0, 0), (0, 0), (1, 0), (0, 900), (0, 900), (1, 7), (0, 0), (0, 0)] {
            ring.count_wait(QueueId(queue + 1), millis);
            expected[usize::try_from(queue).expect("the test counts two queues")]
                .note(Waits::place(millis), 1);
        }
        for (queue, expected) in (1..).zip(expected) {
            assert_eq!(ring.waits_of(QueueId(queue)), expected);
        }
        ring.forget(QueueId(1));
        ring.count_wait(QueueId(2), 0);
        assert_eq!(ring.waits_of(QueueId(1)), Waits::default());
    }

    #[test]
    fn texts_of_failures_take_the_room_of_events() {
        let mut ring = Ring::new(100);
        let detail = kew_core::event::Words::new(&"x".repeat(120));
        for at in 1..=200 {
            let kind = EventKind::Failed { why: Failure::Threw, detail: detail.clone() };
            ring.push(Timestamp(at), QueueId(1), Sequence(1), kind);
            let taken = ring.events.len() * size_of::<Event>() + ring.words_bytes;
            assert!(taken <= 100 * size_of::<Event>(), "{taken} bytes after {at} failures");
        }
        assert_eq!(ring.words_bytes, ring.events.len() * 152);
        assert_eq!(ring.events.get(ring.events.len() - 1).map(|event| event.at), Some(Timestamp(200)));
        for at in 201..=400 {
            let kind = EventKind::Lapsed { visible_at: Timestamp(at) };
            ring.push(Timestamp(at), QueueId(1), Sequence(1), kind);
        }
        assert_eq!((ring.events.len(), ring.words_bytes), (100, 0));
    }

    #[test]
    fn oldest_event_makes_room() {
        let mut ring = Ring::new(2);
        for at in 1..=3 {
            let kind = EventKind::Lapsed { visible_at: Timestamp(at) };
            ring.push(Timestamp(at), QueueId(1), Sequence(1), kind);
        }
        let instants: Vec<u64> = ring.of(QueueId(1), Sequence(1)).iter().map(|event| event.at.0).collect();
        assert_eq!(instants, [2, 3]);
    }
}
