//! What waits to be written.
//!
//! Short frames are put one behind the other into one buffer, so that all that was queued while a write was under way
//! leaves in the next one. Long payloads are not copied: they stand between such buffers, and one vectored write takes
//! them along.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use super::frame::SLICED_FROM;

/// Parts that one vectored write takes.
const PARTS: usize = 32;

/// A buffer of more bytes is given back once it is empty.
const KEPT: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct Outbox {
    /// In front of `tail`. None is empty.
    parts: VecDeque<Bytes>,
    /// Frames are added here.
    tail: BytesMut,
    /// Bytes that were ever added, and those of them that the stream has taken.
    added: u64,
    taken: u64,
    writes: u64,
    /// Whether the stream has bytes it may still hold back.
    is_unflushed: bool,
}

impl Outbox {
    /// Adds one frame, or several, that `write` writes.
    pub fn add(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.added += length(self.tail.len() - before);
    }

    /// Adds a frame that ends with `payload`; `head` writes what is before it.
    pub fn add_with(&mut self, payload: Bytes, head: impl FnOnce(&mut BytesMut, usize)) {
        self.add(|out| head(out, payload.len()));
        if payload.len() < SLICED_FROM {
            self.add(|out| out.extend_from_slice(&payload));
            return;
        }
        self.added += length(payload.len());
        self.parts.push_back(self.tail.split().freeze());
        self.parts.push_back(payload);
    }

    /// Where the bytes added so far end, counted from the first byte of the link.
    pub fn end(&self) -> u64 {
        self.added
    }

    /// How many bytes of the link the stream has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.added - self.taken).unwrap_or(usize::MAX)
    }

    /// How many writes took something.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Writes until all is written and flushed, or the stream takes no more.
    pub fn poll_write<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        while self.waiting() > 0 {
            let taken = ready!(self.poll_write_once(stream, cx))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_unflushed = true;
            self.writes += 1;
            self.take(taken);
        }
        if self.is_unflushed {
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_once<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<usize>>
    where
        S: AsyncWrite + Unpin,
    {
        let stream = Pin::new(stream);
        match self.parts.front() {
            None => stream.poll_write(cx, &self.tail),
            Some(first) if !stream.is_write_vectored() => stream.poll_write(cx, first),
            Some(_) => {
                let mut slices = [IoSlice::new(&[]); PARTS];
                let parts = self.parts.iter().map(|part| &part[..]).chain([&self.tail[..]]);
                let mut used = 0;
                for (slice, part) in slices.iter_mut().zip(parts) {
                    *slice = IoSlice::new(part);
                    used += 1;
                }
                stream.poll_write_vectored(cx, slices.get(..used).unwrap_or_default())
            }
        }
    }

    /// Removes `taken` bytes at the front.
    fn take(&mut self, mut taken: usize) {
        self.taken += length(taken);
        while let Some(first) = self.parts.front_mut() {
            if taken < first.len() {
                first.advance(taken);
                return;
            }
            taken -= first.len();
            self.parts.pop_front();
        }
        self.tail.advance(taken);
        if self.tail.is_empty() && self.tail.capacity() > KEPT {
            self.tail = BytesMut::new();
        }
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length in memory fits in 64 bits")
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    /// Takes a few bytes at a time, and with each write fewer or more.
    struct Narrow {
        taken: Vec<u8>,
        vectored: bool,
        turn: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            self.turn += 1;
            let length = from.len().min(1 + self.turn * 7_919 % 30_000);
            self.taken.extend_from_slice(&from[..length]);
            Poll::Ready(Ok(length))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            assert!(self.vectored);
            let all: Vec<u8> = from.iter().flat_map(|part| part.iter().copied()).collect();
            self.as_mut().poll_write(cx, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn is_write_vectored(&self) -> bool {
            self.vectored
        }
    }

    #[test]
    fn all_bytes_leave_in_order_however_few_the_stream_takes() {
        for vectored in [false, true] {
            let (mut outbox, mut expected) = (Outbox::default(), Vec::new());
            for round in 0..60_u8 {
                let payload = Bytes::from(vec![round; if round % 3 == 0 { SLICED_FROM } else { 90 }]);
                outbox.add(|out| out.put_u8(round));
                outbox.add_with(payload.clone(), |out, length| out.put_u64(length as u64));
                expected.push(round);
                expected.extend_from_slice(&(payload.len() as u64).to_be_bytes());
                expected.extend_from_slice(&payload);
            }
            assert_eq!(outbox.waiting(), expected.len());
            let mut stream = Narrow { taken: Vec::new(), vectored, turn: 0 };
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(outbox.poll_write(&mut stream, &mut cx).is_ready());
            assert_eq!((outbox.waiting(), outbox.taken()), (0, outbox.end()));
            assert!(stream.taken == expected, "bytes are missing or out of order");
        }
    }

    #[test]
    fn what_waits_leaves_in_one_write() {
        let mut outbox = Outbox::default();
        for _ in 0..64 {
            outbox.add_with(Bytes::from_static(&[1; 100]), |_, _| {});
        }
        let mut stream = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(outbox.poll_write(&mut stream, &mut cx).is_ready());
        assert_eq!((stream.len(), outbox.writes()), (6_400, 1));
    }
}
