//! Messages for queues of other shards: how they are owed, carried, taken in and settled.
//!
//! What is owed lies in an outbox: a queue of the store's own, one for each target. It is kept, checkpointed and copied
//! like any other, and no client leases from it. The place of a message in its outbox is its name on the way: an outbox
//! is carried in that order, with none left out, so a target knows by one number which of its messages it has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{Bring, Carry, Settle, TakeBack};
use kew_core::own::{self, OWN_ACCOUNT};
use kew_core::rules::batching;
use kew_core::{
    DeduplicationId, DocumentKey, GroupId, MoveReason, Origin, Outcome, OwedMessage, Owing, Policy, Queue,
    QueueId, QueueKey, RuleError, Sequence, Text, Timestamp,
};

use super::send::MESSAGE_BYTES;
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::book::Book;
use crate::ledger::change::{Brought, Change, DeadLettered, Sent};
use crate::ledger::item::Item;
use crate::ledger::shelf::{Made, Shelf, Stored};

/// Room for the definition of an outbox, or for the note of what came from one.
pub(super) const NOTE_BYTES: u64 = 512;

/// Room for a message that goes back, with the names of its queue and its group.
const RETURN_BYTES: u64 = 1_024;

/// Messages that one step settles at most.
const SETTLED_MAX: usize = 1_000;

/// How long a message stays hidden that could not be read when it was to be carried.
const DAMAGED_SET_ASIDE: Duration = Duration::from_secs(24 * 3_600);

/// A queue that messages are to go to.
pub(super) enum Target {
    /// It is in this shard.
    Here(Arc<Queue>),
    /// It is in another.
    Elsewhere(Arc<Queue>),
}

impl Target {
    pub(super) fn queue(&self) -> &Arc<Queue> {
        match self {
            Self::Here(queue) | Self::Elsewhere(queue) => queue,
        }
    }

    /// How a message that goes there names the queue it leaves.
    pub(super) fn origin(&self, source: &Queue) -> QueueKey {
        match self {
            Self::Here(_) => source.key.clone(),
            Self::Elsewhere(_) => own::left(source),
        }
    }
}

impl<S: Shelf> Ledger<S> {
    /// The queue of this name, in this shard or in another. An error where it cannot be said whether there is one.
    pub(super) fn found(&self, key: &QueueKey) -> Result<Option<Target>, StoreError> {
        if let Some(queue) = self.named(key) {
            return Ok(Some(Target::Here(queue.clone())));
        }
        let Some(elsewhere) = &self.elsewhere else { return Ok(None) };
        let is_of_another = |queue: &Arc<Queue>| self.place.of.of_queue(queue.id) != self.place.shard;
        Ok(elsewhere.find(key)?.filter(is_of_another).map(Target::Elsewhere))
    }

    /// Where a message goes in this shard that is to go to a queue: to that, or to the outbox for it.
    pub(super) fn landing(&mut self, at: Timestamp, target: &Target) -> Arc<Queue> {
        match target {
            Target::Here(queue) => queue.clone(),
            Target::Elsewhere(queue) => self.outbox(at, queue.id),
        }
    }

    fn outbox(&mut self, at: Timestamp, target: QueueId) -> Arc<Queue> {
        let key = own::outbox(target);
        if let Some(outbox) = self.named(&key) {
            return outbox.clone();
        }
        let outbox = Arc::new(Queue {
            id: QueueId(self.place.number_from(self.next_queue.0)),
            key,
            // Its target decides what expires.
            policy: Policy { retention: Duration::from_secs(100 * 366 * 24 * 3_600), ..Policy::standard() },
            documents: BTreeMap::new(),
            version: 1,
            created_at: at,
            modified_at: at,
        });
        let change = Change::QueueSet(outbox.clone());
        // It may be made in the midst of what is due, where a change that begins a step would have the rest of it done
        // before what it is made for.
        let place = self.shelf.record(Made { at, begins_step: false }, &change);
        self.apply(at, &change, place, &|_| false);
        outbox
    }

