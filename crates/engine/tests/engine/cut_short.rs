//! Receives that meet more exhausted messages than leave in one step: what stands behind those is found soon. Over the
//! store in memory alone: the model sends all of them off at once.

use kew_core::command::{FirstReceipts, Lease, Send, UpdateQueue};
use kew_core::{
    Carries, DeadLetterAction, DeadLetterRule, DeduplicationId, GroupId, LeaseTerms, NewMessage, Policy,
    QueueId, Text,
};

use crate::bench::{Bench, bodies, body, key, rest, seconds};

/// Exhausted messages; at most 1 000 of them leave in one step.
const EXHAUSTED: u32 = 2_500;

/// A queue with many exhausted messages before those that are named here.
async fn exhausted_before(bench: &Bench, policy: Policy, fresh: &[&str]) -> QueueId {
    bench.queue_with("dead", policy.clone()).await;
    let queue = bench.queue_with("q", policy.clone()).await.id;
    let all: Vec<String> = (0..EXHAUSTED).map(|number| number.to_string()).collect();
    send(bench, queue, &policy, all.iter().map(String::as_str)).await;
    let terms = LeaseTerms { length: Some(seconds(0)), ..LeaseTerms::default() };
    let lease = Lease { terms, ..Lease::of(queue, EXHAUSTED, bench.engine.now()) };
    let leased = bench.engine.lease(lease).await.expect("the queue is there");
    assert_eq!(leased.len(), EXHAUSTED as usize);
    // All that those leases leave to do is done, so that nothing of it stirs the queue later.
    bench.advance(seconds(1)).await;
    send(bench, queue, &policy, fresh.iter().copied()).await;
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "test".into(),
    };
    set(bench, queue, Policy { dead_letters: Some(Box::new(rule)), ..policy }).await;
    queue
}

async fn set(bench: &Bench, queue: QueueId, policy: Policy) {
    let update =
        UpdateQueue { queue, if_version: None, policy: Some(policy), documents: Vec::new(), rename: None };
    bench.engine.update_queue(update).await.expect("the queue is there");
}

/// Sends these in one step, on a FIFO queue in one group.
async fn send(bench: &Bench, queue: QueueId, policy: &Policy, bodies: impl Iterator<Item = &str>) {
    let is_fifo = policy.kind.is_fifo();
    let message = |body: &str| NewMessage {
        group: is_fifo.then(|| GroupId(Text::from("g"))),
        deduplication: is_fifo.then(|| DeduplicationId(Text::from(body))),
        ..NewMessage::text(bench.engine.message_id(), body.to_owned())
    };
    let send = Send { queue, messages: bodies.map(message).collect(), receipts: FirstReceipts::Untold };
    bench.engine.send(send).await.expect("the send is fine");
}

#[tokio::test]
async fn waiting_receive_goes_on_until_it_finds_what_stands_behind_them() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let bench = Bench::new().await;
        let queue = exhausted_before(&bench, policy, &["fresh"]).await;
        let waiting = bench.wait(queue, seconds(20)).await;
        assert!(bench.engine.next_turn() <= bench.engine.now().next(), "the timers are rung for");
        bench.advance(seconds(1)).await;
        assert_eq!(bodies(waiting).await, ["fresh"]);
        assert_eq!(bench.engine.stats().empty_receives.value(), 0);
    }
}

#[tokio::test]
async fn receive_that_another_node_waits_for_goes_on_as_well() {
    let bench = Bench::new().await;
    let queue = exhausted_before(&bench, Policy::standard(), &["fresh"]).await;
    let (engine, lease) = (bench.engine.clone(), bench.lease_of(queue));
    let waiting = tokio::spawn(async move { engine.lease_here(lease, seconds(20)).await });
    rest().await;
    bench.advance(seconds(1)).await;
    rest().await;
    assert!(waiting.is_finished(), "it still waits");
    let leased =
        waiting.await.expect("the receive ran").expect("the queue is there").expect("the queue is kept here");
    assert_eq!(leased.iter().map(body).collect::<Vec<_>>(), ["fresh"]);
}

#[tokio::test]
async fn receives_in_line_go_on_in_order_of_arrival() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let bench = Bench::new().await;
        let queue = exhausted_before(&bench, policy, &["first", "second"]).await;
        let known = bench.engine.queue_by_id(queue).expect("the queue is there").policy.clone();
        set(&bench, queue, Policy { paused: true, ..known.clone() }).await;
        let waiting = [bench.wait(queue, seconds(20)).await, bench.wait(queue, seconds(20)).await];
        set(&bench, queue, known.clone()).await;
        let [first, second] = waiting;
        bench.advance(seconds(1)).await;
        assert_eq!(bodies(first).await, ["first"]);
        if known.kind.is_fifo() {
            // Its group waits for the first.
            bench.advance(seconds(20)).await;
            assert_eq!(bodies(second).await, Vec::<String>::new());
        } else {
            assert_eq!(bodies(second).await, ["second"]);
        }
    }
}

#[tokio::test]
async fn watch_rings_until_what_stands_behind_them_is_found() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let bench = Bench::new().await;
        let queue = exhausted_before(&bench, policy, &["fresh"]).await;
        let (watch, engine, lease) =
            (bench.engine.watch_messages(queue), bench.engine.clone(), bench.lease_of(queue));
        let watching = tokio::spawn(async move {
            loop {
                match engine.lease(lease.clone()).await.expect("the queue is there").pop() {
                    Some(leased) => return leased,
                    None => drop(watch.rung().await),
                }
            }
        });
        rest().await;
        bench.advance(seconds(1)).await;
        rest().await;
        assert!(watching.is_finished(), "nobody learns that there is more");
        assert_eq!(body(&watching.await.expect("the watch ran")), "fresh");
    }
}
