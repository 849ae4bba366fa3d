//! Waiting receives: order, waking, going away, ends and bounds.

use std::time::Duration;

use kew_core::command::{DeleteQueue, Extend, Extension, Lease, OverLimit, Peek, View};
use kew_core::{
    Carries, Command, DeadLetterAction, DeadLetterRule, GroupId, LeaseTerms, Policy, ReceiptRule, RuleError,
    State, Timestamp, WhenFree,
};
use kew_engine::{EngineError, Options};

use crate::bench::{Bench, START, bodies, body, key, rest, seconds};

#[tokio::test]
async fn waiting_receives_are_served_in_order_of_arrival() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(bench.wait(queue, seconds(20)).await);
    }
    for body in ["a", "b", "c", "d", "e"] {
        bench.send(queue, body).await;
    }
    for (receive, body) in waiting.into_iter().zip(["a", "b", "c", "d", "e"]) {
        assert_eq!(bodies(receive).await, [body]);
    }
}

#[tokio::test]
async fn one_message_wakes_exactly_one_of_those_who_wait() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let others = [bench.wait(queue, seconds(20)).await, bench.wait(queue, seconds(20)).await];
    let leases = |command: &Command| matches!(command, Command::Lease(_));
    let before = bench.count_of(leases);
    bench.send(queue, "a").await;
    rest().await;
    assert_eq!(bodies(first).await, ["a"]);
    assert!(others.iter().all(|receive| !receive.is_finished()));
    assert_eq!(bench.engine.stats().served_waiters.value(), 1);
    assert_eq!(bench.count_of(leases) - before, 2, "one that found the message, one that found no more");
}

#[tokio::test]
async fn message_that_is_there_is_taken_without_waiting() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    let before = bench.store.step_count();
    let waiting = bench.wait(queue, seconds(20)).await;
    assert_eq!(bodies(waiting).await, ["a"]);
    assert_eq!(bench.store.step_count() - before, 1);
    assert_eq!(bench.engine.stats().waiting_receives.value(), 0);
}

#[tokio::test]
async fn newcomer_does_not_overtake_those_who_wait() {
    // No timers run: it is the newcomer's own step that finds the delay has ended.
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(5))).await;
    bench.hands.pass(seconds(5));
    assert_eq!(bench.lease(queue).await, None);
    assert_eq!(bodies(first).await, ["a"]);
}

#[tokio::test]
async fn waiting_receive_that_goes_away_consumes_nothing() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(20)).await;
    first.abort();
    rest().await;
    assert_eq!(bench.engine.stats().waiting_receives.value(), 1);
    bench.send(queue, "a").await;
    let leases = second.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(|leased| leased.message.attempts).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn receive_gone_before_its_lease_is_committed_passes_the_message_on() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(20)).await;
    let sending = send_uncommitted(&bench, queue);
    rest().await;
    assert_eq!(bench.engine.stats().served_waiters.value(), 1);
    first.abort();
    rest().await;
    assert_eq!(bench.engine.stats().withdrawn_leases.value(), 1);
    bench.engine.commit();
    sending.await.expect("the task ran to its end");
    let leases = second.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(|leased| leased.message.attempts).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn receive_gone_before_it_heard_of_its_uncommitted_lease_passes_the_message_on() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(20)).await;
    let sending = send_uncommitted(&bench, queue);
    tokio::task::yield_now().await;
    // Aborted before it is polled again: the lease lies where it listens.
    first.abort();
    rest().await;
    bench.engine.commit();
    sending.await.expect("the task ran to its end");
    let leases = second.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(|leased| leased.message.attempts).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn lease_that_was_committed_stays_until_it_ends() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let sending = send_uncommitted(&bench, queue);
    rest().await;
    bench.engine.commit();
    first.abort();
    rest().await;
    sending.await.expect("the task ran to its end");
    assert_eq!(bench.engine.stats().withdrawn_leases.value(), 0);
    assert_eq!(bench.lease(queue).await, None);
    bench.advance(seconds(30)).await;
    assert_eq!(bench.lease(queue).await.map(|leased| leased.message.attempts), Some(2));
}

#[tokio::test]
async fn plain_lease_dropped_before_it_is_committed_is_withdrawn() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    {
        let lease = bench.engine.lease(bench.lease_of(queue));
        let mut lease = std::pin::pin!(lease);
        let once = std::future::poll_fn(|cx| std::task::Poll::Ready(lease.as_mut().poll(cx).is_ready()));
        assert!(!once.await, "it waits for its commit");
    }
    assert_eq!(bench.lease(queue).await.map(|leased| leased.message.attempts), Some(1));
}

