//! What an operator asks beside messages: groups and their locks, deduplication ids, and what happened lately.

use super::Model;
use super::queue::Held;
use crate::command::{FirstSend, Groups, Note, Trace, Traced};
use crate::outcome::{First, GroupLock, GroupPage, SeenGroup, Trail};
use crate::rules::dedup::{self, Identity};
use crate::{Event, EventKind, Outcome, RuleError, State, Timestamp};

impl Model {
    /// All groups in one page, by name.
    pub(super) fn groups(&self, wanted: &Groups) -> Result<Outcome, RuleError> {
        let queue = &self.queues[self.index(wanted.queue)?];
        let mut names: Vec<_> = queue.messages.iter().filter_map(|held| held.group.clone()).collect();
        names.sort();
        names.dedup();
        names.retain(|name| name.0.as_str().starts_with(wanted.prefix.as_str()));
        let lock = |held: &Held| match held.state {
            State::Leased { until } => Some(GroupLock { sequence: held.sequence, id: held.id, until }),
            State::Ready | State::Delayed { .. } => None,
        };
        let seen = |group: &crate::GroupId| {
            let of_group = || queue.messages.iter().filter(|held| held.group.as_ref() == Some(group));
            let waiting = of_group().filter(|held| lock(held).is_none()).count() as u64;
            let lock = if queue.is_fifo() { of_group().find_map(lock) } else { None };
            SeenGroup { group: group.clone(), waiting, lock }
        };
        Ok(Outcome::Groups(GroupPage { groups: names.iter().map(seen).collect(), next: None }))
    }

    pub(super) fn first_send(&self, now: Timestamp, wanted: FirstSend) -> Result<Outcome, RuleError> {
        let queue = &self.queues[self.index(wanted.queue)?];
        let identity = Identity { group: wanted.group, id: wanted.id };
        let open = queue.remembered.iter().filter(|each| dedup::is_repeat(each.first_at, now));
        let first = open.filter(|each| each.identity == identity).map(|each| First {
            id: each.id,
            sequence: each.token.sequence,
            until: each.first_at.plus(dedup::WINDOW),
        });
        Ok(Outcome::FirstSend(first.last()))
    }

    pub(super) fn note_failures(&mut self, now: Timestamp, note: &Note) -> Result<Outcome, RuleError> {
        let index = self.index(note.queue)?;
        for (sequence, why, detail) in &note.failures {
            self.note(now, index, *sequence, EventKind::Failed { why: *why, detail: detail.clone() });
        }
        Ok(Outcome::Done)
    }

    /// Everything in one slice.
    pub(super) fn trace(&self, trace: &Trace) -> Trail {
        let is_wanted = |event: &&Event| match &trace.what {
            Traced::Id(id) => matches!(event.kind, EventKind::Sent { id: other, .. } if other == *id),
            Traced::Places(places) => {
                places.contains(&(event.queue, event.sequence))
                    || event.moved_to().is_some_and(|to| places.contains(&to))
                    || event.came_from().is_some_and(|from| places.contains(&from))
            }
            Traced::Queue(queue) => event.queue == *queue,
        };
        Trail { events: self.events.iter().rev().filter(is_wanted).cloned().collect(), next: None }
    }
}
