//! The timers on both clocks: order, exactness, and time that only moves by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Entropy, Timestamp};
use kew_engine::{ClockState, Engine, EngineError, Notice, Options, TimeSource};
use parking_lot::Mutex;

use crate::bench::{Answers, Bench, HandStore, START, bodies, body, rest, seconds};

type Diary = Arc<Mutex<Vec<(u64, String)>>>;

/// Notes what a receive was answered, and when.
fn note(bench: &Bench, diary: &Diary, queue: kew_core::QueueId, wait: Duration, name: &str) {
    let (engine, diary, lease) = (Arc::clone(&bench.engine), Arc::clone(diary), bench.lease_of(queue));
    let name = name.to_owned();
    tokio::spawn(async move {
        let leases = engine.lease_waiting(lease, wait).await.expect("the receive is answered");
        let found = leases.first().map_or("nothing".to_owned(), body);
        diary.lock().push(((engine.now().0 - START.0) / 1_000, format!("{name}: {found}")));
    });
}

#[tokio::test]
async fn jump_lives_through_every_instant_in_order() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let diary = Diary::default();
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(30))).await;
    note(&bench, &diary, queue, seconds(20), "first");
    note(&bench, &diary, queue, seconds(40), "second");
    note(&bench, &diary, queue, seconds(50), "third");
    rest().await;
    bench.advance(seconds(600)).await;
    let expected = ["first: nothing", "second: a", "third: nothing"].map(str::to_owned);
    let instants = [20, 30, 50];
    assert_eq!(*diary.lock(), instants.into_iter().zip(expected).collect::<Vec<_>>());
    assert_eq!(bench.engine.now(), START.plus(seconds(600)));
}

#[tokio::test]
async fn a_jump_is_put_off_when_a_receive_was_answered_at_the_present_instant() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let diary = Diary::default();
    let answers = || bench.engine.stats().answered_receives.value();
    let told = answers();
    note(&bench, &diary, queue, seconds(20), "first");
    rest().await;
    bench.send(queue, "a").await;
    // The answer is on its way: it has not been counted yet.
    assert_eq!(answers(), told);
    assert_eq!(bench.engine.advance_if(seconds(600), || answers() == told).await, Ok(false));
    assert_eq!((bench.engine.now(), answers()), (START, told + 1));
    assert_eq!(*diary.lock(), [(0, "first: a".to_owned())]);
    assert_eq!(bench.engine.advance_if(seconds(600), || answers() == told + 1).await, Ok(true));
    assert_eq!(bench.engine.now(), START.plus(seconds(600)));
}

#[tokio::test]
async fn whoever_is_woken_does_its_work_before_time_goes_on() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let diary = Diary::default();
    let engine = Arc::clone(&bench.engine);
    let notes = Arc::clone(&diary);
    // Leases for ten seconds, works for nine, acks and comes back: never late, however far the jump.
    let worker = tokio::spawn(async move {
        for _ in 0..50 {
            let mut lease = kew_core::command::Lease::of(queue, 1, engine.now());
            lease.terms.length = Some(seconds(10));
            let leases = engine.lease_waiting(lease, seconds(1_000)).await.expect("the receive is answered");
            let leased = leases.first().expect("a lease holds a message").clone();
            engine.sleep(seconds(9)).await;
            let receipt = kew_core::ReceiptRule::Unexpired;
            let ack = kew_core::command::Ack { queue, receipt, tokens: vec![leased.token] };
            assert_eq!(engine.ack(ack).await, Ok(vec![Ok(())]));
            notes.lock().push(((engine.now().0 - START.0) / 1_000, body(&leased)));
        }
    });
    for number in 0..50 {
        bench.send_with(queue, &format!("{number}"), |message| message.delay = Some(seconds(number))).await;
    }
    bench.advance(seconds(3_600)).await;
    worker.await.expect("the worker ran to its end");
    let expected: Vec<(u64, String)> = (0..50).map(|number| (9 * (number + 1), number.to_string())).collect();
    assert_eq!(*diary.lock(), expected);
}

#[tokio::test]
async fn sleepers_wake_at_their_instants_and_a_dropped_one_is_forgotten() {
    let bench = Bench::new().await;
    let diary = Diary::default();
    let mut sleepers = Vec::new();
    for instant in [30_u64, 10, 20, 40] {
        let (engine, diary) = (Arc::clone(&bench.engine), Arc::clone(&diary));
        sleepers.push(tokio::spawn(async move {
            engine.sleep_until(START.plus(seconds(instant))).await;
            diary.lock().push(((engine.now().0 - START.0) / 1_000, String::new()));
        }));
    }
    rest().await;
    sleepers[2].abort();
    bench.engine.sleep_until(START).await;
    bench.advance(seconds(35)).await;
    assert_eq!(*diary.lock(), [(10, String::new()), (30, String::new())]);
    bench.advance(seconds(5)).await;
    assert_eq!(diary.lock().len(), 3);
}

