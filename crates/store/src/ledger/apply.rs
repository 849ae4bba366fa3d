//! Applies changes to the ledger: the same code when a step makes them and when a journal brings them back.

use std::collections::BTreeSet;

use bytes::Bytes;
use kew_core::rules::visibility::LeaseEnd;
use kew_core::{
    AccountId, DocumentKey, Event, EventKind, MoveReason, Queue, QueueId, Sequence, TaskId, TaskState,
    Timestamp,
};

use super::Ledger;
use super::book::Book;
use super::change::{Brought, Change, DeadLettered, Extended, Leased, Sent};
use super::dedup::First;
use super::due::Due;
use super::history::Ring;
use super::item::{Item, Lease, MaybeInstant};
use super::names::Names;
use super::passing::list;
use super::shelf::{Made, Place, Shelf};
use super::steps::expiry::is_own;
use crate::token::Sealed;

/// Finished tasks that are remembered.
const FINISHED_TASKS: usize = 100;

/// Whether the checkpoint of this queue reflects the change already. A dead letter touches two queues, whose slices may
/// differ in age.
pub type Known<'a> = &'a dyn Fn(QueueId) -> bool;

impl<S: Shelf> Ledger<S> {
    /// Applies a change again. Queues for which `known` says so have it already.
    pub fn replay(&mut self, made: Made, change: &Change<'_>, place: Place, known: Known<'_>) {
        let at = made.at;
        self.pace.begin_replay();
        (self.settled, self.newest) = (self.newest, self.newest.max(at));
        match change {
            // A departure at the end of a lease happened in the midst of what was due.
            Change::DeadLettered(DeadLettered { from: queue, sequence, due: true, .. })
            | Change::Dropped { queue, sequence, due: true }
            | Change::Stayed { queue, sequence } => {
                self.run_due_through(at, *queue);
                // A checkpoint may know of another lease of the message by now.
                if !known(*queue)
                    && let Some(book) = self.books.get_mut(queue)
                {
                    book.note_decided(*sequence);
                }
            }
            _ if made.begins_step => self.run_due(at),
            _ => {}
        }
        self.apply(at, change, place, known);
        self.pace.begin_due(&self.bounds);
    }

    /// Everything was replayed. Queues of different reach may have had each other's names on the way.
    pub fn end_replay(&mut self) {
        // What happened before the store was opened was counted then.
        for book in self.books.values_mut() {
            (book.leased, book.acked) = (0, 0);
            // A checkpoint may have been made before they were looked at.
            if book.departs_by(self.newest) {
                self.overdue.insert(book.queue.id, self.newest);
            }
        }
        self.take_up_undecided();
        self.history.begin_to_count(self.books.values().map(|book| (book.queue.id, book.given())));
        self.names = Names::of(self.books.values().map(|book| book.queue.clone()));
    }

    /// Makes a change true, for a step and for replay.
    pub(super) fn apply(&mut self, at: Timestamp, change: &Change<'_>, place: Place, known: Known<'_>) {
        if let Change::DeadLettered(moved) = change {
            // It arrives before it leaves: its content is never without a message.
            if !known(moved.to) {
                self.apply_arrived(at, moved);
            }
            if !known(moved.from) {
                self.apply_left(at, moved);
            }
            return;
        }
        if change.queues().into_iter().flatten().any(known) {
            return;
        }
        match change {
            Change::QueueSet(queue) => self.apply_queue_set(at, queue.clone()),
            Change::QueueDeleted(queue) => self.apply_queue_deleted(at, *queue),
            Change::Sent(sent) => self.apply_sent(at, sent, place),
            Change::Leased(leased) => self.apply_leased(at, leased),
            Change::Repeated { queue, until, sequences } => {
                self.apply_repeated(at, *queue, *until, sequences);
            }
            Change::Withdrawn { queue, sequences } => self.apply_withdrawn(*queue, sequences),
            Change::Acked { queue, sequences } => {
                for sequence in *sequences {
                    self.apply_removed(at, *queue, *sequence, EventKind::Acked);
                }
            }
            Change::Extended(extended) => self.apply_extended(at, extended, place),
            Change::Released { queue, sequence, visible_at } => {
                self.apply_released(at, *queue, *sequence, *visible_at);
            }
            Change::Dropped { queue, sequence, .. } => {
                self.apply_removed(at, *queue, *sequence, EventKind::Dropped);
            }
            Change::Brought(brought) => self.apply_brought(at, brought, place),
            Change::Redriven { queue, sequence, to, as_sequence } => {
                let kind = EventKind::Redriven { to: *to, sequence: *as_sequence };
                self.apply_removed(at, *queue, *sequence, kind);
            }
            Change::Purged(queue) => self.apply_purged(at, *queue),
            Change::TaskSet(task) => self.apply_task(task.clone()),
            Change::DocumentSet { account, key, bytes } => {
                self.apply_document_set(*account, key, bytes.as_ref());
            }
            Change::DeadLettered(_) | Change::Stayed { .. } => {}
        }
    }

