//! Listeners: a front-end behind a socket, and what it shares with the server's others.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kew_core::{Clock, Entropy};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::{self, Origin, Speaks};
use crate::crowded::Crowded;
use crate::drain::{Drain, Place};
use crate::guard::Guard;
use crate::http1::Today;
use crate::limits::Limits;
use crate::ration::{Ration, Sender, Share};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::Request;
use crate::room::Replies;
use crate::standing::{Standing, Stopped};
use crate::tls::Tls;
use crate::watch::Watch;

/// A body of a sender of whom nothing is known takes at most so many bytes.
const UNKNOWN_BODY_MAX: usize = 64 << 10;

/// What is timed in tests.
const CONNECTION: &str = "a poll of a connection";

/// A front-end: one request in, one reply out.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropped when its client goes away. There is room for an answer as long as there is a
    /// connection, so a large one belongs in a box.
    fn answer(&self, request: &Request) -> impl Future<Output = Reply> + Send;

    /// Tells by its head alone who sent a request whose body is still on its way: how much of it is kept depends on that.
    /// Asked for bodies that do not come at once. An open front-end believes everybody.
    fn standing(&self, request: &Request) -> impl Future<Output = Standing> + Send {
        let _head = request;
        std::future::ready(Standing::Known)
    }

    /// Words what is refused before a front-end is asked. Of the request only the head is there, its body is empty.
    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let _head = request;
        Reply::text(refusal.status(), &refusal.to_string())
    }
}

/// What all listeners of a server share.
#[derive(Clone)]
pub struct Shared {
    /// Stamps requests.
    pub clock: Arc<dyn Clock>,
    /// Names them.
    pub entropy: Arc<dyn Entropy>,
    /// Bounds, of each connection and of all listeners together.
    pub limits: Limits,
    /// Ends all connections.
    pub drain: Drain,
    /// Counts the bytes of bodies.
    pub bodies: Ration,
    /// Counts the bytes of replies.
    pub replies: Replies,
}

impl Shared {
    /// What listeners of one server share.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, limits: Limits) -> Self {
        let replies = Replies::new(limits.replies_bytes_max);
        Self { clock, entropy, limits, drain: Drain::default(), bodies: Ration::default(), replies }
    }
}

/// Serves connections of one socket: a front-end, who may reach it, and what it shares with the others.
pub struct Listener<H> {
    pub(crate) handler: H,
    pub(crate) guard: Guard,
    pub(crate) shared: Shared,
    pub(crate) watch: Watch,
    pub(crate) today: Today,
    crowded: Crowded,
}

impl<H: Handler> Listener<H> {
    /// A listener for `handler`.
    pub fn new(handler: H, guard: Guard, shared: &Shared) -> Arc<Self> {
        let watch = Watch::new(shared.limits, shared.replies.clone());
        let (today, crowded) = (Today::default(), Crowded::default());
        Arc::new(Self { handler, guard, shared: shared.clone(), watch, today, crowded })
    }

    /// Asks whose the body is that is about to be read, counts its share for them, and says how long it may be; or why it
    /// stays unread.
    pub(crate) async fn expect(&self, request: &Request, share: &mut Share<'_>) -> Result<usize, Stopped> {
        let bytes_max = self.shared.limits.body_bytes_max;
        match self.handler.standing(request).await {
            Standing::Known => Ok(bytes_max),
            Standing::Claimed => {
                share.count_for(Sender::claimed(request.peer.ip()));
                Ok(bytes_max)
            }
            Standing::Unknown => {
                share.count_for(Sender::Unknown);
                Ok(bytes_max.min(UNKNOWN_BODY_MAX))
            }
            Standing::Refused(reply) => Err(Stopped::With(reply)),
        }
    }

    /// Accepts connections until the drain closes, each as a task of the present event loop, and returns when the
    /// last of them has ended.
    pub async fn accept(self: Arc<Self>, socket: TcpListener) {
        self.accept_from(socket, None).await;
    }

    /// The same over TLS.
    pub async fn accept_tls(self: Arc<Self>, socket: TcpListener, tls: Tls) {
        self.accept_from(socket, Some(tls)).await;
    }

    async fn accept_from(self: Arc<Self>, socket: TcpListener, tls: Option<Tls>) {
        let watching = tokio::spawn(self.watch.clone().keep());
        let mut closing = Box::pin(self.shared.drain.closing());
        loop {
            let accepted = poll_fn(|cx| match closing.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => socket.poll_accept(cx).map(Some),
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, peer))) => self.welcome(stream, peer, tls.clone()),
                Some(Err(error)) => rest_after(&error).await,
            }
        }
        drop(socket);
        self.shared.drain.closed().await;
        watching.abort();
    }

    /// Serves a connection that somebody else has accepted, to its end.
    pub async fn serve<S>(self: Arc<Self>, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(place) = self.shared.drain.enter(self.shared.limits.connections_max) else { return };
        let origin = Origin { peer, secure: false, speaks: Speaks::Unknown };
        connection::serve(self, stream, origin, place).await;
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, tls: Option<Tls>) {
        // Small replies go out at once. A socket that cannot promise that is on its way out anyway.
        let _set = stream.set_nodelay(true);
        let limits = &self.shared.limits;
        let Some(place) = self.shared.drain.enter(limits.connections_max) else {
            // A TLS client would not understand what is said before a handshake.
            if tls.is_none() {
                self.crowded.turn_away(stream);
            }
            return;
        };
        let listener = Arc::clone(self);
        match tls {
            None => {
                let origin = Origin { peer, secure: false, speaks: Speaks::Unknown };
                tokio::spawn(kew_timed::polls(
                    CONNECTION,
                    connection::serve(listener, stream, origin, place),
                ));
            }
            Some(tls) => {
                tokio::spawn(kew_timed::polls(CONNECTION, listener.shake_hands(tls, stream, peer, place)));
            }
        }
    }

    async fn shake_hands(self: Arc<Self>, tls: Tls, stream: TcpStream, peer: SocketAddr, mut place: Place) {
        let within = self.shared.limits.handshake_within;
        let mut shaking = Box::pin(tokio::time::timeout(within, tls.accept(stream)));
        let shaken = poll_fn(|cx| {
            if place.is_closing(cx) { Poll::Ready(None) } else { shaking.as_mut().poll(cx).map(Some) }
        });
        // A handshake that fails has told its client why.
        let Some(Ok(Ok(stream))) = shaken.await else { return };
        drop(shaking);
        let speaks = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Speaks::Http2,
            Some(_) => Speaks::Http1,
            None => Speaks::Unknown,
        };
        connection::serve(self, stream, Origin { peer, secure: true, speaks }, place).await;
    }
}

/// After a failed accept: a client that left again costs nothing, a lack of file descriptors passes by itself.
async fn rest_after(error: &io::Error) {
    let of_one_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    );
    if !of_one_client {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