#[tokio::test]
async fn fifo_lease_with_an_attempt_id_is_kept_for_the_repeat() {
    let bench = Bench::committed_by_hand().await;
    let queue = bench.queue_with("q.fifo", Policy::fifo()).await.id;
    let deduplication = kew_core::DeduplicationId("d".into());
    bench
        .send_with(queue, "a", |message| {
            message.group = Some(GroupId("g".into()));
            message.deduplication = Some(deduplication);
        })
        .await;
    let attempt = || Lease { attempt: Some("try".into()), ..bench.lease_of(queue) };
    let receive = bench.wait_with(attempt(), seconds(20)).await;
    receive.abort();
    rest().await;
    assert_eq!(bench.engine.stats().withdrawn_leases.value(), 0);
    let repeat = bench.wait_with(attempt(), seconds(20)).await;
    bench.engine.commit();
    let leases = repeat.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(|leased| leased.message.attempts).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn wait_ends_empty_at_its_deadline_and_not_a_millisecond_before() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.advance(Duration::from_millis(19_999)).await;
    assert!(!waiting.is_finished());
    bench.advance(Duration::from_millis(1)).await;
    assert!(waiting.is_finished());
    assert_eq!(bodies(waiting).await, [""; 0]);
    assert_eq!(bench.engine.stats().empty_receives.value(), 1);
}

#[tokio::test]
async fn message_that_comes_at_the_last_instant_is_still_received() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(20))).await;
    bench.advance(seconds(20)).await;
    assert_eq!(bodies(waiting).await, ["a"]);
}

#[tokio::test]
async fn message_that_came_after_the_deadline_is_left_for_the_next() {
    // No timers run, so the wait of the first is over although it was not woken.
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(60)).await;
    bench.hands.pass(seconds(21));
    bench.send(queue, "a").await;
    assert_eq!(bodies(first).await, [""; 0]);
    assert_eq!(bodies(second).await, ["a"]);
}

#[tokio::test]
async fn end_of_a_delay_wakes_a_waiting_receive() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send_with(queue, "a", |message| message.delay = Some(seconds(7))).await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.advance(Duration::from_millis(6_999)).await;
    assert!(!waiting.is_finished());
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(bodies(waiting).await, ["a"]);
}

#[tokio::test]
async fn lapse_and_release_wake_a_waiting_receive() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    assert!(bench.lease(queue).await.is_some());
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.advance(seconds(20)).await;
    assert_eq!(bodies(waiting).await, [""; 0]);
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.advance(seconds(10)).await;
    let leases = waiting.await.expect("the task ran to its end").expect("the receive was answered");
    let leased = leases.first().expect("a lapsed message is leased again");
    assert_eq!(leased.until, START.plus(seconds(60)), "taken at the very instant");
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.release(leased, Duration::ZERO).await;
    assert_eq!(bodies(waiting).await, ["a"]);
}

#[tokio::test]
async fn dead_letter_wakes_a_receive_that_waits_on_its_target() {
    let bench = Bench::new().await;
    let dead = bench.queue("dead").await;
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "test".into(),
    };
    let source =
        bench.queue_with("q", Policy { dead_letters: Some(rule.into()), ..Policy::standard() }).await.id;
    bench.send(source, "a").await;
    bench.send(source, "b").await;
    let released = bench.lease(source).await.expect("a sent message is visible");
    let _lapsing = bench.lease(source).await.expect("a sent message is visible");
    let waiting = [bench.wait(dead, seconds(60)).await, bench.wait(dead, seconds(60)).await];
    bench.release(&released, Duration::ZERO).await;
    let [first, second] = waiting;
    let leases = first.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(body).collect::<Vec<_>>(), ["a"]);
    bench.ack(&leases[0]).await.expect("the message is leased");
    bench.advance(seconds(31)).await;
    assert_eq!(bodies(second).await, ["b"]);
}

#[tokio::test]
async fn ack_of_a_groups_head_wakes_a_receive_that_waits_for_the_group() {
    let bench = Bench::new().await;
    let queue = bench.queue_with("q.fifo", Policy::fifo()).await.id;
    for body in ["a", "b"] {
        bench
            .send_with(queue, body, |message| {
                message.group = Some(GroupId("g".into()));
                message.deduplication = Some(kew_core::DeduplicationId(body.into()));
            })
            .await;
    }
    let head = bench.lease(queue).await.expect("a sent message is visible");
    let waiting = bench.wait(queue, seconds(20)).await;
    assert!(!waiting.is_finished(), "the group is locked");
    bench.ack(&head).await.expect("the message is leased");
    assert_eq!(bodies(waiting).await, ["b"]);
}

