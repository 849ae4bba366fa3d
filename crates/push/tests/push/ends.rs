//! Ends and beginnings: what is under way when the dispatcher stops, and what an earlier start left behind.

use kew_core::command::Lease;
use kew_core::{LeaseTerms, OwnerId, Policy, Timestamp};
use kew_push::Consumer;

use crate::dispatcher::{TestDispatcher, engine, queue, secs, texts, to};
use crate::hook::Hook;

#[tokio::test]
async fn batches_under_way_finish_before_the_end_and_no_new_one_leaves() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::gated().await);
    let consumer = Consumer { batch_size: 2, ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, texts(5)).await;
    dispatcher.pause(queue, false).await;
    hook.until(1).await;
    dispatcher.begin_to_close();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!dispatcher.is_closed());
    hook.let_through(9);
    let engine = std::sync::Arc::clone(&dispatcher.engine);
    dispatcher.close().await;
    let counts = engine.counts(queue).await.expect("the queue that is counted exists");
    assert_eq!((counts.visible, counts.in_flight), (3, 0), "one batch of two was settled");
    assert_eq!(hook.sizes(), [2]);
}

#[tokio::test]
async fn leases_of_an_owner_that_is_dead_are_released_at_the_start_as_failed_deliveries() {
    let (engine, hook) = (engine().await, Hook::open().await);
    let consumer = Consumer { retry_delay: secs(60), ..to(&hook) };
    let queue = queue(&engine, "a", Policy::standard(), Some(&consumer)).await.id;
    let sender = TestDispatcher::over(std::sync::Arc::clone(&engine), 1);
    sender.pause(queue, true).await;
    sender.send(queue, texts(2)).await;
    sender.close().await;
    // A paused queue gives nothing to anybody.
    engine.set_paused(queue, false).await.expect("the queue that goes on exists");
    let lease = Lease {
        owner: Some(OwnerId(99)),
        terms: LeaseTerms { lapse_delay: secs(60), ..LeaseTerms::default() },
        ..Lease::of(queue, 10, Timestamp::ZERO)
    };
    assert_eq!(engine.lease(lease).await.expect("the queue that is leased from exists").len(), 2);
    let dispatcher = TestDispatcher::over(engine, 256);
    // The retry delay they were leased with applies.
    dispatcher.until_holds(queue, (0, 0, 2)).await;
    dispatcher.advance(secs(60)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages(), [("m1".to_owned(), 2), ("m2".to_owned(), 2)]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_while_a_batch_is_under_way_ends_its_lane() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::gated().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(2)).await;
    hook.until(1).await;
    let delete = kew_core::command::DeleteQueue { queue, if_version: None };
    dispatcher.engine.delete_queue(delete).await.expect("the queue can be deleted");
    hook.let_through(1);
    dispatcher.close().await;
}
