//! Receives that wait: one line per queue, served in order of arrival.
//!
//! A waiting receive has a [`Seat`] from its first attempt to its answer. While it waits its entry stands in the line;
//! the step that takes a lease on its behalf takes the entry out and hands over the store's answer, still on its way. A
//! seat that is given up takes its entry along, and withdraws a lease that was handed over but not committed: a receive
//! that went away consumes nothing.

use std::sync::Arc;

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
}

impl Seat<'_> {
    /// Waits for an answer, and what the line had heard of by then; `None` when the wait is over.
    pub(crate) async fn call(&mut self) -> Option<(Submission, u64, (Busy, Held))> {
        match (&mut self.calls).await {
            Ok(Call::Claimed { submission, late, seen, busy, held }) => {
                self.trying = late;
                Some((submission, seen, (busy, held)))
            }
            Ok(Call::Ended(_)) | Err(_) => None,
        }
    }

    /// Goes back to its place in the line, after an attempt that began at `seen` and found nothing.
    /// False when the wait is over.
    pub(crate) fn again(&mut self, seen: u64) -> bool {
        let queue = self.lease.queue;
        let (answer, calls) = oneshot::channel();
        let mut pass = self.engine.pass();
        // A queue that left this node meanwhile has no line here any more.
        let is_over = pass.closed || self.engine.now() >= self.deadline;
        if is_over || !self.engine.store.keeps(queue) {
            return false;
        }
        self.calls = calls;
        self.trying = false;
        let (lease, room) = (self.lease.clone(), self.room.clone());
        let waiter = Waiter { lease, deadline: self.deadline, room, answer };
        pass.waiters.enter(queue, self.ticket, waiter);
        pass.agenda.set(self.deadline, self.ticket, Alarm::WaitEnds(queue));
        if pass.waiters.news(queue) == seen {
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
