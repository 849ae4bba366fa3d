//! Listening: connections are accepted, shaken hands with, and served to their ends.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::connection;
use crate::drain::DrainPlace;
use crate::front::{Handler, Listener};
use crate::link::{Origin, Speaks};
use crate::tls::Tls;

/// What is timed in tests.
const CONNECTION: &str = "a poll of a connection";

impl<H: Handler> Listener<H> {
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
        let Some(place) = self.enter() else { return };
        let origin = Origin { peer, secure: false, speaks: Speaks::Unknown };
        connection::serve(self, stream, origin, place).await;
    }

    /// A place for a connection, counted; `None` is counted too.
    fn enter(&self) -> Option<DrainPlace> {
        let (drain, connections) = (&self.shared.drain, &self.shared.connections);
        let place = drain.enter(self.shared.limits.connections_max);
        match place {
            Some(mut place) => {
                place.count_as(connections.enter());
                Some(place)
            }
            None => {
                connections.refuse();
                None
            }
        }
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, tls: Option<Tls>) {
        // Small replies go out at once. A socket that cannot promise that is on its way out anyway.
        let _set = stream.set_nodelay(true);
        let limits = &self.shared.limits;
        let Some(place) = self.enter() else {
            // A TLS client would not understand what is said before a handshake.
            if tls.is_none() {
                self.crowded.turn_away(stream, limits.connections_max);
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

    async fn shake_hands(
        self: Arc<Self>,
        tls: Tls,
        stream: TcpStream,
        peer: SocketAddr,
        mut place: DrainPlace,
    ) {
        let within = self.shared.limits.handshake_within;
        let mut shaking = Box::pin(tokio::time::timeout(within, tls.accept(stream)));
        let shaken = poll_fn(|cx| {
            if place.is_closing(cx) { Poll::Ready(None) } else { shaking.as_mut().poll(cx).map(Some) }
        });
        // A handshake that fails has sent its client the alert.
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
