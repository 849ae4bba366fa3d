//! Messages that keep failing: how often they are delivered, where they go, and what they take along.

use kew_core::message::MoveReason;
use kew_core::{AccountId, QueueKey};
use serde_json::{Value, json};

use super::server::{CloudflareAnswer, CloudflareServer, only, text};

async fn fail(server: &CloudflareServer, queue: &str) -> Value {
    let pulled = only(server.pull(queue, json!({})).await);
    let settled = server.settle(queue, json!({ "retries": [{ "lease_id": pulled["lease_id"] }] })).await;
    assert_eq!(settled["retryCount"], 1);
    pulled
}

// [seed] Three retries by default: the message is delivered four times and is deleted then.
#[tokio::test]
async fn a_message_is_retried_three_times_and_dropped_without_a_dead_letter_queue() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    for attempt in 1..=4 {
        assert_eq!(fail(&server, &queue).await["attempts"], attempt);
    }
    assert!(server.pull(&queue, json!({})).await.is_empty());
    assert_eq!(server.backlog(&queue).await, 0);
}

// [seed] With a dead-letter queue it is written there instead.
#[tokio::test]
async fn a_message_that_failed_too_often_goes_to_the_dead_letter_queue_and_starts_afresh() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let consumer = json!({
        "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 1, "retry_delay": 600 },
    });
    server.consume(&queue, consumer).await;
    let dead = server.path("dead").await.expect("the consumer's dead-letter queue exists");
    server.consume(&dead, json!({ "type": "http_pull" })).await;
    server.call("POST", &format!("{queue}/messages"), json!({ "body": { "a": 1 } })).await.result();
    let sent = fail(&server, &queue).await;
    server.advance(600).await;
    // The last failure moves it at once: no retry delay comes before that.
    fail(&server, &queue).await;
    assert_eq!((server.backlog(&queue).await, server.backlog(&dead).await), (0, 1));
    let letter = only(server.pull(&dead, json!({})).await);
    assert_eq!((&letter["attempts"], &letter["body"]), (&json!(1), &sent["body"]));
    assert_eq!((&letter["id"], &letter["metadata"]), (&sent["id"], &sent["metadata"]));
}

/// Vendor: docs, "Dead letter queues"; what it tells is ours
#[tokio::test]
async fn a_dead_letter_tells_where_it_came_from_and_why() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    server.consume(&queue, consumer).await;
    server.push(&queue, "m", json!({})).await.result();
    // No retries: one delivery, whose lease ends by itself.
    only(server.pull(&queue, json!({ "visibility_timeout_ms": 1_000 })).await);
    server.advance(2).await;
    let key = |name| QueueKey::new(AccountId(0), "us-east-1", name);
    let dead = server.engine.queue(&key("dead")).expect("the dead-letter queue exists in the engine");
    let seen = server.engine.peek(kew_core::command::Peek {
        queue: dead.id,
        view: kew_core::command::View::Ready,
        skip: 0,
        max: 1,
        body_bytes_max: 1_000,
    });
    let seen = seen.await.expect("a peek of the dead-letter queue succeeds");
    let origin = seen[0].0.origin.clone().expect("a dead letter has an origin");
    assert_eq!((origin.queue, origin.reason), (key("orders"), MoveReason::AttemptsExhausted));
}

#[tokio::test]
async fn the_dead_letter_queues_own_delay_applies() {
    let server = CloudflareServer::open().await;
    let dead = server.queue_with("dead", json!({ "delivery_delay": 60 })).await;
    server.consume(&dead, json!({ "type": "http_pull" })).await;
    let queue = server.queue("orders").await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    server.consume(&queue, consumer).await;
    server.push(&queue, "m", json!({})).await.result();
    fail(&server, &queue).await;
    assert!(server.pull(&dead, json!({})).await.is_empty());
    server.advance(60).await;
    assert_eq!(server.bodies(&dead).await, ["m"]);
}

#[tokio::test]
async fn retention_starts_anew_in_the_dead_letter_queue() {
    let server = CloudflareServer::open().await;
    let queue = server.queue_with("orders", json!({ "message_retention_period": 100 })).await;
    let consumer =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 0 } });
    server.consume(&queue, consumer).await;
    server.push(&queue, "m", json!({})).await.result();
    server.advance(90).await;
    fail(&server, &queue).await;
    let dead = server.path("dead").await.expect("the consumer's dead-letter queue exists");
    server.advance(345_599).await;
    assert_eq!(server.backlog(&dead).await, 1);
    server.advance(1).await;
    assert_eq!(server.backlog(&dead).await, 0);
}

#[tokio::test]
async fn removing_the_consumer_removes_the_limit_it_set() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let consumer =
        server.consume(&queue, json!({ "type": "http_pull", "settings": { "max_retries": 0 } })).await;
    let path = format!("{queue}/consumers/{}", text(&consumer, "consumer_id"));
    server.ask("DELETE", &path, "").await.result();
    let key = QueueKey::new(AccountId(0), "us-east-1", "orders");
    assert_eq!(server.engine.queue(&key).expect("the queue exists in the engine").policy.dead_letters, None);
}
