//! The tasks of one HTTP/2 connection's streams: one that is overdue is broken off alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper::rt::Executor;
use parking_lot::Mutex;

use crate::progress::pulse::{Overdue, Pulse};

/// Runs the streams of one connection.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    /// Guards the stream that has just begun: the library makes its answer and runs it right after.
    begun: Arc<Mutex<Option<Stream>>>,
}

/// One stream: the pulse of its reply, once there is one.
#[derive(Clone, Default)]
pub(crate) struct Stream(Arc<OnceLock<Arc<Pulse>>>);

impl Streams {
    /// The stream whose answer is being made.
    pub(crate) fn begin(&self) -> Stream {
        let stream = Stream::default();
        *self.begun.lock() = Some(stream.clone());
        stream
    }
}

impl Stream {
    /// From now on its reply is watched.
    pub(crate) fn replies(&self, pulse: &Arc<Pulse>) {
        // It replies once.
        let _first = self.0.set(Arc::clone(pulse));
    }

    fn is_overdue(&self, cx: &Context<'_>) -> bool {
        self.0.get().is_some_and(|pulse| {
            pulse.wake_me(cx);
            matches!(pulse.overdue(), Overdue::Connection | Overdue::Still)
        })
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, speaking: F) {
        let stream = self.begun.lock().take().unwrap_or_default();
        tokio::spawn(kew_timed::polls(
            "a poll of a stream",
            Speaking { speaking: Box::pin(speaking), stream },
        ));
    }
}

/// A stream's task. When it ends before its reply does, the library tells the client that the stream is broken off.
struct Speaking<F> {
    speaking: Pin<Box<F>>,
    stream: Stream,
}

impl<F: Future<Output = ()>> Future for Speaking<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.speaking.as_mut().poll(cx) {
            Poll::Pending if self.stream.is_overdue(cx) => Poll::Ready(()),
            polled => polled,
        }
    }
}
