//! Reads a body to its end, up to a bound.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use hyper::body::Body;

/// Why a body was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyError {
    /// It is longer than the bound.
    TooLarge,
    /// It ended too early, or its framing is broken.
    Broken,
}

/// The whole body. One that comes in one piece is not copied.
pub(crate) async fn read<B>(mut body: B, bytes_max: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let announced = body.size_hint();
    if announced.lower() > bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let Some(first) = piece(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() {
        return within(first, bytes_max);
    }
    let Some(mut next) = piece(&mut body).await? else { return within(first, bytes_max) };
    let expected = usize::try_from(announced.exact().unwrap_or_default()).unwrap_or_default();
    let mut whole = BytesMut::with_capacity(expected.max(first.len() + next.len()).min(bytes_max));
    whole.extend_from_slice(&first);
    loop {
        if whole.len() + next.len() > bytes_max {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&next);
        match piece(&mut body).await? {
            Some(piece) => next = piece,
            None => return Ok(whole.freeze()),
        }
    }
}

fn within(bytes: Bytes, bytes_max: usize) -> Result<Bytes, BodyError> {
    if bytes.len() > bytes_max { Err(BodyError::TooLarge) } else { Ok(bytes) }
}

/// The next piece of data; trailers are passed over.
async fn piece<B>(body: &mut B) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyError::Broken),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    /// A body of unknown length, in pieces.
    struct Pieces(VecDeque<&'static [u8]>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(Bytes::from_static(piece)))))
        }
    }

    async fn whole(pieces: &[&'static [u8]], bytes_max: usize) -> Result<Bytes, BodyError> {
        read(Pieces(pieces.iter().copied().collect()), bytes_max).await
    }

    #[tokio::test]
    async fn pieces_are_put_together_up_to_the_bound() {
        assert_eq!(whole(&[], 3).await, Ok(Bytes::new()));
        assert_eq!(whole(&[b"abc"], 3).await, Ok(Bytes::from_static(b"abc")));
        assert_eq!(whole(&[b"a", b"b", b"c"], 3).await, Ok(Bytes::from_static(b"abc")));
        assert_eq!(whole(&[b"abcd"], 3).await, Err(BodyError::TooLarge));
        assert_eq!(whole(&[b"ab", b"c", b"d"], 3).await, Err(BodyError::TooLarge));
    }
}
