//! Answers on their way: the futures of one pass, polled by hand, as an event loop would have them.
//!
//! Each future has a place that is used again in the next pass, so that a command costs no task and no allocation of
//! ours. Each place has a waker of its own, for in a server each command comes from another connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The futures of one kind in one pass.
pub struct Answers<F: Future> {
    places: Vec<Place<F>>,
    used: usize,
}

struct Place<F: Future> {
    future: Pin<Box<Option<F>>>,
    output: Option<F::Output>,
    waker: Waker,
}

/// Nobody sleeps here: the loop looks by itself after each commit.
struct Awake;

impl Wake for Awake {
    fn wake(self: Arc<Self>) {}
}

impl<F: Future> Answers<F> {
    pub fn new() -> Self {
        Self { places: Vec::new(), used: 0 }
    }

    /// Begins a command: the first poll takes its step.
    pub fn ask(&mut self, future: F) {
        if self.used == self.places.len() {
            self.places.push(Place { future: Box::pin(None), output: None, waker: Arc::new(Awake).into() });
        }
        let place = &mut self.places[self.used];
        place.future.set(Some(future));
        place.poll();
        self.used += 1;
    }

    /// The answers, in order; everything asked has been committed, or is being committed by the store's upkeep, which
    /// takes along what it finds when it makes a checkpoint.
    pub fn take(&mut self) -> impl Iterator<Item = F::Output> + '_ {
        self.take_with(|| {})
    }

    /// The same for steps that may be put off until there is room: `commit` commits what was taken again.
    pub fn take_with(&mut self, commit: impl Fn()) -> impl Iterator<Item = F::Output> {
        let used = std::mem::take(&mut self.used);
        self.places[..used].iter_mut().map(move |place| {
            loop {
                if let Some(output) = place.output.take() {
                    return output;
                }
                place.poll();
                if place.output.is_none() {
                    commit();
                    std::thread::yield_now();
                }
            }
        })
    }
}

impl<F: Future> Place<F> {
    fn poll(&mut self) {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return };
        if let Poll::Ready(output) = future.poll(&mut Context::from_waker(&self.waker)) {
            self.output = Some(output);
            self.future.set(None);
        }
    }
}
