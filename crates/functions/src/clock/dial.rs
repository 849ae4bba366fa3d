//! A clock read from elsewhere now and then, and the alarms set by it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kew_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// The clock as it was last read, and what waits for it.
pub(crate) struct Dial {
    /// Guards the reading and the alarms.
    state: Mutex<State>,
    /// Notified when an alarm is set before all others, and when no task is busy any more.
    changed: Notify,
    /// Polls that a server holds and may answer at any instant.
    held: AtomicU32,
    /// Counts the polls that were held and have been answered.
    answered: AtomicU64,
}

struct State {
    shown: Timestamp,
    read_at: Instant,
    frozen: bool,
    alarms: BTreeMap<(Timestamp, u64), oneshot::Sender<Busy>>,
    set: u64,
    busy: u32,
}

impl State {
    fn now(&self) -> Timestamp {
        if self.frozen { self.shown } else { self.shown.plus(self.read_at.elapsed()) }
    }

    /// The first alarm that somebody still waits for.
    fn first(&mut self) -> Option<Timestamp> {
        while let Some(first) = self.alarms.first_entry() {
            if !first.get().is_closed() {
                return Some(first.key().0);
            }
            first.remove();
        }
        None
    }
}

impl Dial {
    pub(super) fn new(shown: Timestamp, frozen: bool) -> Arc<Self> {
        let state =
            State { shown, read_at: Instant::now(), frozen, alarms: BTreeMap::new(), set: 0, busy: 0 };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            held: AtomicU32::new(0),
            answered: AtomicU64::new(0),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.lock().now()
    }

    /// Takes a reading. Time does not run back.
    pub(super) fn set(&self, shown: Timestamp, frozen: bool) {
        let mut state = self.state.lock();
        state.shown = shown.max(state.now());
        state.read_at = Instant::now();
        state.frozen = frozen;
    }

    /// Takes an instant that the clock has shown since the last reading. Whether it stands still, readings tell.
    pub(super) fn catch_up(&self, shown: Timestamp) {
        let mut state = self.state.lock();
        state.shown = shown.max(state.now());
        state.read_at = Instant::now();
    }

    /// An alarm that rings at this instant.
    pub(super) fn alarm(&self, at: Timestamp) -> oneshot::Receiver<Busy> {
        let (rings, alarm) = oneshot::channel();
        let mut state = self.state.lock();
        let is_first = state.first().is_none_or(|first| at < first);
        state.set += 1;
        let place = (at, state.set);
        state.alarms.insert(place, rings);
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
        alarm
    }

    /// Rings what is due.
    pub(super) fn ring(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let now = state.now();
            let Some(first) = state.alarms.first_entry().filter(|first| first.key().0 <= now) else { return };
            let rings = first.remove();
            state.busy += 1;
            drop(state);
            // No receiver is left: the work is done with that.
            drop(rings.send(Busy(Arc::clone(self))));
        }
    }

    /// Counts as a poll that a server holds until it is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        self.held.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(self))
    }

    pub(super) fn holds(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// How many polls that were held have been answered so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Counts as work until it is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.state.lock().busy += 1;
        Busy(Arc::clone(self))
    }

    /// The instant of the first alarm.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.state.lock().first()
    }

    /// How long until the first alarm rings, in real time; `None` while time stands still or none is set.
    pub(super) fn until_first(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let first = state.first()?;
        (!state.frozen || first <= state.shown).then(|| first.since(state.now()))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.state.lock().busy > 0
    }

    /// Returns when an earlier alarm was set or the last work was done.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

/// A poll that a server holds.
#[derive(Debug)]
pub(crate) struct Held(Arc<Dial>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
        self.0.answered.fetch_add(1, Ordering::Relaxed);
        self.0.changed.notify_one();
    }
}

/// What an alarm set off; dropped when it is done.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Dial>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.busy -= 1;
        if state.busy == 0 {
            drop(state);
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_from_their_very_instant() {
        let dial = Dial::new(Timestamp(1_000), true);
        let (mut late, mut soon) = (dial.alarm(Timestamp(3_000)), dial.alarm(Timestamp(2_000)));
        assert_eq!(dial.first(), Some(Timestamp(2_000)));
        dial.set(Timestamp(1_999), true);
        dial.ring();
        assert!(soon.try_recv().is_err());
        dial.set(Timestamp(2_000), true);
        dial.ring();
        let busy = soon.try_recv().expect("the alarm has rung");
        assert!(dial.is_busy() && late.try_recv().is_err());
        drop(busy);
        assert!(!dial.is_busy());
        drop(late);
        assert_eq!(dial.first(), None, "nobody waits for it any more");
    }

    #[test]
    fn time_does_not_run_back_and_stands_still_when_frozen() {
        let dial = Dial::new(Timestamp(5_000), true);
        dial.set(Timestamp(4_000), true);
        assert_eq!(dial.now(), Timestamp(5_000));
        let _alarm = dial.alarm(Timestamp(6_000));
        assert_eq!(dial.until_first(), None);
        dial.set(Timestamp(5_000), false);
        assert!(dial.until_first().is_some());
    }
}
