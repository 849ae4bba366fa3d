//! Dead letters: a message leased as often as its queue allows goes elsewhere, in the same step.

use std::sync::Arc;

use kew_core::rules::dead_letters;
use kew_core::{DeadLetterAction, GroupId, Queue, QueueId, QueueKey, RuleError, Sequence, Text, Timestamp};

use crate::ledger::Ledger;
use crate::ledger::change::{Change, DeadLettered};
use crate::ledger::item::Item;
use crate::ledger::shelf::Shelf;

/// Room a departure takes on the shelf, names and group included.
const DEPARTURE_BYTES: u64 = 1_024;

/// Whether a departure happens by itself at the end of a lease, or in a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Because {
    Due,
    Step,
}

impl<S: Shelf> Ledger<S> {
    /// A lease has ended by itself: the message leaves if it was not leased again meanwhile.
    pub(in crate::ledger) fn depart_when_due(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence) {
        if self.books.get(&queue).is_some_and(|book| !book.is_leased(sequence)) {
            self.depart(at, queue, sequence, Because::Due);
        }
    }

    /// Sends a message where dead letters go, if it was tried often enough. A missing target leaves it where it is.
    pub(in crate::ledger) fn depart_if_exhausted(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: Sequence,
    ) -> bool {
        self.depart(now, queue, sequence, Because::Step)
    }

    /// Tells the messages of a queue that leave instead of being leased: tried often enough, with somewhere to go.
    pub(in crate::ledger) fn leaving(
        &self,
        queue: QueueId,
    ) -> Result<impl Fn(&Item) -> bool + use<S>, RuleError> {
        let source = self.book(queue)?.queue.clone();
        let has_way_out = source.policy.dead_letters.as_deref().is_some_and(|rule| match &rule.then {
            DeadLetterAction::Drop => true,
            DeadLetterAction::MoveTo(key) => self.target(&source, key).is_some(),
        });
        Ok(move |item: &Item| {
            has_way_out && dead_letters::is_exhausted(item.attempts, source.policy.dead_letters.as_deref())
        })
    }

    fn depart(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence, because: Because) -> bool {
        let Some(book) = self.books.get(&queue) else { return false };
        if book.queue.policy.dead_letters.is_none() {
            return false;
        }
        let source = book.queue.clone();
        let Some(rule) = &source.policy.dead_letters else { return false };
        let Some((item, _)) = book.find(sequence) else { return false };
        if !dead_letters::is_exhausted(item.attempts, Some(rule)) {
            return false;
        }
        // No request asked for this: without room it stays, and its next lease decides again.
        if !self.shelf.has_room_for_due(DEPARTURE_BYTES) {
            return false;
        }
        match &rule.then {
            DeadLetterAction::Drop => {
                let due = because == Because::Due;
                self.enact(at, &Change::Dropped { queue, sequence, due });
                true
            }
            DeadLetterAction::MoveTo(key) => match self.target(&source, key) {
                Some(target) => {
                    self.dead_letter(at, &source, &target, &item, because);
                    true
                }
                None => false,
            },
        }
    }

    /// The queue of this name, if messages of `source` may go there.
    fn target(&self, source: &Queue, key: &QueueKey) -> Option<Arc<Queue>> {
        let target = self.named(key)?;
        let fits = target.id != source.id && target.policy.kind.is_fifo() == source.policy.kind.is_fifo();
        fits.then(|| target.clone())
    }

    fn dead_letter(&mut self, at: Timestamp, source: &Queue, target: &Queue, item: &Item, because: Because) {
        let Some(rule) = &source.policy.dead_letters else { return };
        let first_leased_at = item.first_leased_at.get();
        let arrival = dead_letters::arrival(rule.carries, at, item.sent_at, item.attempts, first_leased_at);
        let delay = if arrival.delayed { target.policy.delay } else { std::time::Duration::ZERO };
        let moved = DeadLettered {
            from: source.id,
            sequence: item.sequence,
            to: target.id,
            as_sequence: self.next_sequence(target),
            place: item.place(),
            body_bytes: item.body_bytes,
            group: self
                .books
                .get(&source.id)
                .and_then(|book| book.group_name(item))
                .map(|name| GroupId(Text::from(name))),
            sent_at: arrival.sent_at,
            expiry: item.expiry,
            attempts: arrival.attempts,
            first_leased_at: arrival.first_leased_at,
            visible_at: at.plus(delay),
            delayed: arrival.delayed,
            origin: source.key.clone(),
            due: because == Because::Due,
        };
        self.enact(at, &Change::DeadLettered(moved));
    }
}
