//! Looking without touching: peeks and histories.

use super::Model;
use super::queue::{Held, ModelQueue};
use crate::command::{Browse, History, Identify, Peek, StateKind, View};
use crate::outcome::{Page, Seen};
use crate::rules::batching;
use crate::{Event, Outcome, RuleError, Sequence, State, Timestamp};

impl Model {
    pub(super) fn peek(&self, peek: Peek) -> Result<Outcome, RuleError> {
        let queue = &self.queues[self.index(peek.queue)?];
        let wanted = match peek.view {
            View::Ready => queue.in_lease_order(),
            View::Delayed => queue.by_instant(|held| match held.state {
                State::Delayed { until } => Some(until),
                State::Ready | State::Leased { .. } => None,
            }),
            View::Leased => queue.by_instant(|held| match held.state {
                State::Leased { until } => Some(until),
                State::Ready | State::Delayed { .. } => None,
            }),
        };
        let skip = usize::try_from(peek.skip).unwrap_or(usize::MAX);
        let mut seen = Vec::new();
        let mut taken_bytes = 0;
        for sequence in wanted.into_iter().skip(skip).take(peek.max as usize) {
            let held = queue.stored(sequence);
            if !batching::fits(seen.len(), taken_bytes, held.body_bytes(), peek.body_bytes_max) {
                break;
            }
            taken_bytes += held.body_bytes();
            seen.push((queue.message(held), queue.token(held)));
        }
        Ok(Outcome::Peeked(seen))
    }

    /// Pages end at the first wanted message that does not fit; no message is too many to be looked at here.
    pub(super) fn browse(&self, browse: &Browse) -> Result<Outcome, RuleError> {
        let queue = &self.queues[self.index(browse.queue)?];
        let mut page = Page::default();
        let mut taken_bytes = 0;
        for held in queue.messages.iter().filter(|held| is_wanted(held, browse)) {
            let has_room = page.messages.len() < browse.max as usize;
            let fits =
                batching::fits(page.messages.len(), taken_bytes, held.body_bytes(), browse.body_bytes_max);
            if !has_room || !fits {
                page.next = Some(held.sequence);
                break;
            }
            taken_bytes += held.body_bytes();
            let is_leased = matches!(held.state, State::Leased { .. });
            let terms = held.terms.as_ref().filter(|_| is_leased);
            page.messages.push(Seen {
                message: queue.message(held),
                token: queue.token(held),
                leased_at: terms.map(|terms| terms.received_at),
                is_readable: true,
            });
        }
        Ok(Outcome::Browsed(page))
    }

    pub(super) fn identify(&self, wanted: Identify) -> Result<Outcome, RuleError> {
        let held = self.check_token(self.index(wanted.queue)?, &wanted.token)?;
        Ok(Outcome::Identified(held.id))
    }

    pub(super) fn history(&self, wanted: History) -> Vec<Event> {
        let of_message = |event: &&Event| (event.queue, event.sequence) == (wanted.queue, wanted.sequence);
        self.events.iter().filter(of_message).cloned().collect()
    }
}

fn is_wanted(held: &Held, browse: &Browse) -> bool {
    let is_of_state = match (browse.state, held.state) {
        (None, _)
        | (Some(StateKind::Visible), State::Ready)
        | (Some(StateKind::InFlight), State::Leased { .. })
        | (Some(StateKind::Delayed), State::Delayed { .. }) => true,
        (Some(_), _) => false,
    };
    let is_of_group = browse.group.is_none() || held.group == browse.group;
    let is_behind = held.sequence >= browse.from;
    is_behind
        && is_of_state
        && is_of_group
        && held.attempts >= browse.attempts_min
        && held.sent_at <= browse.sent_through
}

impl ModelQueue {
    /// The messages that have such an instant, the earliest first, and of equal ones the one sent first.
    fn by_instant(&self, instant: impl Fn(&Held) -> Option<Timestamp>) -> Vec<Sequence> {
        let mut found: Vec<_> =
            self.messages.iter().filter_map(|held| Some((instant(held)?, held.sequence))).collect();
        found.sort();
        found.into_iter().map(|(_, sequence)| sequence).collect()
    }
}
