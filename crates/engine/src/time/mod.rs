//! Engine time: it follows the system clock, never runs back, and can be moved by hand when it is virtual.
//!
//! When the system clock is behind (it was set back, or the store has seen a later instant before the restart), engine
//! time goes on from where it is at seven eighths of the speed until the two meet: leases never end early because of a
//! clock. When the system clock leaps ahead, engine time leaps with it, but never past it: what a clock that was wrong
//! is put right by has not passed.

mod dial;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Clock, Timestamp};
use parking_lot::Mutex;

use crate::leap::Look;
use crate::notice::Notice;
use dial::{Dial, News};

/// Brings news of other nodes for which a jump of the clock may have to stop.
pub type BeforeJumps = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Where the machine's time comes from.
pub trait TimeSource: Send + Sync {
    /// What the system clock shows.
    fn system(&self) -> Timestamp;

    /// Time since some beginning, on a clock that cannot be set: it distinguishes a leap from time that passed.
    fn steady(&self) -> Duration;
}

/// Whose time it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockKind {
    /// The system's.
    #[default]
    System,
    /// The system's plus what it was advanced by hand.
    Virtual,
}

/// What the clock shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockState {
    /// The present instant.
    pub now: Timestamp,
    /// How far it is ahead of the system clock, in milliseconds.
    pub offset_millis: i64,
    /// Whether it stands still until it is advanced.
    pub frozen: bool,
    /// Whether it stands still just now: it is frozen, or somebody is moving it.
    pub stands: bool,
}

/// The one clock of an engine.
pub struct EngineClock {
    source: Arc<dyn TimeSource>,
    kind: ClockKind,
    notices: Arc<dyn Fn(Notice) + Send + Sync>,
    /// Guards the present: readings of the source come one after the other.
    dial: Mutex<Dial>,
    /// The system's reading at which engine time was last found to show the very same, or [`OUT_OF_STEP`]. While the
    /// source still shows it there is nothing to work out: most readings fall into a millisecond that was read before.
    in_step: AtomicU64,
    /// The instant that a leap began at which the store does not know of yet, or [`NO_LEAP`].
    leapt: AtomicU64,
}

/// No leap.
const NO_LEAP: u64 = u64::MAX;
/// No reading of the system clock.
const OUT_OF_STEP: u64 = u64::MAX;

/// Being behind by less than this is met in silence.
const BEHIND_WORTH_TELLING: Duration = Duration::from_millis(100);
/// A leap shorter than this is lateness of the timer that looks.
const LEAP_WORTH_TELLING: Duration = Duration::from_secs(1);

impl EngineClock {
    /// A clock that starts at the later of the system's time and `newest`, and tells leaps longer than `leap_max`
    /// unless it is moved by hand.
    pub fn new(
        source: Arc<dyn TimeSource>,
        (kind, leap_max): (ClockKind, Duration),
        newest: Timestamp,
        notices: Arc<dyn Fn(Notice) + Send + Sync>,
    ) -> Self {
        let leap_max = (kind == ClockKind::System).then_some(leap_max);
        let dial = Dial::new(source.system(), source.steady(), newest, leap_max);
        let (in_step, leapt) = (AtomicU64::new(OUT_OF_STEP), AtomicU64::new(NO_LEAP));
        let clock = Self { source, kind, notices, dial: Mutex::new(dial), in_step, leapt };
        let system = clock.source.system();
        clock.tell_if_behind(newest.since(system));
        clock
    }

    /// What the clock shows.
    pub fn state(&self) -> ClockState {
        self.read(|dial| {
            let now = dial.now();
            let ahead = now.0 as i128 - dial.paced.0 as i128;
            let offset_millis = i64::try_from(ahead).unwrap_or(i64::MAX);
            ClockState { now, offset_millis, frozen: dial.frozen, stands: dial.held.is_some() }
        })
    }

    /// Whether it can be moved by hand.
    pub fn is_virtual(&self) -> bool {
        self.kind == ClockKind::Virtual
    }

