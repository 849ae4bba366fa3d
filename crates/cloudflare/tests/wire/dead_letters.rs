//! Messages that keep failing: how often they are delivered, where they go, and what they take along.

use kew_core::message::MoveReason;
use kew_core::{AccountId, QueueKey};
use serde_json::{Value, json};

use super::house::{House, only, text};

async fn fail(house: &House, queue: &str) -> Value {
    let pulled = only(house.pull(queue, json!({})).await);
    let settled = house.settle(queue, json!({ "retries": [{ "lease_id": pulled["lease_id"] }] })).await;
    assert_eq!(settled["retryCount"], 1);
    pulled
}

// [seed] Three retries by default: the message is delivered four times and is deleted then.
#[tokio::test]
async fn a_message_is_retried_three_times_and_dropped_without_a_dead_letter_queue() {
    let house = House::open().await;
    let queue = house.pulled("orders", json!({})).await;
    house.push(&queue, "m", json!({})).await.result();
    for attempt in 1..=4 {
        assert_eq!(fail(&house, &queue).await["attempts"], attempt);
    }
    assert!(house.pull(&queue, json!({})).await.is_empty());
    assert_eq!(house.backlog(&queue).await, 0);
}

// [seed] With a dead-letter queue it is written there instead.
#[tokio::test]
async fn a_message_that_failed_too_often_goes_to_the_dead_letter_queue_and_starts_afresh() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    let consumer = json!({
        "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 1, "retry_delay": 600 },
    });
    house.consume(&queue, consumer).await;
    let dead = house.path("dead").await.expect("it was made");
    house.consume(&dead, json!({ "type": "http_pull" })).await;
    house.call("POST", &format!("{queue}/messages"), json!({ "body": { "a": 1 } })).await.result();
    let sent = fail(&house, &queue).await;
    house.advance(600).await;
    // The last failure moves it at once: no retry delay comes before that.
    fail(&house, &queue).await;
    assert_eq!((house.backlog(&queue).await, house.backlog(&dead).await), (0, 1));
    let letter = only(house.pull(&dead, json!({})).await);
    assert_eq!((&letter["attempts"], &letter["body"]), (&json!(1), &sent["body"]));
    assert_eq!((&letter["id"], &letter["metadata"]), (&sent["id"], &sent["metadata"]));
}

#[tokio::test]
async fn a_dead_letter_tells_where_it_came_from_and_why() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    house.consume(&queue, consumer).await;
    house.push(&queue, "m", json!({})).await.result();
    // No retries: one delivery, whose lease ends by itself.
    only(house.pull(&queue, json!({ "visibility_timeout_ms": 1_000 })).await);
    house.advance(2).await;
    let key = |name| QueueKey::new(AccountId(0), "us-east-1", name);
    let dead = house.engine.queue(&key("dead")).expect("it was made");
    let seen = house.engine.peek(kew_core::command::Peek {
        queue: dead.id,
        view: kew_core::command::View::Ready,
        skip: 0,
        max: 1,
        body_bytes_max: 1_000,
    });
    let seen = seen.await.expect("it is seen");
    let origin = seen[0].0.origin.clone().expect("it has one");
    assert_eq!((origin.queue, origin.reason), (key("orders"), MoveReason::AttemptsExhausted));
}

#[tokio::test]
async fn the_dead_letter_queues_own_delay_applies() {
    let house = House::open().await;
    let dead = house.queue_with("dead", json!({ "delivery_delay": 60 })).await;
    house.consume(&dead, json!({ "type": "http_pull" })).await;
    let queue = house.queue("orders").await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    house.consume(&queue, consumer).await;
    house.push(&queue, "m", json!({})).await.result();
    fail(&house, &queue).await;
    assert!(house.pull(&dead, json!({})).await.is_empty());
    house.advance(60).await;
    assert_eq!(house.bodies(&dead).await, ["m"]);
}

#[tokio::test]
async fn retention_starts_anew_in_the_dead_letter_queue() {
    let house = House::open().await;
    let queue = house.queue_with("orders", json!({ "message_retention_period": 100 })).await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    house.consume(&queue, consumer).await;
    house.push(&queue, "m", json!({})).await.result();
    house.advance(90).await;
    fail(&house, &queue).await;
    let dead = house.path("dead").await.expect("it was made");
    house.advance(345_599).await;
    assert_eq!(house.backlog(&dead).await, 1);
    house.advance(1).await;
    assert_eq!(house.backlog(&dead).await, 0);
}

#[tokio::test]
async fn removing_the_consumer_removes_the_limit_it_set() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    let consumer =
        house.consume(&queue, json!({ "type": "http_pull", "settings": { "max_retries": 0 } })).await;
    let path = format!("{queue}/consumers/{}", text(&consumer, "consumer_id"));
    house.ask("DELETE", &path, "").await.result();
    let key = QueueKey::new(AccountId(0), "us-east-1", "orders");
    assert_eq!(house.engine.queue(&key).expect("it is there").policy.dead_letters, None);
}