#[tokio::test]
async fn frozen_time_moves_only_by_hand() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let timers = Arc::clone(&bench.engine);
    let timers = tokio::spawn(async move { timers.run_timers().await });
    bench.engine.freeze(true).await.expect("the clock is virtual");
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.hands.pass(seconds(100));
    rest().await;
    assert!(!waiting.is_finished(), "its wait is over only when time gets there");
    assert_eq!(bench.engine.now(), START);
    let other = bench.wait(queue, seconds(20)).await;
    bench.send(queue, "a").await;
    assert_eq!(bodies(waiting).await, ["a"], "messages end waits all the same");
    bench.advance(seconds(20)).await;
    assert_eq!(bodies(other).await, [""; 0]);
    let state = bench.engine.clock_state();
    assert_eq!(
        state,
        ClockState { now: START.plus(seconds(20)), offset_millis: -80_000, frozen: true, stands: true }
    );
    let state = bench.engine.freeze(false).await.expect("the clock is virtual");
    assert_eq!(state.now, START.plus(seconds(20)));
    bench.engine.shutdown();
    timers.await.expect("the timers end with the engine");
}

#[tokio::test]
async fn jump_with_a_store_that_commits_later_shows_all_effects() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue("q").await;
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(5))).await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.advance(seconds(6)).await;
    assert!(waiting.is_finished(), "committed and told");
    assert_eq!(bodies(waiting).await, ["a"]);
}

#[tokio::test]
async fn jump_given_up_leaves_time_where_it_got_to() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let _waiting = bench.wait(queue, seconds(20)).await;
    let engine = Arc::clone(&bench.engine);
    let jump = tokio::spawn(async move { engine.advance(seconds(60)).await });
    for _ in 0..100 {
        if bench.engine.now() > START {
            break;
        }
        tokio::task::yield_now().await;
    }
    jump.abort();
    rest().await;
    let reached = bench.engine.now();
    assert!(reached >= START.plus(seconds(20)));
    bench.hands.pass(seconds(1));
    assert_eq!(bench.engine.now(), reached.plus(seconds(1)));
}

#[tokio::test]
async fn failed_store_ends_a_jump_with_its_error() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(5))).await;
    bench.store.fails.store(true, Ordering::Relaxed);
    let jump = bench.engine.advance(seconds(60)).await;
    assert_eq!(jump, Err(EngineError::FailStopped { cause: "told to".to_owned() }));
}

/// A machine whose clocks follow the test runtime's paused time, which leaps whenever everyone sleeps.
struct Runtime(tokio::time::Instant, AtomicU64);

