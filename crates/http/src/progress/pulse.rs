//! What a connection is doing, reported by the code that does it, read by the code that watches it.
//!
//! Telling costs a few plain writes and no look at the clock; time is the watch's business.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// One connection's signs of life; of HTTP/2 also one request's whose body is awaited.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    begun: AtomicU32,
    ended: AtomicU32,
    /// Bytes read from and written to the socket, wrapping: only differences mean something.
    received: AtomicU32,
    sent: AtomicU32,
    /// What `received` was when the last request ended.
    received_before: AtomicU32,
    /// Bytes of bodies that came in pieces.
    body: AtomicU32,
    is_http2: AtomicBool,
    /// Requests of HTTP/2 that their client gave up before they were answered, wrapping.
    given_up: AtomicU32,
    awaits_body: AtomicBool,
    awaits_writing: AtomicBool,
    overdue: AtomicU8,
    /// Guards who is woken when something is overdue.
    waker: Mutex<Option<Waker>>,
}

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// A request's head is on its way, or the first one is not.
    Head,
    /// A body is on its way.
    Body,
    /// A front-end works, or waits; that may take as long as it takes.
    Answer,
    /// A reply is not taken.
    Reply,
    /// Nothing, after a request.
    Idle,
}

/// What took too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overdue {
    Nothing,
    /// A body; its request is refused.
    Body,
    /// The connection should end.
    Connection,
    /// It should, and did not.
    Still,
}

/// Signs of life at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signs {
    pub(crate) phase: Phase,
    /// Changes with every request that begins or ends.
    pub(crate) turn: u32,
    /// Bytes that show whether it gets on in its phase.
    pub(crate) moved: u32,
}

impl Pulse {
    /// A pulse of a request whose body is awaited.
    pub(crate) fn of_request() -> Self {
        let pulse = Self::default();
        pulse.begin();
        pulse
    }

