//! What a receipt can do: delete a message, give its lease another end, give it up, or undo it.

use kew_core::command::{Ack, Extend, Extension, Promote, Release, ReleaseOwners, Withdraw};
use kew_core::event::Words;
use kew_core::outcome::Extended;
use kew_core::rules::retry;
use kew_core::rules::visibility::{self, Receipts};
use kew_core::{
    EventKind, Failure, LeaseToken, Outcome, QueueId, ReceiptRule, Return, RuleError, Sequence, Timestamp,
    WhenFree,
};
use smallvec::SmallVec;
use std::time::Duration;

use super::send::MESSAGE_BYTES;
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::book::Book;
use crate::ledger::change::{self, Change, Rewritten};
use crate::ledger::item::{Entry, Hold};
use crate::ledger::shelf::{Place, Shelf};
use crate::token::TokenKey;

/// A message whose receipt was accepted.
struct Accepted {
    sequence: Sequence,
    place: Place,
    body_bytes: u32,
    newest_nonce: u64,
    /// Its lease, if one is running: when the request arrived, how long it may last, and where it returns to.
    lease: Option<(Timestamp, Option<Duration>)>,
}

impl<S: Shelf> Ledger<S> {
    /// Checks a receipt: genuine, of this queue, of a live message, and still good by the caller's rule.
    fn accept(
        &self,
        now: Timestamp,
        book: &Book,
        rule: ReceiptRule,
        token: &LeaseToken,
    ) -> Result<Accepted, RuleError> {
        let queue = book.queue.id;
        let entry = if token.queue == queue { book.entry(token.sequence) } else { None };
        if !entry.and_then(Entry::sealed).is_some_and(|kept| TokenKey::is_same(token, kept)) {
            self.key.verify(token)?;
        }
        if token.queue != queue {
            return Err(RuleError::TokenOfOtherQueue);
        }
        let item = match entry {
            Some(entry) => &entry.item,
            None => &book.find_without_entry(token.sequence).ok_or(RuleError::MessageNotFound)?,
        };
        if book.queue.policy.kind.is_fifo() && !item.has_nonce() {
            // Groups are served in order: a message that was never leased cannot be settled ahead of its turn.
            match rule {
                ReceiptRule::OutOfTurn => {}
                ReceiptRule::Any | ReceiptRule::Current => return Err(RuleError::TokenStale),
                ReceiptRule::Unexpired => return Err(RuleError::LeaseEnded),
            }
        }
        let lease_end = match entry {
            Some(entry) => entry.lease_end(),
            None => item.lease_end.get(),
        };
        let known = Receipts { newest: self.newest_nonce(queue, item), lease_end };
        visibility::check_receipt(rule, token.nonce, known, now)?;
        let lease = entry.and_then(|entry| match &entry.hold {
            Hold::Leased(lease) => Some((lease.received_at, lease.cap)),
            Hold::Ready | Hold::Delayed => None,
        });
        let (sequence, place, body_bytes) = (item.sequence, item.place(), item.body_bytes);
        Ok(Accepted { sequence, place, body_bytes, newest_nonce: known.newest, lease })
    }

    pub(in crate::ledger) fn ack(&mut self, now: Timestamp, command: &Ack) -> Result<Outcome, StoreError> {
        if command.tokens.is_empty() {
            self.book(command.queue)?;
        }
        let mut results = Vec::with_capacity(command.tokens.len());
        let mut sequences: SmallVec<[Sequence; 4]> = SmallVec::with_capacity(command.tokens.len());
        for token in &command.tokens {
            let accepted = self.accept(now, self.book(command.queue)?, command.receipt, token);
            // One that was acked by a token before is gone for those behind it.
            let is_gone = token.queue == command.queue && sequences.contains(&token.sequence);
            results.push(match accepted {
                Err(error @ RuleError::TokenForged) => Err(error),
                _ if is_gone => Err(RuleError::MessageNotFound),
                Err(error) => Err(error),
                Ok(accepted) => {
                    sequences.push(accepted.sequence);
                    Ok(())
                }
            });
        }
        if !sequences.is_empty() {
            self.enact(now, &Change::Acked { queue: command.queue, sequences: &sequences });
        }
        Ok(Outcome::Acked(results))
    }