    fn apply_queue_set(&mut self, at: Timestamp, queue: std::sync::Arc<Queue>) {
        let queue = self.regions.share_of(queue);
        let id = queue.id;
        self.next_queue = self.next_queue.max(QueueId(id.0 + 1));
        match self.books.get_mut(&id) {
            Some(book) => {
                // While changes are replayed another queue may have this name already.
                self.names.forget(&book.queue);
                book.set_queue(queue.clone(), at);
                book.note_set_at(self.shelf.mark());
            }
            None => {
                let mut book = Book::new(queue.clone());
                book.expire_through(self.expiry_through);
                self.books.insert(id, book);
            }
        }
        self.note_outbox(&queue);
        self.names.set(queue);
        self.changed(id);
        self.free(id);
        // A shorter delay of a FIFO queue shows what is over under it.
        self.show_some_of(id);
    }

    fn apply_document_set(&mut self, account: AccountId, key: &DocumentKey, bytes: Option<&Bytes>) {
        let place = (account, key.clone());
        match bytes {
            Some(bytes) => self.documents.insert(place, bytes.clone()),
            None => self.documents.remove(&place),
        };
        if is_own(account) {
            self.follow_expiry_hold();
        }
    }

    fn apply_queue_deleted(&mut self, at: Timestamp, queue: QueueId) {
        self.empty(at, queue, Event::WHOLE_QUEUE);
        if let Some(book) = self.books.remove(&queue) {
            self.names.forget(&book.queue);
            self.due.remove((book.registered, queue));
        }
        self.outboxes.remove(&queue);
        self.dirty.remove(&queue);
        self.forget_undecided(queue);
        self.forget_cut_short(queue);
        self.history.forget(queue);
        self.free(queue);
    }

    fn apply_purged(&mut self, at: Timestamp, queue: QueueId) {
        let through = self.books.get(&queue).map_or(0, Book::given);
        self.empty(at, queue, Sequence(through));
        self.changed(queue);
    }

