//! What happens in the ledger by itself as time passes: each queue is listed under the next instant at which something
//! does.

use kew_core::{QueueId, Timestamp};

use super::Ledger;
use super::book::{Book, Happened, Moment};
use super::due::Due;
use super::shelf::Shelf;

impl<S: Shelf> Ledger<S> {
    /// Lists a queue under its next instant.
    pub(super) fn register(&mut self, queue: QueueId) {
        if let Some(book) = self.books.get_mut(&queue) {
            list(&mut self.due, book);
        }
    }

    /// Does everything that became due up to `now`, in the order of instants and queues.
    #[inline]
    pub(super) fn run_due(&mut self, now: Timestamp) {
        if self.due.first().is_some_and(|(at, _)| at <= now) {
            self.run_due_through(now, QueueId(u64::MAX));
        }
    }

    pub(super) fn run_due_through(&mut self, now: Timestamp, queue: QueueId) {
        while let Some((at, queue)) = self.due.first().filter(|due| *due <= (now, queue)) {
            if !self.taken_up.is_empty() && self.taken_up.remove(&queue) {
                // What was undecided in this queue may come before everything else there.
                self.list_as_overdue(queue);
                continue;
            }
            self.due.remove((at, queue));
            let Some(book) = self.books.get_mut(&queue) else { continue };
            book.registered = Timestamp::NEVER;
            // The list may know an earlier instant than the queue does by now.
            if book.next_instant() <= at {
                self.pass_instant(queue, at, now);
            }
            self.register(queue);
            if self.pace.left.departures == 0 {
                return;
            }
        }
    }

    fn pass_instant(&mut self, queue: QueueId, at: Timestamp, now: Timestamp) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        let mark = self.shelf.mark();
        let mut happened = book.pass_instant(&Moment {
            at,
            now,
            settled: self.settled,
            elsewhere: self.due.first().map_or(Timestamp::NEVER, |(at, _)| at),
            mark,
            lapses_max: self.pace.left.lapses,
            expired_max: self.pace.left.in_groups,
        });
        let expired_at_rest = std::mem::take(&mut happened.expired_at_rest);
        if book.queue.policy.kind.is_fifo() {
            happened.expired.iter().for_each(|(_, item)| book.note_left_at(item.group, mark));
        }
        if let Some(groups) = happened.groups_left.take() {
            self.emptied.put(Box::new(groups.into_pieces().map(|()| None)));
        }
        if !std::mem::replace(&mut book.changed, true) {
            self.dirty.insert(queue);
        }
        let has_ended_leases = book.has_ended_leases();
        let departs = book.departs_by(at);
        self.note_happened(queue, &happened);
        if has_ended_leases {
            self.lapsing.insert(queue);
            self.lapse_some_of(queue, at);
        }
        self.show_some_of(queue);
        self.history.count_expired(queue, happened.over);
        self.pace.left.in_groups = self.pace.left.in_groups.saturating_sub(happened.gone.len());
        self.note_gone(queue, &happened.gone);
        self.see_off_later(queue, expired_at_rest);
        if departs {
            self.depart_some_of(queue, at);
        }
    }

    /// Sends messages off that were tried too often, one by one. When one of them makes something due elsewhere that
    /// comes first, the others stay due: replay, which knows only one of them at a time, does the same.
    fn depart_some_of(&mut self, queue: QueueId, at: Timestamp) {
        if self.pace.is_replay() {
            // The journal says of which it was decided. The others are still to be seen to when it ends.
            while let Some(departure) = self.books.get_mut(&queue).and_then(|book| book.take_departure(at)) {
                self.leave_undecided(queue, departure);
            }
            return;
        }
        while self.pace.left.departures > 0
            && let Some(departure) = self.books.get_mut(&queue).and_then(|book| book.take_departure(at))
        {
            self.pace.left.departures -= 1;
            self.depart_when_due(at, queue, departure);
            if self.due.first().is_some_and(|next| next < (at, queue)) {
                return;
            }
        }
        if let Some(newest) = self.overdue.get(&queue)
            && self.books.get(&queue).is_none_or(|book| !book.departs_by(*newest))
        {
            self.overdue.remove(&queue);
        }
    }

    /// Messages expired and leases ended by themselves: the shelf and the history follow.
    pub(super) fn note_happened(&mut self, queue: QueueId, happened: &Happened) {
        self.pace.left.lapses -= happened.ended.len().min(self.pace.left.lapses);
        self.history.leases_ended(queue, &happened.ended);
        for (over_at, item) in &happened.expired {
            self.shelf.vacate(item.place());
            self.history.expired(*over_at, queue, item.sequence);
        }
        if happened.freed {
            self.free(queue);
        }
    }
}

/// Lists a queue under its next instant, if that is earlier than the one it is listed under.
pub(super) fn list(due: &mut Due, book: &mut Book) {
    let (next, queue) = (book.next_instant(), book.queue.id);
    if next < book.registered {
        if book.registered != Timestamp::NEVER {
            due.remove((book.registered, queue));
        }
        book.registered = next;
        due.insert((next, queue));
    }
}
