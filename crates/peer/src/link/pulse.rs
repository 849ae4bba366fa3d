//! Signs of life: beats to the other side, and how long it has been silent.

use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

use super::error::Why;
use super::limits::{BEAT_EVERY, SILENCE_MAX};

#[derive(Debug)]
pub struct Pulse {
    /// When a byte of the other side arrived last.
    heard: Instant,
    next_beat: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Pulse {
    /// The other side was heard at `now`: its handshake ended.
    pub fn new(now: Instant) -> Self {
        // The first beat leaves at once: its echo says that the other side holds the link.
        Self { heard: now, next_beat: now, timer: Box::pin(sleep_until(now)) }
    }

    /// Bytes of the other side arrived at `now`.
    pub fn note_heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The present, when a beat is due; an error when the other side is silent. To be asked after all that has arrived
    /// was read: a process that was stopped for a while finds there what it missed.
    pub fn beat(&mut self, cx: &mut Context<'_>) -> Result<Option<Instant>, Why> {
        let mut due = None;
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let end = self.heard + SILENCE_MAX;
            if now >= end {
                return Err(Why::Silent);
            }
            if now >= self.next_beat {
                self.next_beat = now + BEAT_EVERY;
                due = Some(now);
            }
            self.timer.as_mut().reset(self.next_beat.min(end));
        }
        Ok(due)
    }
}