    /// Everything leaves a queue, which is one event for all of it.
    fn empty(&mut self, at: Timestamp, queue: QueueId, through: Sequence) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        let cleared = book.clear();
        if cleared.remains.is_some() && !self.outboxes.contains(&queue) {
            self.history.push(at, queue, through, EventKind::Purged);
        }
        if let Some(order) = cleared.over {
            self.see_off_split(queue, order);
        }
        if let Some(remains) = cleared.remains {
            self.emptied.put(remains);
            // All of it, mostly.
            self.give_back_slice();
        }
    }

    /// Notes that a queue changed: the next checkpoint writes it, and its next instant may be another.
    pub(super) fn changed(&mut self, queue: QueueId) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        if !std::mem::replace(&mut book.changed, true) {
            self.dirty.insert(queue);
        }
        list(&mut self.due, book);
    }

    fn apply_sent(&mut self, at: Timestamp, sent: &Sent<'_>, place: Place) {
        let Some(book) = self.books.get_mut(&sent.queue) else { return };
        let body_bytes = u32::try_from(sent.content.body.len()).unwrap_or(u32::MAX);
        let item = Item {
            sequence: sent.sequence,
            address: place.address,
            record_bytes: place.bytes,
            body_bytes,
            sent_at: at,
            rank: sent.rank,
            visible_at: sent.visible_at,
            expiry: sent.expiry,
            group: book.group(sent.group),
            attempts: 0,
            first_leased_at: MaybeInstant::NONE,
            nonce: 0,
            lease_end: MaybeInstant::NONE,
            origin: sent.origin.map(|origin| book.origin(&origin.queue, origin.reason)),
            moved_at: sent.origin.map_or(Timestamp::ZERO, |origin| origin.at),
        };
        // One that is hidden may have to be dealt out again before it shows.
        let next = if item.visible_at > at { at } else { item.expires_at(book.queue.policy.retention) };
        book.enter(item, at);
        if let Some(identity) = sent.identity {
            let first = First { at, id: sent.id, sequence: sent.sequence };
            self.sends.remember(identity, first);
        }
        self.shelf.occupy(place);
        let is_owed = sent.origin.is_some() && self.outboxes.contains(&sent.queue);
        if sent.origin.is_some() {
            self.history.count_moved_in(sent.queue);
        }
        if !is_owed {
            let kind = EventKind::Sent { id: sent.id, visible_at: sent.visible_at };
            self.history.push(at, sent.queue, sent.sequence, kind);
        }
        changed_until(&mut self.dirty, &mut self.due, book, next);
        self.free(sent.queue);
    }

    fn apply_leased(&mut self, at: Timestamp, leased: &Leased<'_>) {
        let Some(book) = self.books.get_mut(&leased.queue) else { return };
        for (sequence, nonce) in leased.taken {
            lease_one(book, &mut self.history, at, leased, *sequence, *nonce, None);
        }
        self.end_lease(at, leased);
    }

    /// All messages taken together are leased.
    pub(super) fn end_lease(&mut self, at: Timestamp, leased: &Leased<'_>) {
        let Some(book) = self.books.get_mut(&leased.queue) else { return };
        if let Some(attempt) = leased.attempt {
            book.remember_attempt(attempt, at, leased.taken.iter().map(|(sequence, _)| *sequence).collect());
        }
        changed_until(&mut self.dirty, &mut self.due, book, leased.until);
    }

    fn apply_repeated(&mut self, at: Timestamp, queue: QueueId, until: Timestamp, sequences: &[Sequence]) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        for sequence in sequences {
            book.repeat(*sequence, until);
            self.history.push(at, queue, *sequence, EventKind::Extended { until });
        }
        self.changed(queue);
    }

    fn apply_withdrawn(&mut self, queue: QueueId, sequences: &[Sequence]) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        for sequence in sequences {
            book.withdraw(*sequence);
        }
        self.free(queue);
        self.changed(queue);
    }

    /// A message leaves its queue for good.
    fn apply_removed(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence, kind: EventKind) {
        let acked = u32::from(kind == EventKind::Acked);
        if let Some(place) = self.take_out(queue, sequence, acked) {
            self.shelf.vacate(place);
            // The two queues that a message moves between have the events of its time in an outbox.
            if !self.outboxes.contains(&queue) {
                self.history.push(at, queue, sequence, kind);
            }
        }
    }

    /// Takes a message out of its queue; `acked` is 1 if its receiver deleted it, else 0.
    #[inline]
    fn take_out(&mut self, queue: QueueId, sequence: Sequence, acked: u32) -> Option<Place> {
        let book = self.books.get_mut(&queue)?;
        let left = book.leave(sequence)?;
        book.acked = book.acked.wrapping_add(acked);
        let (place, group) = (left.place(), left.group);
        // A group's next message may have become its head; a lease may have made room for another.
        let is_fifo = book.queue.policy.kind.is_fifo();
        let frees = is_fifo || std::mem::take(&mut book.limited);
        if is_fifo {
            book.note_left_at(group, self.shelf.mark());
        }
        // Nothing becomes due earlier because a message left.
        if !std::mem::replace(&mut book.changed, true) {
            self.dirty.insert(queue);
        }
        if frees {
            self.free(queue);
        }
        Some(place)
    }

    fn apply_extended(&mut self, at: Timestamp, extended: &Extended<'_>, place: Place) {
        let Some(book) = self.books.get_mut(&extended.queue) else { return };
        let Extended { sequence, until, .. } = *extended;
        // For one that was given back the event of its end stands alone.
        if book.extend(sequence, at, until, extended.nonce, extended.returns) == LeaseEnd::RanOut {
            self.history.push(at, extended.queue, sequence, EventKind::Extended { until });
        }
        if let Some(content) = &extended.content {
            let body_bytes = u32::try_from(content.content.body.len()).unwrap_or(u32::MAX);
            if let Some(old) = book.rewrite(extended.sequence, place, body_bytes) {
                self.shelf.vacate(old);
                self.shelf.occupy(place);
            }
            self.history.push(at, extended.queue, extended.sequence, EventKind::Rewritten);
        }
        self.changed(extended.queue);
    }

    fn apply_released(&mut self, at: Timestamp, queue: QueueId, sequence: Sequence, visible_at: Timestamp) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        if book.release(sequence, at, visible_at, at) {
            self.history.push(at, queue, sequence, EventKind::Released { visible_at });
        } else if book.promote(sequence, at) {
            self.history.push(at, queue, sequence, EventKind::Promoted);
        }
        self.free(queue);
        self.changed(queue);
    }

    fn apply_left(&mut self, at: Timestamp, moved: &DeadLettered) {
        // Its content stays where it lies; the arrival goes on with it.
        if let Some(left) = self.take_out(moved.from, moved.sequence, 0) {
            self.shelf.vacate(left);
        }
        if self.outboxes.contains(&moved.from) {
            return;
        }
        let kind = EventKind::DeadLettered { to: moved.to, sequence: moved.as_sequence };
        self.history.push(at, moved.from, moved.sequence, kind);
    }

    fn apply_arrived(&mut self, at: Timestamp, moved: &DeadLettered) {
        let is_owed = self.outboxes.contains(&moved.to);
        // One that comes back from an outbox is from nowhere.
        let is_from = !moved.origin.name.is_empty();
        let Some(book) = self.books.get_mut(&moved.to) else { return };
        let item = Item {
            sequence: moved.as_sequence,
            address: moved.place.address,
            record_bytes: moved.place.bytes,
            body_bytes: moved.body_bytes,
            sent_at: moved.sent_at,
            // An outbox is carried in the order of its places, and each of them is settled once.
            rank: if is_owed { Timestamp::ZERO } else { at },
            visible_at: if moved.delayed { moved.visible_at } else { Timestamp::ZERO },
            expiry: moved.expiry,
            group: book.group(moved.group.as_ref()),
            attempts: moved.attempts,
            first_leased_at: moved.first_leased_at.into(),
            nonce: 0,
            lease_end: MaybeInstant::NONE,
            origin: is_from.then(|| book.origin(&moved.origin, MoveReason::AttemptsExhausted)),
            moved_at: if is_from { at } else { Timestamp::ZERO },
        };
        book.enter(item, at);
        self.shelf.occupy(moved.place);
        if !is_owed {
            let kind = EventKind::Arrived { from: moved.from, sequence: moved.sequence };
            self.history.push(at, moved.to, moved.as_sequence, kind);
        }
        self.free(moved.to);
        self.changed(moved.to);
    }

    fn apply_brought(&mut self, at: Timestamp, brought: &Brought<'_>, place: Place) {
        let sent = &brought.sent;
        let Some(book) = self.books.get_mut(&sent.queue) else { return };
        let item = Item {
            sequence: sent.sequence,
            address: place.address,
            record_bytes: place.bytes,
            body_bytes: u32::try_from(sent.content.body.len()).unwrap_or(u32::MAX),
            sent_at: brought.sent_at,
            rank: sent.rank,
            visible_at: sent.visible_at,
            expiry: sent.expiry,
            group: book.group(sent.group),
            attempts: brought.attempts,
            first_leased_at: brought.first_leased_at.into(),
            nonce: 0,
            lease_end: MaybeInstant::NONE,
            origin: sent.origin.map(|origin| book.origin(&origin.queue, origin.reason)),
            moved_at: sent.origin.map_or(Timestamp::ZERO, |origin| origin.at),
        };
        book.enter(item, at);
        self.shelf.occupy(place);
        let kind = EventKind::Arrived { from: brought.from, sequence: brought.from_sequence };
        self.history.push(at, sent.queue, sent.sequence, kind);
        self.free(sent.queue);
        self.changed(sent.queue);
    }

    fn apply_task(&mut self, task: std::sync::Arc<kew_core::MoveTask>) {
        self.next_task = self.next_task.max(TaskId(task.id.0 + 1));
        self.tasks.insert(task.id, task);
        let finished = |task: &kew_core::MoveTask| task.state != TaskState::Running;
        let mut surplus =
            self.tasks.values().filter(|task| finished(task)).count().saturating_sub(FINISHED_TASKS);
        self.tasks.retain(|_, task| {
            let forgotten = surplus > 0 && finished(task);
            surplus -= usize::from(forgotten);
            !forgotten
        });
    }
}