    pub(in crate::ledger) fn extend(
        &mut self,
        now: Timestamp,
        command: &Extend,
    ) -> Result<Outcome, StoreError> {
        self.book(command.queue)?;
        let contents = command.entries.iter().filter_map(|entry| entry.content.as_ref());
        let bytes: u64 = contents
            .map(|content| (content.body.len() + content.annotations.len()) as u64 + 2 * MESSAGE_BYTES + 256)
            .sum();
        if bytes > 0 {
            let replaced = self.replaced(now, command)?;
            // Of the old records their bodies go, and the rest may stay.
            let kept = |old: &Accepted| u64::from(old.place.bytes.saturating_sub(old.body_bytes));
            // Room first: what is at hand can be read once.
            self.shelf.room(bytes + replaced.iter().map(kept).sum::<u64>())?;
            let all_at_hand =
                |all: Result<(), StoreError>, old: &Accepted| all.and(self.shelf.at_hand(old.place));
            replaced.iter().fold(Ok(()), all_at_hand)?;
        }
        let results = command
            .entries
            .iter()
            .map(|entry| self.extend_one(now, command, entry))
            .collect::<Result<_, _>>()?;
        Ok(Outcome::Extended(results))
    }

    /// Messages that get another content. Their names and annotations are taken over from the old one: all of those are
    /// at hand first, so that the step is done whole or not at all.
    fn replaced(&self, now: Timestamp, command: &Extend) -> Result<SmallVec<[Accepted; 1]>, StoreError> {
        let book = self.book(command.queue)?;
        let with_content = command.entries.iter().filter(|entry| entry.content.is_some());
        let accepted = with_content.map(|entry| self.accept(now, book, command.receipt, &entry.token));
        Ok(accepted.flatten().collect())
    }

    fn extend_one(
        &mut self,
        now: Timestamp,
        command: &Extend,
        entry: &Extension,
    ) -> Result<Result<Extended, RuleError>, StoreError> {
        let accepted = match self.accept(now, self.book(command.queue)?, command.receipt, &entry.token) {
            Ok(accepted) => accepted,
            Err(error) => return Ok(Err(error)),
        };
        let when_free = visibility::when_free(command.receipt, command.when_free);
        let until = match (accepted.lease, when_free) {
            (Some((received_at, cap)), _) => visibility::extend_until(received_at, cap, now, entry.length),
            (None, WhenFree::Hide) => Ok(visibility::lease_until(now, entry.length)),
            (None, WhenFree::Ignore) => return Ok(Ok(Extended::Free)),
        };
        let until = match until {
            Ok(until) => until,
            Err(error) => return Ok(Err(error)),
        };
        // The old content is read first: under damage nothing has changed yet.
        let stored = match &entry.content {
            Some(_) => Some(self.shelf.read(accepted.place)?),
            None => None,
        };
        let rewritten = entry.content.as_ref().zip(stored.as_ref());
        let rewritten = rewritten.map(|(content, stored)| (content.in_place_of(&stored.content), stored));
        let content = rewritten.as_ref().map(|(content, stored)| Rewritten {
            id: stored.id,
            content,
            group: stored.group.as_ref(),
            deduplication: stored.deduplication.as_ref(),
        });
        let extended = change::Extended {
            queue: command.queue,
            sequence: accepted.sequence,
            until,
            nonce: command.renew.then(|| self.new_nonce()),
            returns: if command.renew { Return::Behind } else { Return::InPlace },
            content,
        };
        let nonce = extended.nonce.unwrap_or(accepted.newest_nonce);
        let token = self.key.seal(command.queue, accepted.sequence, nonce);
        self.enact(now, &Change::Extended(extended));
        Ok(Ok(Extended::Until { until, token }))
    }

