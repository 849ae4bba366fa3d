//! The host's time: the system's, or that of a Kew server whose clock tests can move.
//!
//! Everything the service's own time decides goes by it: pauses between polls, the renewal of leases, the dates in
//! logs. What the machine's time decides does not: sockets, a handler's start, the limit of a run.

mod dial;
mod follow;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kew_core::{Clock, Timestamp};
use tokio::sync::oneshot;

use dial::{Busy, Dial, Held};
use follow::Source;

pub use follow::{FollowError, follow};

/// The host's time.
#[derive(Clone)]
pub struct HostClock(Kind);

#[derive(Clone)]
enum Kind {
    System(Arc<dyn Clock>),
    Followed(Arc<Dial>, Arc<Source>),
}

impl HostClock {
    /// The system's time.
    pub fn system(clock: Arc<dyn Clock>) -> Self {
        Self(Kind::System(clock))
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System(clock) => clock.now(),
            Kind::Followed(dial, _) => dial.now(),
        }
    }

    /// Makes sure that it is not earlier here than it was at the server when that answered a request: an answer may
    /// arrive before the news of the jump that set it off.
    pub(crate) async fn catch_up(&self) {
        if let Kind::Followed(dial, source) = &self.0
            && let Some(shown) = source.read().await
        {
            dial.catch_up(Timestamp(shown.now_ms));
        }
    }

    /// Says that a server holds a poll and may answer it at any instant.
    pub(crate) fn hold(&self) -> Option<Held> {
        match &self.0 {
            Kind::System(_) => None,
            Kind::Followed(dial, _) => Some(dial.hold()),
        }
    }

    /// Says that something is being done which time must not run away from.
    pub(crate) fn busy(&self) -> Due {
        match &self.0 {
            Kind::System(_) => Due(None),
            Kind::Followed(dial, _) => Due(Some(dial.busy())),
        }
    }

    /// Begins a pause. It is under way before it is awaited.
    pub(crate) fn sleep(&self, length: Duration) -> Sleep {
        match &self.0 {
            Kind::System(_) => Sleep::Real(Box::pin(tokio::time::sleep(length))),
            Kind::Followed(dial, _) => Sleep::Followed(dial.alarm(dial.now().plus(length))),
        }
    }
}

impl std::fmt::Debug for HostClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::System(_) => "HostClock(system)",
            Kind::Followed(..) => "HostClock(followed)",
        })
    }
}

/// A pause. What it returns is kept until what was due has been done: a clock that is moved by hand waits for that.
pub(crate) enum Sleep {
    Real(Pin<Box<tokio::time::Sleep>>),
    Followed(oneshot::Receiver<Busy>),
}

/// Something that is being done.
#[derive(Debug, Default)]
pub(crate) struct Due(
    #[expect(dead_code, reason = "it is held, and counts as work until it is dropped")] Option<Busy>,
);

impl Future for Sleep {
    type Output = Due;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Due> {
        match &mut *self {
            Self::Real(sleep) => sleep.as_mut().poll(cx).map(|()| Due(None)),
            // The other end goes only with the clock itself.
            Self::Followed(rings) => Pin::new(rings).poll(cx).map(|busy| Due(busy.ok())),
        }
    }
}
