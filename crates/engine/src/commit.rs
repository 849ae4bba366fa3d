//! A lease on its way to whoever asked: taken, and not yet as durable as its answer promises.
//!
//! If the asker goes away before that, the lease is withdrawn; afterwards it stays until it ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kew_core::outcome::Leased;
use kew_core::{LeaseToken, Outcome, QueueId};
use kew_store::{StoreError, Submission};

use crate::Engine;
use crate::busy::Busy;
use crate::engine::unexpected;

/// What is known of a lease right after its step.
pub(crate) enum Found {
    /// It has messages.
    Leases(Submission),
    /// It has none.
    Nothing,
    /// It was refused.
    Refused(StoreError),
    /// The store answers from elsewhere, later.
    Unknown(Submission),
}

/// Looks at a lease without waiting for it.
pub(crate) fn look(mut submission: Submission) -> Found {
    match submission.peek() {
        Some(Outcome::Leased(leases)) if leases.is_empty() => return Found::Nothing,
        Some(Outcome::Leased(_)) => return Found::Leases(submission),
        Some(other) => unexpected("lease", other),
        None => {}
    }
    match poll_once(&mut submission) {
        Poll::Ready(Err(error)) => Found::Refused(error),
        Poll::Ready(Ok(Outcome::Leased(leases))) if leases.is_empty() => Found::Nothing,
        Poll::Ready(outcome) => Found::Leases(Submission::settled(outcome)),
        Poll::Pending => Found::Unknown(submission),
    }
}

/// Why the store refused, when that is known already.
pub(crate) fn refusal(submission: &mut Submission) -> Option<StoreError> {
    if submission.peek().is_some() {
        return None;
    }
    match poll_once(submission) {
        Poll::Ready(Err(error)) => Some(error),
        Poll::Ready(Ok(_)) | Poll::Pending => None,
    }
}

/// The receipts of a lease that is not committed yet; empty when there is nothing to withdraw.
pub(crate) fn uncommitted(mut submission: Submission) -> Vec<LeaseToken> {
    let tokens = receipts(&submission);
    // An answer from elsewhere is dropped with its future: such a store withdraws by itself.
    if tokens.is_empty() || poll_once(&mut submission).is_ready() { Vec::new() } else { tokens }
}

/// The receipts a lease holds, as far as they are known.
pub(crate) fn receipts(submission: &Submission) -> Vec<LeaseToken> {
    match submission.peek() {
        Some(Outcome::Leased(leases)) => leases.iter().map(|leased| leased.token).collect(),
        Some(_) | None => Vec::new(),
    }
}

fn poll_once(submission: &mut Submission) -> Poll<Result<Outcome, StoreError>> {
    Pin::new(submission).poll(&mut Context::from_waker(Waker::noop()))
}

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
        Poll::Ready(answer.map(|outcome| match outcome {
            Outcome::Leased(leases) => leases,
            other => unexpected("lease", &other),
        }))
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        if let Some(submission) = self.submission.take()
            && self.abandon == Abandon::Withdraw
        {
            self.engine.withdraw(self.queue, submission);
        }
    }
}