    /// What all clocks show at one moment.
    pub(crate) fn look(&self) -> Look {
        self.read(|dial| Look { system: dial.system, steady: dial.steady, now: dial.now() })
    }

    /// Whether there was a leap that the store does not know of. Every thread that has seen the time after it sees it.
    #[inline]
    pub(crate) fn has_leapt(&self) -> bool {
        self.leapt.load(Ordering::Acquire) != NO_LEAP
    }

    /// The instant such a leap began at; it is known from now on.
    pub(crate) fn take_leap(&self) -> Option<Timestamp> {
        let from = self.leapt.swap(NO_LEAP, Ordering::AcqRel);
        (from != NO_LEAP).then_some(Timestamp(from))
    }

    /// How long to wait, in real time, for engine time to become `at`; `None` while it stands still.
    pub(crate) fn wait_until(&self, at: Timestamp) -> Option<Duration> {
        self.read(|dial| dial.held.is_none().then(|| at.since(dial.now())))
    }

    /// Reports a leap of the system clock since the last look.
    pub(crate) fn watch(&self) {
        let leap = self.read(|dial| dial.leap(self.source.steady()));
        if leap >= LEAP_WORTH_TELLING {
            (self.notices)(Notice::ClockJumped { by: leap });
        }
    }

    /// Stops or restarts time. Not while somebody steps.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.read(|dial| {
            dial.held = Some(dial.now());
            dial.frozen = frozen;
            dial.let_go();
        });
    }

    /// Has time stand still, however it is moved meanwhile, until as many [`EngineClock::release`] have followed.
    pub(crate) fn hold(&self) {
        self.read(|dial| {
            dial.held = Some(dial.now());
            dial.holds += 1;
        });
    }

    /// Lets time go on from the very instant at which it stands, unless it is frozen or held by others.
    pub(crate) fn release(&self) {
        self.read(|dial| {
            dial.holds = dial.holds.saturating_sub(1);
            dial.let_go();
        });
    }

    /// Holds time so that it can be moved instant by instant.
    pub(crate) fn step(&self) -> Stepping<'_> {
        let from = self.read(|dial| {
            let now = dial.now();
            dial.held = Some(now);
            now
        });
        Stepping { clock: self, from }
    }

    /// Takes a reading of the source and lets `use_it` work with the dial.
    fn read<T>(&self, use_it: impl FnOnce(&mut Dial) -> T) -> T {
        let mut dial = self.dial.lock();
        let news = dial.follow(&*self.source);
        let result = use_it(&mut dial);
        if let Some(from) = dial.leapt.take() {
            // Of several the first: from there on the time is in doubt.
            self.leapt.fetch_min(from.0, Ordering::AcqRel);
        }
        self.in_step.store(dial.in_step(), Ordering::Release);
        drop(dial);
        match news {
            News::None => {}
            News::Behind(by) => self.tell_if_behind(by),
            News::Met => (self.notices)(Notice::ClockMet),
        }
        result
    }

    fn tell_if_behind(&self, by: Duration) {
        if by >= BEHIND_WORTH_TELLING {
            (self.notices)(Notice::ClockBehind { by });
        }
    }
}

impl Clock for EngineClock {
    fn now(&self) -> Timestamp {
        let system = self.source.system();
        if system.0 == self.in_step.load(Ordering::Acquire) {
            return system;
        }
        self.read(Dial::now)
    }
}

impl fmt::Debug for EngineClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineClock").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Time held by somebody who moves it. Dropped, time goes on from where it was moved to.
pub(crate) struct Stepping<'a> {
    clock: &'a EngineClock,
    /// Where time was held.
    pub(crate) from: Timestamp,
}

impl Stepping<'_> {
    /// Moves time to `at`, never back.
    pub(crate) fn move_to(&self, at: Timestamp) {
        self.clock.read(|dial| dial.held = dial.held.map(|held| held.max(at)));
    }

    /// Lets time go on from the very instant it was moved to: the real time this took does not count.
    pub(crate) fn finish(self, to: Timestamp) {
        self.move_to(to);
    }
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        self.clock.read(Dial::let_go);
    }
}

#[cfg(test)]
mod tests;
