//! The limits of messages in flight.

use std::time::Duration;

use kew_core::Policy;
use kew_sqs::Settings;
use serde_json::json;

use super::house::House;

async fn limited(policy: Policy) -> House {
    let settings = Settings { standard_in_flight_limit: 2, fifo_in_flight_limit: 2, ..Settings::default() };
    let house = House::with(settings).await;
    house.queue("orders", policy).await;
    for body in ["a", "b", "c"] {
        let ids = json!({"MessageGroupId": body, "MessageDeduplicationId": body});
        let further = if policy_is_fifo(&house) { ids } else { json!({}) };
        house.send_to("orders", body, further).await.ok();
    }
    house
}

fn policy_is_fifo(house: &House) -> bool {
    house.engine.all_queues().iter().any(|queue| queue.policy.kind.is_fifo())
}

#[tokio::test]
async fn a_short_poll_at_the_limit_is_refused_until_something_is_deleted() {
    // [seed] spec 7: OverLimit for a short poll.
    let house = limited(Policy::standard()).await;
    let handles = house.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    assert_eq!(handles.len(), 2, "no more than the limit are given out");
    let refused = house.receive("orders", json!({})).await;
    assert_eq!((refused.status, refused.header("x-amzn-query-error")), (403, Some("OverLimit;Sender")));
    assert!(refused.body.starts_with(r#"{"__type":"com.amazonaws.sqs#OverLimit""#));
    house.delete("orders", &handles[0]).await.ok();
    assert_eq!(house.receive("orders", json!({})).await.bodies(), ["c"]);
}

#[tokio::test]
async fn a_long_poll_at_the_limit_is_silent_until_the_number_falls() {
    // [seed] spec 7: no error, simply no new messages until the number falls.
    let house = limited(Policy::standard()).await;
    let handles = house.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    let poll = house.receive("orders", json!({"WaitTimeSeconds": 5}));
    let wait = async {
        house.until_waiting(1).await;
        house.advance(Duration::from_secs(5)).await;
    };
    let (polled, ()) = tokio::join!(poll, wait);
    assert_eq!(polled.ok(), "{}");
    let poll = house.receive("orders", json!({"WaitTimeSeconds": 20}));
    let delete = async {
        house.until_waiting(1).await;
        house.delete("orders", &handles[0]).await
    };
    let (polled, _) = tokio::join!(poll, delete);
    assert_eq!(polled.bodies(), ["c"]);
}

#[tokio::test]
async fn a_fifo_queue_at_its_limit_is_silent_also_to_short_polls() {
    // [seed] spec 8a: reaching it returns no error, just no more messages.
    let house = limited(Policy::fifo()).await;
    let handles = house.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    assert_eq!(handles.len(), 2);
    assert_eq!(house.receive("orders", json!({})).await.ok(), "{}");
    house.delete("orders", &handles[0]).await.ok();
    assert_eq!(house.receive("orders", json!({})).await.bodies(), ["c"]);
}