    pub(in crate::ledger) fn owing(&self) -> Outcome {
        let of = |outbox: &QueueId| {
            let book = self.books.get(outbox)?;
            let target = own::owed_to(&book.queue.key)?;
            Some(Owing { outbox: *outbox, target, messages: book.stored() })
        };
        Outcome::Owing(self.outboxes.iter().filter_map(of).collect())
    }

    fn outbox_book(&self, outbox: QueueId) -> Result<&Book, RuleError> {
        self.book(outbox).ok().filter(|_| self.outboxes.contains(&outbox)).ok_or(RuleError::QueueNotFound)
    }

    /// The next messages of an outbox. The caller carries one batch of an outbox at a time.
    pub(in crate::ledger) fn carry(&mut self, now: Timestamp, command: Carry) -> Result<Outcome, StoreError> {
        let items = self.next_owed(command)?;
        // Those that have to be waited for are read together: each is asked for before the first is waited for. One
        // that is damaged is met below.
        let mut at_hand = Ok(());
        for item in &items {
            match self.shelf.at_hand(item.place()) {
                Ok(()) | Err(StoreError::Damaged { .. }) => {}
                error => at_hand = error,
            }
        }
        at_hand?;
        let mut messages = Vec::with_capacity(items.len());
        for item in &items {
            match self.shelf.read(item.place()) {
                Ok(stored) => messages.push(self.owed(command.outbox, item, stored)?),
                // It is not known when it can be read: it waits in its queue, and holds up none of those behind it.
                Err(StoreError::Damaged { .. }) => {
                    self.shelf.room(RETURN_BYTES)?;
                    self.go_back(now, command.outbox, item, now.plus(DAMAGED_SET_ASIDE));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Owed(messages))
    }

    /// A message of an outbox as it is carried. The queue that it left goes by the name it has now.
    fn owed(&self, outbox: QueueId, item: &Item, stored: Stored) -> Result<OwedMessage, StoreError> {
        let missing =
            || StoreError::Damaged { what: format!("an outbox has message {} of no queue", item.sequence.0) };
        let (key, reason) = self.outbox_book(outbox)?.origin_of(item).ok_or_else(missing)?;
        let queue = self.source_of(key).map_or_else(
            || own::read_left(key).map_or_else(|| key.clone(), |(_, name)| name),
            |source| source.key.clone(),
        );
        Ok(OwedMessage {
            sequence: item.sequence,
            id: stored.id,
            content: stored.content,
            group: stored.group,
            deduplication: stored.deduplication,
            expiry: item.expiry,
            sent_at: item.sent_at,
            attempts: item.attempts,
            first_leased_at: item.first_leased_at.get(),
            origin: Origin { queue, reason: *reason, at: item.moved_at },
        })
    }

    /// The queue that a message of an outbox left, if it is still there. Outboxes of before named it without a number.
    fn source_of(&self, left: &QueueKey) -> Option<&Arc<Queue>> {
        match own::read_left(left) {
            Some((source, _)) => self.books.get(&source).map(|book| &book.queue),
            None => self.named(left),
        }
    }

    fn next_owed(&self, command: Carry) -> Result<Vec<Item>, RuleError> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        let ready = self.outbox_book(command.outbox)?.ready_items();
        for item in ready.take(usize::try_from(command.max).unwrap_or(usize::MAX)) {
            // With its attributes, which may be more than its body.
            let item_bytes = u64::from(item.record_bytes.max(item.body_bytes));
            if !batching::fits(items.len(), bytes, item_bytes, command.bytes_max) {
                break;
            }
            bytes += item_bytes;
            debug_assert!(
                items.last().is_none_or(|last: &Item| last.sequence < item.sequence),
                "an outbox is offered in the order of its sequences, by which both sides count"
            );
            items.push(item);
        }
        Ok(items)
    }

    /// Takes in what has not come yet, and notes how far the outbox has come by that: both, or neither.
    pub(in crate::ledger) fn bring(
        &mut self,
        now: Timestamp,
        command: &Bring,
    ) -> Result<Outcome, StoreError> {
        let key = own::came(command.target, command.outbox);
        let known = self.documents.get(&(OWN_ACCOUNT, key.clone())).and_then(|bytes| read_sequence(bytes));
        let Ok(target) = self.book(command.target).map(|book| book.queue.clone()) else {
            return Ok(Outcome::Brought(self.bring_to_none(now, command, key, known)));
        };
        let known = known.unwrap_or(Sequence(0));
        let last = command.messages.last().map_or(known, |last| last.sequence).max(known);
        if last == known {
            return Ok(Outcome::Brought(Some(known)));
        }
        let fresh = || command.messages.iter().filter(move |message| message.sequence > known);
        self.shelf.room(fresh().map(shelf_bytes).sum::<u64>() + NOTE_BYTES)?;
        for message in fresh() {
            self.take_in(now, &target, command.outbox, message);
        }
        let bytes = Some(Bytes::copy_from_slice(&last.0.to_be_bytes()));
        self.enact(now, &Change::DocumentSet { account: OWN_ACCOUNT, key, bytes });
        Ok(Outcome::Brought(Some(last)))
    }

    /// The target is gone. What had come was deleted with it, or by its receivers before, and must not go back.
    fn bring_to_none(
        &mut self,
        now: Timestamp,
        command: &Bring,
        key: DocumentKey,
        known: Option<Sequence>,
    ) -> Option<Sequence> {
        let Some(first) = command.messages.first() else {
            if known.is_some() {
                self.enact(now, &Change::DocumentSet { account: OWN_ACCOUNT, key, bytes: None });
            }
            return None;
        };
        known.filter(|known| *known >= first.sequence)
    }

    /// A message enters as it would have from a queue of this shard.
    fn take_in(&mut self, now: Timestamp, target: &Queue, outbox: QueueId, message: &OwedMessage) {
        let is_redriven = message.origin.reason == MoveReason::Redriven;
        let own_id = (is_redriven && target.policy.kind.is_fifo())
            .then(|| DeduplicationId(Text::from(message.id.to_string())));
        let starts_afresh = message.starts_afresh();
        let origin = Origin { at: now, ..message.origin.clone() };
        let sent = Sent {
            queue: target.id,
            sequence: self.next_sequence(target),
            id: message.id,
            content: &message.content,
            group: message.group.as_ref(),
            deduplication: own_id.as_ref().or(message.deduplication.as_ref()),
            identity: None,
            visible_at: if starts_afresh { now.plus(target.policy.delay) } else { Timestamp::ZERO },
            rank: now,
            expiry: message.expiry,
            origin: Some(&origin),
        };
        let brought = Brought {
            sent,
            from: outbox,
            from_sequence: message.sequence,
            // The clock of the shard it comes from may be a little ahead.
            sent_at: if starts_afresh { now } else { message.sent_at.min(now) },
            attempts: message.attempts,
            first_leased_at: message.first_leased_at.map(|at| at.min(now)),
        };
        self.enact(now, &Change::Brought(brought));
    }

    /// The target has the messages of an outbox up to one of them, durably: they leave the outbox.
    pub(in crate::ledger) fn settle(
        &mut self,
        now: Timestamp,
        command: Settle,
    ) -> Result<Outcome, StoreError> {
        let ready = self.outbox_book(command.outbox)?.ready_items().map(|item| item.sequence);
        let has_come = ready.take_while(|sequence| *sequence <= command.through);
        let sequences: Vec<Sequence> = has_come.take(SETTLED_MAX).collect();
        if !sequences.is_empty() {
            self.enact(now, &Change::Acked { queue: command.outbox, sequences: &sequences });
        }
        Ok(Outcome::Done)
    }

    /// The target is gone: what is owed to it goes back, and an outbox that is empty already goes away.
    pub(in crate::ledger) fn take_back(
        &mut self,
        now: Timestamp,
        command: TakeBack,
    ) -> Result<Outcome, StoreError> {
        let ready = self.outbox_book(command.outbox)?.ready_items();
        let items: Vec<Item> = ready.take(usize::try_from(command.max).unwrap_or(usize::MAX)).collect();
        if self.outbox_book(command.outbox)?.stored() == 0 {
            self.enact(now, &Change::QueueDeleted(command.outbox));
        }
        self.shelf.room(items.len() as u64 * RETURN_BYTES)?;
        for item in &items {
            self.go_back(now, command.outbox, item, Timestamp::ZERO);
        }
        Ok(Outcome::TakenBack(u32::try_from(items.len()).unwrap_or(u32::MAX)))
    }

    /// A message goes back to the queue it left, behind what is there, and shows from `visible_at` on. Without that
    /// queue it goes the way of its target.
    fn go_back(&mut self, now: Timestamp, outbox: QueueId, item: &Item, visible_at: Timestamp) {
        let Some(book) = self.books.get(&outbox) else { return };
        let source = book.origin_of(item).and_then(|(key, _)| self.source_of(key));
        let Some(source) = source.cloned() else {
            self.enact(now, &Change::Dropped { queue: outbox, sequence: item.sequence, due: false });
            return;
        };
        let back = DeadLettered {
            from: outbox,
            sequence: item.sequence,
            to: source.id,
            as_sequence: self.next_sequence(&source),
            place: item.place(),
            body_bytes: item.body_bytes,
            group: book.group_name(item).map(|name| GroupId(Text::from(name))),
            sent_at: item.sent_at,
            expiry: item.expiry,
            attempts: item.attempts,
            first_leased_at: item.first_leased_at.get(),
            visible_at,
            delayed: visible_at > now,
            // It came from nowhere else.
            origin: QueueKey::new(OWN_ACCOUNT, "", ""),
            due: false,
        };
        self.enact(now, &Change::DeadLettered(back));
    }
}

fn read_sequence(bytes: &[u8]) -> Option<Sequence> {
    bytes.try_into().ok().map(|bytes| Sequence(u64::from_be_bytes(bytes)))
}

fn shelf_bytes(message: &OwedMessage) -> u64 {
    let text = |text: Option<&Text>| text.map_or(0, |text| text.as_bytes().len());
    let texts = text(message.group.as_ref().map(|group| &group.0))
        + text(message.deduplication.as_ref().map(|id| &id.0))
        + message.origin.queue.region.len()
        + message.origin.queue.name.len();
    (message.content.body.len() + message.content.annotations.len() + texts) as u64 + MESSAGE_BYTES + 128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Bounds;
    use crate::ledger::scene::{NOW, Scene};
    use kew_core::Command;
    use kew_core::command::UpdateQueue;

    #[test]
    fn source_is_found_by_its_number_and_in_outboxes_of_before_by_its_name() {
        let mut scene = Scene::new(Bounds::default());
        let id = scene.queue("source", Policy::standard());
        let before = Arc::clone(&scene.ledger.book(id).expect("the queue was made by this test").queue);
        let found = |scene: &Scene, left: &QueueKey| scene.ledger.source_of(left).map(|queue| queue.id);
        assert_eq!(found(&scene, &own::left(&before)), Some(id));
        assert_eq!(found(&scene, &before.key), Some(id));
        let renamed = Some(QueueKey { name: "renamed".into(), ..before.key.clone() });
        let update =
            UpdateQueue { queue: id, if_version: None, policy: None, documents: Vec::new(), rename: renamed };
        scene.step(NOW, &Command::UpdateQueue(update));
        assert_eq!(found(&scene, &own::left(&before)), Some(id));
        assert_eq!(found(&scene, &before.key), None);
    }
}
