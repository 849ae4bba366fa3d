//! The steps: each checks what was asked by the laws, then records what changed on the shelf and applies it to the
//! books.

mod browse;
mod dead_letters;
pub(in crate::ledger) mod expiry;
mod inspect;
mod lease;
mod look;
mod owed;
mod queues;
mod receipts;
mod redrive;
mod send;
mod unreadable;

use kew_core::{Message, Origin, QueueId, State, Timestamp};

use super::Ledger;
use super::book::Book;
use super::change::Change;
use super::item::Item;
use super::shelf::{Made, Place, Shelf, Stored, deduplicated_by};

impl<S: Shelf> Ledger<S> {
    /// Keeps a change on the shelf and makes it true, as replay does. Every step changes the ledger here, but for
    /// [`Ledger::lease`], which claims while it chooses, and for the outbox that a step makes on its way (`owed.rs`).
    fn enact(&mut self, at: Timestamp, change: &Change<'_>) {
        let place = self.record(at, change);
        self.apply(at, change, place, &|_| false);
    }

    /// Keeps a change on the shelf.
    fn record(&mut self, at: Timestamp, change: &Change<'_>) -> Place {
        let begins_step = self.pace.note_change();
        self.shelf.record(Made { at, begins_step }, change)
    }

    /// The nonce of a message's newest receipt.
    fn newest_nonce(&self, queue: QueueId, item: &Item) -> u64 {
        if item.has_nonce() { item.nonce } else { self.key.first_nonce(queue, item.sequence) }
    }

    /// A nonce that cannot be foreseen; zero is kept for "never leased".
    fn new_nonce(&self) -> u64 {
        self.entropy.bits().max(1)
    }
}

/// A message as it is shown.
#[inline]
fn shown(book: &Book, item: &Item, stored: Stored, state: State) -> Message {
    let origin = book.origin_of(item).map(|(queue, reason)| Origin {
        queue: queue.clone(),
        reason: *reason,
        at: item.moved_at,
    });
    let deduplication = deduplicated_by(stored.id, stored.deduplication, origin.as_ref());
    let expires_at = item.expires_at(book.queue.policy.retention);
    Message {
        queue: book.queue.id,
        sequence: item.sequence,
        id: stored.id,
        content: stored.content,
        group: stored.group,
        deduplication,
        sent_at: item.sent_at,
        expires_at: (expires_at != Timestamp::NEVER).then_some(expires_at),
        attempts: item.attempts,
        first_leased_at: item.first_leased_at.get(),
        origin,
        state,
    }
}