impl TimeSource for Runtime {
    fn system(&self) -> Timestamp {
        START.plus(self.steady() + Duration::from_millis(self.1.load(Ordering::Relaxed)))
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

struct Ones;

impl Entropy for Ones {
    fn bits(&self) -> u64 {
        1
    }
}

/// An engine on the system clock, its timers running.
async fn on_the_system_clock() -> (Arc<Engine>, Arc<HandStore>, Arc<Runtime>, Arc<Mutex<Vec<Notice>>>) {
    let store = HandStore::new(Answers::AtOnce);
    let source = Arc::new(Runtime(tokio::time::Instant::now(), AtomicU64::new(0)));
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&notices);
    let options = Options { notices: Arc::new(move |notice| told.lock().push(notice)), ..Options::default() };
    let engine =
        Engine::start(Arc::clone(&store) as _, Arc::clone(&source) as _, Arc::new(Ones), options).await;
    let engine = engine.expect("the engine starts");
    let timers = Arc::clone(&engine);
    tokio::spawn(async move { timers.run_timers().await });
    (engine, store, source, notices)
}

#[tokio::test(start_paused = true)]
async fn timers_on_the_system_clock_keep_every_instant() {
    let (engine, store, _, _) = on_the_system_clock().await;
    let queue = new_queue(&engine).await;
    let lease = |now| kew_core::command::Lease::of(queue, 1, now);
    assert_eq!(engine.lease_waiting(lease(engine.now()), seconds(20)).await, Ok(Vec::new()));
    assert_eq!(engine.now(), START.plus(seconds(20)));
    send_delayed(&engine, queue, 7).await;
    let leases =
        engine.lease_waiting(lease(engine.now()), seconds(20)).await.expect("the receive is answered");
    assert_eq!(leases.len(), 1);
    assert_eq!(engine.now(), START.plus(seconds(27)));
    engine.sleep(Duration::from_millis(1)).await;
    assert_eq!(engine.now(), START.plus(Duration::from_millis(27_001)));
    let before = store.step_count();
    engine.sleep(seconds(29)).await;
    assert_eq!(store.step_count(), before, "nothing was due, and nothing was asked");
    assert!(matches!(engine.advance(seconds(1)).await, Err(EngineError::ClockNotVirtual)));
    assert!(matches!(engine.freeze(true).await, Err(EngineError::ClockNotVirtual)));
    engine.shutdown();
}

/// A queue with one message that shows after some seconds.
async fn queue_with_a_delayed_message(engine: &Engine, delay: u64) -> kew_core::QueueId {
    let queue = new_queue(engine).await;
    send_delayed(engine, queue, delay).await;
    queue
}

async fn new_queue(engine: &Engine) -> kew_core::QueueId {
    let create = kew_core::command::CreateQueue {
        key: crate::bench::key("q"),
        policy: kew_core::Policy::standard(),
        documents: Vec::new(),
    };
    engine.create_queue(create).await.expect("the queue is new").id
}

async fn send_delayed(engine: &Engine, queue: kew_core::QueueId, delay: u64) {
    let mut message = kew_core::NewMessage::text(engine.message_id(), "a");
    message.delay = Some(seconds(delay));
    let send = kew_core::command::Send {
        queue,
        messages: vec![message],
        receipts: kew_core::command::FirstReceipts::Told,
    };
    engine.send(send).await.expect("the send is valid");
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_as_the_time_is_recorded_wakes_receives() {
    let (engine, store, _, _) = on_the_system_clock().await;
    let queue = queue_with_a_delayed_message(&engine, 7).await;
    store.hides_due.store(true, Ordering::Relaxed);
    let lease = kew_core::command::Lease::of(queue, 1, engine.now());
    // An idle store records the time each quarter of an hour.
    let leases = engine.lease_waiting(lease, seconds(3_600)).await.expect("the receive is answered");
    assert_eq!(leases.len(), 1);
    assert!(engine.now() <= START.plus(seconds(1_000)), "{:?}", engine.now());
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_as_the_clock_leaps_wakes_receives() {
    let (engine, store, source, _) = on_the_system_clock().await;
    let queue = queue_with_a_delayed_message(&engine, 7).await;
    store.hides_due.store(true, Ordering::Relaxed);
    let lease = kew_core::command::Lease::of(queue, 1, engine.now());
    let receives = Arc::clone(&engine);
    let receives = tokio::spawn(async move { receives.lease_waiting(lease, seconds(7_200)).await });
    tokio::time::sleep(seconds(8)).await;
    source.1.store(3_600_000, Ordering::Relaxed);
    let leases = receives.await.expect("the receive ran to its end").expect("the receive is answered");
    assert_eq!(leases.len(), 1);
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn leap_of_the_system_clock_counts_as_passed_time() {
    let (engine, _, source, notices) = on_the_system_clock().await;
    let sleeper = Arc::clone(&engine);
    let sleeper = tokio::spawn(async move { sleeper.sleep(seconds(3_600)).await });
    rest().await;
    source.1.store(7_200_000, Ordering::Relaxed);
    sleeper.await.expect("a sleeper ran to its end");
    assert!(engine.now() <= START.plus(seconds(7_202)), "noticed within a second or so");
    assert_eq!(
        *notices.lock(),
        [Notice::ClockJumped { by: seconds(7_200) }, Notice::ExpiryHeld { by: seconds(7_200) }]
    );
    engine.shutdown();
}

#[tokio::test(start_paused = true)]
async fn failing_due_work_is_reported_and_tried_again_later() {
    let (engine, store, _, notices) = on_the_system_clock().await;
    let queue = queue_with_a_delayed_message(&engine, 5).await;
    store.fails.store(true, Ordering::Relaxed);
    tokio::time::sleep(seconds(8)).await;
    assert!((1..=5).contains(&notices.lock().len()), "told about once a second: {:?}", notices.lock());
    store.fails.store(false, Ordering::Relaxed);
    let lease = kew_core::command::Lease::of(queue, 1, engine.now());
    assert_eq!(engine.lease_waiting(lease, seconds(20)).await.map(|leases| leases.len()), Ok(1));
    engine.shutdown();
}

#[tokio::test]
async fn engine_time_goes_on_from_the_newest_instant_of_the_store() {
    let store = HandStore::new(Answers::AtOnce);
    let bench = Bench::over(Arc::clone(&store), Options::default()).await;
    bench.queue("q").await;
    bench.advance(seconds(1_000)).await;
    let queue = bench.queue("r").await;
    assert!(bench.engine.queue_by_id(queue).is_some());
    let reopened = Bench::over(store, Options::default()).await;
    assert_eq!(reopened.engine.now(), START.plus(seconds(1_000)));
    assert_eq!(*reopened.notices.lock(), [Notice::ClockBehind { by: seconds(1_000) }]);
    reopened.hands.pass(seconds(8));
    assert_eq!(reopened.engine.now(), START.plus(seconds(1_007)), "seven eighths of the speed");
}