#[tokio::test]
async fn waiting_receive_finds_nothing_over_the_in_flight_limit_until_an_ack() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    for body in ["a", "b", "c"] {
        bench.send(queue, body).await;
    }
    let limited = || Lease { in_flight_max: 1, over_limit: OverLimit::Refuse, ..bench.lease_of(queue) };
    let held = bench.engine.lease(limited()).await.expect("the limit is not reached");
    assert_eq!(
        bench.engine.lease(limited()).await,
        Err(EngineError::Rule(RuleError::TooManyInFlight)),
        "it does not wait"
    );
    let first = bench.wait_with(limited(), seconds(60)).await;
    let second = bench.wait_with(limited(), seconds(60)).await;
    assert!(!first.is_finished() && !second.is_finished());
    bench.ack(&held[0]).await.expect("the message is leased");
    let leases = first.await.expect("the task ran to its end").expect("the receive was answered");
    assert_eq!(leases.iter().map(body).collect::<Vec<_>>(), ["b"]);
    assert!(!second.is_finished(), "the limit is reached again");
    // A lease that ends makes room too, and so does its message, which goes first.
    bench.advance(seconds(30)).await;
    assert_eq!(bodies(second).await, ["b"]);
}

#[tokio::test]
async fn expiry_of_a_leased_message_makes_room_for_a_waiting_receive() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send_with(queue, "a", |message| message.expiry = kew_core::Expiry::After { seconds: 5 }).await;
    bench.send(queue, "b").await;
    let limited = || Lease { in_flight_max: 1, ..bench.lease_of(queue) };
    assert_eq!(bench.engine.lease(limited()).await.map(|leases| leases.len()), Ok(1));
    let waiting = bench.wait_with(limited(), seconds(20)).await;
    bench.advance(Duration::from_millis(4_999)).await;
    assert!(!waiting.is_finished());
    bench.advance(Duration::from_millis(1)).await;
    assert_eq!(bodies(waiting).await, ["b"]);
}

#[tokio::test]
async fn room_made_by_due_work_of_any_step_serves_a_limited_receive() {
    // No timers run: a look at another queue does what was due.
    let bench = Bench::new().await;
    let (queue, other) = (bench.queue("q").await, bench.queue("other").await);
    bench.send_with(queue, "a", |message| message.expiry = kew_core::Expiry::After { seconds: 5 }).await;
    bench.send(queue, "b").await;
    let limited = || Lease { in_flight_max: 1, ..bench.lease_of(queue) };
    assert_eq!(bench.engine.lease(limited()).await.map(|leases| leases.len()), Ok(1));
    let waiting = bench.wait_with(limited(), seconds(20)).await;
    bench.hands.pass(seconds(5));
    assert!(bench.engine.counts(other).await.is_ok());
    assert_eq!(bodies(waiting).await, ["b"]);
}

#[tokio::test]
async fn cap_of_a_lease_counts_from_the_arrival_of_the_waiting_receive() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let cap = seconds(100);
    let terms = LeaseTerms { cap: Some(cap), ..LeaseTerms::default() };
    let waiting = bench.wait_with(Lease { terms, ..bench.lease_of(queue) }, seconds(20)).await;
    bench.advance(seconds(10)).await;
    bench.send(queue, "a").await;
    let leases = waiting.await.expect("the task ran to its end").expect("the receive was answered");
    let extend = |length| Extend {
        queue,
        receipt: ReceiptRule::Any,
        when_free: WhenFree::Ignore,
        renew: false,
        entries: vec![Extension { token: leases[0].token, length, content: None }],
    };
    let extended = bench.engine.extend(extend(seconds(91))).await.expect("the queue is there");
    assert_eq!(extended, [Err(RuleError::LeaseTooLong { cap })]);
    let extended = bench.engine.extend(extend(seconds(90))).await.expect("the queue is there");
    assert!(extended[0].is_ok());
}

#[tokio::test]
async fn deleting_a_queue_ends_its_waits() {
    let bench = Bench::new().await;
    let (queue, other) = (bench.queue("q").await, bench.queue("other").await);
    let waiting = bench.wait(queue, seconds(20)).await;
    let elsewhere = bench.wait(other, seconds(20)).await;
    bench.engine.delete_queue(DeleteQueue { queue, if_version: None }).await.expect("the queue exists");
    assert_eq!(bodies(waiting).await, [""; 0]);
    assert!(!elsewhere.is_finished());
    let again = bench.engine.lease_waiting(bench.lease_of(queue), seconds(20)).await;
    assert_eq!(again, Err(EngineError::Rule(RuleError::QueueNotFound)));
}

