//! A reply's body on HTTP/2, handed over a piece at a time.
//!
//! The next piece follows when the socket has the one before, and the end of the stream follows the last one. So
//! however little of a stream its client lets through, the library holds one piece of it, and the stream can still be
//! broken off.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use crate::bounds::room::KeptBytes;
use crate::progress::pulse::Pulse;
use crate::progress::watch::Watched;

/// The most of a frame that every client takes.
const PIECE: usize = 16 << 10;

/// What is left of a body.
pub(crate) struct Taken {
    rest: Bytes,
    out: Arc<Out>,
    /// The whole reply is counted until its last byte is taken.
    _kept: KeptBytes,
    /// Ends the watch over it.
    _watched: Option<Watched>,
}

/// The piece that the library has, and who waits for its end.
#[derive(Default)]
struct Out {
    pulse: Arc<Pulse>,
    /// Guards whether there is one, and whom to wake when there is none any more.
    piece: Mutex<Piece>,
}

#[derive(Default)]
struct Piece {
    is_out: bool,
    waker: Option<Waker>,
}

/// A piece's bytes; dropped when the socket has them, or when they will never be sent.
struct Lent {
    bytes: Bytes,
    out: Arc<Out>,
}

impl Taken {
    /// A body; `watched` gets the number of bytes that are taken.
    pub(crate) fn new(body: Bytes, kept: KeptBytes, watched: Option<Watched>) -> Self {
        let pulse = watched.as_ref().map(|watched| Arc::clone(watched.pulse())).unwrap_or_default();
        let out = Arc::new(Out { pulse, piece: Mutex::default() });
        Self { rest: body, out, _kept: kept, _watched: watched }
    }
}

impl Body for Taken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let out = Arc::clone(&self.out);
        let mut piece = out.piece.lock();
        if piece.is_out {
            piece.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        piece.is_out = true;
        drop(piece);
        out.pulse.await_writing();
        let length = self.rest.len().min(PIECE);
        let bytes = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(Lent { bytes, out })))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && !self.out.piece.lock().is_out
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.out.pulse.taken(self.bytes.len());
        let waker = {
            let mut piece = self.out.piece.lock();
            piece.is_out = false;
            piece.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::room::Replies;

    fn next(body: &mut Taken) -> Poll<Option<Bytes>> {
        let polled = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        polled.map(|frame| {
            frame.map(|frame| {
                frame
                    .expect("a body in memory cannot fail")
                    .into_data()
                    .expect("a body in memory has no trailers")
            })
        })
    }

    #[test]
    fn one_piece_is_out_at_a_time_and_the_reply_counts_until_the_last_is_taken() {
        let replies = Replies::new(1 << 20);
        let bytes = Bytes::from(vec![b'x'; PIECE + 3]);
        let mut body = Taken::new(bytes, replies.of_connection().take(PIECE + 3), None);
        let Poll::Ready(Some(first)) = next(&mut body) else { panic!("there is a piece") };
        assert_eq!(first.len(), PIECE);
        assert!(next(&mut body).is_pending() && !body.is_end_stream());
        drop(first);
        let Poll::Ready(Some(last)) = next(&mut body) else { panic!("there is another") };
        assert_eq!(last.len(), 3);
        assert!(next(&mut body).is_pending(), "the stream ends behind what was taken");
        assert_eq!(replies.held(), PIECE + 3);
        drop(last);
        assert_eq!(next(&mut body), Poll::Ready(None));
        drop(body);
        assert_eq!(replies.held(), 0);
    }
}
