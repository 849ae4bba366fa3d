//! One connection, served request after request, and ended gracefully.
//!
//! This is the seam to the HTTP library: nobody else names it. A request is read whole, stamped, named and handed to
//! the front-end; its reply is written at once. What goes wrong before a front-end is asked is refused here, in the
//! front-end's words.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::Coming;
use crate::drain::Place;
use crate::headers::Headers;
use crate::limits::{HEADERS_USUAL, Limits};
use crate::listener::{Handler, Listener};
use crate::names::{TakenDown, Tap};
use crate::pulse::{Overdue, Pulse};
use crate::ration::Share;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::{Request, RequestId};
use crate::watch::Watched;
use crate::wire::{Speaks, Wire};

/// Of a body that is refused so much is still read, and for so long, so that its client comes to read the refusal.
const DISCARDED_MAX: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);
/// The library reads with no smaller buffer.
const BUFFER_LEAST: usize = 8 << 10;
/// Windows of HTTP/2: so much may be under way of one body, and of all on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Serves a connection to its end.
pub(crate) async fn serve<H: Handler, S>(
    listener: Arc<Listener<H>>,
    stream: S,
    origin: Origin,
    mut place: Place,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watched = listener.watch.over(Pulse::default());
    let pulse = Arc::clone(watched.pulse());
    poll_fn(|cx| {
        pulse.wake_me(cx);
        Poll::Ready(())
    })
    .await;
    let limits = listener.shared.limits;
    let names_kept = listener.handler.names_kept().filter(|_| origin.speaks != Speaks::Http2);
    let names = names_kept.map(|prefix| (prefix, Arc::new(TakenDown::default())));
    let tap = names.as_ref().map(|(prefix, names)| Tap::new(prefix, Arc::clone(names)));
    let link = Arc::new(Link { listener, watched, origin, names: names.map(|(_, names)| names) });
    let wire = Wire::new(stream, Arc::clone(&pulse), origin.speaks, limits.pipelined_bytes_max).tapped(tap);
    let wire = match origin.speaks {
        Speaks::Http2 => wire,
        Speaks::Unknown | Speaks::Http1 => match serve_http1(&link, wire, &mut place, &limits).await {
            Some(wire) => wire,
            None => return,
        },
    };
    pulse.speaks_http2();
    // In a box of its own, so that the many connections that speak HTTP/1 keep no room for it.
    Box::pin(serve_http2(link, wire, &mut place, &limits)).await;
}

/// Where a connection comes from and how.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
    pub(crate) speaks: Speaks,
}

/// Serves HTTP/1; gives the wire back if it turns out to speak HTTP/2.
async fn serve_http1<H: Handler, S>(
    link: &Arc<Link<H>>,
    wire: Wire<S>,
    place: &mut Place,
    limits: &Limits,
) -> Option<Wire<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(limits.head_bytes_max.max(BUFFER_LEAST)).writev(false);
    if limits.headers_max != HEADERS_USUAL {
        builder.max_headers(limits.headers_max);
    }
    let pulse = Arc::clone(link.watched.pulse());
    let link = Arc::clone(link);
    // Each answer in a box of its own: the library keeps room for one as long as the connection lasts, asked or not.
    let requests = service_fn(move |request| {
        let link = Arc::clone(&link);
        Box::pin(async move { Ok::<_, Infallible>(link.answer(request).await.into_response()) })
    });
    let mut connection = builder.serve_connection(TokioIo::new(wire), requests);
    let mut told = false;
    // An error here is a client that went away or spoke no HTTP/1; it has been told what it can be told.
    let _ended = poll_fn(|cx| {
        if !told && place.is_closing(cx) {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if matches!(pulse.overdue(), Overdue::Connection | Overdue::Still) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut connection).poll(cx)
    })
    .await;
    connection.into_parts().io.into_inner().handed_over()
}

