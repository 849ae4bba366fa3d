//! Connections: accepted, served request after request within bounds, and ended gracefully.
//!
//! This is the seam to the HTTP library: nobody else names it. A request is read whole, stamped, named and handed to
//! the front-end; its reply is written at once. What goes wrong before a front-end is asked is answered here.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kew_core::{Clock, Entropy};
use tokio::net::{TcpListener, TcpStream};

use crate::body::{self, BodyError};
use crate::drain::{Drain, Place};
use crate::guard::Guard;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::{Request, RequestId};

/// A front-end: one request in, one reply out.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropped when its client goes away.
    fn answer(&self, request: Request) -> impl Future<Output = Reply> + Send;

    /// Words what is refused before a front-end is asked. Of the request only the head is there, its body is empty.
    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let _head = request;
        Reply::text(refusal.status(), &refusal.to_string())
    }
}

/// How much a client may ask of a connection, and all clients of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At most so many connections at once; more are closed unanswered.
    pub connections_max: usize,
    /// A request's line and headers take at most so many bytes together.
    pub head_bytes_max: usize,
    /// A request's body takes at most so many bytes.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 10_000, head_bytes_max: 64 << 10, body_bytes_max: 8 << 20 }
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
}

impl Shared {
    /// What listeners of one server share.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, limits: Limits) -> Self {
        Self { clock, entropy, limits, drain: Drain::default() }
    }
}

/// Serves connections of one socket: a front-end, who may reach it, and what it shares with the others.
pub struct Listener<H> {
    handler: H,
    guard: Guard,
    shared: Shared,
}

impl<H: Handler> Listener<H> {
    /// A listener for `handler`.
    pub fn new(handler: H, guard: Guard, shared: &Shared) -> Arc<Self> {
        Arc::new(Self { handler, guard, shared: shared.clone() })
    }

    /// Accepts connections until the drain closes, each as a task of the present event loop, and returns when the
    /// last of them has ended.
    pub async fn accept(self: Arc<Self>, socket: TcpListener) {
        let mut closing = Box::pin(self.shared.drain.closing());
        loop {
            let accepted = std::future::poll_fn(|cx| match closing.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => socket.poll_accept(cx).map(Some),
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, peer))) => self.welcome(stream, peer),
                Some(Err(error)) => rest_after(&error).await,
            }
        }
        drop(socket);
        self.shared.drain.closed().await;
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        // Small replies go out at once. A socket that cannot promise that is on its way out anyway.
        let _set = stream.set_nodelay(true);
        if let Some(place) = self.shared.drain.enter(self.shared.limits.connections_max) {
            tokio::spawn(Arc::clone(self).serve(stream, peer, place));
        }
    }

    /// Serves one connection to its end.
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, mut place: Place) {
        let head_bytes_max = self.shared.limits.head_bytes_max;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(head_bytes_max).writev(false);
        let requests = service_fn(move |request| {
            let listener = Arc::clone(&self);
            async move { Ok::<_, Infallible>(listener.answer(request, peer).await.into_response()) }
        });
        let mut connection = builder.serve_connection(TokioIo::new(stream), requests);
        let mut told = false;
        // An error here is a client that went away or spoke no HTTP; it has been told what it can be told.
        let _ended = std::future::poll_fn(|cx| {
            if !told && place.is_closing(cx) {
                told = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Pin::new(&mut connection).poll(cx)
        })
        .await;
    }

    async fn answer(&self, request: hyper::Request<Incoming>, peer: SocketAddr) -> Reply {
        let received_at = self.shared.clock.now();
        let (head, body) = request.into_parts();
        let mut request = Request {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: Bytes::new(),
            id: RequestId::from_chance(self.shared.entropy.wide_bits()),
            received_at,
            peer,
            secure: false,
        };
        if let Err(refusal) = self.guard.check(&mut request, head.version) {
            return self.handler.refuse(&refusal, &request);
        }
        match body::read(body, self.shared.limits.body_bytes_max).await {
            Ok(body) => request.body = body,
            Err(error) => return self.refuse_body(error, &request),
        }
        self.handler.answer(request).await
    }

    /// What is left of the body is not worth reading: the connection ends with the reply.
    fn refuse_body(&self, error: BodyError, request: &Request) -> Reply {
        let refusal = match error {
            BodyError::TooLarge => Refusal::BodyTooLarge { bytes_max: self.shared.limits.body_bytes_max },
            BodyError::Broken => Refusal::BodyBroken,
        };
        self.handler.refuse(&refusal, request).with(CONNECTION, HeaderValue::from_static("close"))
    }
}

/// After a failed accept: a client that left again costs nothing, a lack of file descriptors passes by itself.
async fn rest_after(error: &io::Error) {
    let of_one_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    );
    if !of_one_client {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
