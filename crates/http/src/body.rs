//! Reads a body to its end, within bounds of length, time and what all bodies together may hold.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::Body;

use crate::pulse::{Overdue, Pulse};
use crate::ration::Share;
use crate::refusal::Refusal;

/// So much room is made for an announced body before it comes.
const EXPECTED_MAX: usize = 1 << 20;

/// A body on its way.
pub(crate) struct Coming<B> {
    body: B,
    /// What has come of it already.
    first: Option<Bytes>,
}

impl<B> Coming<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// A body of which nothing has been looked at.
    pub(crate) fn new(body: B) -> Self {
        Self { body, first: None }
    }

    /// The least length it has, as it was announced.
    pub(crate) fn announced(&self) -> u64 {
        self.body.size_hint().lower()
    }

    /// Whether nothing more is to come.
    pub(crate) fn has_ended(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The whole body if it is there already, not copied and without waiting.
    pub(crate) async fn at_once(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Refusal> {
        if self.body.is_end_stream() {
            return Ok(Some(Bytes::new()));
        }
        match poll_fn(|cx| Poll::Ready(poll_piece(&mut self.body, cx))).await {
            Poll::Pending => Ok(None),
            Poll::Ready(Err(refusal)) => Err(refusal),
            Poll::Ready(Ok(None)) => Ok(Some(Bytes::new())),
            Poll::Ready(Ok(Some(first))) if !self.body.is_end_stream() => {
                self.first = Some(first);
                Ok(None)
            }
            Poll::Ready(Ok(Some(first))) if first.len() > bytes_max => {
                Err(Refusal::BodyTooLarge { bytes_max })
            }
            Poll::Ready(Ok(whole)) => Ok(whole),
        }
    }

    /// The whole body, once it is there. `pulse` is told of its progress, and tells when it is too slow.
    pub(crate) async fn whole(
        &mut self,
        bytes_max: usize,
        share: &mut Share<'_>,
        pulse: &Pulse,
    ) -> Result<Bytes, Refusal> {
        // One that comes in a single piece is not copied.
        let first = match self.first.take() {
            Some(first) => first,
            None => self.piece(pulse).await?.unwrap_or_default(),
        };
        let mut whole = Whole { bytes_max, share, bytes: BytesMut::new() };
        whole.check(first.len())?;
        if self.body.is_end_stream() {
            return Ok(first);
        }
        let Some(second) = self.piece(pulse).await? else { return Ok(first) };
        // What is announced beyond this is believed when it comes.
        let expected = usize::try_from(self.announced()).unwrap_or_default().min(EXPECTED_MAX);
        whole.bytes = BytesMut::with_capacity(first.len() + second.len() + expected.min(bytes_max));
        whole.bytes.extend_from_slice(&first);
        drop(first);
        whole.add(&second)?;
        while let Some(next) = self.piece(pulse).await? {
            whole.add(&next)?;
        }
        Ok(whole.bytes.freeze())
    }

    /// Reads on and forgets what it reads, up to so many bytes.
    pub(crate) async fn discard(mut self, bytes_max: usize) {
        let mut bytes = 0_usize;
        while let Ok(Some(piece)) = poll_fn(|cx| poll_piece(&mut self.body, cx)).await {
            bytes = bytes.saturating_add(piece.len());
            if bytes > bytes_max {
                return;
            }
        }
    }

    async fn piece(&mut self, pulse: &Pulse) -> Result<Option<Bytes>, Refusal> {
        let piece = poll_fn(|cx| {
            let polled = poll_piece(&mut self.body, cx);
            if polled.is_pending() {
                if pulse.overdue() == Overdue::Body {
                    return Poll::Ready(Err(Refusal::BodyTooSlow));
                }
                pulse.wake_me(cx);
                pulse.await_body(true);
            }
            polled
        })
        .await;
        pulse.await_body(false);
        if let Ok(Some(piece)) = &piece {
            pulse.body_came(piece.len());
        }
        piece
    }
}

/// A body that is put together.
struct Whole<'a, 'b> {
    bytes_max: usize,
    share: &'a mut Share<'b>,
    bytes: BytesMut,
}

impl Whole<'_, '_> {
    fn add(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        self.check(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Whether there is room for so many bytes more.
    fn check(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.bytes.len().saturating_add(bytes) > self.bytes_max {
            return Err(Refusal::BodyTooLarge { bytes_max: self.bytes_max });
        }
        if self.share.grow(bytes) { Ok(()) } else { Err(Refusal::BodiesTooLarge) }
    }
}

/// The next piece of data; trailers are passed over.
fn poll_piece<B>(body: &mut B, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refusal>>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Refusal::BodyBroken)),
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Ok(Some(data)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ration::Ration;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;

    /// A body of unknown length, in pieces; an empty piece is a pause.
    struct Pieces(VecDeque<&'static [u8]>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(b"") => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                piece => Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece))))),
            }
        }
    }

    async fn whole(pieces: &[&'static [u8]], bytes_max: usize, ration: &Ration) -> Result<Bytes, Refusal> {
        let mut share = ration.share(10);
        let mut coming = Coming::new(Pieces(pieces.iter().copied().collect()));
        match coming.at_once(bytes_max).await? {
            Some(whole) => Ok(whole),
            None => coming.whole(bytes_max, &mut share, &Pulse::of_request()).await,
        }
    }

    #[tokio::test]
    async fn pieces_are_put_together_up_to_the_bound() {
        let ration = Ration::default();
        type Case = (&'static [&'static [u8]], Result<&'static [u8], Refusal>);
        let cases: [Case; 9] = [
            (&[], Ok(b"")),
            (&[b""], Ok(b"")),
            (&[b"abc"], Ok(b"abc")),
            (&[b"", b"abc"], Ok(b"abc")),
            (&[b"a", b"b", b"", b"c"], Ok(b"abc")),
            (&[b"abcd"], Err(Refusal::BodyTooLarge { bytes_max: 3 })),
            (&[b"", b"abcd"], Err(Refusal::BodyTooLarge { bytes_max: 3 })),
            (&[b"ab", b"c", b"d"], Err(Refusal::BodyTooLarge { bytes_max: 3 })),
            (&[b"ab", b"cd"], Err(Refusal::BodyTooLarge { bytes_max: 3 })),
        ];
        for (pieces, expected) in cases {
            assert_eq!(whole(pieces, 3, &ration).await, expected.map(Bytes::from_static), "{pieces:?}");
        }
        assert_eq!(ration.held(), 0);
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded() {
        let ration = Ration::default();
        let mut others = ration.share(10);
        assert!(others.grow(5));
        assert_eq!(whole(&[b"abc", b"de"], 100, &ration).await, Ok(Bytes::from_static(b"abcde")));
        assert_eq!(whole(&[b"abc", b"def"], 100, &ration).await, Err(Refusal::BodiesTooLarge));
        drop(others);
        assert_eq!(whole(&[b"abc", b"def"], 100, &ration).await, Ok(Bytes::from_static(b"abcdef")));
    }

    #[tokio::test]
    async fn a_body_that_is_too_slow_is_refused() {
        let (ration, pulse) = (Ration::default(), Pulse::of_request());
        pulse.find(Overdue::Body);
        let mut coming = Coming::new(Pieces([&b"a"[..], b"b", b""].into()));
        assert_eq!(coming.whole(9, &mut ration.share(9), &pulse).await, Err(Refusal::BodyTooSlow));
    }
}
