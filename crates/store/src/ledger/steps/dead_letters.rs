//! Dead letters: a message leased as often as its queue allows goes elsewhere, in the same step.

use kew_core::rules::dead_letters;
use kew_core::{
    DeadLetterAction, GroupId, Queue, QueueId, QueueKey, RuleError, Sequence, ShardCount, Text, Timestamp,
};

use super::owed::{NOTE_BYTES, Target};
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::book::Book;
use crate::ledger::change::{Change, DeadLettered};
use crate::ledger::item::Item;
use crate::ledger::shelf::Shelf;

/// Room a departure takes on the shelf, names and group included, and the outbox that it may go into.
const DEPARTURE_BYTES: u64 = 1_024 + NOTE_BYTES;

/// Whether a departure happens by itself at the end of a lease, or in a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Because {
    Due,
    Step,
}

impl<S: Shelf> Ledger<S> {
    /// A lease has ended by itself: the message leaves if it was not leased again meanwhile, and there is somewhere to
    /// go. If there is not, it stays, which the journal says. Where that cannot be said, or there is no room for it, it
    /// stays undecided. Its next lease decides again.
    pub(in crate::ledger) fn depart_when_due(
        &mut self,
        at: Timestamp,
        queue: QueueId,
        departure: (Timestamp, Sequence),
    ) {
        let (_, sequence) = departure;
        let is_there = |book: &Book| !book.is_leased(sequence) && book.find(sequence).is_some();
        if !self.books.get(&queue).is_some_and(is_there) {
            return;
        }
        // No request asked for this.
        let decided = match self.shelf.has_room_for_due(DEPARTURE_BYTES) {
            true => self.depart(at, queue, sequence, Because::Due),
            false => Err(StoreError::NoSpace),
        };
        match decided {
            Ok(true) => {}
            Ok(false) if self.knows_others() => self.enact(at, &Change::Stayed { queue, sequence }),
            Ok(false) | Err(_) => self.leave_undecided(queue, departure),
        }
    }

    /// Whether the queues of other shards are known here, as soon as there are other shards.
    fn knows_others(&self) -> bool {
        self.elsewhere.is_some() || self.place.of == ShardCount::ONE
    }

    /// Sends a message where dead letters go, if it was tried often enough. A missing target leaves it where it is. An
    /// error where it cannot be said just now whether there is one: then it must not be leased again either.
    pub(in crate::ledger) fn depart_if_exhausted(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: Sequence,
    ) -> Result<bool, StoreError> {
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
            DeadLetterAction::MoveTo(key) => !matches!(self.target(&source, key), Ok(None)),
        });
        Ok(move |item: &Item| {
            has_way_out && dead_letters::is_exhausted(item.attempts, source.policy.dead_letters.as_deref())
        })
    }

    fn depart(
        &mut self,
        at: Timestamp,
        queue: QueueId,
        sequence: Sequence,
        because: Because,
    ) -> Result<bool, StoreError> {
        let Some(book) = self.books.get(&queue) else { return Ok(false) };
        if book.queue.policy.dead_letters.is_none() {
            return Ok(false);
        }
        let source = book.queue.clone();
        let Some(rule) = &source.policy.dead_letters else { return Ok(false) };
        let Some((item, _)) = book.find(sequence) else { return Ok(false) };
        if !dead_letters::is_exhausted(item.attempts, Some(rule)) {
            return Ok(false);
        }
        // No request asked for this: without room it stays, and its next lease decides again.
        if because == Because::Step && !self.shelf.has_room_for_due(DEPARTURE_BYTES) {
            return Ok(false);
        }
        match &rule.then {
            DeadLetterAction::Drop => {
                let due = because == Because::Due;
                self.enact(at, &Change::Dropped { queue, sequence, due });
                Ok(true)
            }
            DeadLetterAction::MoveTo(key) => match self.target(&source, key)? {
                Some(target) => {
                    self.dead_letter(at, &source, &target, &item, because);
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// The queue of this name, if messages of `source` may go there.
    fn target(&self, source: &Queue, key: &QueueKey) -> Result<Option<Target>, StoreError> {
        let fits = |target: &Target| {
            let target = target.queue();
            target.id != source.id && target.policy.kind.is_fifo() == source.policy.kind.is_fifo()
        };
        Ok(self.found(key)?.filter(fits))
    }

    fn dead_letter(&mut self, at: Timestamp, source: &Queue, target: &Target, item: &Item, because: Because) {
        let Some(rule) = &source.policy.dead_letters else { return };
        let first_leased_at = item.first_leased_at.get();
        // What leaves late is no older there than what was newest when it was taken up.
        let now = self.overdue.get(&source.id).map_or(at, |newest| at.max(*newest));
        let arrival = dead_letters::arrival(rule.carries, now, item.sent_at, item.attempts, first_leased_at);
        let landing = self.landing(at, target);
        // In an outbox nothing waits: the delay of its target begins there.
        let delayed = arrival.delayed && matches!(target, Target::Here(_));
        let delay = if delayed { landing.policy.delay } else { std::time::Duration::ZERO };
        let moved = DeadLettered {
            from: source.id,
            sequence: item.sequence,
            to: landing.id,
            as_sequence: self.next_sequence(&landing),
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
            visible_at: now.plus(delay),
            delayed,
            origin: target.origin(source),
            due: because == Because::Due,
        };
        self.enact(at, &Change::DeadLettered(moved));
    }
}
