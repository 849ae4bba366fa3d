//! What a store's answer says before anybody waits for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kew_core::{LeaseToken, Outcome};
use kew_store::{StoreError, Submission};

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
        Some(_) => return Found::Leases(submission),
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
