//! The lines of receives that wait: one per queue, in order of arrival.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use kew_core::command::Lease;
use kew_core::{QueueId, Room, Timestamp};
use kew_store::Submission;
use tokio::sync::oneshot;

use crate::agenda::Ticket;
use crate::busy::Busy;
use crate::room::Held;

/// What is sent to a waiting receive.
#[derive(Debug)]
pub(crate) enum Call {
    /// A lease was taken for it, or is being tried.
    Claimed {
        /// The store's answer.
        submission: Submission,
        /// Whether the answer comes from elsewhere; the line waits for it.
        late: bool,
        /// What the line had heard of by then, for coming back when the answer turns out empty.
        seen: u64,
        /// The receive is at work until it has its answer.
        busy: Busy,
        /// The bytes it took count until the receive has its answer.
        held: Held,
    },
    /// There is no room for what there is. The receive goes back to its place, and waits for room as well.
    Crowded {
        /// The number of the line's news at that time.
        seen: u64,
        /// The receive is at work until it is back.
        busy: Busy,
    },
    /// The wait is over.
    Ended(#[expect(dead_code, reason = "it is held, and counts as work until the receive is told")] Busy),
}

/// An entry in a line.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// What to try on its behalf.
    pub(crate) lease: Lease,
    /// The last instant it may be served.
    pub(crate) deadline: Timestamp,
    /// Where there must be room for what it gets.
    pub(crate) room: Option<Arc<dyn Room>>,
    /// Whether it knows that there is no room for what there is.
    pub(crate) is_crowded: bool,
    /// Where it listens.
    pub(crate) answer: oneshot::Sender<Call>,
}

/// The lines of all queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    lines: HashMap<QueueId, Line>,
    seats: u32,
    limited: u32,
}

/// The line of one queue; it exists while somebody has a seat.
#[derive(Debug, Default)]
struct Line {
    waiting: BTreeMap<Ticket, Waiter>,
    seats: u32,
    /// Raised whenever messages may have become available: news for who was trying meanwhile.
    news: u64,
    /// Whether the first one found too many messages in flight.
    limited: bool,
    /// How many of those that wait know that there is no room for what there is.
    crowded: usize,
    /// The news at which the first message was found too large for the room there is.
    too_large_at: Option<u64>,
}

impl Line {
    fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiting.remove(&ticket)?;
        self.crowded -= usize::from(waiter.is_crowded);
        Some(waiter)
    }
}

impl Waiters {
    pub(crate) fn seats(&self) -> u32 {
        self.seats
    }

    pub(crate) fn seats_at(&self, queue: QueueId) -> u32 {
        self.lines.get(&queue).map_or(0, |line| line.seats)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seats == 0
    }

    pub(crate) fn sit(&mut self, queue: QueueId) {
        self.seats += 1;
        self.lines.entry(queue).or_default().seats += 1;
    }

    /// Gives a seat up, with its entry in the line if it has one.
    pub(crate) fn leave(&mut self, queue: QueueId, ticket: Ticket) -> Option<Waiter> {
        let line = self.lines.get_mut(&queue)?;
        let waiter = line.remove(ticket);
        line.seats -= 1;
        self.seats -= 1;
        if line.seats == 0 {
            self.limited -= u32::from(line.limited);
            self.lines.remove(&queue);
        }
        waiter
    }

    pub(crate) fn enter(&mut self, queue: QueueId, ticket: Ticket, waiter: Waiter) {
        if let Some(line) = self.lines.get_mut(&queue) {
            line.crowded += usize::from(waiter.is_crowded);
            line.waiting.insert(ticket, waiter);
        }
    }

    pub(crate) fn first(&self, queue: QueueId) -> Option<(Ticket, &Waiter)> {
        let line = self.lines.get(&queue)?;
        line.waiting.first_key_value().map(|(ticket, waiter)| (*ticket, waiter))
    }

    /// The first one behind this one, or of all.
    pub(crate) fn first_behind(&self, queue: QueueId, passed: Option<Ticket>) -> Option<(Ticket, &Waiter)> {
        let Some(passed) = passed else { return self.first(queue) };
        let line = self.lines.get(&queue)?;
        let mut behind = line.waiting.range((Bound::Excluded(passed), Bound::Unbounded));
        behind.next().map(|(ticket, waiter)| (*ticket, waiter))
    }

    /// Takes an entry out of the line, unless it knows already that there is no room.
    pub(crate) fn take_unless_crowded(&mut self, queue: QueueId, ticket: Ticket) -> Option<Waiter> {
        let line = self.lines.get_mut(&queue)?;
        if line.waiting.get(&ticket)?.is_crowded { None } else { line.waiting.remove(&ticket) }
    }

    /// Whether any in line know that there is no room.
    pub(crate) fn any_crowded(&self, queue: QueueId) -> bool {
        self.lines.get(&queue).is_some_and(|line| line.crowded > 0)
    }

    /// Notes that the first message is too large for the room there is. True when all in line know of that by now.
    pub(crate) fn note_first_too_large(&mut self, queue: QueueId) -> bool {
        self.lines.get_mut(&queue).is_none_or(|line| {
            line.too_large_at = Some(line.news);
            line.crowded == line.waiting.len()
        })
    }

    /// Whether the first message was found too large, and the line was not served since.
    pub(crate) fn is_first_too_large(&self, queue: QueueId) -> bool {
        self.lines.get(&queue).is_some_and(|line| line.too_large_at == Some(line.news))
    }

    /// An entry that knew of no room is served again when it stands there.
    pub(crate) fn has_room_again(&mut self, queue: QueueId, ticket: Ticket) {
        if let Some(line) = self.lines.get_mut(&queue)
            && let Some(waiter) = line.waiting.get_mut(&ticket)
            && std::mem::take(&mut waiter.is_crowded)
        {
            line.crowded -= 1;
        }
    }

    /// Takes an entry out of the line; its seat stays.
    pub(crate) fn take(&mut self, queue: QueueId, ticket: Ticket) -> Option<Waiter> {
        self.lines.get_mut(&queue)?.remove(ticket)
    }

    /// Takes all entries of a queue out.
    pub(crate) fn take_line(&mut self, queue: QueueId) -> BTreeMap<Ticket, Waiter> {
        let line = self.lines.get_mut(&queue);
        line.map(|line| {
            line.crowded = 0;
            std::mem::take(&mut line.waiting)
        })
        .unwrap_or_default()
    }

    pub(crate) fn queues(&self) -> Vec<QueueId> {
        self.lines.keys().copied().collect()
    }

    pub(crate) fn news(&self, queue: QueueId) -> u64 {
        self.lines.get(&queue).map_or(0, |line| line.news)
    }

    pub(crate) fn tell(&mut self, queue: QueueId) {
        if let Some(line) = self.lines.get_mut(&queue) {
            line.news += 1;
        }
    }

    /// Notes whether the first in line was stopped by the in-flight limit.
    pub(crate) fn set_limited(&mut self, queue: QueueId, limited: bool) {
        if let Some(line) = self.lines.get_mut(&queue)
            && line.limited != limited
        {
            line.limited = limited;
            self.limited = if limited { self.limited + 1 } else { self.limited - 1 };
        }
    }

    pub(crate) fn is_limited(&self, queue: QueueId) -> bool {
        self.limited > 0 && self.lines.get(&queue).is_some_and(|line| line.limited)
    }

    pub(crate) fn any_limited(&self) -> bool {
        self.limited > 0
    }

    pub(crate) fn limited_queues(&self) -> Vec<QueueId> {
        self.lines.iter().filter(|(_, line)| line.limited).map(|(queue, _)| *queue).collect()
    }
}
