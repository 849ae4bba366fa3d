//! What an operator does to one message and to a queue, and the timeline of a message.

use std::time::Duration;

use kew_core::command::{Browse, StartMove};
use kew_core::outcome::Seen;
use kew_core::{EventKind, MessageId, QueueId, RuleError, Sequence};
use kew_engine::EngineError;

use crate::bench::{Bench, key, rest, seconds};

async fn first(bench: &Bench, queue: QueueId) -> Seen {
    let mut page = bench.engine.browse(Browse::of(queue, 1), |_| true).await.expect("a page");
    page.messages.pop().expect("a message is there")
}

#[tokio::test]
async fn act_that_the_state_of_a_message_does_not_allow_is_refused() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    let (engine, token) = (&bench.engine, first(&bench, queue).await.token);
    let ended = Err(EngineError::Rule(RuleError::LeaseEnded));
    assert_eq!(engine.release_message(token).await, ended);
    assert_eq!(engine.extend_message(token, seconds(9)).await, ended);
    assert_eq!(engine.promote_message(token).await, Err(RuleError::NotDelayed.into()));
    assert_eq!(engine.delete_message(token).await, Ok(()));
    assert_eq!(engine.delete_message(token).await, Err(RuleError::MessageNotFound.into()));
}

#[tokio::test]
async fn leased_message_is_extended_released_and_deleted_by_an_operator() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    let lease = kew_core::command::Lease::of(queue, 1, bench.engine.now());
    assert_eq!(bench.engine.lease(lease).await.expect("a lease").len(), 1);
    let token = first(&bench, queue).await.token;
    let until = bench
        .engine
        .extend_message(token, seconds(100))
        .await
        .expect("the message is leased, so its lease can be extended");
    assert!(until >= bench.engine.now().plus(seconds(99)));
    assert!(bench.engine.release_message(token).await.is_ok());
    assert_eq!(bench.engine.counts(queue).await.map(|counts| counts.visible), Ok(1));
    assert_eq!(bench.engine.delete_message(token).await, Ok(()));
}

#[tokio::test]
async fn paused_queue_serves_whoever_waits_when_it_goes_on() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    assert!(
        bench
            .engine
            .set_paused(queue, true)
            .await
            .expect("a queue that is there can be paused")
            .policy
            .paused
    );
    bench.send(queue, "a").await;
    let lease = kew_core::command::Lease::of(queue, 1, bench.engine.now());
    let engine = std::sync::Arc::clone(&bench.engine);
    let waiting = tokio::spawn(async move { engine.lease_waiting(lease, Duration::from_secs(20)).await });
    rest().await;
    assert!(!waiting.is_finished(), "nothing is delivered");
    assert!(
        !bench.engine.set_paused(queue, false).await.expect("a queue that is paused can go on").policy.paused
    );
    assert_eq!(waiting.await.expect("the task of the receive does not panic").expect("a lease").len(), 1);
}

#[tokio::test]
async fn timeline_leads_through_moves_both_ways() {
    let bench = Bench::new().await;
    let (source, target) = (bench.queue("source").await, bench.queue("target").await);
    bench.send(source, "a").await;
    let sent = first(&bench, source).await.message;
    let engine = std::sync::Arc::clone(&bench.engine);
    let driver = tokio::spawn(async move { engine.run_moves().await });
    let start = StartMove { source, destination: Some(key("target")), rate_max: None, running_max: 1 };
    bench.engine.start_move(start).await.expect("the move task starts");
    rest().await;
    let moved = first(&bench, target).await;
    assert_eq!(bench.engine.delete_message(moved.token).await, Ok(()));
    assert_eq!(bench.engine.sent_to(sent.id).await, Ok(Some((source, Sequence(1)))));
    assert_eq!(bench.engine.sent_to(MessageId::from_chance(9)).await, Ok(None));
    for (queue, sequence) in [(source, Sequence(1)), (target, moved.message.sequence)] {
        let events = bench.engine.timeline(queue, sequence).await.expect("a timeline");
        let kinds: Vec<_> = events.iter().map(|event| (event.queue, event.kind.clone())).collect();
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        assert!(matches!(kinds[0], (queue, EventKind::Sent { .. }) if queue == source));
        assert!(matches!(kinds[1], (queue, EventKind::Redriven { .. }) if queue == source));
        assert!(matches!(kinds[2], (queue, EventKind::Sent { .. }) if queue == target));
        assert_eq!(kinds[3], (target, EventKind::Acked));
    }
    let events = bench.engine.latest_events(target, 1).await.expect("the history is there");
    let kinds: Vec<_> = events.iter().map(|event| (event.queue, event.kind.clone())).collect();
    assert_eq!(kinds, [(target, EventKind::Acked)], "the latest of that queue alone");
    assert_eq!(bench.engine.latest_events(source, 100).await.map(|events| events.len()), Ok(2));
    bench.engine.shutdown();
    driver.await.expect("the driver ends with the engine");
}
