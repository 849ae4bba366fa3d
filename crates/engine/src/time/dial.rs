//! The dial of the engine's clock: what it shows, worked out from readings of the system clock and the steady one.

use std::time::Duration;

use kew_core::Timestamp;
use kew_core::time::millis;

use super::{BEHIND_WORTH_TELLING, OUT_OF_STEP, TimeSource};

/// What a reading of the system clock brought to light.
pub(super) enum News {
    None,
    Behind(Duration),
    Met,
}

/// Engine time and what it is made of.
pub(super) struct Dial {
    /// The last reading of the system clock.
    pub(super) system: Timestamp,
    /// The steady clock's reading with it.
    pub(super) steady: Duration,
    /// A longer leap is reported; none on a clock that is moved by hand.
    leap_max: Option<Duration>,
    /// The instant that a leap began at, until it is reported.
    pub(super) leapt: Option<Timestamp>,
    /// The system's time, held back where it ran back.
    pub(super) paced: Timestamp,
    /// Where slower running began, while the system clock is behind.
    slew: Option<Slew>,
    /// What is added by hand.
    offset: i128,
    /// Where time stands still, if it does.
    pub(super) held: Option<Timestamp>,
    pub(super) frozen: bool,
    /// How many hold it while they move it.
    pub(super) holds: u32,
    /// The newest instant shown. Nothing earlier is ever shown again.
    newest: Timestamp,
    /// The paced time and the steady clock at the last look for leaps.
    watched: (Timestamp, Duration),
}

#[derive(Clone, Copy)]
struct Slew {
    steady: Duration,
    engine: Timestamp,
    told: bool,
}

impl Dial {
    pub(super) fn new(
        system: Timestamp,
        steady: Duration,
        newest: Timestamp,
        leap_max: Option<Duration>,
    ) -> Self {
        let told = newest.since(system) >= BEHIND_WORTH_TELLING;
        let slew = (newest > system).then_some(Slew { steady, engine: newest, told });
        let paced = system.max(newest);
        Self {
            system,
            steady,
            leap_max,
            leapt: None,
            paced,
            slew,
            offset: 0,
            held: None,
            frozen: false,
            holds: 0,
            newest,
            watched: (paced, steady),
        }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        let running = i128::from(self.paced.0) + self.offset;
        let running = Timestamp(u64::try_from(running.max(0)).unwrap_or(u64::MAX));
        self.newest = self.newest.max(self.held.unwrap_or(running));
        self.newest
    }

    /// The system's reading, if time runs freely and has been shown to be just that.
    pub(super) fn in_step(&self) -> u64 {
        let is_plain = self.held.is_none() && self.slew.is_none() && self.offset == 0;
        if is_plain && self.newest == self.system { self.system.0 } else { OUT_OF_STEP }
    }

    /// Time that is no longer held goes on from where it stands.
    pub(super) fn let_go(&mut self) {
        if self.frozen || self.holds > 0 {
            return;
        }
        if let Some(held) = self.held.take() {
            self.go_on_from(held);
        }
    }

    fn go_on_from(&mut self, at: Timestamp) {
        self.offset = i128::from(at.0) - i128::from(self.paced.0);
    }

    /// Follows the system clock to its reading.
    pub(super) fn follow(&mut self, source: &dyn TimeSource) -> News {
        let before = self.paced.plus(self.pass(source.steady()));
        let news = self.follow_system(source);
        if self.leap_max.is_some_and(|max| self.paced.since(before) > max) {
            self.leapt = Some(before);
        }
        news
    }

    /// Notes the steady clock's reading, and says how long after the last one it is.
    fn pass(&mut self, steady: Duration) -> Duration {
        let passed = steady.saturating_sub(self.steady);
        self.steady = steady;
        passed
    }

    fn follow_system(&mut self, source: &dyn TimeSource) -> News {
        let system = source.system();
        let mut news = News::None;
        if system < self.system {
            let by = self.paced.since(system);
            let told = by >= BEHIND_WORTH_TELLING;
            self.slew = Some(Slew { steady: self.steady, engine: self.paced, told });
            news = News::Behind(by);
        }
        self.system = system;
        let Some(slew) = self.slew else {
            self.paced = system;
            return news;
        };
        // By the steady clock: when the system's leaps ahead, it makes up for what it was behind, and the
        // days by which it was wrong are no time that passed. They would end every lease and every retention.
        // Counted from where it began, so that many readings a millisecond lose nothing to rounding.
        let passed = millis(self.steady.saturating_sub(slew.steady));
        let engine = slew.engine.plus(Duration::from_millis(passed - passed / 8));
        if system < engine {
            self.paced = engine;
            return news;
        }
        self.paced = system;
        self.slew = None;
        if slew.told { News::Met } else { News::None }
    }

    /// How much further time went than the steady clock since the last look.
    pub(super) fn leap(&mut self, steady: Duration) -> Duration {
        let (before, steady_before) = self.watched;
        self.watched = (self.paced, steady);
        self.paced.since(before).saturating_sub(steady.saturating_sub(steady_before))
    }
}
