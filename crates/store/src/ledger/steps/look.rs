//! Looking: what is there, without touching it.

use kew_core::command::{Identify, Peek, Purge, View};
use kew_core::rules::batching;
use kew_core::{Counts, Outcome, QueueId, RuleError, State, Timestamp};

use super::shown;
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::book::Book;
use crate::ledger::change::Change;
use crate::ledger::item::Item;
use crate::ledger::shelf::Shelf;

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn counts(&mut self, queue: QueueId) -> Result<Counts, StoreError> {
        let now = self.newest;
        Ok(self.book_mut(queue)?.counts(now))
    }

    pub(in crate::ledger) fn peek(&mut self, _now: Timestamp, command: &Peek) -> Result<Outcome, StoreError> {
        // Where anything shows, a peek sees some of it.
        let book = self.book_mut(command.queue)?;
        book.front();
        if book.first_turn().is_none() && book.may_begin_to_offer() {
            self.first_turn(command.queue);
        }
        let found = seen(self.book(command.queue)?, command);
        let mut messages = Vec::with_capacity(found.len());
        let mut bytes = 0;
        for (item, state) in found {
            if !batching::fits(messages.len(), bytes, u64::from(item.body_bytes), command.body_bytes_max) {
                break;
            }
            bytes += u64::from(item.body_bytes);
            let stored = self.shelf.fetch(item.sequence, item.place())?;
            let token = self.token(command.queue, &item);
            messages.push((shown(self.book(command.queue)?, &item, stored, state), token));
        }
        Ok(Outcome::Peeked(messages))
    }

    /// A message keeps its id for life, so a caller that asks first and acts then acts on the same message.
    pub(in crate::ledger) fn identify(&mut self, command: &Identify) -> Result<Outcome, StoreError> {
        let book = self.book(command.queue)?;
        self.key.verify(&command.token)?;
        if command.token.queue != command.queue {
            return Err(RuleError::TokenOfOtherQueue.into());
        }
        let (item, _) = book.find(command.token.sequence).ok_or(RuleError::MessageNotFound)?;
        Ok(Outcome::Identified(self.shelf.fetch(item.sequence, item.place())?.id))
    }

    pub(in crate::ledger) fn purge(&mut self, now: Timestamp, command: Purge) -> Result<Outcome, StoreError> {
        let messages = self.book(command.queue)?.stored();
        self.enact(now, &Change::Purged(command.queue));
        Ok(Outcome::Purged(messages))
    }
}

/// The messages a look is after, with what each is doing.
fn seen(book: &Book, command: &Peek) -> Vec<(Item, State)> {
    let skip = usize::try_from(command.skip).unwrap_or(usize::MAX);
    let max = usize::try_from(command.max).unwrap_or(usize::MAX);
    let is_fifo = book.queue.policy.kind.is_fifo();
    match command.view {
        View::Ready if is_fifo => {
            book.offered().skip(skip).take(max).map(|item| (item, State::Ready)).collect()
        }
        View::Ready => book.ready_items().skip(skip).take(max).map(|item| (item, State::Ready)).collect(),
        View::Delayed => {
            let held = book.leased_or_hidden(false, skip.saturating_add(max)).into_iter().skip(skip);
            held.map(|(until, item)| (item, State::Delayed { until })).collect()
        }
        View::Leased => {
            let held = book.leased_or_hidden(true, skip.saturating_add(max)).into_iter().skip(skip);
            held.map(|(until, item)| (item, State::Leased { until })).collect()
        }
    }
}
