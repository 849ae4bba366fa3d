//! A conversation that is cut at each of its bytes, in every way a stream can be.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use kew_peer::link::LinkError;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::time::timeout;

use super::support::{Service, ask, endpoint, id};

/// What happens at a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Reads end.
    ReadEnds(usize),
    /// Reads find nothing more.
    ReadStalls(usize),
    /// Writes fail.
    WriteFails(usize),
    /// Writes are taken and lost.
    WriteVanishes(usize),
    /// Writes find no more room.
    WriteStalls(usize),
}

/// All bytes that passed one side.
#[derive(Default)]
struct Passed {
    read: Vec<u8>,
    written: Vec<u8>,
}

struct Cut {
    stream: DuplexStream,
    fault: Fault,
    passed: Arc<Mutex<Passed>>,
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = self.passed.lock().unwrap().read.len();
        let left = match self.fault {
            Fault::ReadEnds(at) | Fault::ReadStalls(at) => at - before,
            _ => usize::MAX,
        };
        if left == 0 {
            return match self.fault {
                Fault::ReadStalls(_) => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            };
        }
        let mut part = vec![0; left.min(buf.remaining())];
        let mut part = ReadBuf::new(&mut part);
        let result = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        buf.put_slice(part.filled());
        self.passed.lock().unwrap().read.extend_from_slice(part.filled());
        result
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let before = self.passed.lock().unwrap().written.len();
        let left = match self.fault {
            Fault::WriteFails(at) | Fault::WriteVanishes(at) | Fault::WriteStalls(at) => {
                at.saturating_sub(before)
            }
            _ => usize::MAX,
        };
        let taken = match (left, self.fault) {
            (0, Fault::WriteFails(_)) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            (0, Fault::WriteStalls(_)) => return Poll::Pending,
            (0, _) => Poll::Ready(Ok(from.len())),
            _ => Pin::new(&mut self.stream).poll_write(cx, &from[..from.len().min(left)]),
        };
        if let Poll::Ready(Ok(taken)) = taken {
            self.passed.lock().unwrap().written.extend_from_slice(&from[..taken]);
        }
        taken
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The numbers of the frames of one kind that are whole in `bytes`, which begin with `bodies` of a handshake.
fn whole(mut bytes: &[u8], bodies: usize, kind: u8) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for at in 0.. {
        let Ok(length) = bytes.try_get_u32_le() else { break };
        let Some((mut frame, rest)) = bytes.split_at_checked(length as usize) else { break };
        if at >= bodies && frame.get_u8() == kind {
            numbers.insert(frame.get_u64_le());
        }
        bytes = rest;
    }
    numbers
}

const ASK: u8 = 1;
const ANSWER: u8 = 2;

/// How many bytes passed the asking side, read and written.
struct Lengths {
    read: usize,
    written: usize,
}

