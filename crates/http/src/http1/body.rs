//! Reads a body to its end, within bounds of length, time and what all bodies together may hold.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite};

use super::chunks::Chunks;
use super::head::{Framing, Head};
use crate::bounds::body::Gathered;
use crate::bounds::ration::Share;
use crate::progress::pulse::Overdue;
use crate::progress::wire::Wire;
use crate::refusal::Refusal;

/// Of a body that is refused so much is still read, and for so long, so that its client comes to read the refusal.
const DISCARDED_MAX: usize = 16 << 20;
const DISCARDED_WITHIN: Duration = Duration::from_secs(5);
const LEAVE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A body on its way.
#[derive(Debug)]
pub(super) struct Body {
    rest: Rest,
    /// Its client may wait for leave to send it.
    awaits_leave: bool,
}

/// What is still to come.
#[derive(Debug)]
enum Rest {
    Bytes(u64),
    Chunks(Chunks),
}

impl Body {
    pub(super) fn of(head: &Head) -> Self {
        let rest = match head.framing {
            Framing::Length(bytes) => Rest::Bytes(bytes),
            Framing::Chunked => Rest::Chunks(Chunks::default()),
        };
        Self { rest, awaits_leave: head.awaits_leave }
    }

    pub(super) fn has_ended(&self) -> bool {
        match &self.rest {
            Rest::Bytes(bytes) => *bytes == 0,
            Rest::Chunks(chunks) => chunks.has_ended(),
        }
    }

    /// Whether its client still waits for leave to send it.
    pub(super) fn awaits_leave(&self) -> bool {
        self.awaits_leave
    }

    /// The whole body if it is there already, not copied. One that announces too much stays unread.
    pub(super) fn at_once<S>(
        &mut self,
        wire: &mut Wire<S>,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, Refusal> {
        let Rest::Bytes(bytes) = &mut self.rest else { return Ok(None) };
        match usize::try_from(*bytes) {
            Ok(0) => Ok(Some(Bytes::new())),
            Ok(length) if length <= bytes_max => {
                let whole = wire.take_ahead(length);
                if whole.is_some() {
                    *bytes = 0;
                }
                Ok(whole)
            }
            _ => Err(Refusal::BodyTooLarge { bytes_max }),
        }
    }

    /// The whole body, once it is there. The wire's pulse gets its progress, and says when it is too slow.
    pub(super) async fn whole<S>(
        &mut self,
        wire: &mut Wire<S>,
        bytes_max: usize,
        share: &mut Share<'_>,
    ) -> Result<Bytes, Refusal>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if matches!(self.rest, Rest::Bytes(bytes) if bytes > bytes_max as u64) {
            return Err(Refusal::BodyTooLarge { bytes_max });
        }
        let mut whole = Gathered::new(bytes_max, share);
        loop {
            if !wire.ahead().is_empty() {
                // Who announces much and sends nothing is made no room for.
                if let Rest::Bytes(bytes) = self.rest {
                    whole.expect(bytes);
                }
                self.take(wire, &mut |piece| whole.add(piece))?;
            }
            if self.has_ended() {
                return Ok(whole.whole());
            }
            if std::mem::take(&mut self.awaits_leave) {
                wire.send(LEAVE, b"").await.map_err(|_| Refusal::BodyBroken)?;
            }
            match &mut self.rest {
                Rest::Bytes(bytes) if !whole.bytes().is_empty() => {
                    let left = usize::try_from(*bytes).unwrap_or(usize::MAX);
                    let came = more(wire, |wire, cx| wire.poll_into(cx, whole.bytes(), left)).await?;
                    *bytes = bytes.saturating_sub(came as u64);
                    whole.count(came)?;
                }
                Rest::Bytes(_) | Rest::Chunks(_) => {
                    more(wire, |wire, cx| wire.poll_ahead(cx, usize::MAX)).await?;
                }
            }
        }
    }

    /// Reads on and forgets what it reads, within bounds.
    pub(super) async fn discard<S: AsyncRead + Unpin>(&mut self, wire: &mut Wire<S>) {
        let reading = async {
            let mut bytes = 0_usize;
            while self.take(wire, &mut |_| Ok(())).is_ok() && !self.has_ended() && bytes <= DISCARDED_MAX {
                match poll_fn(|cx| wire.poll_ahead(cx, usize::MAX)).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => bytes = bytes.saturating_add(read),
                }
            }
        };
        // A client that sends on after that reads no refusal.
        let _in_time = tokio::time::timeout(DISCARDED_WITHIN, reading).await;
    }

    /// Takes what is ahead of the body.
    fn take<S>(
        &mut self,
        wire: &mut Wire<S>,
        put: &mut impl FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match &mut self.rest {
            Rest::Bytes(left) => {
                let ahead = wire.ahead();
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(ahead.len());
                put(ahead.get(..bytes).unwrap_or_default())?;
                ahead.advance(bytes);
                *left -= bytes as u64;
                Ok(())
            }
            Rest::Chunks(chunks) => chunks.read(wire.ahead(), put),
        }
    }
}

/// The next piece; an end is a fault here.
async fn more<S>(
    wire: &mut Wire<S>,
    mut read: impl FnMut(&mut Wire<S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
) -> Result<usize, Refusal> {
    let came = poll_fn(|cx| {
        let polled = read(wire, cx);
        let pulse = wire.pulse();
        if polled.is_pending() {
            if pulse.overdue() == Overdue::Body {
                return Poll::Ready(Err(Refusal::BodyTooSlow));
            }
            pulse.wake_me(cx);
            pulse.await_body(true);
        }
        polled.map_err(|_| Refusal::BodyBroken)
    })
    .await;
    wire.pulse().await_body(false);
    match came? {
        0 => Err(Refusal::BodyBroken),
        bytes => {
            wire.pulse().body_came(bytes);
            Ok(bytes)
        }
    }
}