    pub(in crate::ledger) fn release(
        &mut self,
        now: Timestamp,
        command: &Release,
    ) -> Result<Outcome, StoreError> {
        self.book(command.queue)?;
        let results = command
            .entries
            .iter()
            .map(|(token, delay)| {
                let accepted = self.accept(now, self.book(command.queue)?, command.receipt, token)?;
                accepted.lease.ok_or(RuleError::LeaseEnded)?;
                Ok(self.release_one(now, command.queue, accepted.sequence, *delay))
            })
            .collect();
        Ok(Outcome::Released(results))
    }

    /// Ends a lease now. A message tried often enough leaves before any retry delay.
    fn release_one(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: Sequence,
        delay: Duration,
    ) -> Timestamp {
        // Where it is not known whether there is a target, the next lease decides again.
        if self.depart_if_exhausted(now, queue, sequence).unwrap_or(false) {
            return now;
        }
        let visible_at = retry::after_release(now, delay);
        self.enact(now, &Change::Released { queue, sequence, visible_at });
        visible_at
    }

    pub(in crate::ledger) fn promote(
        &mut self,
        now: Timestamp,
        command: &Promote,
    ) -> Result<Outcome, StoreError> {
        let queue = command.queue;
        self.book(queue)?;
        let results = command.tokens.iter().map(|token| {
            let book = self.book(queue)?;
            let accepted = self.accept(now, book, ReceiptRule::OutOfTurn, token)?;
            if !book.is_hidden_by_delay(accepted.sequence) {
                return Err(RuleError::NotDelayed);
            }
            self.enact(now, &Change::Released { queue, sequence: accepted.sequence, visible_at: now });
            Ok(())
        });
        Ok(Outcome::Promoted(results.collect()))
    }

    pub(in crate::ledger) fn release_owners(
        &mut self,
        now: Timestamp,
        command: ReleaseOwners,
    ) -> Result<Outcome, StoreError> {
        let mut queues: Vec<QueueId> = self.books.keys().copied().collect();
        queues.sort_unstable();
        for queue in queues {
            for (sequence, lease) in self.book(queue)?.owned() {
                if lease.owner != Some(command.except) {
                    let kind = EventKind::Failed { why: Failure::OwnerGone, detail: Words::default() };
                    self.history.push(now, queue, sequence, kind);
                    self.release_one(now, queue, sequence, lease.lapse_delay);
                }
            }
        }
        Ok(Outcome::Done)
    }

    pub(in crate::ledger) fn withdraw(
        &mut self,
        now: Timestamp,
        command: &Withdraw,
    ) -> Result<Outcome, StoreError> {
        let sequences = self.undo(now, command.queue, &command.tokens)?;
        Ok(Outcome::Withdrawn(u32::try_from(sequences.len()).unwrap_or(u32::MAX)))
    }

    /// Undoes leases; answers the messages whose lease was running and unchanged.
    pub(super) fn undo(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Sequence>, RuleError> {
        let book = self.book(queue)?;
        let is_unchanged = |token: &&LeaseToken| {
            let Some((item, Some(entry))) = book.find(token.sequence) else { return false };
            let kept = matches!(&entry.hold, Hold::Leased(lease) if lease.before.is_some());
            kept && item.nonce == token.nonce && token.queue == queue && self.key.verify(token).is_ok()
        };
        // The last one first, so that groups stand in the rotation as they did before.
        let mut sequences: Vec<Sequence> = Vec::with_capacity(tokens.len());
        for token in tokens.iter().rev().filter(is_unchanged) {
            if !sequences.contains(&token.sequence) {
                sequences.push(token.sequence);
            }
        }
        if !sequences.is_empty() {
            self.enact(now, &Change::Withdrawn { queue, sequences: &sequences });
        }
        Ok(sequences)
    }
}
