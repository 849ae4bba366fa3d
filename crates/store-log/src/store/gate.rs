//! The gate answers wait at: it opens for batch after batch, in order, once when they are written and once when they
//! are as durable as their answers promise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use kew_store::{BatchNumber, Gate, StoreError, Through};
use parking_lot::Mutex;

/// Opens as batches become as durable as their answers promise.
#[derive(Default)]
pub(crate) struct LogGate {
    written_through: AtomicU64,
    open_through: AtomicU64,
    /// Guards who waits, and the failure that ends all waiting.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<(Through, Waker)>,
    failed: Option<StoreError>,
    /// Why answers that are not ready are refused for now.
    suspended: Option<StoreError>,
}

impl LogGate {
    /// Opens for every batch up to this one, all of which are written. A gate for spares counts spares in place of
    /// batches.
    pub(crate) fn open(&self, turn: u64) {
        self.reach(Through::batch(BatchNumber(turn)));
    }

    /// Takes note of how far batches have come, and wakes the answers that waited for it.
    pub(crate) fn reach(&self, through: Through) {
        self.written_through.fetch_max(through.written.0, Ordering::Release);
        self.open_through.fetch_max(through.open.0, Ordering::Release);
        let woken = {
            let mut waiting = self.waiting.lock();
            let wakers = &mut waiting.wakers;
            if wakers.iter().all(|(wanted, _)| self.has(*wanted)) {
                // As many are likely to wait for the next.
                let next = Vec::with_capacity(wakers.len());
                std::mem::replace(wakers, next)
            } else {
                wakers.extract_if(.., |(wanted, _)| self.has(*wanted)).collect()
            }
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Why it will never open again, if so.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.waiting.lock().failed.clone()
    }

    /// Refuses every answer that is not ready, those that wait and those that come, until it is called with `None`.
    pub(crate) fn suspend(&self, why: Option<StoreError>) {
        let woken = {
            let mut waiting = self.waiting.lock();
            waiting.suspended = why;
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    #[inline]
    fn has(&self, wanted: Through) -> bool {
        self.open_through.load(Ordering::Acquire) >= wanted.open.0
            && self.written_through.load(Ordering::Acquire) >= wanted.written.0
    }

    /// Will never open again: every answer that waits gets the error.
    pub(crate) fn fail(&self, error: StoreError) {
        let woken = {
            let mut waiting = self.waiting.lock();
            waiting.failed.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    #[inline]
    fn poll(&self, wanted: Through, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        if self.has(wanted) { Poll::Ready(Ok(())) } else { self.wait(wanted, cx) }
    }

    fn wait(&self, wanted: Through, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let mut waiting = self.waiting.lock();
        // Looked at again under the lock: an opening in between would have missed this waker.
        if self.has(wanted) {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = waiting.failed.as_ref().or(waiting.suspended.as_ref()) {
            return Poll::Ready(Err(error.clone()));
        }
        // An answer that is polled twice in a row stands here once. A search of all would cost every answer of a large
        // batch a look at every other; one that is polled again after others is woken twice, which does no harm.
        let last = waiting.wakers.last();
        if !last.is_some_and(|(last, waker)| *last == wanted && waker.will_wake(cx.waker())) {
            waiting.wakers.push((wanted, cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl Gate for LogGate {
    fn poll_open(&self, turn: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        self.poll(Through::batch(BatchNumber(turn)), cx)
    }

    fn poll_through(&self, wanted: Through, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        self.poll(wanted, cx)
    }
}
