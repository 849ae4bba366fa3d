//! When batches leave, and what is in them.

use std::time::Duration;

use kew_core::command::Lease;
use kew_core::{ContentType, LeaseTerms, Policy};
use kew_push::{Consumer, Secret, Target};

use crate::dispatcher::{TestDispatcher, engine, pushing, queue, secs, texts, to};
use crate::hook::{Arrived, Hook, Reply};

/// The seed's example: thirty messages or ten seconds.
fn thirty_or_ten_seconds(hook: &Hook) -> Consumer {
    let consumer = Consumer { batch_size: 30, ..to(hook) };
    pushing(&consumer, |push| push.max_wait = secs(10))
}

// [seed] Thirty messages leave as one batch, without waiting.
#[tokio::test]
async fn thirty_messages_leave_as_one_batch_at_once() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", Some(&thirty_or_ten_seconds(&hook))).await;
    dispatcher.send(queue, texts(30)).await;
    hook.until(1).await;
    assert_eq!((hook.sizes(), dispatcher.seconds()), (vec![30], 0));
    dispatcher.until_holds(queue, (0, 0, 0)).await;
}

// [seed] If fewer come within ten seconds, the batch holds what is there by then: one to twenty-nine.
#[tokio::test]
async fn fewer_than_thirty_leave_together_when_the_first_has_waited_ten_seconds() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", Some(&thirty_or_ten_seconds(&hook))).await;
    dispatcher.send(queue, texts(1)).await;
    dispatcher.calm().await;
    dispatcher.advance(secs(9)).await;
    dispatcher.send(queue, texts(28)).await;
    dispatcher.calm().await;
    dispatcher.advance(Duration::from_millis(999)).await;
    dispatcher.calm().await;
    assert_eq!(hook.sizes(), [0; 0]);
    dispatcher.advance(Duration::from_millis(1)).await;
    hook.until(1).await;
    assert_eq!((hook.sizes(), dispatcher.seconds()), (vec![29], 10));
}

#[tokio::test]
async fn rest_of_a_full_batch_waits_for_its_own_timer() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", Some(&thirty_or_ten_seconds(&hook))).await;
    dispatcher.send(queue, texts(65)).await;
    hook.until(2).await;
    dispatcher.calm().await;
    assert_eq!(hook.sizes(), [30, 30]);
    dispatcher.advance(secs(10)).await;
    hook.until(3).await;
    assert_eq!((hook.sizes(), dispatcher.seconds()), (vec![30, 30, 5], 10));
}

#[tokio::test]
async fn one_jump_goes_through_the_timers_of_many_batches_in_order() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", Some(&thirty_or_ten_seconds(&hook))).await;
    dispatcher.send_delayed(queue, ["first".to_owned()], Some(secs(600))).await;
    dispatcher.send_delayed(queue, ["second".to_owned()], Some(secs(1_200))).await;
    dispatcher.calm().await;
    dispatcher.advance(secs(3_600)).await;
    let batches: Vec<_> = hook.batches().iter().map(Arrived::messages).collect();
    assert_eq!(batches, [[("first".to_owned(), 1)], [("second".to_owned(), 1)]]);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
}

// [seed] Delays at send: the message's own (600), the batch's (300), and 0 that overrides the queue's.
#[tokio::test]
async fn messages_delayed_by_600_300_and_0_seconds_arrive_then() {
    let (engine, hook) = (engine().await, Hook::open().await);
    let policy = Policy { delay: secs(300), ..Policy::standard() };
    let queue = queue(&engine, "a", policy, Some(&to(&hook))).await.id;
    let dispatcher = TestDispatcher::over(engine, 256);
    dispatcher.send_delayed(queue, ["long".to_owned()], Some(secs(600))).await;
    dispatcher.send_delayed(queue, ["usual".to_owned()], None).await;
    dispatcher.send_delayed(queue, ["none".to_owned()], Some(Duration::ZERO)).await;
    let mut seen = Vec::new();
    hook.until(1).await;
    for step in [0, 299, 1, 299, 1] {
        dispatcher.advance(secs(step)).await;
        dispatcher.calm().await;
        seen.push((dispatcher.seconds(), hook.messages().len()));
    }
    assert_eq!(seen, [(0, 1), (299, 1), (300, 2), (599, 2), (600, 3)]);
    let arrived: Vec<String> = hook.messages().into_iter().map(|(text, _)| text).collect();
    assert_eq!(arrived, ["none", "usual", "long"]);
}

#[tokio::test]
async fn messages_are_leased_before_the_target_hears_of_them() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::gated().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(3)).await;
    hook.until(1).await;
    dispatcher.until_holds(queue, (0, 3, 0)).await;
    // However long it takes: the lease has no end while its owner lives.
    dispatcher.advance(secs(50_000)).await;
    dispatcher.until_holds(queue, (0, 3, 0)).await;
    hook.let_through(1);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.sizes(), [3]);
}

