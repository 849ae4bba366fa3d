//! The bytes of one connection: counted, and looked at where the HTTP library does not look.
//!
//! Four things are added to a socket. It tells the connection's [`Pulse`] what moves. It recognises HTTP/2 by its
//! first bytes. And while a request is being answered it reads ahead what the HTTP/1 library leaves unread, so that a
//! client that sent more and then went away is noticed, and nothing is consumed for it. A [`Tap`] may look at heads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::names::Tap;
use crate::pulse::Pulse;

/// What a client that means HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket with the additions.
pub(crate) struct Wire<S> {
    stream: S,
    pulse: Arc<Pulse>,
    speaks: Speaks,
    /// Bytes that come before the stream's.
    ahead: BytesMut,
    ahead_max: usize,
    /// The stream has ended behind what is ahead.
    has_ended: bool,
    /// Whoever reads cannot speak what is spoken, and lets go of the stream without ending it.
    is_handed_over: bool,
    /// The task is woken when there is something to read.
    awaits_reading: bool,
    /// Looks at what is read; in a box, because few connections have one.
    tap: Option<Box<Tap>>,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    /// Not known before the first bytes are there.
    Unknown,
    Http1,
    Http2,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>, speaks: Speaks, ahead_max: usize) -> Self {
        Self {
            stream,
            pulse,
            speaks,
            ahead: BytesMut::new(),
            ahead_max,
            has_ended: false,
            is_handed_over: false,
            awaits_reading: false,
            tap: None,
        }
    }

    /// The same with a tap.
    pub(crate) fn tapped(mut self, tap: Option<Tap>) -> Self {
        self.tap = tap.map(Box::new);
        self
    }

    /// The same for whoever speaks HTTP/2, if that was recognised.
    pub(crate) fn handed_over(mut self) -> Option<Self> {
        // HTTP/2 has no heads that a tap could read.
        self.tap = None;
        std::mem::take(&mut self.is_handed_over).then_some(self)
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.awaits_reading = polled.is_pending();
        ready!(polled)?;
        let bytes = buf.filled().len().saturating_sub(before);
        self.pulse.received(bytes);
        if let Some(tap) = &mut self.tap {
            tap.look(buf.filled().get(before..).unwrap_or_default());
        }
        Poll::Ready(Ok(bytes))
    }

    /// Decides by the first bytes what is spoken, and has them read again. HTTP/2 is told as an error: the library
    /// that reads cannot speak it.
    fn poll_opening(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            let bytes = ready!(self.poll_stream(cx, buf))?;
            let new = buf.filled().get(before..).unwrap_or_default();
            if self.ahead.is_empty() && !may_be_http2(new) {
                self.speaks = Speaks::Http1;
                return Poll::Ready(Ok(()));
            }
            self.ahead.extend_from_slice(new);
            buf.set_filled(before);
            if self.ahead.starts_with(PREFACE) {
                self.speaks = Speaks::Http2;
                self.is_handed_over = true;
                return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
            }
            if bytes == 0 || !may_be_http2(&self.ahead) {
                self.speaks = Speaks::Http1;
                self.has_ended = bytes == 0;
                self.read_again(buf);
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Gives out what is ahead.
    fn read_again(&mut self, buf: &mut ReadBuf<'_>) {
        let bytes = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..bytes]);
        self.ahead.advance(bytes);
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
    }

    /// Reads what there is up to the bound. An end is an error: whoever waited for a reply has gone.
    fn read_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.ahead.len() < self.ahead_max {
            let mut space = [0; 4 << 10];
            let wanted = space.len().min(self.ahead_max - self.ahead.len());
            let mut buf = ReadBuf::new(&mut space[..wanted]);
            match self.poll_stream(cx, &mut buf) {
                Poll::Pending => {
                    // The next time by here it is looked at again: the library may not look before.
                    self.awaits_reading = false;
                    return Ok(());
                }
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(Ok(_)) => self.ahead.extend_from_slice(buf.filled()),
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether this is how HTTP/2 begins, or may become it.
fn may_be_http2(bytes: &[u8]) -> bool {
    let known = bytes.len().min(PREFACE.len());
    !bytes.is_empty() && bytes.get(..known) == PREFACE.get(..known)
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.speaks == Speaks::Unknown {
            return self.poll_opening(cx, buf);
        }
        if !self.ahead.is_empty() {
            self.read_again(buf);
            return Poll::Ready(Ok(()));
        }
        if self.has_ended {
            return Poll::Ready(Ok(()));
        }
        self.poll_stream(cx, buf).map_ok(|_| ())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.tell(&polled, |bytes| *bytes);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.tell(&polled, |bytes| *bytes);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The library comes by here whenever it is polled and has nothing left to write, so here is read ahead.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let leaves_unread = !std::mem::take(&mut self.awaits_reading) && self.speaks == Speaks::Http1;
        if leaves_unread && self.pulse.is_answering() {
            self.read_ahead(cx)?;
        }
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.tell(&polled, |()| 0);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_handed_over {
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.tell(&polled, |()| 0);
        polled
    }
}

impl<S> Wire<S> {
    fn tell<T>(&self, polled: &Poll<io::Result<T>>, bytes: impl Fn(&T) -> usize) {
        match polled {
            Poll::Pending => self.pulse.await_writing(),
            Poll::Ready(Ok(done)) => self.pulse.sent(bytes(done)),
            Poll::Ready(Err(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn wire() -> (DuplexStream, Wire<DuplexStream>, Arc<Pulse>) {
        let (client, server) = duplex(1 << 10);
        let pulse = Arc::new(Pulse::default());
        (client, Wire::new(server, Arc::clone(&pulse), Speaks::Unknown, 8), pulse)
    }

    /// What is read when the client sends these pieces, one by one, and ends.
    async fn read(pieces: &[&[u8]]) -> (io::Result<Vec<u8>>, Wire<DuplexStream>) {
        let (mut client, mut wire, _) = wire();
        let mut all = Vec::new();
        let reading = async {
            let result = wire.read_to_end(&mut all).await;
            (result.map(|_| all), wire)
        };
        let writing = async {
            for piece in pieces {
                client.write_all(piece).await.expect("it is read");
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        let (read, ()) = tokio::join!(reading, writing);
        read
    }

    #[tokio::test]
    async fn http1_is_read_as_it_comes_even_if_it_begins_like_http2() {
        let cases: [&[&[u8]]; 7] = [
            &[b"GET / HTTP/1.1\r\n"],
            &[b"P", b"OST / HTTP/1.1\r\n"],
            &[b"PR", b"I", b" * HTTP/1.1\r\n"],
            &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", b"x"],
            &[b"PRI"],
            &[b"", b"\x16\x03\x01"],
            &[],
        ];
        for pieces in cases {
            let (read, wire) = read(pieces).await;
            assert_eq!(read.expect("it is read"), pieces.concat());
            assert!(wire.handed_over().is_none());
        }
    }

    #[tokio::test]
    async fn http2_is_recognised_and_all_of_it_read_again() {
        let cases: [&[&[u8]]; 3] =
            [&[PREFACE, b"frame"], &[b"P", b"RI * HTTP/2.0\r\n\r\nSM\r\n", b"\r\nframe"], &[PREFACE]];
        for pieces in cases {
            let (read, wire) = read(pieces).await;
            assert_eq!(read.expect_err("it is told").kind(), io::ErrorKind::Unsupported);
            let mut wire = wire.handed_over().expect("it is HTTP/2");
            let mut again = Vec::new();
            wire.read_to_end(&mut again).await.expect("it is read");
            assert_eq!(again, pieces.concat());
        }
    }

    #[tokio::test]
    async fn what_comes_while_a_request_is_answered_is_read_ahead_up_to_the_bound() {
        let (mut client, mut wire, pulse) = wire();
        client.write_all(b"abc").await.expect("there is room");
        let mut first = [0; 3];
        wire.read_exact(&mut first).await.expect("it is there");
        client.write_all(b"0123456789").await.expect("there is room");
        wire.flush().await.expect("nothing is written");
        assert!(wire.ahead.is_empty(), "no request is answered");
        pulse.begin();
        wire.flush().await.expect("nothing is written");
        assert_eq!(&wire.ahead[..], b"01234567");
        let mut rest = [0; 10];
        wire.read_exact(&mut rest).await.expect("it is there");
        assert_eq!(&rest, b"0123456789");
    }

    #[tokio::test]
    async fn an_end_while_a_request_is_answered_is_an_error() {
        let (mut client, mut wire, pulse) = wire();
        client.write_all(b"abc").await.expect("there is room");
        wire.read_u8().await.expect("it is there");
        pulse.begin();
        wire.flush().await.expect("it is still there");
        drop(client);
        assert_eq!(wire.flush().await.expect_err("it went").kind(), io::ErrorKind::UnexpectedEof);
    }
}
