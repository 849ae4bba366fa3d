//! Leases of a standard queue that end together, a million at one instant perhaps: their messages are offered again
//! some at a time.
//!
//! From that instant on all of them count as over: the figures follow by one subtraction, a receipt is judged by the
//! time, and room for new leases is there. A step of due work makes a slice of the messages ready, the next one a
//! millisecond later; a step that offers messages of the queue makes some ready first, and one that names messages sees
//! to those. Equal instants have no promised order, so a receive in between is given what is ready by then. Slices
//! leave no record, and replay sees to all leases where they end.

use kew_core::{Command, LeaseToken, QueueId, Sequence, Timestamp};

use super::Ledger;
use super::book::Book;
use super::shelf::Shelf;

#[cfg(test)]
mod tests;

/// Leases that are seen to before a step offers messages of their queue, if that many are over.
const LAPSED_AT_LEAST: usize = 256;

impl<S: Shelf> Ledger<S> {
    /// Whether leases of this queue are over whose messages are not offered yet.
    pub(super) fn is_lapsing(&self, queue: QueueId) -> bool {
        !self.lapsing.is_empty() && self.books.get(&queue).is_some_and(Book::has_ended_leases)
    }

    /// Sees to a slice of the leases that are over.
    pub(super) fn lapse_slice(&mut self, now: Timestamp) {
        while self.pace.left.lapses > 0
            && let Some(queue) = self.lapsing.pop_first()
        {
            self.lapse_some_of(queue, now);
        }
    }

    /// The same for one queue. What is left of it is done by the next slices.
    pub(super) fn lapse_some_of(&mut self, queue: QueueId, now: Timestamp) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        let happened = book.lapse_some(now, self.pace.left.lapses);
        let is_left = book.has_ended_leases();
        self.note_happened(queue, &happened);
        if is_left {
            self.lapsing.insert(queue);
        } else {
            self.lapsing.remove(&queue);
        }
        // Those that were tried too often depart.
        self.changed(queue);
    }

    /// A step is about to look at leases that may be over.
    #[cold]
    pub(super) fn lapse_before(&mut self, now: Timestamp, command: &Command) {
        match command {
            Command::Lease(lease) => self.lapse_for(lease.queue, now),
            Command::Peek(peek) => self.lapse_for(peek.queue, now),
            Command::ContinueMove(command) => {
                if let Some(source) = self.tasks.get(&command.task).map(|task| task.source) {
                    self.lapse_for(source, now);
                }
            }
            Command::Ack(ack) => self.lapse_these(ack.queue, ack.tokens.iter(), now),
            Command::Extend(extend) => {
                self.lapse_these(extend.queue, extend.entries.iter().map(|entry| &entry.token), now);
            }
            Command::Release(release) => {
                self.lapse_these(release.queue, release.entries.iter().map(|(token, _)| token), now);
            }
            Command::Withdraw(withdraw) => self.lapse_these(withdraw.queue, withdraw.tokens.iter(), now),
            Command::MoveChosen(chosen) => self.lapse_these(chosen.source, chosen.tokens.iter(), now),
            Command::CreateQueue(_)
            | Command::UpdateQueue(_)
            | Command::DeleteQueue(_)
            | Command::Send(_)
            | Command::ReleaseOwners(_)
            | Command::Browse(_)
            | Command::Groups(_)
            | Command::FirstSend(_)
            | Command::Trace(_)
            | Command::Promote(_)
            | Command::Note(_)
            | Command::Identify(_)
            | Command::Purge(_)
            | Command::Counts(_)
            | Command::StartMove(_)
            | Command::CancelMove(_)
            | Command::ListMoves(_)
            | Command::HoldExpiry(_)
            | Command::Due
            // No client leases from an outbox, and a message that comes was leased elsewhere.
            | Command::Owing
            | Command::Carry(_)
            | Command::Bring(_)
            | Command::Settle(_)
            | Command::TakeBack(_)
            | Command::Queues
            | Command::PutDocuments(_)
            | Command::Documents(_)
            | Command::History(_) => {}
        }
    }

    /// A queue's messages are about to be offered: some are there, if any are.
    fn lapse_for(&mut self, queue: QueueId, now: Timestamp) {
        if self.lapsing.contains(&queue) {
            self.pace.left.lapses = self.pace.left.lapses.max(LAPSED_AT_LEAST);
            self.lapse_some_of(queue, now);
        }
    }

    fn lapse_these<'a>(
        &mut self,
        queue: QueueId,
        tokens: impl Iterator<Item = &'a LeaseToken>,
        now: Timestamp,
    ) {
        if !self.lapsing.contains(&queue) {
            return;
        }
        let sequences: Vec<Sequence> =
            tokens.filter(|token| token.queue == queue).map(|token| token.sequence).collect();
        for sequence in sequences {
            let Some(book) = self.books.get_mut(&queue) else { return };
            let happened = book.lapse_one(sequence, now);
            self.note_happened(queue, &happened);
        }
        self.changed(queue);
    }
}
