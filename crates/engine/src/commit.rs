//! A lease before its answer: taken, and not yet as durable as the answer promises.
//!
//! If the receiver goes away before that, the lease is withdrawn; afterwards it stays until it ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use kew_core::outcome::Leased;
use kew_core::{Ask, QueueId, ask};
use kew_store::{StoreError, Submission};

pub(crate) use crate::answers::{Found, look};

use crate::Engine;
use crate::busy::Busy;

/// A lease being committed. Dropping it withdraws what is not.
pub(crate) struct Committing<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) queue: QueueId,
    /// Taken out when it has resolved.
    pub(crate) submission: Option<Submission>,
    pub(crate) abandon: Abandon,
    pub(crate) _busy: Busy,
}

/// What happens to a lease whose asker went away before it was committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Abandon {
    /// It is undone.
    Withdraw,
    /// It stays: it may be the repeat of a lease that was answered, and a further repeat gets the same messages.
    Keep,
}

impl Future for Committing<'_> {
    type Output = Result<Vec<Leased>, StoreError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let submission = self.submission.as_mut().expect("a lease is polled to its end once");
        let was_being_read = submission.bytes_on_their_way() > 0;
        let Poll::Ready(answer) = Pin::new(submission).poll(cx) else { return Poll::Pending };
        self.submission = None;
        if was_being_read {
            // Those that could not be read are back, now or at an instant that the timers do not know of.
            self.engine.wake(self.queue);
        }
        Poll::Ready(answer.map(ask::Lease::answer))
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        if let Some(submission) = self.submission.take()
            && self.abandon == Abandon::Withdraw
        {
            self.engine.withdraw_unanswered(self.queue, submission);
        }
    }
}