#[tokio::test]
async fn shutdown_ends_all_waits_and_lets_nobody_wait() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.engine.shutdown();
    assert_eq!(bodies(waiting).await, [""; 0]);
    let late = bench.wait(queue, seconds(20)).await;
    assert_eq!(bodies(late).await, [""; 0]);
    bench.send(queue, "a").await;
    let late = bench.wait(queue, seconds(20)).await;
    assert_eq!(bodies(late).await, ["a"], "what is there is still given");
}

#[tokio::test]
async fn waits_beyond_the_bounds_are_refused_and_given_up_seats_count_no_more() {
    let bench = Bench::with(Options { waiters_max: 3, waiters_per_queue_max: 2, ..Options::default() }).await;
    let (one, two) = (bench.queue("one").await, bench.queue("two").await);
    let first = bench.wait(one, seconds(20)).await;
    let _second = bench.wait(one, seconds(20)).await;
    let refused = |queue| {
        let lease = bench.lease_of(queue);
        let engine = &bench.engine;
        async move {
            matches!(engine.lease_waiting(lease, seconds(20)).await, Err(EngineError::Overloaded { .. }))
        }
    };
    assert!(refused(one).await, "two wait on it");
    let _third = bench.wait(two, seconds(20)).await;
    assert!(refused(two).await, "three wait in all");
    first.abort();
    rest().await;
    let again = bench.wait(two, seconds(20)).await;
    assert!(!again.is_finished());
    assert_eq!(bench.engine.stats().waiting_receives.value(), 3);
}

#[tokio::test]
async fn ten_thousand_idle_waits_cost_no_store_calls() {
    let bench = Bench::new().await;
    let (queue, busy) = (bench.queue("q").await, bench.queue("busy").await);
    let mut waiting = Vec::new();
    for _ in 0..10_000 {
        let (engine, lease) = (bench.engine.clone(), bench.lease_of(queue));
        waiting.push(tokio::spawn(async move { engine.lease_waiting(lease, seconds(3_600)).await }));
    }
    while bench.engine.stats().waiting_receives.value() < 10_000 {
        rest().await;
    }
    let before = bench.store.step_count();
    bench.advance(seconds(3_599)).await;
    assert_eq!(bench.store.step_count(), before);
    bench.send(busy, "a").await;
    let leased = bench.lease(busy).await.expect("a sent message is visible");
    bench.ack(&leased).await.expect("the message is leased");
    assert_eq!(bench.store.step_count(), before + 3, "traffic next door does not stir them");
    bench.advance(seconds(1)).await;
    assert!(waiting.iter().all(tokio::task::JoinHandle::is_finished));
}

#[tokio::test]
async fn refusal_of_the_store_reaches_those_who_wait() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.store.fails.store(true, std::sync::atomic::Ordering::Relaxed);
    bench.engine.wake(queue);
    let answer = waiting.await.expect("the task ran to its end");
    assert_eq!(answer, Err(EngineError::FailStopped { cause: "told to".to_owned() }));
}

#[tokio::test]
async fn zero_second_lease_serves_each_waiting_receive_once() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let terms = LeaseTerms { length: Some(Duration::ZERO), ..LeaseTerms::default() };
    let glance = || Lease { terms, ..bench.lease_of(queue) };
    let first = bench.wait_with(glance(), seconds(20)).await;
    let second = bench.wait_with(glance(), seconds(20)).await;
    bench.send(queue, "a").await;
    bench.advance(Duration::ZERO).await;
    assert_eq!(bodies(first).await, ["a"]);
    assert_eq!(bodies(second).await, ["a"]);
    let peek = Peek { queue, view: View::Ready, skip: 0, max: 1, body_bytes_max: 1 };
    let seen = bench.engine.peek(peek).await.expect("the queue is there");
    assert_eq!(seen.iter().map(|(message, _)| message.state).collect::<Vec<_>>(), [State::Ready]);
    assert_eq!(bench.engine.now(), Timestamp(START.0));
}

/// Sends a message whose commit is left to the test.
fn send_uncommitted(bench: &Bench, queue: kew_core::QueueId) -> tokio::task::JoinHandle<()> {
    let engine = bench.engine.clone();
    let message = kew_core::NewMessage::text(engine.message_id(), "a");
    tokio::spawn(async move {
        let send = kew_core::command::Send {
            queue,
            messages: vec![message],
            receipts: kew_core::command::FirstReceipts::Told,
        };
        assert_eq!(engine.send(send).await.map(|sent| sent.len()), Ok(1));
    })
}

#[tokio::test]
async fn wait_that_ends_while_the_store_may_not_answer_is_refused() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let waiting = bench.wait(queue, seconds(20)).await;
    bench.store.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
    bench.engine.shutdown();
    let answer = waiting.await.expect("a receive does not panic");
    assert!(matches!(answer, Err(EngineError::Unavailable { .. })), "{answer:?}");
}