    /// Bytes between requests are then no sign of another one: HTTP/2 has much to say beside requests.
    pub(crate) fn speaks_http2(&self) {
        self.is_http2.store(true, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self) {
        // What was found of a body that came to its end all the same is not said of the next one.
        if self.overdue() == Overdue::Body {
            self.overdue.store(Overdue::Nothing as u8, Ordering::Relaxed);
        }
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// A client gave a request up.
    pub(crate) fn is_given_up(&self) {
        add(&self.given_up, 1);
    }

    pub(crate) fn given_up(&self) -> u32 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.received_before.store(self.received.load(Ordering::Relaxed), Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Bytes of the next request came while the last one was answered.
    pub(crate) fn has_begun_to_ask(&self) {
        self.received_before.store(self.received.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// Only the owner of the socket tells this and the next.
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received, bytes);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes);
        if self.awaits_writing.load(Ordering::Relaxed) {
            self.awaits_writing.store(false, Ordering::Relaxed);
        }
    }

    /// A piece of a reply was taken, and there is more.
    pub(crate) fn taken(&self, bytes: usize) {
        add(&self.sent, bytes);
    }

    pub(crate) fn await_writing(&self) {
        self.awaits_writing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn body_came(&self, bytes: usize) {
        add(&self.body, bytes);
    }

    pub(crate) fn await_body(&self, is_awaited: bool) {
        self.awaits_body.store(is_awaited, Ordering::Relaxed);
    }

    /// What is overdue, as the watch has found.
    pub(crate) fn overdue(&self) -> Overdue {
        match self.overdue.load(Ordering::Acquire) {
            0 => Overdue::Nothing,
            1 => Overdue::Body,
            2 => Overdue::Connection,
            _ => Overdue::Still,
        }
    }

    /// Has the caller's task woken when something is overdue.
    pub(crate) fn wake_me(&self, cx: &Context<'_>) {
        let mut waker = self.waker.lock();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Says that something is overdue.
    pub(crate) fn find(&self, overdue: Overdue) {
        self.overdue.store(overdue as u8, Ordering::Release);
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn signs(&self) -> Signs {
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Relaxed);
        let turn = begun.wrapping_add(ended);
        let received = self.received.load(Ordering::Relaxed);
        let (phase, moved) = if self.awaits_writing.load(Ordering::Relaxed) {
            (Phase::Reply, self.sent.load(Ordering::Relaxed))
        } else if begun != ended {
            let awaits_body = self.awaits_body.load(Ordering::Relaxed);
            (if awaits_body { Phase::Body } else { Phase::Answer }, self.body.load(Ordering::Relaxed))
        } else if begun == 0 || self.has_begun_a_head(received) {
            (Phase::Head, received)
        } else {
            (Phase::Idle, received)
        };
        Signs { phase, turn, moved }
    }

    fn has_begun_a_head(&self, received: u32) -> bool {
        let before = self.received_before.load(Ordering::Relaxed);
        received != before && !self.is_http2.load(Ordering::Relaxed)
    }
}

/// A request from its arrival until its reply is made, or it is dropped.
pub(crate) struct UnderWay<'a>(&'a Pulse);

impl<'a> UnderWay<'a> {
    pub(crate) fn begin(pulse: &'a Pulse) -> Self {
        pulse.begin();
        Self(pulse)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A counter that one task raises.
fn add(counter: &AtomicU32, bytes: usize) {
    // What is cut off is a multiple of 4 GiB: it wraps anyway.
    #[expect(clippy::cast_possible_truncation, reason = "it wraps anyway")]
    let bytes = bytes as u32;
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_the_signals() {
        let pulse = Pulse::default();
        assert_eq!(pulse.signs().phase, Phase::Head, "a new connection owes a head");
        pulse.received(10);
        assert_eq!(pulse.signs().phase, Phase::Head);
        pulse.begin();
        assert_eq!(pulse.signs().phase, Phase::Answer);
        pulse.await_body(true);
        assert_eq!(pulse.signs().phase, Phase::Body);
        pulse.await_body(false);
        pulse.end();
        assert_eq!(pulse.signs().phase, Phase::Idle);
        pulse.await_writing();
        assert_eq!(pulse.signs().phase, Phase::Reply);
        pulse.sent(1);
        assert_eq!(pulse.signs().phase, Phase::Idle);
        pulse.received(1);
        assert_eq!(pulse.signs().phase, Phase::Head);
    }

    #[test]
    fn what_came_of_the_next_request_before_the_last_one_ended_is_a_head() {
        let pulse = Pulse::default();
        pulse.received(10);
        pulse.begin();
        pulse.end();
        pulse.has_begun_to_ask();
        assert_eq!(pulse.signs().phase, Phase::Head);
        pulse.begin();
        pulse.end();
        assert_eq!(pulse.signs().phase, Phase::Idle);
    }

    #[test]
    fn an_http2_connection_is_idle_whatever_it_says_between_requests() {
        let pulse = Pulse::default();
        pulse.speaks_http2();
        assert_eq!(pulse.signs().phase, Phase::Head);
        pulse.begin();
        pulse.end();
        pulse.received(17);
        assert_eq!(pulse.signs().phase, Phase::Idle);
    }

    #[test]
    fn a_slow_body_says_nothing_of_the_next_one() {
        let pulse = Pulse::of_request();
        pulse.find(Overdue::Body);
        assert_eq!(pulse.overdue(), Overdue::Body);
        pulse.end();
        pulse.begin();
        assert_eq!(pulse.overdue(), Overdue::Nothing);
        pulse.find(Overdue::Connection);
        pulse.begin();
        assert_eq!(pulse.overdue(), Overdue::Connection, "a connection that should end still should");
    }

    #[test]
    fn counters_wrap() {
        let pulse = Pulse::default();
        pulse.received(u32::MAX as usize);
        pulse.received(2);
        assert_eq!(pulse.signs().moved, 1);
    }
}
