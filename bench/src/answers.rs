//! Answers on their way: the futures of one pass, polled by hand, as an event loop would have them.
//!
//! Each future has a place that is used again in the next pass, so that a command costs no task and no allocation of
//! ours. Each place has a waker of its own, for in a server each command comes from another connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kew_engine::Engine;

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

/// Wakes no task: the loop looks by itself after each commit.
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

    /// The answers, in order, after everything asked was committed once. A step that found no room in the journal was
    /// put off and is taken again while this waits, so the engine commits until every answer is there.
    pub fn take(&mut self, engine: &Engine) -> impl Iterator<Item = F::Output> {
        let used = std::mem::take(&mut self.used);
        self.places[..used].iter_mut().map(move |place| {
            loop {
                if let Some(output) = place.output.take() {
                    return output;
                }
                place.poll();
                if place.output.is_none() {
                    commit_again(engine);
                }
            }
        })
    }
}

/// Seldom: kept out of what the guard counts.
#[cold]
#[inline(never)]
fn commit_again(engine: &Engine) {
    engine.commit();
    std::thread::yield_now();
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
