//! The handle of one side of a connection.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::asks::Asks;
use super::error::{LinkError, Why};
use super::figures::{Counted, Figures};
use super::frame::Beat;
use super::handshake::Greeted;
use super::limits::{ASK_BYTES_MAX, ASKS_MAX, CUT_OFF_AFTER, PAYLOAD_MAX, SILENCE_MAX};
use super::node::Node;

/// Tells links of this process apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(u64);

impl LinkId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Its number, counted from 1.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// One side of a connection to another node. A clone is the same side.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

/// What handles and the connection share.
struct Shared {
    id: LinkId,
    greeted: Greeted,
    began: Instant,
    /// When something was heard last, in milliseconds since `began`.
    heard: AtomicU64,
    /// The latest beat of this side that the other has echoed, and 1; 0 before the first.
    echoed: AtomicU64,
    /// The number of the conversation, which no link has had before.
    conversation: AtomicU64,
    figures: Figures,
    /// Bytes that further requests may have. Closed when the link has ended.
    room: Semaphore,
    /// Requests without an answer, those that wait for room too.
    seats: AtomicUsize,
    asks: Asks,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({} to {})", self.shared.id.0, self.shared.greeted.peer)
    }
}

impl Link {
    pub(super) fn new(greeted: Greeted) -> Self {
        let id = LinkId::next();
        let shared = Shared {
            id,
            conversation: AtomicU64::new(id.0),
            greeted,
            began: Instant::now(),
            heard: AtomicU64::new(0),
            echoed: AtomicU64::new(0),
            figures: Figures::default(),
            room: Semaphore::new(ASK_BYTES_MAX),
            seats: AtomicUsize::new(0),
            asks: Asks::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Asks the other side and waits for its answer. When the future is dropped, the other side stops serving it.
    pub async fn ask(&self, request: Bytes) -> Result<Bytes, LinkError> {
        let bytes = request.len();
        if bytes > PAYLOAD_MAX {
            return Err(LinkError::NotSent(Why::TooLong { bytes }));
        }
        // The order of these three matters: the last is dropped first, and so a cancel is queued before there is room
        // for what the other side would refuse without it.
        let _seat = Seat::take(&self.shared)?;
        let bytes = u32::try_from(bytes).expect("PAYLOAD_MAX fits in 32 bits");
        let room = self.shared.room.acquire_many(bytes).await;
        let _room = room.map_err(|_| LinkError::NotSent(self.ended().unwrap_or(Why::Ended)))?;
        self.shared.asks.begin(request)?.await
    }

    /// Which of this process's links it is.
    pub fn id(&self) -> LinkId {
        self.shared.id
    }

    /// The node at the other end.
    pub fn peer(&self) -> &Node {
        &self.shared.greeted.peer
    }

    /// The version of the protocol that both sides speak here.
    pub fn version(&self) -> u16 {
        self.shared.greeted.version
    }

    /// Whether this side connected to the other.
    pub fn is_dialed(&self) -> bool {
        self.shared.greeted.is_dialer
    }

    /// When the handshake ended.
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// When this side last heard anything from the other. What was heard may have been under way for a while.
    pub fn heard(&self) -> Instant {
        self.shared.began + Duration::from_millis(self.shared.heard.load(Ordering::Relaxed))
    }

    /// A moment after which the other side surely still held this link: it has echoed a beat that was sent then.
    ///
    /// Before the first echo it is [`SILENCE_MAX`](super::limits::SILENCE_MAX) before the link began.
    pub fn surely_heard(&self) -> Instant {
        let began = self.shared.began;
        match self.shared.echoed.load(Ordering::Acquire).checked_sub(1) {
            Some(beat) => began + Duration::from_millis(beat),
            None => began.checked_sub(SILENCE_MAX).unwrap_or(began),
        }
    }

    /// The number of the conversation that the latest echo belongs to: another one for each link of this process, and
    /// after each time this side was cut off from the other for [`CUT_OFF_AFTER`].
    pub fn conversation(&self) -> u64 {
        self.shared.conversation.load(Ordering::Acquire)
    }

    /// Why the link has ended, if it has.
    pub fn ended(&self) -> Option<Why> {
        self.shared.asks.ended()
    }

    /// Whether this side may still ask.
    pub fn is_open(&self) -> bool {
        self.shared.asks.is_open()
    }

    /// Asks no more on this link. What is under way goes on; the link ends when both sides have left it and nothing is
    /// under way any longer.
    pub fn leave(&self) {
        self.shared.asks.leave();
    }

    /// Ends the link at once. What is under way ends without an answer.
    pub fn end(&self) {
        self.shared.asks.end();
    }

    /// Requests of this side that have no answer yet.
    pub fn under_way(&self) -> usize {
        self.shared.seats.load(Ordering::Relaxed)
    }

    /// What the link has done, as of the last turn of its connection.
    pub fn counted(&self) -> Counted {
        self.shared.figures.get()
    }
}

/// What the connection does with it.
impl Link {
    pub(super) fn asks(&self) -> &Asks {
        &self.shared.asks
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.shared.figures
    }

    pub(super) fn note_heard(&self, now: Instant) {
        self.shared.heard.store(self.beat(now).0, Ordering::Relaxed);
    }

    /// Notes an echo; false for one of a beat that was not sent yet.
    pub(super) fn note_echo(&self, echo: Beat, now: Instant) -> bool {
        if echo > self.beat(now) {
            return false;
        }
        if now.saturating_duration_since(self.surely_heard()) >= CUT_OFF_AFTER {
            self.shared.conversation.store(LinkId::next().0, Ordering::Release);
        }
        // Who sees the echo sees the conversation that it belongs to.
        self.shared.echoed.fetch_max(echo.0.saturating_add(1), Ordering::Release);
        true
    }

    /// The present, as this side's beats count.
    pub(super) fn beat(&self, now: Instant) -> Beat {
        let since = now.saturating_duration_since(self.shared.began);
        Beat(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Ends all that is under way. The stream has taken `taken` bytes of the link.
    pub(super) fn close(&self, why: &Why, taken: u64) {
        self.shared.asks.close(why, taken);
        self.shared.room.close();
    }
}

/// The right to have one request without an answer.
struct Seat<'a> {
    shared: &'a Shared,
}

impl<'a> Seat<'a> {
    fn take(shared: &'a Shared) -> Result<Self, LinkError> {
        let seat = Self { shared };
        if shared.seats.fetch_add(1, Ordering::Relaxed) >= ASKS_MAX {
            return Err(LinkError::NotSent(Why::Full));
        }
        Ok(seat)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.shared.seats.fetch_sub(1, Ordering::Relaxed);
    }
}
