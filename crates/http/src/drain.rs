//! The end of all connections: each is notified once, and awaited.
//!
//! A connection takes a [`DrainPlace`] and looks at it whenever it is polled anyway, which costs one load; it is woken
//! for the end through the waker it left there.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::figures::connections::Counted;

/// Ends connections gracefully, and knows how many there are.
#[derive(Clone, Default)]
pub struct Drain {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    closing: AtomicBool,
    /// Guards who is there and who waits for the end.
    crowd: Mutex<Crowd>,
}

#[derive(Default)]
struct Crowd {
    /// One slot per place, empty until its holder has been polled.
    wakers: Vec<Option<Waker>>,
    vacant: Vec<usize>,
    waiting: Vec<Waker>,
}

impl Crowd {
    fn places(&self) -> usize {
        self.wakers.len() - self.vacant.len()
    }
}

impl Drain {
    /// Takes a place, unless there are `max` already.
    pub fn enter(&self, max: usize) -> Option<DrainPlace> {
        let mut crowd = self.shared.crowd.lock();
        if crowd.places() >= max {
            return None;
        }
        let slot = crowd.vacant.pop().unwrap_or_else(|| {
            crowd.wakers.push(None);
            crowd.wakers.len() - 1
        });
        Some(DrainPlace { drain: self.clone(), slot, known: None, counted: None })
    }

    /// How many places are taken.
    pub fn places(&self) -> usize {
        self.shared.crowd.lock().places()
    }

    /// Whether the end has been called.
    pub fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Acquire)
    }

    /// Tells everyone that it is the end.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let woken: Vec<Waker> = {
            let mut crowd = self.shared.crowd.lock();
            let waiting = std::mem::take(&mut crowd.waiting);
            crowd.wakers.iter().flatten().cloned().chain(waiting).collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns when the end has been called.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let drain = self.clone();
        poll_fn(move |cx| drain.poll(cx, |_, closing| closing))
    }

    /// Returns when the end has been called and every place is free.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let drain = self.clone();
        poll_fn(move |cx| drain.poll(cx, |crowd, closing| closing && crowd.places() == 0))
    }

    fn poll(&self, cx: &Context<'_>, is_done: impl Fn(&Crowd, bool) -> bool) -> Poll<()> {
        let mut crowd = self.shared.crowd.lock();
        if is_done(&crowd, self.is_closing()) {
            return Poll::Ready(());
        }
        if !crowd.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            crowd.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// One connection's place. Dropping it gives it up.
pub struct DrainPlace {
    drain: Drain,
    slot: usize,
    /// The waker that is in the slot.
    known: Option<Waker>,
    counted: Option<Counted>,
}

impl DrainPlace {
    /// Counts it among a listener's connections.
    pub(crate) fn count_as(&mut self, counted: Counted) {
        self.counted = Some(counted);
    }

    /// Whether it is the end; wakes the caller's task when it is.
    pub fn is_closing(&mut self, cx: &Context<'_>) -> bool {
        if !self.known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.known = Some(cx.waker().clone());
            if let Some(slot) = self.drain.shared.crowd.lock().wakers.get_mut(self.slot) {
                *slot = self.known.clone();
            }
        }
        self.drain.is_closing()
    }
}

impl Drop for DrainPlace {
    fn drop(&mut self) {
        // A place that is free is not counted any more.
        drop(self.counted.take());
        let mut crowd = self.drain.shared.crowd.lock();
        if let Some(slot) = crowd.wakers.get_mut(self.slot) {
            *slot = None;
        }
        crowd.vacant.push(self.slot);
        let waiting = std::mem::take(&mut crowd.waiting);
        drop(crowd);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn is_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn places_are_bounded_and_used_again() {
        let drain = Drain::default();
        let first = drain.enter(2).expect("an open drain has places");
        let _second = drain.enter(2).expect("an open drain has places");
        assert!(drain.enter(2).is_none());
        drop(first);
        assert!(drain.enter(2).is_some());
        assert_eq!(drain.places(), 1);
    }

    #[tokio::test]
    async fn every_connection_is_notified_once_and_awaited() {
        let drain = Drain::default();
        let mut place = drain.enter(1).expect("an open drain has places");
        let connection =
            tokio::spawn(poll_fn(
                move |cx| {
                    if place.is_closing(cx) { Poll::Ready(()) } else { Poll::Pending }
                },
            ));
        tokio::task::yield_now().await;
        let mut closed = Box::pin(drain.closed());
        assert!(!is_ready(&mut closed));
        drain.close();
        connection.await.expect("the connection's task does not panic");
        closed.await;
    }

    #[test]
    fn an_empty_house_is_closed_at_once_when_it_closes() {
        let drain = Drain::default();
        assert!(!is_ready(&mut Box::pin(drain.closed())));
        drain.close();
        assert!(is_ready(&mut Box::pin(drain.closed())));
        assert!(is_ready(&mut Box::pin(drain.closing())));
    }
}
