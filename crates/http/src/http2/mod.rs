//! HTTP/2, which a library speaks: this is the seam to it, the only place that names it on the server's side.

mod streams;
mod taken;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::bounds::body::Gathered;
use crate::bounds::ration::Share;
use crate::drain::DrainPlace;
use crate::front::Handler;
use crate::headers::Headers;
use crate::link::Link;
use crate::progress::pulse::{Overdue, Pulse, UnderWay};
use crate::progress::wire::Wire;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::Request;
use crate::standing::Stopped;
use streams::{Stream, Streams};
use taken::Taken;

/// So much may be under way of one body, and of all on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Streams that a client gave up before they were looked at; more end its connection.
const PENDING_RESETS_MAX: usize = 20;

/// Speaks HTTP/2 to the end of a connection.
pub(crate) async fn speak<H: Handler, S>(link: Arc<Link<H>>, wire: Wire<S>, mut place: DrainPlace)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = link.listener().shared.limits;
    let streams = Streams::default();
    let mut builder = Builder::new(streams.clone());
    builder
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    let pulse = Arc::clone(link.pulse());
    let requests = service_fn(move |request| {
        let (link, stream) = (Arc::clone(&link), streams.begin());
        async move {
            let asked = Asked { link: &*link, is_answered: false };
            let reply = answer(&link, request).await;
            asked.answered();
            Ok::<_, Infallible>(reply.into_response(|body| taken(&link, &stream, body)))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(wire), requests));
    let mut told = false;
    // An error here is a client that went away or spoke no HTTP/2; it got the error that can be sent.
    let _ended = poll_fn(|cx| {
        let overdue = pulse.overdue();
        if !told && (place.is_closing(cx) || overdue == Overdue::Connection) {
            told = true;
            connection.as_mut().graceful_shutdown();
        }
        if overdue == Overdue::Still {
            return Poll::Ready(Ok(()));
        }
        connection.as_mut().poll(cx)
    })
    .await;
}

/// A request until it is answered. One that is dropped before was given up by its client.
struct Asked<'a, H: Handler> {
    link: &'a Link<H>,
    is_answered: bool,
}

impl<H: Handler> Asked<'_, H> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl<H: Handler> Drop for Asked<'_, H> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.link.pulse().is_given_up();
        }
    }
}

/// A reply's body, watched until its last byte is taken.
fn taken<H: Handler>(link: &Link<H>, stream: &Stream, body: Bytes) -> Taken {
    let kept = link.room().take(body.len());
    let watched = (!body.is_empty()).then(|| link.listener().watch.over(Pulse::of_request()));
    if let Some(watched) = &watched {
        stream.replies(watched.pulse());
    }
    Taken::new(body, kept, watched)
}

async fn answer<H: Handler>(link: &Link<H>, request: hyper::Request<Incoming>) -> Reply {
    let _under_way = UnderWay::begin(link.pulse());
    let listener = link.listener();
    let (head, body) = request.into_parts();
    let mut request = link.request(head.method, head.uri, Headers::from(&head.headers));
    let mut share = listener.shared.bodies.share(listener.shared.limits.bodies_bytes_max);
    let read = match listener.guard.check(&mut request, head.version) {
        Ok(()) => read(link, &request, body, &mut share).await,
        Err(refusal) => Err(refusal.into()),
    };
    match read {
        Ok(body) => {
            request.body = body;
            listener.handler.answer(&request).await
        }
        // The library stops a body that is not read.
        Err(Stopped::By(refusal)) => listener.handler.refuse(&refusal, &request),
        Err(Stopped::With(reply)) => *reply,
    }
}

/// Reads a body. One that announces too much stays unread: its client may still wait for leave to send it.
async fn read<H: Handler>(
    link: &Link<H>,
    request: &Request,
    mut body: Incoming,
    share: &mut Share<'_>,
) -> Result<Bytes, Stopped> {
    let listener = link.listener();
    let bytes_max = listener.shared.limits.body_bytes_max;
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Refusal::BodyTooLarge { bytes_max }.into());
    }
    let first = match poll_fn(|cx| Poll::Ready(poll_piece(&mut body, cx))).await {
        Poll::Ready(first) => match first? {
            Some(whole) if body.is_end_stream() && whole.len() <= bytes_max => return Ok(whole),
            None => return Ok(Bytes::new()),
            first => first,
        },
        Poll::Pending => None,
    };
    let bytes_max = listener.expect(request, share).await?;
    // Many bodies are awaited at once, and each keeps its own pace.
    let own = listener.watch.over(Pulse::of_request());
    Ok(whole(first, body, bytes_max, share, own.pulse()).await?)
}

/// The whole body with what has come of it, once it is there. `pulse` gets its progress, and says when it is
/// too slow.
async fn whole<B>(
    first: Option<Bytes>,
    mut body: B,
    bytes_max: usize,
    share: &mut Share<'_>,
    pulse: &Pulse,
) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut whole = Gathered::new(bytes_max, share);
    let first = match first {
        Some(first) => first,
        None => piece(&mut body, pulse).await?.unwrap_or_default(),
    };
    // One that comes in a single piece is not copied.
    if body.is_end_stream() {
        return whole.check(first.len()).map(|()| first);
    }
    whole.expect(body.size_hint().lower().saturating_add(first.len() as u64));
    whole.add(&first)?;
    drop(first);
    while let Some(next) = piece(&mut body, pulse).await? {
        whole.add(&next)?;
    }
    Ok(whole.whole())
}

async fn piece<B>(body: &mut B, pulse: &Pulse) -> Result<Option<Bytes>, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let piece = poll_fn(|cx| {
        let polled = poll_piece(body, cx);
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
    use crate::bounds::ration::Ration;
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

    async fn gather(pieces: &[&'static [u8]], bytes_max: usize, ration: &Ration) -> Result<Bytes, Refusal> {
        let mut share = ration.share(10);
        let body = Pieces(pieces.iter().copied().collect());
        whole(None, body, bytes_max, &mut share, &Pulse::of_request()).await
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
            assert_eq!(gather(pieces, 3, &ration).await, expected.map(Bytes::from_static), "{pieces:?}");
        }
        assert_eq!(ration.held(), 0);
    }

    #[tokio::test]
    async fn all_bodies_together_are_bounded() {
        let ration = Ration::default();
        let mut others = ration.share(10);
        assert!(others.grow(5));
        assert_eq!(gather(&[b"abc", b"de"], 100, &ration).await, Ok(Bytes::from_static(b"abcde")));
        assert_eq!(gather(&[b"abc", b"def"], 100, &ration).await, Err(Refusal::BodiesTooLarge));
        drop(others);
        assert_eq!(gather(&[b"abc", b"def"], 100, &ration).await, Ok(Bytes::from_static(b"abcdef")));
    }

    #[tokio::test]
    async fn a_body_that_is_too_slow_is_refused() {
        let (ration, pulse) = (Ration::default(), Pulse::of_request());
        pulse.find(Overdue::Body);
        let body = Pieces([&b"a"[..], b"b", b""].into());
        assert_eq!(whole(None, body, 9, &mut ration.share(9), &pulse).await, Err(Refusal::BodyTooSlow));
    }
}
