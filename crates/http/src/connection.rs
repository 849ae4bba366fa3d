//! Connections: accepted, served request after request within bounds, and ended gracefully.
//!
//! This is the seam to the HTTP library: nobody else names it. A request is read whole, stamped, named and handed to
//! the front-end; its reply is written at once. What goes wrong before a front-end is asked is answered here.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::StatusCode;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kew_core::{Clock, Entropy};
use tokio::net::{TcpListener, TcpStream};

use crate::body::{self, BodyError};
use crate::drain::{Drain, Place};
use crate::reply::Reply;
use crate::request::{Request, RequestId};

/// A front-end: one request in, one reply out.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropped when its client goes away.
    fn answer(&self, request: Request) -> impl Future<Output = Reply> + Send;
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

/// What connections need: a front-end, a clock, chance for names, bounds, and their end.
pub struct Listener<H> {
    handler: H,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    limits: Limits,
    drain: Drain,
}

impl<H: Handler> Listener<H> {
    /// A listener for `handler`.
    pub fn new(
        handler: H,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        limits: Limits,
        drain: Drain,
    ) -> Arc<Self> {
        Arc::new(Self { handler, clock, entropy, limits, drain })
    }

    /// Accepts connections until the drain closes, each as a task of the present event loop, and returns when the
    /// last of them has ended.
    pub async fn accept(self: Arc<Self>, socket: TcpListener) {
        let mut closing = Box::pin(self.drain.closing());
        loop {
            let accepted = std::future::poll_fn(|cx| match closing.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => socket.poll_accept(cx).map(Some),
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, _))) => self.welcome(stream),
                Some(Err(error)) => rest_after(&error).await,
            }
        }
        drop(socket);
        self.drain.closed().await;
    }

    fn welcome(self: &Arc<Self>, stream: TcpStream) {
        // Small replies go out at once. A socket that cannot promise that is on its way out anyway.
        let _set = stream.set_nodelay(true);
        if let Some(place) = self.drain.enter(self.limits.connections_max) {
            tokio::spawn(Arc::clone(self).serve(stream, place));
        }
    }

    /// Serves one connection to its end.
    async fn serve(self: Arc<Self>, stream: TcpStream, mut place: Place) {
        let head_bytes_max = self.limits.head_bytes_max;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(head_bytes_max).writev(false);
        let requests = service_fn(move |request| {
            let listener = Arc::clone(&self);
            async move { Ok::<_, Infallible>(listener.answer(request).await.into_response()) }
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

    async fn answer(&self, request: hyper::Request<Incoming>) -> Reply {
        let received_at = self.clock.now();
        let (head, body) = request.into_parts();
        let body = match body::read(body, self.limits.body_bytes_max).await {
            Ok(body) => body,
            Err(error) => return self.refuse(error),
        };
        let id = RequestId::from_chance(self.entropy.wide_bits());
        let request =
            Request { method: head.method, uri: head.uri, headers: head.headers, body, id, received_at };
        self.handler.answer(request).await
    }

    /// What is left of the body is not worth reading: the connection ends with the reply.
    fn refuse(&self, error: BodyError) -> Reply {
        let reply = match error {
            BodyError::TooLarge => {
                let most = self.limits.body_bytes_max;
                Reply::text(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &format!("a request body may have at most {most} bytes"),
                )
            }
            BodyError::Broken => Reply::text(StatusCode::BAD_REQUEST, "the request body is broken"),
        };
        reply.with(CONNECTION, HeaderValue::from_static("close"))
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
