//! Groups on standard queues: tenants that must not starve each other.

use kew_core::Policy;
use serde_json::json;

use super::house::House;

#[tokio::test]
async fn a_group_is_accepted_and_told_and_orders_nothing() {
    // [rec] spec 7b: returned as system attribute, no SequenceNumber, no ordering or locking.
    let house = House::open().await;
    house.queue("orders", Policy::standard()).await;
    for body in ["a", "b"] {
        let sent = house.send_to("orders", body, json!({"MessageGroupId": "tenant"})).await;
        assert!(!sent.ok().contains("SequenceNumber"));
    }
    let first = house.receive("orders", json!({"AttributeNames": ["All"]})).await;
    assert_eq!(
        (first.bodies(), house.receive("orders", json!({})).await.bodies()),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    let attributes = &first.messages()[0]["Attributes"];
    assert_eq!(attributes["MessageGroupId"], "tenant");
    assert!(attributes.get("SequenceNumber").is_none() && attributes.get("MessageDeduplicationId").is_none());
}

#[tokio::test]
async fn ids_are_checked_as_on_fifo_queues_and_deduplication_is_none() {
    let house = House::open().await;
    house.queue("orders", Policy::standard()).await;
    house.send_to("orders", "m", json!({"MessageGroupId": "group 123"})).await.is_invalid(
        "Value group 123 for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
    );
    house.send_to("orders", "m", json!({"MessageDeduplicationId": "x"})).await.is_invalid(
        "Value x for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter that is not valid for this queue type.",
    );
}

#[tokio::test]
async fn a_quiet_group_goes_before_one_that_holds_most_of_the_flight() {
    let house = House::open().await;
    house.queue("orders", Policy::standard()).await;
    for number in 0..40 {
        house.send_to("orders", &format!("noisy{number}"), json!({"MessageGroupId": "noisy"})).await.ok();
    }
    for _ in 0..3 {
        let received = house.receive("orders", json!({"MaxNumberOfMessages": 10})).await;
        assert_eq!(received.bodies().len(), 10);
    }
    house.send_to("orders", "quiet", json!({"MessageGroupId": "quiet"})).await.ok();
    house.send_to("orders", "alone", json!({})).await.ok();
    let next = house.receive("orders", json!({"MaxNumberOfMessages": 3})).await.bodies();
    assert_eq!(
        next,
        ["quiet", "alone", "noisy30"],
        "thirty in flight are noisy; idle capacity is still theirs"
    );
}

#[tokio::test]
async fn a_quiet_group_goes_before_the_backlog_of_a_noisy_one_when_nothing_is_in_flight() {
    let house = House::open().await;
    house.queue("orders", Policy::standard()).await;
    for number in 0..30 {
        house.send_to("orders", &format!("noisy{number}"), json!({"MessageGroupId": "noisy"})).await.ok();
    }
    house.send_to("orders", "quiet", json!({"MessageGroupId": "quiet"})).await.ok();
    house.send_to("orders", "alone", json!({})).await.ok();
    let next = house.receive("orders", json!({"MaxNumberOfMessages": 3})).await.bodies();
    assert_eq!(next, ["quiet", "alone", "noisy0"]);
}
