//! Figures of the whole ledger and of its queues.

use kew_core::{Departures, QueueId, Tally, Traffic, Waits, own};

use super::Ledger;
use super::book::Book;
use super::expired::Expired;
use super::shelf::Shelf;

impl<S: Shelf> Ledger<S> {
    /// Bytes of memory the queues hold, about.
    pub fn heap_bytes(&self) -> usize {
        let expired: usize = self.expiring.values().map(Expired::heap_bytes).sum();
        expired + self.books.values().map(Book::heap_bytes).sum::<usize>()
    }

    /// What has happened since the ledger was opened.
    pub fn tally(&self) -> Tally {
        self.history.tally()
    }

    /// The same of each of these queues; nothing in one that is not there.
    pub fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        let of = |queue: &QueueId| {
            let Some(book) = self.books.get(queue) else { return Tally::default() };
            let tally = self.history.tally_of(*queue, book.given());
            Tally { leased: book.leased.into(), acked: book.acked.into(), ..tally }
        };
        queues.iter().map(of).collect()
    }

    /// How long messages of each of these queues waited for their first lease.
    pub fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        queues.iter().map(|queue| self.history.waits_of(*queue)).collect()
    }

    /// Messages that left their queues because they were leased too often, since it was last asked. Those that are
    /// owed to another shard went to the queue that they are for.
    pub fn take_departures(&mut self) -> Departures {
        let mut departures = self.history.take_departures();
        for departure in &mut departures.first {
            let outbox = departure.to.and_then(|to| self.books.get(&to));
            departure.to = outbox.and_then(|book| own::owed_to(&book.queue.key)).or(departure.to);
        }
        departures
    }

    /// What came and went in each of these queues; nothing in one that is not there.
    pub fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        let of = |queue: &QueueId| self.books.get(queue).map_or_else(Traffic::default, Book::traffic);
        queues.iter().map(of).collect()
    }
}
