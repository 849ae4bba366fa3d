//! One connection: a head, its body, the answer, the reply, and again.
//!
//! While an answer is awaited the client is watched: what it sends ahead is read up to a bound, and when it goes away
//! the answer is dropped, so that nothing is consumed for it. The caller that polls this ends it when it takes too
//! long.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Version};
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::Body;
use super::head::{Fault, Head, Search};
use super::reply::{self, Asked};
use crate::bounds::ration::Share;
use crate::front::Handler;
use crate::link::Link;
use crate::progress::pulse::UnderWay;
use crate::progress::wire::Wire;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::Request;
use crate::standing::Stopped;

/// What a client that means HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time and bytes for which a connection is read on after its last reply.
const LINGERS: Duration = Duration::from_secs(5);
const LINGERS_AT_THE_END: Duration = Duration::from_millis(200);
const LINGERS_BYTES: usize = 16 << 20;
/// Maximum requests sent ahead that are answered before other connections have their turn.
const IN_A_ROW: u32 = 16;

/// What has become of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spoken {
    /// It is over.
    Http1,
    /// It begins with HTTP/2, all of which is still ahead.
    Http2,
}

/// Speaks HTTP/1 to the end of a connection.
pub(crate) async fn speak<H: Handler, S>(link: &Link<H>, wire: &mut Wire<S>, mut may_be_http2: bool) -> Spoken
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let today = &link.listener().today;
    let mut in_a_row = InARow::default();
    loop {
        let mut search = Search::default();
        let head = match poll_fn(|cx| poll_next(link, wire, &mut search, may_be_http2, cx)).await {
            Next::Head(head) => head,
            Next::Http2 => return Spoken::Http2,
            Next::None => break,
            Next::Fault(fault) => {
                // A client that does not read it gets nothing else.
                let _sent = wire.send(&reply::write_fault(fault, today), b"").await;
                break;
            }
        };
        may_be_http2 = false;
        let asked = Asked { version: head.version, is_head: head.method == Method::HEAD };
        let keeps_alive = head.keeps_alive;
        let mut body = Body::of(&head);
        let mut request = link.request(head.method, head.uri, head.headers);
        let Some(Answered { reply, left }) = answer(link, wire, &mut request, &mut body, asked.version).await
        else {
            return Spoken::Http1;
        };
        // However long the reply takes, the request's bytes are not kept for it.
        drop(request);
        let closes = !keeps_alive || left != Left::Nothing || link.is_closing();
        let written = reply::write(reply, asked, closes, today);
        // Until the socket has its last byte.
        let _kept = link.room().take(written.first.len() + written.rest.len());
        if wire.send(&written.first, &written.rest).await.is_err() {
            return Spoken::Http1;
        }
        if left == Left::OnItsWay {
            Box::pin(body.discard(wire)).await;
        }
        if closes {
            break;
        }
        if in_a_row.ends(!wire.ahead().is_empty()) {
            tokio::task::yield_now().await;
        }
    }
    Box::pin(end(link, wire)).await;
    Spoken::Http1
}

/// Requests that were answered one after the other, each sent before the one before it was answered.
#[derive(Default)]
struct InARow(u32);

impl InARow {
    /// Counts an answer; `true` when other connections have their turn now.
    #[inline]
    fn ends(&mut self, more_is_ahead: bool) -> bool {
        self.0 = if more_is_ahead { self.0 + 1 } else { 0 };
        let ends = self.0 == IN_A_ROW;
        if ends {
            self.0 = 0;
        }
        ends
    }
}

/// Ends the server's side, and waits for the client's.
async fn end<H: Handler, S: AsyncRead + AsyncWrite + Unpin>(link: &Link<H>, wire: &mut Wire<S>) {
    // A connection whose end cannot be signalled has ended all the same.
    if wire.end().await.is_ok() {
        linger(wire, link.is_closing()).await;
    }
}

/// Reads on and forgets what it reads, until the client ends its side too or has had its time. A socket that is closed
/// while something unread is in it, or before more comes, is reset, and replies that are still on their way are lost:
/// also those to requests that were answered long before the last one.
async fn linger<S: AsyncRead + Unpin>(wire: &mut Wire<S>, server_ends: bool) {
    // At the end of the server, who sends nothing more loses nothing.
    let within = if server_ends { LINGERS_AT_THE_END } else { LINGERS };
    let reading = async {
        let mut bytes = wire.ahead().len();
        loop {
            *wire.ahead() = BytesMut::new();
            match poll_fn(|cx| wire.poll_ahead(cx, usize::MAX)).await {
                Ok(read) if read > 0 && bytes < LINGERS_BYTES => bytes += read,
                Ok(_) | Err(_) => return,
            }
        }
    };
    // Who sends on after that does not read.
    let _in_time = tokio::time::timeout(within, reading).await;
}

/// What comes next on a connection.
enum Next {
    Head(Head),
    /// Something that is no head.
    Fault(Fault),
    Http2,
    /// Nothing more.
    None,
}

