//! The bytes of one connection: counted, and read ahead of the code that wants them.
//!
//! A socket tells the connection's [`Pulse`] what moves. What was read and was not taken yet is kept here, in
//! memory of its own that is as large as it has to be: a connection without a request keeps none.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::progress::pulse::Pulse;

/// Bytes of one read. The space lies on the stack, so that waiting connections keep none.
const AT_ONCE: usize = 16 << 10;

/// A socket, and what was read of it ahead.
pub(crate) struct Wire<S> {
    stream: S,
    pulse: Arc<Pulse>,
    ahead: BytesMut,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse, ahead: BytesMut::new() }
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// What was read and not taken yet.
    pub(crate) fn ahead(&mut self) -> &mut BytesMut {
        &mut self.ahead
    }

    /// Gives what is ahead memory of its own, and lets go of what it came in.
    pub(crate) fn set_apart(&mut self) {
        self.ahead = BytesMut::from(&self.ahead[..]);
    }

    /// The next bytes, this many, without a copy, if all of them were read.
    pub(crate) fn take_ahead(&mut self, bytes: usize) -> Option<Bytes> {
        match self.ahead.len() {
            there if there == bytes => Some(std::mem::take(&mut self.ahead).freeze()),
            there if there > bytes => Some(self.ahead.split_to(bytes).freeze()),
            _ => None,
        }
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads ahead what there is, at most `bytes_max` bytes; returns their number, which is zero at the end. Nothing
    /// ahead takes no memory while more is awaited.
    pub(crate) fn poll_ahead(&mut self, cx: &mut Context<'_>, bytes_max: usize) -> Poll<io::Result<usize>> {
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
        let mut space = [MaybeUninit::uninit(); AT_ONCE];
        let (space, _) = space.split_at_mut(bytes_max.min(AT_ONCE));
        let mut buf = ReadBuf::uninit(space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        self.ahead.extend_from_slice(buf.filled());
        self.pulse.received(buf.filled().len());
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Reads past what is ahead, which must be nothing, to the end of `into`: at most this number of bytes, which is
    /// above zero.
    pub(crate) fn poll_into(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let mut room = into.limit(bytes_max);
        let bytes = ready!(pin!(self.stream.read_buf(&mut room)).poll(cx))?;
        self.pulse.received(bytes);
        Poll::Ready(Ok(bytes))
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Writes these, one behind the other, to their ends.
    pub(crate) async fn send(&mut self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        poll_fn(|cx| {
            for rest in [&mut first, &mut second] {
                while !rest.is_empty() {
                    match ready!(Pin::new(&mut *self).poll_write(cx, rest))? {
                        0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                        sent => *rest = rest.get(sent..).unwrap_or_default(),
                    }
                }
            }
            Pin::new(&mut *self).poll_flush(cx)
        })
        .await
    }

    /// Ends this side of the connection.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut *self).poll_shutdown(cx)).await
    }

    fn tell<T>(&self, polled: &Poll<io::Result<T>>, bytes: impl Fn(&T) -> usize) {
        match polled {
            Poll::Pending => self.pulse.await_writing(),
            Poll::Ready(Ok(done)) => self.pulse.sent(bytes(done)),
            Poll::Ready(Err(_)) => {}
        }
    }
}

/// For the library that speaks HTTP/2.
impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let bytes = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..bytes]);
            self.ahead.advance(bytes);
            if self.ahead.is_empty() {
                self.ahead = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.pulse.received(buf.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.tell(&polled, |()| 0);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.tell(&polled, |()| 0);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    fn wire(room: usize) -> (DuplexStream, Wire<DuplexStream>) {
        let (client, server) = duplex(room);
        (client, Wire::new(server, Arc::default()))
    }

    #[tokio::test]
    async fn what_is_ahead_is_taken_and_read_before_what_follows() {
        let (mut client, mut wire) = wire(1 << 10);
        client.write_all(b"0123456789").await.expect("the stream has space for ten bytes");
        for (bytes_max, expected) in [(3, 3), (1, 1), (100, 6)] {
            let read = poll_fn(|cx| wire.poll_ahead(cx, bytes_max)).await;
            assert_eq!(read.expect("the bytes that were written are readable"), expected);
        }
        assert_eq!(wire.take_ahead(11), None);
        assert_eq!(wire.take_ahead(2).as_deref(), Some(&b"01"[..]));
        client.write_all(b"abc").await.expect("the stream has space for three bytes");
        drop(client);
        let mut rest = Vec::new();
        wire.read_to_end(&mut rest).await.expect("the rest of the stream is readable");
        assert_eq!(rest, b"23456789abc");
    }

    #[tokio::test]
    async fn what_was_taken_leaves_no_memory_behind() {
        let (mut client, mut wire) = wire(1 << 10);
        client.write_all(&[b'x'; 1 << 10]).await.expect("the stream has space for one kibibyte");
        poll_fn(|cx| wire.poll_ahead(cx, usize::MAX))
            .await
            .expect("the bytes that were written are readable");
        wire.ahead().advance(1_000);
        wire.set_apart();
        assert_eq!((wire.ahead().len(), wire.ahead().capacity()), (24, 24));
        wire.ahead().advance(24);
        assert!(is_quiet(&mut wire).await);
        assert_eq!(wire.ahead().capacity(), 0);
    }

    /// Whether nothing is there to be read.
    async fn is_quiet(wire: &mut Wire<DuplexStream>) -> bool {
        poll_fn(|cx| Poll::Ready(wire.poll_ahead(cx, 1).is_pending())).await
    }

    #[tokio::test]
    async fn a_body_is_read_into_its_own_memory_and_no_further() {
        let (mut client, mut wire) = wire(1 << 10);
        client.write_all(b"bodynext").await.expect("the stream has space for eight bytes");
        let mut body = BytesMut::from(&b"a "[..]);
        let read = poll_fn(|cx| wire.poll_into(cx, &mut body, 4)).await;
        assert_eq!((read.expect("the bytes that were written are readable"), &body[..]), (4, &b"a body"[..]));
        assert_eq!(
            poll_fn(|cx| wire.poll_ahead(cx, 9)).await.expect("the bytes behind the body are readable"),
            4
        );
        drop(client);
        assert_eq!(
            poll_fn(|cx| wire.poll_into(cx, &mut body, 4)).await.expect("a closed stream reads zero bytes"),
            0
        );
    }

    #[tokio::test]
    async fn a_reply_is_sent_whole_and_its_end_is_reported() {
        let (mut client, mut wire) = wire(3);
        let pulse = Arc::clone(&wire.pulse);
        pulse.begin();
        pulse.end();
        let mut got = [0; 10];
        let (sent, read) = tokio::join!(wire.send(b"01234", b"56789"), client.read_exact(&mut got));
        sent.and(read.map(|_| ())).expect("both parts of the reply reach the client");
        assert_eq!(&got, b"0123456789");
        assert_eq!(pulse.signs().phase, crate::progress::pulse::Phase::Idle);
        drop(client);
        assert!(wire.send(b"x", b"").await.is_err());
    }
}
