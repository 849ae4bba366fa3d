//! The clock beside hands that the test sets: starts, slow running, leaps, freezing and steps.

use super::*;

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
    assert_eq!(bench.told.lock().last(), Some(&Notice::ClockMet), "no leap is reported");
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
