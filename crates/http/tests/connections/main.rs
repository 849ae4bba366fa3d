//! Listeners on real sockets, and clients that speak bytes, HTTP/2 and TLS; well behaved ones and others.

mod bounds;
mod gone;
mod guard;
mod http1;
mod http2;
mod replies;
mod server;
mod slow;
mod standing;
mod tls;
