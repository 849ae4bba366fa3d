//! What happens by itself: due work of the store, ends of waits, sleepers, all in order of time.
//!
//! One task sleeps until the earliest of them. A step that makes something due earlier rings for it.

use std::future::Future;
use std::time::Duration;

use kew_core::Timestamp;
use kew_store::{StoreError, Submission};
use tokio::sync::oneshot;

use crate::Engine;
use crate::agenda::{Alarm, Ticket};
use crate::answers;
use crate::busy::Busy;
use crate::notice::Notice;
use crate::pass::Pass;

/// The longest sleep in real time: a leap of the system clock is noticed after at most so long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long due work rests after the store refused it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Turns taken before other tasks get theirs.
const TURNS_IN_A_ROW: u32 = 32;

/// One thing done, or nothing to do.
pub(crate) enum Turn {
    /// Nothing is due.
    Idle,
    /// An alarm went off.
    Rang,
    /// The store did what was due; when it answers from elsewhere, the answer is awaited before the next turn.
    Did(Option<Submission>),
    /// The store could not do what is due.
    Failed(StoreError),
}

impl Engine {
    /// Does what becomes due until [`Engine::shutdown`]. The builder of the engine spawns it once and joins it.
    pub async fn run_timers(&self) {
        while !self.is_shut_down() {
            let rest = match self.do_everything_due().await {
                Ok(()) => self.arm(),
                Err(error) => {
                    (self.options.notices)(Notice::DueFailed(error));
                    Some(REST_AFTER_FAILURE)
                }
            };
            self.clock.watch();
            self.look_after_leap();
            match rest.or_else(|| self.clock_rest()) {
                // Ringing or running out, it looks again.
                Some(rest) => drop(tokio::time::timeout(rest, self.alarm.notified()).await),
                None => self.alarm.notified().await,
            }
        }
    }

    /// How long to wait where nothing is due; `None` where the clock is moved by hand.
    fn clock_rest(&self) -> Option<Duration> {
        (!self.clock.is_virtual()).then(|| self.looks_at_clock_within())
    }

    /// Returns when engine time has come to `at`. On a frozen clock that is when somebody advances it.
    pub async fn sleep_until(&self, at: Timestamp) {
        drop(self.wake_at(at).await);
    }

    /// The same for who has something to do then: a jump of the clock waits at that instant while the result lives.
    pub async fn wake_at(&self, at: Timestamp) -> Busy {
        let Some(mut sleep) = self.begin_sleep(at) else { return self.work.begin() };
        // The other end is kept until it has spoken.
        (&mut sleep.wake).await.unwrap_or_else(|_| self.work.begin())
    }

    /// Returns when `length` of engine time has passed.
    pub async fn sleep(&self, length: Duration) {
        self.sleep_until(self.now().plus(length)).await;
    }

    /// Does the earliest thing due by now.
    pub(crate) fn turn(&self) -> Turn {
        let mut pass = self.pass();
        let now = self.now();
        let due = self.store.next_due().filter(|due| *due <= now);
        let alarm = pass.agenda.first_at().filter(|at| *at <= now);
        match (due, alarm) {
            (None, None) => Turn::Idle,
            // At one instant messages come first: a receive may be served through its last instant.
            (Some(due), Some(alarm)) if due <= alarm => self.turn_due(&mut pass, due, now),
            (Some(_), None) => self.turn_due(&mut pass, now, now),
            (_, Some(_)) => self.turn_alarm(&mut pass, now),
        }
    }

    /// The next instant at which something happens by itself; [`Timestamp::NEVER`] when nothing does.
    pub fn next_turn(&self) -> Timestamp {
        self.next_instant(&self.pass())
    }

    async fn do_everything_due(&self) -> Result<(), StoreError> {
        let mut turns = 0_u32;
        loop {
            match self.turn() {
                Turn::Idle => return Ok(()),
                Turn::Rang | Turn::Did(None) => {}
                Turn::Did(Some(answer)) => drop(answer.await?),
                Turn::Failed(error) => return Err(error),
            }
            turns += 1;
            if turns.is_multiple_of(TURNS_IN_A_ROW) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Notes what the timers wait for, and says how long; `None` while time stands still or nothing is ahead.
    fn arm(&self) -> Option<Duration> {
        let mut pass = self.pass();
        pass.armed = self.next_instant(&pass);
        if pass.armed == Timestamp::NEVER {
            return None;
        }
        self.clock.wait_until(pass.armed).map(|rest| rest.min(LOOK_AGAIN))
    }

    fn turn_due(&self, pass: &mut Pass, at: Timestamp, now: Timestamp) -> Turn {
        let mut submission = self.step_due(pass, at, now);
        match answers::refusal(&mut submission) {
            Some(error) => Turn::Failed(error),
            None => Turn::Did(submission.peek().is_none().then_some(submission)),
        }
    }

    fn turn_alarm(&self, pass: &mut Pass, now: Timestamp) -> Turn {
        match pass.agenda.pop_due(now) {
            Some((_, ticket, Alarm::WaitEnds(queue))) => {
                if let Some(waiter) = pass.waiters.take(queue, ticket) {
                    self.end_wait(pass, ticket, waiter);
                }
            }
            // A sleeper that is just going away needs no waking.
            Some((_, _, Alarm::Wake(sleeper))) => drop(sleeper.send(self.work.begin())),
            None => {}
        }
        Turn::Rang
    }

    fn begin_sleep(&self, at: Timestamp) -> Option<Sleep<'_>> {
        let mut pass = self.pass();
        if at <= self.now() {
            return None;
        }
        let (sleeper, wake) = oneshot::channel();
        let ticket = pass.ticket();
        pass.agenda.set(at, ticket, Alarm::Wake(sleeper));
        self.rearm(&mut pass);
        Some(Sleep { engine: self, at, ticket, wake })
    }
}

/// A sleeper's entry in the agenda. Dropping it takes the entry out.
struct Sleep<'a> {
    engine: &'a Engine,
    at: Timestamp,
    ticket: Ticket,
    wake: oneshot::Receiver<Busy>,
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.engine.pass().agenda.cancel(self.at, self.ticket);
    }
}

/// Whichever of two comes first; the other is dropped.
pub(crate) async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let mut first = std::pin::pin!(first);
    let mut second = std::pin::pin!(second);
    std::future::poll_fn(|cx| {
        if first.as_mut().poll(cx).is_ready() { std::task::Poll::Ready(()) } else { second.as_mut().poll(cx) }
    })
    .await;
}
