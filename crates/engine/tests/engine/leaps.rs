//! Leaps of the system clock: messages do not die of a clock that is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Lease, Send};
use kew_core::{NewMessage, Policy, QueueId, Timestamp};
use kew_engine::{ClockKind, Engine, Notice, Options, TimeSource};
use kew_store::MemoryStore;
use kew_testing::CountingEntropy;
use parking_lot::Mutex;

use crate::bench::{key, seconds};

const START: Timestamp = Timestamp(1_700_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

/// A machine whose steady clock is the test runtime's paused time, and whose system clock is off by so much.
struct Machine {
    begun: tokio::time::Instant,
    off_millis: AtomicI64,
}

impl Machine {
    fn set_ahead(&self, by: Duration) {
        self.off_millis.store(
            i64::try_from(by.as_millis()).expect("the leap fits into milliseconds of 64 bits"),
            Ordering::Relaxed,
        );
    }
}

impl TimeSource for Machine {
    fn system(&self) -> Timestamp {
        let off = self.off_millis.load(Ordering::Relaxed);
        Timestamp(START.plus(self.steady()).0.saturating_add_signed(off))
    }

    fn steady(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// A store in memory, which outlives the engines over it.
struct Place {
    store: Arc<MemoryStore>,
    machine: Arc<Machine>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

impl Place {
    fn new() -> Self {
        let machine = Machine { begun: tokio::time::Instant::now(), off_millis: AtomicI64::new(0) };
        Self {
            store: Arc::new(MemoryStore::new(Arc::new(CountingEntropy::from(1)))),
            machine: Arc::new(machine),
            notices: Arc::default(),
        }
    }

    async fn start(&self, clock: ClockKind) -> Arc<Engine> {
        let told = Arc::clone(&self.notices);
        let options = Options {
            clock,
            notices: Arc::new(move |notice| told.lock().push(notice)),
            ..Options::default()
        };
        let entropy = Arc::new(CountingEntropy::from(1 << 40));
        let engine =
            Engine::start(Arc::clone(&self.store) as _, Arc::clone(&self.machine) as _, entropy, options);
        let engine = engine.await.expect("the engine starts");
        let timers = Arc::clone(&engine);
        tokio::spawn(async move { timers.run_timers().await });
        engine
    }

    fn has_told(&self, wanted: impl Fn(&Notice) -> bool) -> bool {
        self.notices.lock().iter().any(wanted)
    }
}

async fn queue(engine: &Engine, retention: Duration) -> QueueId {
    let policy = Policy { retention, ..Policy::standard() };
    let create = CreateQueue { key: key("q"), policy, documents: Vec::new() };
    engine.create_queue(create).await.expect("the queue is new").id
}

async fn send(engine: &Engine, queue: QueueId, delay: Option<Duration>) {
    let message = NewMessage { delay, ..NewMessage::text(engine.message_id(), "a") };
    let send = Send { queue, messages: vec![message], receipts: FirstReceipts::Untold };
    engine.send(send).await.expect("the send is valid");
}

/// Ready, leased, delayed.
async fn figures(engine: &Engine, queue: QueueId) -> (u64, u64, u64) {
    let counts = engine.counts(queue).await.expect("the queue exists");
    (counts.visible, counts.in_flight, counts.delayed)
}

/// A queue with one message of each kind.
async fn one_of_each(engine: &Engine, retention: Duration) -> QueueId {
    let queue = queue(engine, retention).await;
    send(engine, queue, None).await;
    let lease = Lease::of(queue, 1, engine.now());
    assert_eq!(engine.lease(lease).await.map(|leased| leased.len()), Ok(1));
    send(engine, queue, None).await;
    send(engine, queue, Some(seconds(600))).await;
    assert_eq!(figures(engine, queue).await, (1, 1, 1));
    queue
}

#[tokio::test(start_paused = true)]
async fn a_leap_ends_leases_and_delays_and_holds_expiry_until_somebody_confirms_it() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    place.machine.set_ahead(30 * DAY);
    assert_eq!(figures(&engine, queue).await, (3, 0, 0), "the very first step after it");
    assert_eq!(engine.now(), START.plus(30 * DAY), "it counts as time that passed");
    assert!(place.has_told(|notice| *notice == Notice::ExpiryHeld { by: 30 * DAY }));
    let held = engine.held_expiry().expect("expiry is held");
    assert_eq!((held.through, held.settles_in), (START, None));
    tokio::time::sleep(DAY).await;
    assert_eq!(figures(&engine, queue).await, (3, 0, 0), "for as long as nobody says anything");
    assert_eq!(engine.confirm_clock().await, Ok(true));
    assert_eq!(figures(&engine, queue).await, (0, 0, 0));
    assert_eq!((engine.held_expiry(), engine.confirm_clock().await), (None, Ok(false)));
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_by_a_month_for_two_seconds_costs_no_message() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * HOUR).await;
    place.machine.set_ahead(30 * DAY);
    tokio::time::sleep(seconds(1)).await;
    send(&engine, queue, None).await;
    tokio::time::sleep(seconds(1)).await;
    place.machine.set_ahead(Duration::ZERO);
    tokio::time::sleep(seconds(10)).await;
    assert_eq!(engine.held_expiry(), None, "the clock came back");
    assert!(place.has_told(|notice| matches!(notice, Notice::ExpiryFollows { .. })));
    assert!(engine.now() > START.plus(30 * DAY), "engine time never runs back");
    send(&engine, queue, None).await;
    tokio::time::sleep(3 * HOUR).await;
    assert_eq!(figures(&engine, queue).await, (5, 0, 0));
    tokio::time::sleep(HOUR + seconds(62)).await;
    assert_eq!(figures(&engine, queue).await, (2, 0, 0), "they die when their time is really over");
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_again_and_again_costs_no_message() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    for _ in 0..5 {
        place.machine.set_ahead(30 * DAY);
        tokio::time::sleep(seconds(2)).await;
        assert!(engine.held_expiry().is_some());
        place.machine.set_ahead(Duration::ZERO);
        tokio::time::sleep(seconds(70)).await;
        assert_eq!((engine.held_expiry(), figures(&engine, queue).await), (None, (3, 0, 0)));
    }
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_leap_of_an_hour_is_time_that_passed_like_any_other() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, HOUR).await;
    place.machine.set_ahead(HOUR);
    assert_eq!(figures(&engine, queue).await, (0, 0, 0));
    assert_eq!(engine.held_expiry(), None);
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_closed_for_long_lets_messages_expire_when_the_clock_has_settled() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    engine.shutdown();
    place.machine.set_ahead(30 * DAY);
    let engine = place.start(ClockKind::System).await;
    assert_eq!(figures(&engine, queue).await, (3, 0, 0));
    assert_eq!(engine.held_expiry().map(|held| held.settles_in), Some(Some(seconds(600))));
    send(&engine, queue, None).await;
    tokio::time::sleep(seconds(590)).await;
    assert_eq!(figures(&engine, queue).await, (4, 0, 0));
    tokio::time::sleep(seconds(20)).await;
    assert_eq!(figures(&engine, queue).await, (1, 0, 0), "nobody had to confirm it, and what is new is new");
    assert_eq!(engine.held_expiry(), None);
    assert!(place.has_told(|notice| *notice == Notice::ExpiryGoesOn));
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_at_the_start_and_is_set_right_soon_costs_no_message() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    engine.shutdown();
    place.machine.set_ahead(30 * DAY);
    let engine = place.start(ClockKind::System).await;
    tokio::time::sleep(seconds(60)).await;
    // It was off for half a day.
    place.machine.set_ahead(DAY / 2);
    tokio::time::sleep(2 * DAY).await;
    assert_eq!(figures(&engine, queue).await, (3, 0, 0));
    tokio::time::sleep(2 * DAY).await;
    assert_eq!(figures(&engine, queue).await, (0, 0, 0), "they die when their time is really over");
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_leap_that_is_held_stays_held_over_a_restart() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    place.machine.set_ahead(30 * DAY);
    tokio::time::sleep(seconds(2)).await;
    engine.shutdown();
    let engine = place.start(ClockKind::System).await;
    tokio::time::sleep(DAY).await;
    assert_eq!(figures(&engine, queue).await, (3, 0, 0));
    assert_eq!(engine.held_expiry().map(|held| held.settles_in), Some(None), "it still takes a person");
    assert_eq!(engine.confirm_clock().await, Ok(true));
    assert_eq!(figures(&engine, queue).await, (0, 0, 0));
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_had_nothing_to_do_was_not_off() {
    let place = Place::new();
    let engine = place.start(ClockKind::System).await;
    let queue = one_of_each(&engine, 2 * DAY).await;
    tokio::time::sleep(DAY).await;
    engine.shutdown();
    let engine = place.start(ClockKind::System).await;
    assert_eq!((engine.held_expiry(), figures(&engine, queue).await), (None, (3, 0, 0)));
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn jumps_of_the_virtual_clock_are_meant() {
    let place = Place::new();
    let engine = place.start(ClockKind::Virtual).await;
    let queue = one_of_each(&engine, 4 * DAY).await;
    engine.advance(30 * DAY).await.expect("the clock is virtual");
    assert_eq!((engine.held_expiry(), figures(&engine, queue).await), (None, (0, 0, 0)));
    assert_eq!(engine.confirm_clock().await, Ok(false));
    engine.shutdown();
}
