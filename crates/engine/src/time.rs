//! Engine time: it follows the system clock, never runs back, and can be moved by hand when it is virtual.
//!
//! When the system clock is behind (it was set back, or the store has seen a later instant before the restart), engine
//! time goes on from where it is at seven eighths of the speed until the two meet: leases never end early because of a
//! clock. When the system clock leaps ahead, engine time leaps with it, but never past it: what a clock that was wrong
//! is put right by has not passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::time::millis;
use kew_core::{Clock, Timestamp};
use parking_lot::Mutex;

use crate::leap::Look;
use crate::notice::Notice;

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

/// What a reading of the system clock brought to light.
enum News {
    None,
    Behind(Duration),
    Met,
}

/// Engine time and what it is made of.
struct Dial {
    /// The last reading of the system clock.
    system: Timestamp,
    /// The steady clock's reading with it.
    steady: Duration,
    /// A longer leap is reported; none on a clock that is moved by hand.
    leap_max: Option<Duration>,
    /// The instant that a leap began at, until it is reported.
    leapt: Option<Timestamp>,
    /// The system's time, held back where it ran back.
    paced: Timestamp,
    /// Where slower running began, while the system clock is behind.
    slew: Option<Slew>,
    /// What is added by hand.
    offset: i128,
    /// Where time stands still, if it does.
    held: Option<Timestamp>,
    frozen: bool,
    /// How many hold it while they move it.
    holds: u32,
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
    fn new(system: Timestamp, steady: Duration, newest: Timestamp, leap_max: Option<Duration>) -> Self {
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

    fn now(&mut self) -> Timestamp {
        let running = i128::from(self.paced.0) + self.offset;
        let running = Timestamp(u64::try_from(running.max(0)).unwrap_or(u64::MAX));
        self.newest = self.newest.max(self.held.unwrap_or(running));
        self.newest
    }

    /// The system's reading, if time runs freely and has been shown to be just that.
    fn in_step(&self) -> u64 {
        let is_plain = self.held.is_none() && self.slew.is_none() && self.offset == 0;
        if is_plain && self.newest == self.system { self.system.0 } else { OUT_OF_STEP }
    }

    /// Time that is no longer held goes on from where it stands.
    fn let_go(&mut self) {
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
    fn follow(&mut self, source: &dyn TimeSource) -> News {
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
    fn leap(&mut self, steady: Duration) -> Duration {
        let (before, steady_before) = self.watched;
        self.watched = (self.paced, steady);
        self.paced.since(before).saturating_sub(steady.saturating_sub(steady_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Hands {
        system: AtomicU64,
        steady: AtomicU64,
    }

    impl Hands {
        fn set(&self, system: u64) {
            self.system.store(system, Ordering::Relaxed);
        }

        fn pass(&self, by: u64) {
            self.system.fetch_add(by, Ordering::Relaxed);
            self.steady.fetch_add(by, Ordering::Relaxed);
        }
    }

    impl TimeSource for Hands {
        fn system(&self) -> Timestamp {
            Timestamp(self.system.load(Ordering::Relaxed))
        }

        fn steady(&self) -> Duration {
            Duration::from_millis(self.steady.load(Ordering::Relaxed))
        }
    }

    struct Bench {
        hands: Arc<Hands>,
        clock: EngineClock,
        told: Arc<Mutex<Vec<Notice>>>,
    }

    fn bench(kind: ClockKind, system: u64, newest: u64) -> Bench {
        let hands = Arc::new(Hands::default());
        hands.set(system);
        let told = Arc::new(Mutex::new(Vec::new()));
        let notices = {
            let told = Arc::clone(&told);
            Arc::new(move |notice| told.lock().push(notice))
        };
        let rules = (kind, Duration::from_secs(3_600));
        let clock = EngineClock::new(Arc::clone(&hands) as _, rules, Timestamp(newest), notices);
        Bench { hands, clock, told }
    }

    #[test]
    fn time_starts_at_the_later_of_system_and_store() {
        assert_eq!(bench(ClockKind::System, 5_000, 3_000).clock.now(), Timestamp(5_000));
        let late = bench(ClockKind::System, 5_000, 9_000);
        assert_eq!(late.clock.now(), Timestamp(9_000));
        assert_eq!(*late.told.lock(), [Notice::ClockBehind { by: Duration::from_secs(4) }]);
    }

    #[test]
    fn time_runs_at_seven_eighths_until_the_system_meets_it() {
        let bench = bench(ClockKind::System, 0, 1_000);
        for _ in 0..800 {
            bench.hands.pass(1);
            let _ = bench.clock.now();
        }
        assert_eq!(bench.clock.now(), Timestamp(1_700), "800 ms count as 700, however often one looks");
        bench.hands.pass(7_199);
        assert_eq!(bench.clock.now(), Timestamp(8_000));
        bench.hands.pass(2);
        assert_eq!(bench.clock.now(), Timestamp(8_001));
        assert_eq!(bench.told.lock().last(), Some(&Notice::ClockMet));
    }

    #[test]
    fn time_never_runs_back_when_the_system_does() {
        let bench = bench(ClockKind::System, 10_000, 0);
        assert_eq!(bench.clock.now(), Timestamp(10_000));
        bench.hands.set(4_000);
        assert_eq!(bench.clock.now(), Timestamp(10_000));
        assert_eq!(bench.told.lock().last(), Some(&Notice::ClockBehind { by: Duration::from_secs(6) }));
        bench.hands.pass(800);
        assert_eq!(bench.clock.now(), Timestamp(10_700));
        bench.hands.set(1_000);
        assert_eq!(bench.clock.now(), Timestamp(10_700));
        bench.hands.set(90_000);
        assert_eq!(bench.clock.now(), Timestamp(90_000));
    }

    #[test]
    fn clock_that_was_behind_and_is_put_right_makes_nothing_pass() {
        const DAY: u64 = 86_400_000;
        let bench = bench(ClockKind::System, DAY, 11 * DAY);
        assert_eq!(bench.clock.now(), Timestamp(11 * DAY));
        bench.hands.pass(800);
        assert_eq!(bench.clock.now(), Timestamp(11 * DAY + 700));
        bench.hands.set(6 * DAY);
        assert_eq!(bench.clock.now(), Timestamp(11 * DAY + 700), "still behind, by less");
        bench.hands.set(11 * DAY + 900);
        assert_eq!(bench.clock.now(), Timestamp(11 * DAY + 900));
        bench.clock.watch();
        assert_eq!(bench.told.lock().last(), Some(&Notice::ClockMet), "no leap is told of");
        bench.hands.set(12 * DAY);
        assert_eq!(bench.clock.now(), Timestamp(12 * DAY), "in step again, a leap counts");
    }

    #[test]
    fn reading_that_was_seen_before_counts_only_while_time_runs_freely() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        assert_eq!([bench.clock.now(), bench.clock.now()], [Timestamp(1_000); 2]);
        let steps = bench.clock.step();
        steps.move_to(Timestamp(5_000));
        assert_eq!(bench.clock.now(), Timestamp(5_000), "the source still shows what it did");
        steps.finish(Timestamp(5_000));
        assert_eq!(bench.clock.now(), Timestamp(5_000));
        bench.hands.set(900);
        bench.hands.set(1_000);
        assert_eq!(bench.clock.now(), Timestamp(5_000));
    }

    #[test]
    fn real_time_that_a_jump_takes_does_not_count() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        bench.clock.hold();
        for second in 1..=10 {
            bench.hands.pass(700);
            let steps = bench.clock.step();
            bench.hands.pass(300);
            steps.finish(Timestamp(1_000 + second * 1_000));
        }
        assert_eq!(bench.clock.now(), Timestamp(11_000), "ten seconds of a jump, and ten that it took");
        assert!(bench.clock.state().stands && !bench.clock.state().frozen);
        bench.clock.release();
        assert_eq!(bench.clock.now(), Timestamp(11_000));
        bench.hands.pass(5);
        assert_eq!(bench.clock.now(), Timestamp(11_005), "time runs again");
        bench.clock.step().finish(Timestamp(12_000));
        assert_eq!(bench.clock.now(), Timestamp(12_000));
        bench.clock.freeze(true);
        bench.clock.hold();
        bench.clock.release();
        bench.hands.pass(5);
        assert_eq!(bench.clock.now(), Timestamp(12_000), "frozen by hand it stays so");
    }

    #[test]
    fn leap_ahead_counts_as_passed_time_and_is_reported() {
        let bench = bench(ClockKind::System, 1_000, 0);
        bench.hands.pass(30_000);
        bench.clock.watch();
        assert!(bench.told.lock().is_empty(), "thirty quiet seconds are no leap");
        bench.hands.set(3_631_000);
        bench.clock.watch();
        assert_eq!(*bench.told.lock(), [Notice::ClockJumped { by: Duration::from_secs(3_600) }]);
        assert_eq!(bench.clock.now(), Timestamp(3_631_000));
    }

    #[test]
    fn leap_of_more_than_an_hour_is_known_with_the_instant_it_began_at() {
        let bench = bench(ClockKind::System, 1_000, 0);
        bench.hands.pass(30_000);
        bench.hands.set(31_000 + 3_600_000);
        let _ = bench.clock.now();
        assert!(!bench.clock.has_leapt(), "an hour is no more than an hour");
        bench.hands.pass(1_000);
        bench.hands.set(86_400_000);
        assert_eq!(bench.clock.now(), Timestamp(86_400_000));
        assert!(bench.clock.has_leapt());
        bench.hands.set(99_400_000);
        let _ = bench.clock.now();
        assert_eq!(bench.clock.take_leap(), Some(Timestamp(3_632_000)), "the first counts");
        assert!(!bench.clock.has_leapt());
        bench.hands.pass(86_400_000);
        let _ = bench.clock.now();
        assert!(!bench.clock.has_leapt(), "a quiet day is no leap");
    }

    #[test]
    fn leaps_of_a_clock_that_is_moved_by_hand_are_no_news() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        bench.clock.step().finish(Timestamp(86_400_000));
        bench.hands.set(8_640_000_000);
        let _ = bench.clock.now();
        assert!(!bench.clock.has_leapt());
    }

    #[test]
    fn frozen_time_stands_still_and_goes_on_from_there() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        bench.clock.freeze(true);
        bench.hands.pass(500);
        assert_eq!(
            bench.clock.state(),
            ClockState { now: Timestamp(1_000), offset_millis: -500, frozen: true, stands: true }
        );
        assert_eq!(bench.clock.wait_until(Timestamp(2_000)), None);
        bench.clock.freeze(false);
        bench.hands.pass(7);
        assert_eq!(
            bench.clock.state(),
            ClockState { now: Timestamp(1_007), offset_millis: -500, frozen: false, stands: false }
        );
    }

    #[test]
    fn steps_add_exactly_what_they_moved() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        let steps = bench.clock.step();
        steps.move_to(Timestamp(21_000));
        bench.hands.pass(3);
        assert_eq!(bench.clock.now(), Timestamp(21_000));
        steps.finish(Timestamp(31_000));
        let (now, offset_millis) = (Timestamp(31_000), 29_997);
        let expected = ClockState { now, offset_millis, frozen: false, stands: false };
        assert_eq!(bench.clock.state(), expected);
    }

    #[test]
    fn steps_given_up_leave_time_where_they_brought_it() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        let steps = bench.clock.step();
        steps.move_to(Timestamp(21_000));
        drop(steps);
        assert_eq!(bench.clock.now(), Timestamp(21_000));
        bench.hands.pass(5);
        assert_eq!(bench.clock.now(), Timestamp(21_005));
    }

    #[test]
    fn steps_on_a_frozen_clock_leave_it_frozen() {
        let bench = bench(ClockKind::Virtual, 1_000, 0);
        bench.clock.freeze(true);
        bench.clock.step().finish(Timestamp(6_000));
        bench.hands.pass(50);
        assert_eq!(bench.clock.now(), Timestamp(6_000));
        bench.clock.freeze(false);
        assert_eq!(bench.clock.now(), Timestamp(6_000));
    }
}