/// A queue has changed, and nothing in it but `next` may have become due.
#[inline]
fn changed_until(dirty: &mut BTreeSet<QueueId>, due: &mut Due, book: &mut Book, next: Timestamp) {
    if !std::mem::replace(&mut book.changed, true) {
        dirty.insert(book.queue.id);
    }
    if next < book.registered {
        list(due, book);
    }
}

/// Leases one message of several taken together.
#[inline]
pub(super) fn lease_one(
    book: &mut Book,
    history: &mut Ring,
    at: Timestamp,
    terms: &Leased<'_>,
    sequence: Sequence,
    nonce: u64,
    sealed: Option<Sealed>,
) -> Option<Item> {
    let lease = Lease {
        until: terms.until,
        received_at: terms.received_at,
        cap: terms.cap,
        lapse_delay: terms.lapse_delay,
        returns: terms.returns,
        owner: terms.owner,
        attempt: None,
        sealed,
        before: None,
        ending: LeaseEnd::RanOut,
    };
    let item = book.lease(sequence, nonce, at, lease)?;
    let kind = EventKind::Leased { by: terms.by, until: terms.until, attempts: item.attempts };
    history.push(at, terms.queue, sequence, kind);
    book.leased = book.leased.wrapping_add(1);
    if item.attempts == 1 {
        let ready_at = item.sent_at.max(item.visible_at);
        history.count_wait(terms.queue, at.0.saturating_sub(ready_at.0));
    }
    Some(item)
}
