//! One connection, from its first byte to its end.
//!
//! Here is decided which HTTP is spoken, and what ends a connection from outside: the end of the server, and whatever
//! takes too long. How HTTP/1 and HTTP/2 are spoken is in `http1/` and `http2/`; what they hand to a front-end,
//! and when, is the same.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::drain::DrainPlace;
use crate::front::{Handler, Listener};
use crate::http1::{self, Spoken};
use crate::http2;
use crate::link::{Link, Origin, Speaks};
use crate::progress::pulse::{Overdue, Pulse};
use crate::progress::wire::Wire;

/// Serves a connection to its end.
pub(crate) async fn serve<H: Handler, S>(
    listener: Arc<Listener<H>>,
    stream: S,
    origin: Origin,
    mut place: DrainPlace,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watched = listener.watch.over(Pulse::default());
    poll_fn(|cx| {
        watched.pulse().wake_me(cx);
        Poll::Ready(())
    })
    .await;
    let mut wire = Wire::new(stream, Arc::clone(watched.pulse()));
    let room = listener.shared.replies.of_connection();
    let link = Link { listener, watched, origin, room };
    if origin.speaks != Speaks::Http2 {
        let may_be_http2 = origin.speaks == Speaks::Unknown;
        let mut speaking = pin!(http1::speak(&link, &mut wire, may_be_http2));
        let spoken = poll_fn(|cx| {
            // Asked for its waker's sake: who speaks looks by itself.
            place.is_closing(cx);
            match link.pulse().overdue() {
                Overdue::Connection | Overdue::Still => Poll::Ready(Spoken::Http1),
                Overdue::Nothing | Overdue::Body => speaking.as_mut().poll(cx),
            }
        });
        if spoken.await == Spoken::Http1 {
            return;
        }
    }
    link.pulse().speaks_http2();
    // In a box of its own, so that the many connections that speak HTTP/1 keep no room for it.
    Box::pin(http2::speak(Arc::new(link), wire, place)).await;
}