#[tokio::test]
async fn a_batch_says_who_sends_it_and_is_signed() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let consumer = pushing(&to(&hook), |push| {
        if let Target::Webhook { secret, .. } = &mut push.target {
            *secret = Some(Secret("hush".into()));
        }
    });
    let queue = dispatcher.queue("orders", Some(&consumer)).await;
    dispatcher.send(queue, texts(2)).await;
    hook.until(1).await;
    let batch = hook.batches().remove(0);
    assert_eq!(batch.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(batch.header("kew-queue"), Some("orders"));
    assert_eq!(batch.header("content-type"), Some("application/json"));
    assert_eq!(batch.header("kew-batch-id"), batch.body["batch_id"].as_str());
    assert_eq!(batch.header("kew-timestamp"), Some("1767225600"));
    let signature = batch.header("kew-signature").expect("a batch for a consumer with a secret is signed");
    assert!(signature.starts_with("v1=") && signature.len() == 67, "{signature}");
    assert_eq!(batch.body["metadata"]["metrics"]["backlogCount"], 2);
    assert_eq!(batch.body["messages"][0]["content_type"], "text");
    assert_eq!(ContentType::default(), ContentType::Text);
    assert!(!batch.raw.is_empty());
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let consumer = pushing(&to(&hook), |push| push.max_concurrency = Some(1));
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    for round in 1..=5 {
        dispatcher.send(queue, texts(1)).await;
        hook.until(round).await;
        dispatcher.until_holds(queue, (0, 0, 0)).await;
    }
    assert_eq!(hook.connections(), 1);
}

#[tokio::test]
async fn a_paused_queue_is_not_delivered_until_it_goes_on() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, texts(3)).await;
    dispatcher.calm().await;
    dispatcher.advance(secs(3_600)).await;
    assert_eq!(hook.sizes(), [0; 0]);
    dispatcher.pause(queue, false).await;
    hook.until(1).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
}

// More messages are exhausted than leave in one step. Nothing but time stirs the queue meanwhile.
#[tokio::test]
async fn a_lane_goes_on_behind_messages_that_leave_instead_of_being_delivered() {
    const EXHAUSTED: u32 = 2_500;
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let dead = dispatcher.queue("dead", None).await;
    let queue = dispatcher.queue("a", None).await;
    dispatcher.send(queue, texts(EXHAUSTED as usize)).await;
    let terms = LeaseTerms { length: Some(Duration::ZERO), ..LeaseTerms::default() };
    let lease = Lease { terms, ..Lease::of(queue, EXHAUSTED, dispatcher.engine.now()) };
    let leased = dispatcher.engine.lease(lease).await.expect("the queue was made by this test");
    assert_eq!(leased.len(), EXHAUSTED as usize);
    // All that those leases leave to do is done.
    dispatcher.advance(secs(1)).await;
    dispatcher.send(queue, ["fresh".to_owned()]).await;
    let consumer = Consumer { max_retries: 0, dead_letter_queue: Some("dead".into()), ..to(&hook) };
    dispatcher.consume(queue, Some(&consumer)).await;
    dispatcher.calm().await;
    dispatcher.advance(secs(1)).await;
    hook.until(1).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    dispatcher.until_holds(dead, (u64::from(EXHAUSTED), 0, 0)).await;
    assert_eq!(hook.messages(), [("fresh".to_owned(), 1)]);
}

#[tokio::test]
async fn batches_under_way_when_a_queue_is_paused_are_settled() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::gated().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(3)).await;
    hook.until(1).await;
    dispatcher.pause(queue, true).await;
    hook.let_through(1);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
}

#[tokio::test]
async fn a_consumer_that_is_changed_is_followed_without_a_restart() {
    let dispatcher = TestDispatcher::open().await;
    let (first, second) = (Hook::open().await, Hook::open().await);
    let queue = dispatcher.queue("a", None).await;
    dispatcher.send(queue, texts(1)).await;
    dispatcher.calm().await;
    dispatcher.consume(queue, Some(&to(&first))).await;
    first.until(1).await;
    dispatcher.consume(queue, Some(&to(&second))).await;
    dispatcher.send(queue, texts(1)).await;
    second.until(1).await;
    dispatcher.consume(queue, None).await;
    dispatcher.send(queue, texts(1)).await;
    dispatcher.calm().await;
    dispatcher.until_holds(queue, (1, 0, 0)).await;
    dispatcher.consume(queue, Some(&to(&first))).await;
    first.until(2).await;
    assert_eq!((first.sizes(), second.sizes()), (vec![1, 1], vec![1]));
}

#[tokio::test]
async fn more_bodies_than_a_megabyte_take_more_than_one_batch() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let consumer = Consumer { batch_size: 100, ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, (0..30).map(|_| "x".repeat(100_000))).await;
    dispatcher.pause(queue, false).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.sizes().iter().sum::<usize>(), 30);
    assert!(hook.sizes().iter().all(|size| *size <= 10), "{:?}", hook.sizes());
}

#[tokio::test]
async fn empty_batches_are_never_sent() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "")).await);
    let consumer = Consumer { max_retries: 0, ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    hook.until(1).await;
    dispatcher.calm().await;
    dispatcher.advance(secs(3_600)).await;
    assert_eq!(hook.sizes(), [1]);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
}
