//! Pauses and the end of messages.

use serde_json::json;

use super::server::{CloudflareAnswer, CloudflareServer, only};

#[tokio::test]
async fn a_paused_queue_is_not_pulled_from_and_everything_else_goes_on() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "a", json!({})).await.result();
    let pulled = only(server.pull(&queue, json!({})).await);
    server.call("PATCH", &queue, json!({ "settings": { "delivery_paused": true } })).await.result();
    let told = server.call("POST", &format!("{queue}/messages/pull"), json!({})).await.is_error(409, 0);
    assert_eq!(told, "queue_delivery_paused");
    server.push(&queue, "b", json!({})).await.result();
    let settled = server.settle(&queue, json!({ "acks": [{ "lease_id": pulled["lease_id"] }] })).await;
    assert_eq!(settled["ackCount"], 1);
    let seen = server.call("POST", &format!("{queue}/messages/peek"), json!({})).await.result();
    assert_eq!(seen["messages"][0]["body"], "b");
    server.call("PATCH", &queue, json!({ "settings": { "delivery_paused": false } })).await.result();
    assert_eq!(server.bodies(&queue).await, ["b"]);
}

#[tokio::test]
async fn messages_expire_by_their_age_paused_or_delayed_or_not() {
    let server = CloudflareServer::open().await;
    let settings = json!({ "message_retention_period": 60, "delivery_paused": true });
    let queue = server.queue_with("orders", settings).await;
    server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    server.push(&queue, "a", json!({})).await.result();
    server.push(&queue, "b", json!({ "delay_seconds": 3_600 })).await.result();
    server.advance(59).await;
    assert_eq!(server.backlog(&queue).await, 2);
    server.advance(1).await;
    assert_eq!(server.backlog(&queue).await, 0);
    let dead = server.path("dead").await.expect("the consumer's dead-letter queue exists");
    assert_eq!(server.backlog(&dead).await, 0, "what expires is no dead letter");
}

#[tokio::test]
async fn a_queue_without_a_puller_is_not_pulled_from() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    for consumer in [None, Some(json!({ "type": "worker", "script_name": "w" }))] {
        if let Some(consumer) = consumer {
            server.consume(&queue, consumer).await;
        }
        let told = server.call("POST", &format!("{queue}/messages/pull"), json!({})).await.is_error(405, 0);
        assert_eq!(told, "messages cannot be pulled unless http_pull mode is enabled");
    }
}
