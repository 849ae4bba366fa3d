//! What was read and is not decoded yet.
//!
//! The buffer grows with the bytes that arrive, not with a length that was only announced, and is given back once a
//! long frame is through.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::error::Why;
use super::frame::{self, Frame};

/// What is asked of the stream at a time, in bytes.
const READ: usize = 64 << 10;

/// What is taken for a frame that was announced, before more of it is there. Messages up to this length, the longest of
/// SQS, are moved only once.
const TAKEN_AHEAD: usize = (1 << 20) + READ;

/// A buffer of more bytes is given back when what is left in it is short.
const KEPT: usize = 4 * READ;

#[derive(Debug, Default)]
pub struct Inbox {
    buffer: BytesMut,
}

impl Inbox {
    /// Reads once. The number of bytes is 0 at the end of the stream.
    pub fn poll_read<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<usize>>
    where
        S: AsyncRead + Unpin,
    {
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < READ / 4 {
            let missing = frame::missing(&self.buffer);
            // Twice what is there, until a longer frame fits.
            self.buffer.reserve(missing.min(self.buffer.len().max(TAKEN_AHEAD)).max(READ));
        }
        pin!(stream.read_buf(&mut self.buffer)).poll(cx)
    }

    /// The next frame, if all of it was read.
    pub fn next(&mut self) -> Result<Option<Frame>, Why> {
        let frame = frame::take(&mut self.buffer)?;
        if self.buffer.capacity() > KEPT && self.buffer.len() < READ && frame::missing(&self.buffer) < READ {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes};

    use super::super::frame::Number;
    use super::*;

    fn read_all(inbox: &mut Inbox, mut stream: &[u8]) -> Vec<Frame> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut frames = Vec::new();
        while let Poll::Ready(Ok(1..)) = inbox.poll_read(&mut stream, &mut cx) {
            while let Some(frame) = inbox.next().unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    #[test]
    fn a_long_frame_passes_and_its_buffer_is_given_back() {
        let payload = Bytes::from(vec![5; 10 << 20]);
        let mut stream = BytesMut::new();
        frame::ask_head(&mut stream, Number(1), payload.len());
        stream.put_slice(&payload);
        frame::cancel(&mut stream, Number(1));
        let mut inbox = Inbox::default();
        assert_eq!(read_all(&mut inbox, &stream), [Frame::Ask(Number(1), payload), Frame::Cancel(Number(1))]);
        assert!(inbox.buffer.capacity() <= KEPT, "{} bytes are kept", inbox.buffer.capacity());
    }

    #[test]
    fn an_announced_length_takes_little_memory() {
        let mut stream = BytesMut::new();
        frame::ask_head(&mut stream, Number(1), 60 << 20);
        let mut inbox = Inbox::default();
        assert_eq!(read_all(&mut inbox, &stream), []);
        assert!(inbox.buffer.capacity() <= TAKEN_AHEAD + READ, "{} bytes are taken", inbox.buffer.capacity());
    }
}
