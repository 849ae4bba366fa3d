//! Ends and beginnings: what is under way when the dispatcher stops, and what an earlier start left behind.

use kew_core::command::Lease;
use kew_core::{LeaseTerms, OwnerId, Policy, Timestamp};
use kew_push::Consumer;

use crate::hook::Hook;
use crate::house::{House, engine, queue, secs, texts, to};

#[tokio::test]
async fn batches_under_way_finish_before_the_end_and_no_new_one_leaves() {
    let (house, hook) = (House::open().await, Hook::gated().await);
    let consumer = Consumer { batch_size: 2, ..to(&hook) };
    let queue = house.queue("a", Some(&consumer)).await;
    house.pause(queue, true).await;
    house.send(queue, texts(5)).await;
    house.pause(queue, false).await;
    hook.until(1).await;
    house.begin_to_close();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!house.is_closed());
    hook.let_through(9);
    let engine = std::sync::Arc::clone(&house.engine);
    house.close().await;
    let counts = engine.counts(queue).await.expect("it is there");
    assert_eq!((counts.visible, counts.in_flight), (3, 0), "one batch of two was settled");
    assert_eq!(hook.sizes(), [2]);
}

#[tokio::test]
async fn leases_of_an_owner_that_is_dead_are_released_at_the_start_as_failed_deliveries() {
    let (engine, hook) = (engine().await, Hook::open().await);
    let consumer = Consumer { retry_delay: secs(60), ..to(&hook) };
    let queue = queue(&engine, "a", Policy::standard(), Some(&consumer)).await.id;
    let sender = House::over(std::sync::Arc::clone(&engine), 1);
    sender.pause(queue, true).await;
    sender.send(queue, texts(2)).await;
    sender.close().await;
    let lease = Lease {
        owner: Some(OwnerId(99)),
        terms: LeaseTerms { lapse_delay: secs(60), ..LeaseTerms::default() },
        ..Lease::of(queue, 10, Timestamp::ZERO)
    };
    assert_eq!(engine.lease(lease).await.expect("they are there").len(), 2);
    let house = House::over(engine, 256);
    house.pause(queue, false).await;
    // The retry delay they were leased with applies.
    house.until_holds(queue, (0, 0, 2)).await;
    house.advance(secs(60)).await;
    house.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages(), [("m1".to_owned(), 2), ("m2".to_owned(), 2)]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_while_a_batch_is_under_way_ends_its_lane() {
    let (house, hook) = (House::open().await, Hook::gated().await);
    let queue = house.queue("a", Some(&to(&hook))).await;
    house.send(queue, texts(2)).await;
    hook.until(1).await;
    let delete = kew_core::command::DeleteQueue { queue, if_version: None };
    house.engine.delete_queue(delete).await.expect("it is there");
    hook.let_through(1);
    house.close().await;
}
