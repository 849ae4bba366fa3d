//! What happens by itself: messages expire, leases and delays end, exhausted messages depart.
//!
//! The earliest instant comes first, and at one instant the queue that was made first. Within a queue expiry goes
//! before the ends of leases and delays, and those before departures, each in the order of sends. After a departure
//! everything is looked at again, because a message that departed may have made something due elsewhere.

use super::Model;
use super::queue::{Held, Join, ModelQueue};
use crate::rules::visibility::LeaseEnd;
use crate::rules::{dead_letters, delay, retention, retry};
use crate::{EventKind, QueueId, Sequence, State, Timestamp};

/// One thing that happens by itself. The order of the fields is the order of things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Item {
    pub at: Timestamp,
    pub queue: QueueId,
    pub phase: Phase,
    pub sequence: Sequence,
}

/// What happens first at one instant in one queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Phase {
    Expiry,
    Wake,
    Departure,
}

impl ModelQueue {
    /// What will happen to a message by itself, while nothing expires that is over after `through`.
    pub fn items_of(&self, held: &Held, through: Timestamp) -> impl Iterator<Item = Item> {
        let wakes_at = match held.state {
            State::Ready => None,
            State::Delayed { until } | State::Leased { until } => {
                Some(until).filter(|at| *at != Timestamp::NEVER)
            }
        };
        let (queue, sequence) = (self.id(), held.sequence);
        let item = move |phase| move |at| Item { at, queue, phase, sequence };
        let expiry = retention::expires_unless_held(self.expires_at(held), through).map(item(Phase::Expiry));
        let wake = wakes_at.map(item(Phase::Wake));
        let departure = held.leaves_at.map(item(Phase::Departure));
        [expiry, wake, departure].into_iter().flatten()
    }
}

impl Model {
    pub(super) fn next_item(&self) -> Option<Item> {
        let through = self.expiry_through;
        let of_queue =
            |queue: &ModelQueue| queue.messages.iter().flat_map(|held| queue.items_of(held, through)).min();
        self.queues.iter().filter_map(of_queue).min()
    }

    pub(super) fn do_due(&mut self, now: Timestamp) {
        while let Some(first) = self.next_item().filter(|item| item.at <= now) {
            for phase in [Phase::Expiry, Phase::Wake, Phase::Departure] {
                self.do_phase(first.queue, first.at, phase);
            }
        }
    }

    fn do_phase(&mut self, queue: QueueId, at: Timestamp, phase: Phase) {
        let index = self.index(queue).expect("the queue of a due message exists");
        let queue = &self.queues[index];
        let items = queue.messages.iter().flat_map(|held| queue.items_of(held, self.expiry_through));
        let due = items.filter(|item| (item.at, item.phase) == (at, phase));
        let due: Vec<_> = due.take(if phase == Phase::Departure { 1 } else { usize::MAX }).collect();
        for item in due {
            match phase {
                Phase::Expiry => self.expire(index, item),
                Phase::Wake => self.wake(index, item),
                Phase::Departure => self.leave(index, item),
            }
        }
    }

    fn expire(&mut self, index: usize, item: Item) {
        self.note(item.at, index, item.sequence, EventKind::Expired);
        self.remove(index, item.sequence);
    }

    fn wake(&mut self, index: usize, item: Item) {
        let queue = &mut self.queues[index];
        let held = queue.held(item.sequence);
        let lapsed = matches!(held.state, State::Leased { .. });
        let (mut shown_at, mut ending) = (item.at, LeaseEnd::Unrecorded);
        held.state = State::Ready;
        if lapsed {
            let terms = held.terms.as_ref().expect("a leased message has terms");
            ending = terms.ending;
            let visible_at = retry::after_lapse(item.at, terms.lapse_delay);
            held.rank = delay::rank(terms.returns, held.rank, visible_at);
            held.show_at(visible_at, item.at);
            held.before = None;
            let attempts = held.attempts;
            let exhausted =
                dead_letters::is_exhausted(attempts, queue.definition.policy.dead_letters.as_deref());
            queue.held(item.sequence).leaves_at = exhausted.then(|| dead_letters::leaves_at(item.at));
            if !exhausted {
                shown_at = visible_at;
            }
            queue.forget_attempt_of(item.sequence);
        }
        let group = queue.held(item.sequence).group.clone();
        queue.settle_group(group.as_ref(), Join::Back);
        match ending {
            LeaseEnd::RanOut => {
                self.note(item.at, index, item.sequence, EventKind::Lapsed { visible_at: shown_at });
            }
            LeaseEnd::GivenBack => {
                self.note(item.at, index, item.sequence, EventKind::Released { visible_at: shown_at });
            }
            LeaseEnd::Unrecorded => {}
        }
    }

    fn leave(&mut self, index: usize, item: Item) {
        self.queues[index].held(item.sequence).leaves_at = None;
        self.depart_if_exhausted(index, item.sequence, item.at);
    }
}
