//! A connection whose sending side can be closed while a reply is awaited: a server that watches its clients gives the
//! request up, and a reply that has left it still arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The end of a connection's sending side, asked for from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Guards whether it was asked for, and whom to wake then: the reader.
    state: Mutex<(bool, Option<Waker>)>,
}

impl Line {
    /// Nothing more is sent.
    pub(super) fn hang_up(&self) {
        let mut state = self.state.lock();
        state.0 = true;
        if let Some(reader) = state.1.take() {
            reader.wake();
        }
    }

    pub(super) fn is_hung_up(&self) -> bool {
        self.state.lock().0
    }

    /// Whether it was asked for; else the reader is woken when it is.
    fn poll_hung_up(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        if !state.0 && !state.1.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            state.1 = Some(cx.waker().clone());
        }
        state.0
    }
}

/// A stream on such a line.
pub(super) struct OnLine<S> {
    stream: S,
    line: Arc<Line>,
    closed: bool,
}

impl<S> OnLine<S> {
    pub(super) fn new(stream: S, line: Arc<Line>) -> Self {
        Self { stream, line, closed: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for OnLine<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A request that awaits a reply reads, so the end is noticed here.
        if !self.closed && self.line.poll_hung_up(cx) {
            self.closed = Pin::new(&mut self.stream).poll_shutdown(cx).is_ready();
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OnLine<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
