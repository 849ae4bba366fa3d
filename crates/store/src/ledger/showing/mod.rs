//! Messages whose delay is over, a million at one instant perhaps: put among those that are offered, some at a time.
//!
//! The figures count them as visible from their instant on, by one addition. A step of due work hands over a slice,
//! the next one a millisecond later, so that other queues get their turns between; a step that offers messages of the
//! queue hands over some when it finds none. Those that are offered stand in the order of their ranks, whenever they
//! came, and receipts find a message wherever it is. So slices leave no record, and replay hands over everything
//! where it happens. On a FIFO queue the groups of these messages enter the rotation in slices (`fifo/turns`).

use kew_core::QueueId;

use super::Ledger;
use super::shelf::Shelf;

#[cfg(test)]
mod tests;

impl<S: Shelf> Ledger<S> {
    /// Puts a slice of the messages that are shown among those that are offered.
    pub(super) fn show_slice(&mut self) {
        while self.pace.left.shows > 0
            && let Some(queue) = self.showing.pop_first()
        {
            self.show_some_of(queue);
        }
    }

    /// The same for one queue. What is left of it is done by the next slices.
    pub(super) fn show_some_of(&mut self, queue: QueueId) {
        let Some(book) = self.books.get_mut(&queue).filter(|book| book.shows_left()) else { return };
        let shown = book.show(self.pace.left.shows);
        if book.shows_left() {
            self.showing.insert(queue);
        }
        self.pace.left.shows = self.pace.left.shows.saturating_sub(shown);
        self.free(queue);
    }
}