fn poll_next<H: Handler, S>(
    link: &Link<H>,
    wire: &mut Wire<S>,
    search: &mut Search,
    may_be_http2: bool,
    cx: &mut Context<'_>,
) -> Poll<Next>
where
    S: AsyncRead + Unpin,
{
    let limits = &link.listener().shared.limits;
    loop {
        // A client that has sent nothing yet can send its request elsewhere.
        if link.is_closing() && wire.ahead().is_empty() {
            return Poll::Ready(Next::None);
        }
        let opening = if may_be_http2 { Opening::of(wire.ahead()) } else { Opening::Http1 };
        match opening {
            Opening::Http2 => return Poll::Ready(Next::Http2),
            Opening::Unknown => {}
            Opening::Http1 => match search.take(wire.ahead(), limits) {
                Ok(Some(head)) => return Poll::Ready(Next::Head(head)),
                Ok(None) => {}
                Err(fault) => return Poll::Ready(Next::Fault(fault)),
            },
        }
        let polled = wire.poll_ahead(cx, usize::MAX);
        if polled.is_pending() && search.waits_first() && !wire.ahead().is_empty() {
            // It came behind another request, with whose bytes it may share memory.
            wire.set_apart();
            link.pulse().has_begun_to_ask();
        }
        match ready!(polled) {
            Ok(0) | Err(_) => return Poll::Ready(Next::None),
            Ok(_) => {}
        }
    }
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opening {
    Http1,
    Http2,
    /// They may become either.
    Unknown,
}

impl Opening {
    fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(PREFACE) {
            Self::Http2
        } else if PREFACE.starts_with(bytes) {
            Self::Unknown
        } else {
            Self::Http1
        }
    }
}

/// A reply, and what was not read for it.
struct Answered {
    reply: Reply,
    left: Left,
}

/// What is left of a body that is refused. A connection ends with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    Nothing,
    /// It will not come: it is broken off, or its client waits for leave to send it and reads the refusal instead.
    Unsent,
    /// Its client sends on, and closing on it would take the reply back before it is read.
    OnItsWay,
}

/// Answers a request, unless its client goes away.
async fn answer<H: Handler, S>(
    link: &Link<H>,
    wire: &mut Wire<S>,
    request: &mut Request,
    body: &mut Body,
    version: Version,
) -> Option<Answered>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _under_way = UnderWay::begin(link.pulse());
    let listener = link.listener();
    let limits = &listener.shared.limits;
    let mut share = listener.shared.bodies.share(limits.bodies_bytes_max);
    let read = match listener.guard.check(request, version) {
        Err(refusal) => Err(refusal.into()),
        Ok(()) => match body.at_once(wire, limits.body_bytes_max) {
            Ok(Some(whole)) => Ok(whole),
            // In a box: there is room for this wherever there is a connection.
            Ok(None) => Box::pin(read(link, wire, request, body, &mut share)).await,
            Err(refusal) => Err(refusal.into()),
        },
    };
    match read {
        Ok(whole) => {
            request.body = whole;
            let answering = pin!(listener.handler.answer(request));
            let reply = attended(wire, limits.pipelined_bytes_max, answering).await?;
            Some(Answered { reply, left: Left::Nothing })
        }
        Err(Stopped::By(refusal)) => {
            let reply = listener.handler.refuse(&refusal, request);
            let left = left(&refusal, body, wire.ahead().is_empty());
            Some(Answered { reply, left })
        }
        Err(Stopped::With(reply)) => {
            let left = left_unread(body, wire.ahead().is_empty());
            Some(Answered { reply: *reply, left })
        }
    }
}

/// The body of a request, as far as its head is believed.
async fn read<H: Handler, S>(
    link: &Link<H>,
    wire: &mut Wire<S>,
    request: &Request,
    body: &mut Body,
    share: &mut Share<'_>,
) -> Result<Bytes, Stopped>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let bytes_max = link.listener().expect(request, share).await?;
    Ok(body.whole(wire, bytes_max, share).await?)
}

fn left(refusal: &Refusal, body: &Body, is_nothing_ahead: bool) -> Left {
    if body.has_ended() && !refusal.is_about_body() {
        return Left::Nothing;
    }
    let is_broken_off = matches!(refusal, Refusal::BodyBroken | Refusal::BodyTooSlow);
    if is_broken_off { Left::Unsent } else { left_unread(body, is_nothing_ahead) }
}

fn left_unread(body: &Body, is_nothing_ahead: bool) -> Left {
    if body.awaits_leave() && is_nothing_ahead { Left::Unsent } else { Left::OnItsWay }
}

/// The reply, unless the client goes away before.
async fn attended<S: AsyncRead + Unpin>(
    wire: &mut Wire<S>,
    ahead_max: usize,
    mut answering: Pin<&mut impl Future<Output = Reply>>,
) -> Option<Reply> {
    poll_fn(|cx| match answering.as_mut().poll(cx) {
        Poll::Ready(reply) => Poll::Ready(Some(reply)),
        Poll::Pending if has_gone(wire, ahead_max, cx) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Whether the client has gone, as far as can be seen by reading ahead up to the bound.
fn has_gone<S: AsyncRead + Unpin>(wire: &mut Wire<S>, ahead_max: usize, cx: &mut Context<'_>) -> bool {
    loop {
        let room = ahead_max.saturating_sub(wire.ahead().len());
        if room == 0 {
            return false;
        }
        match wire.poll_ahead(cx, room) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0) | Err(_)) => return true,
            Poll::Ready(Ok(_)) => {}
        }
    }
}
