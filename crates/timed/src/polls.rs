//! Polls of a future, each a stretch.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Stretch;

/// A future each of whose polls is a stretch.
pub fn polls<F: Future>(what: &'static str, future: F) -> impl Future<Output = F::Output> {
    Polls { what, future: Box::pin(future) }
}

struct Polls<F> {
    what: &'static str,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Polls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _stretch = Stretch::begin(self.what);
        self.future.as_mut().poll(cx)
    }
}
