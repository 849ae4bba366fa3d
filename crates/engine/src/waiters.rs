//! Receives that wait: one line per queue, served in order of arrival.
//!
//! A waiting receive has a [`Seat`] from its first attempt to its answer. While it waits its entry stands in the line;
//! the step that takes a lease on its behalf takes the entry out and hands over the store's answer, still on its way. A
//! seat that is given up takes its entry along, and withdraws a lease that was handed over but not committed: a receive
//! that went away consumes nothing.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use kew_core::command::Lease;
use kew_core::{Room, Timestamp};
use kew_store::Submission;
use tokio::sync::oneshot;

pub(crate) use crate::lines::{Call, Waiter};

use crate::Engine;
use crate::agenda::{Alarm, Ticket};
use crate::busy::Busy;
use crate::room::Held;

/// A waiting receive's place. Dropping it gives the place up.
pub(crate) struct Seat<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) lease: Lease,
    pub(crate) deadline: Timestamp,
    pub(crate) ticket: Ticket,
    pub(crate) room: Option<Arc<dyn Room>>,
    pub(crate) calls: oneshot::Receiver<Call>,
    /// The line waits for this receive's answer.
    pub(crate) trying: bool,
    /// It knows that there is no room for what there is.
    pub(crate) is_crowded: bool,
}

/// What becomes of a seat next.
pub(crate) enum Next {
    /// A lease was taken for it: the store's answer, the number of the line's news at that time, and what counts as
    /// work and as bytes until the answer is there.
    Claimed(Submission, u64, (Busy, Held)),
    /// There is no room for what there is: the number of the line's news at that time.
    Crowded(u64, Busy),
    /// There may be room again.
    Freed,
    /// The wait is over.
    Over,
}

impl Seat<'_> {
    /// Waits for what comes first: a call, or room if that is what it lacks.
    pub(crate) async fn next(&mut self) -> Next {
        let room = self.room.clone().filter(|_| self.is_crowded);
        let mut freed = room.as_ref().map(|room| room.freed());
        let call = poll_fn(|cx| {
            if let Poll::Ready(call) = Pin::new(&mut self.calls).poll(cx) {
                return Poll::Ready(Some(call));
            }
            match &mut freed {
                Some(freed) => freed.as_mut().poll(cx).map(|()| None),
                None => Poll::Pending,
            }
        });
        match call.await {
            Some(Ok(Call::Claimed { submission, late, seen, busy, held })) => {
                self.trying = late;
                Next::Claimed(submission, seen, (busy, held))
            }
            Some(Ok(Call::Crowded { seen, busy })) => Next::Crowded(seen, busy),
            Some(Ok(Call::Ended(_)) | Err(_)) => Next::Over,
            None => Next::Freed,
        }
    }

    /// There may be room: the line is served again.
    pub(crate) fn has_room_again(&mut self) {
        self.is_crowded = false;
        let queue = self.lease.queue;
        let mut pass = self.engine.pass();
        pass.waiters.has_room_again(queue, self.ticket);
        self.engine.serve(&mut pass, queue);
    }

    /// Goes back to its place in the line, after an attempt that began at `seen` and found nothing.
    /// False when the wait is over.
    pub(crate) fn again(&mut self, seen: u64) -> bool {
        let queue = self.lease.queue;
        let (answer, calls) = oneshot::channel();
        let mut pass = self.engine.pass();
        // A queue that left this node meanwhile has no line here any more.
        let is_deleted = self.engine.queue_by_id(queue).is_none();
        let is_over = pass.closed || is_deleted || self.engine.now() >= self.deadline;
        if is_over || !self.engine.store.keeps(queue) {
            return false;
        }
        self.calls = calls;
        self.trying = false;
        let (lease, room) = (self.lease.clone(), self.room.clone());
        let is_crowded = self.is_crowded;
        let waiter = Waiter { lease, deadline: self.deadline, room, is_crowded, answer };
        pass.waiters.enter(queue, self.ticket, waiter);
        pass.agenda.set(self.deadline, self.ticket, Alarm::WaitEnds(queue));
        let has_nothing = is_crowded && pass.waiters.is_first_too_large(queue);
        if has_nothing || pass.waiters.news(queue) == seen {
            self.engine.rearm(&mut pass);
        } else {
            // Messages became available while it was trying: the line, which it is part of again, is served for them.
            self.engine.serve(&mut pass, queue);
        }
        true
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let queue = self.lease.queue;
        {
            let mut pass = self.engine.pass();
            let _entry = pass.waiters.leave(queue, self.ticket);
            pass.agenda.cancel(self.deadline, self.ticket);
            self.engine.stats.waiting_receives.set(u64::from(pass.waiters.seats()));
        }
        self.calls.close();
        if let Ok(Call::Claimed { submission, late, .. }) = self.calls.try_recv() {
            self.trying = late;
            self.engine.withdraw_unanswered(queue, submission);
        }
        if self.trying {
            self.engine.wake(queue);
        }
    }
}
