//! The gate answers wait at: it opens for batch after batch, in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use kew_store::{Gate, StoreError};
use parking_lot::Mutex;

/// Opens as batches become as durable as their answers promise.
#[derive(Default)]
pub(crate) struct LogGate {
    open_through: AtomicU64,
    /// Guards who waits, and the failure that ends all waiting.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<(u64, Waker)>,
    failed: Option<StoreError>,
}

impl LogGate {
    /// Opens for every batch up to this one.
    pub(crate) fn open(&self, batch: u64) {
        self.open_through.fetch_max(batch, Ordering::Release);
        let woken: Vec<Waker> = {
            let mut waiting = self.waiting.lock();
            waiting.wakers.extract_if(.., |(wanted, _)| *wanted <= batch).map(|(_, waker)| waker).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Why it will never open again, if so.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.waiting.lock().failed.clone()
    }

    /// Will never open again: everyone is told why.
    pub(crate) fn fail(&self, error: StoreError) {
        let woken = {
            let mut waiting = self.waiting.lock();
            waiting.failed.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Gate for LogGate {
    fn poll_open(&self, batch: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        if self.open_through.load(Ordering::Acquire) >= batch {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.waiting.lock();
        // Looked at again under the lock: an opening in between would have missed this waker.
        if self.open_through.load(Ordering::Acquire) >= batch {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &waiting.failed {
            return Poll::Ready(Err(error.clone()));
        }
        // Who is polled twice in a row stands here once. A search of all would cost every answer of a large batch a
        // look at every other; who is polled again after others is woken twice, and no harm done.
        let last = waiting.wakers.last();
        if !last.is_some_and(|(wanted, waker)| *wanted == batch && waker.will_wake(cx.waker())) {
            waiting.wakers.push((batch, cx.waker().clone()));
        }
        Poll::Pending
    }
}