async fn serve_http2<H: Handler, S>(link: Arc<Link<H>>, wire: Wire<S>, place: &mut Place, limits: &Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let pulse = Arc::clone(link.watched.pulse());
    let requests = service_fn(move |request| {
        let link = Arc::clone(&link);
        async move { Ok::<_, Infallible>(link.answer(request).await.into_response()) }
    });
    let mut connection = builder.serve_connection(TokioIo::new(wire), requests);
    let mut told = false;
    let _ended = poll_fn(|cx| {
        let overdue = pulse.overdue();
        if !told && (place.is_closing(cx) || overdue == Overdue::Connection) {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if overdue == Overdue::Still {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut connection).poll(cx)
    })
    .await;
}

/// What a connection's requests have in common.
struct Link<H> {
    listener: Arc<Listener<H>>,
    watched: Watched,
    origin: Origin,
    /// Names of headers as they are sent, if the front-end wants them.
    names: Option<Arc<TakenDown>>,
}

impl<H: Handler> Link<H> {
    async fn answer(&self, request: hyper::Request<Incoming>) -> Reply {
        let _exchange = Exchange::begin(self.watched.pulse());
        let Listener { handler, guard, shared, .. } = &*self.listener;
        let received_at = shared.clock.now();
        let (head, body) = request.into_parts();
        let mut request = Request {
            method: head.method,
            uri: head.uri,
            headers: Headers::from(&head.headers),
            body: Bytes::new(),
            id: RequestId::from_chance(shared.entropy.wide_bits()),
            received_at,
            peer: self.origin.peer,
            secure: self.origin.secure,
            sent_names: self.names.as_ref().map(|names| names.take()).unwrap_or_default(),
        };
        let mut body = Coming::new(body);
        let mut share = shared.bodies.share(shared.limits.bodies_bytes_max);
        let read = match guard.check(&mut request, head.version) {
            Ok(()) => self.read(&mut body, &mut share, head.version).await,
            Err(refusal) => Err(refusal),
        };
        if let Some(names) = &self.names {
            names.resume();
        }
        match read {
            Ok(body) => request.body = body,
            Err(refusal) => return self.refuse(&refusal, &request, body),
        }
        handler.answer(request).await
    }

    /// Reads a body. One that announces too much stays unread: its client may still wait for leave to send it.
    async fn read(
        &self,
        body: &mut Coming<Incoming>,
        share: &mut Share<'_>,
        version: Version,
    ) -> Result<Bytes, Refusal> {
        let bytes_max = self.listener.shared.limits.body_bytes_max;
        if body.announced() > bytes_max as u64 {
            return Err(Refusal::BodyTooLarge { bytes_max });
        }
        if let Some(whole) = body.at_once(bytes_max).await? {
            return Ok(whole);
        }
        // On HTTP/2 many bodies are awaited at once, and each keeps its own pace.
        let own = (version == Version::HTTP_2).then(|| self.listener.watch.over(Pulse::of_request()));
        let pulse = own.as_ref().map_or(self.watched.pulse(), Watched::pulse);
        body.whole(bytes_max, share, pulse).await
    }

    /// Refuses in the front-end's words. A connection with a body that nobody reads ends with that.
    fn refuse(&self, refusal: &Refusal, request: &Request, unread: Coming<Incoming>) -> Reply {
        let reply = self.listener.handler.refuse(refusal, request);
        if unread.has_ended() && !refusal.is_about_body() {
            return reply;
        }
        // Whoever waits for leave to send a body reads the refusal instead. Others send on, and closing on them would
        // take the reply back before they read it; HTTP/2 has better means.
        let sends_on = !matches!(refusal, Refusal::BodyBroken | Refusal::BodyTooSlow)
            && !request.headers.contains(EXPECT);
        if sends_on && self.watched.pulse().is_http1() {
            tokio::spawn(tokio::time::timeout(DISCARDED_WITHIN, unread.discard(DISCARDED_MAX)));
        }
        reply.with(CONNECTION, HeaderValue::from_static("close"))
    }
}

/// A request from its arrival until its reply is made, or it is dropped.
struct Exchange<'a>(&'a Pulse);

impl<'a> Exchange<'a> {
    fn begin(pulse: &'a Pulse) -> Self {
        pulse.begin();
        Self(pulse)
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