/// One conversation with faults on either side. Each request ends, and as the bytes that passed say.
async fn converse(asking: Fault, serving: Fault) -> Lengths {
    let about = format!("asking side {asking:?}, serving side {serving:?}");
    let (a, b) = duplex(1 << 20);
    let (passed, service) = (Arc::<Mutex<Passed>>::default(), Service::new());
    let (end_a, end_b) = (endpoint("a", &Service::new()), endpoint("b", &service));
    let b = Cut { stream: b, fault: serving, passed: Arc::default() };
    let served = tokio::spawn(async move {
        if let Ok((_link, connection)) = end_b.accept(b).await {
            connection.await;
        }
    });
    let a = Cut { stream: a, fault: asking, passed: Arc::clone(&passed) };
    let b_id = id("b");
    let dialed = timeout(Duration::from_secs(10), end_a.dial(a, &b_id)).await.expect("a handshake ends");
    if let Ok((link, connection)) = dialed {
        let requests = [Bytes::new(), Bytes::from_static(b"e"), Bytes::from(vec![b'e'; 50]), "n".into()];
        let asked: Vec<_> = requests.iter().map(|request| ask(&link, request.clone())).collect();
        let dropped = ask(&link, "n dropped");
        let connection = tokio::spawn(connection);
        // Some beats pass, and a link without a fault stays.
        tokio::time::sleep(Duration::from_millis(300)).await;
        dropped.abort();
        tokio::time::sleep(Duration::from_millis(1_700)).await;
        link.end();
        let mut results = Vec::new();
        for asked in asked {
            let result = timeout(Duration::from_secs(10), asked).await;
            results.push(result.unwrap_or_else(|_| panic!("{about}: a request hangs")).unwrap());
        }
        drop(connection.await);
        let passed = passed.lock().unwrap();
        let (answered, sent) = (whole(&passed.read, 2, ANSWER), whole(&passed.written, 2, ASK));
        for (number, (request, result)) in (1..).zip(requests.iter().zip(results)) {
            match result {
                Ok(answer) => assert!(answer == request && answered.contains(&number), "{about}: {number}"),
                Err(LinkError::Unknown(why)) => {
                    assert!(!answered.contains(&number), "{about}: the answer to {number} is lost: {why}");
                    assert!(sent.contains(&number), "{about}: {number} may be sent again, but {why}");
                }
                Err(LinkError::NotSent(_)) => {
                    assert!(!sent.contains(&number), "{about}: {number} was sent");
                    assert!(!service.has_seen(request), "{about}: {number} was served");
                }
            }
        }
    }
    timeout(Duration::from_secs(10), served).await.expect("the serving side ends").unwrap();
    assert_eq!(service.open(), 0, "{about}: a request is still being served");
    let passed = passed.lock().unwrap();
    Lengths { read: passed.read.len(), written: passed.written.len() }
}

/// The lengths of a conversation without faults, after it has had all of its frames.
async fn uncut() -> Lengths {
    let lengths = converse(Fault::None, Fault::None).await;
    assert!(lengths.read > 250 && lengths.written > 250, "the conversation is not as short as that");
    lengths
}

#[tokio::test(start_paused = true)]
async fn reads_that_end_at_any_byte() {
    let lengths = uncut().await;
    for at in 0..=lengths.read {
        converse(Fault::ReadEnds(at), Fault::None).await;
    }
    for at in 0..=lengths.written {
        converse(Fault::None, Fault::ReadEnds(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_find_nothing_more_from_any_byte_on() {
    let lengths = uncut().await;
    for at in 0..=lengths.read {
        converse(Fault::ReadStalls(at), Fault::None).await;
    }
    for at in 0..=lengths.written {
        converse(Fault::None, Fault::ReadStalls(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_at_any_byte() {
    let lengths = uncut().await;
    for at in 0..=lengths.written {
        converse(Fault::WriteFails(at), Fault::None).await;
    }
    for at in 0..=lengths.read {
        converse(Fault::None, Fault::WriteFails(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_lost_from_any_byte_on() {
    let lengths = uncut().await;
    for at in 0..=lengths.written {
        converse(Fault::WriteVanishes(at), Fault::None).await;
    }
    for at in 0..=lengths.read {
        converse(Fault::None, Fault::WriteVanishes(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_find_no_room_from_any_byte_on() {
    let lengths = uncut().await;
    for at in 0..=lengths.written {
        converse(Fault::WriteStalls(at), Fault::None).await;
    }
    for at in 0..=lengths.read {
        converse(Fault::None, Fault::WriteStalls(at)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cuts_on_both_sides_at_once() {
    let lengths = uncut().await;
    for at in (0..=lengths.read).step_by(7) {
        for other in (0..=lengths.written).step_by(31) {
            converse(Fault::ReadEnds(at), Fault::ReadStalls(other)).await;
            converse(Fault::WriteFails(other), Fault::WriteVanishes(at)).await;
        }
    }
}
