//! Pauses and the end of messages.

use serde_json::json;

use super::house::{House, only};

#[tokio::test]
async fn a_paused_queue_is_not_pulled_from_and_everything_else_goes_on() {
    let house = House::open().await;
    let queue = house.pulled("orders", json!({})).await;
    house.push(&queue, "a", json!({})).await.result();
    let pulled = only(house.pull(&queue, json!({})).await);
    house.call("PATCH", &queue, json!({ "settings": { "delivery_paused": true } })).await.result();
    let told = house.call("POST", &format!("{queue}/messages/pull"), json!({})).await.is_error(409, 0);
    assert_eq!(told, "queue_delivery_paused");
    house.push(&queue, "b", json!({})).await.result();
    let settled = house.settle(&queue, json!({ "acks": [{ "lease_id": pulled["lease_id"] }] })).await;
    assert_eq!(settled["ackCount"], 1);
    let seen = house.call("POST", &format!("{queue}/messages/peek"), json!({})).await.result();
    assert_eq!(seen["messages"][0]["body"], "b");
    house.call("PATCH", &queue, json!({ "settings": { "delivery_paused": false } })).await.result();
    assert_eq!(house.bodies(&queue).await, ["b"]);
}

#[tokio::test]
async fn messages_expire_by_their_age_paused_or_delayed_or_not() {
    let house = House::open().await;
    let settings = json!({ "message_retention_period": 60, "delivery_paused": true });
    let queue = house.queue_with("orders", settings).await;
    house.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    house.push(&queue, "a", json!({})).await.result();
    house.push(&queue, "b", json!({ "delay_seconds": 3_600 })).await.result();
    house.advance(59).await;
    assert_eq!(house.backlog(&queue).await, 2);
    house.advance(1).await;
    assert_eq!(house.backlog(&queue).await, 0);
    let dead = house.path("dead").await.expect("it was made");
    assert_eq!(house.backlog(&dead).await, 0, "what expires is no dead letter");
}

#[tokio::test]
async fn a_queue_without_a_puller_is_not_pulled_from() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    for consumer in [None, Some(json!({ "type": "worker", "script_name": "w" }))] {
        if let Some(consumer) = consumer {
            house.consume(&queue, consumer).await;
        }
        let told = house.call("POST", &format!("{queue}/messages/pull"), json!({})).await.is_error(405, 0);
        assert_eq!(told, "messages cannot be pulled unless http_pull mode is enabled");
    }
}
