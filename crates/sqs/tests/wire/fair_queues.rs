//! Groups on standard queues: tenants that must not starve each other.

use kew_core::Policy;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

/// Vendor: API Reference, SendMessage, MessageGroupId; recorded from the service
#[tokio::test]
async fn a_group_on_a_standard_queue_is_accepted_and_shown_and_orders_nothing() {
    // [rec] spec 7b: returned as system attribute, no SequenceNumber, no ordering or locking.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    for body in ["a", "b"] {
        let sent = server.send_to("orders", body, json!({"MessageGroupId": "tenant"})).await;
        assert!(!sent.ok().contains("SequenceNumber"));
    }
    let first = server.receive("orders", json!({"AttributeNames": ["All"]})).await;
    assert_eq!(
        (first.bodies(), server.receive("orders", json!({})).await.bodies()),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    let attributes = &first.messages()[0]["Attributes"];
    assert_eq!(attributes["MessageGroupId"], "tenant");
    assert!(attributes.get("SequenceNumber").is_none() && attributes.get("MessageDeduplicationId").is_none());
}

#[tokio::test]
async fn ids_are_checked_as_on_fifo_queues_and_deduplication_is_none() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server.send_to("orders", "m", json!({"MessageGroupId": "group 123"})).await.is_invalid(
        "Value group 123 for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
    );
    server.send_to("orders", "m", json!({"MessageDeduplicationId": "x"})).await.is_invalid(
        "Value x for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter that is not valid for this queue type.",
    );
}

/// Vendor: Developer Guide, "How Amazon SQS fair queues work"
#[tokio::test]
async fn a_quiet_group_goes_before_one_that_holds_most_of_the_flight() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    for number in 0..40 {
        server.send_to("orders", &format!("noisy{number}"), json!({"MessageGroupId": "noisy"})).await.ok();
    }
    for _ in 0..3 {
        let received = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await;
        assert_eq!(received.bodies().len(), 10);
    }
    server.send_to("orders", "quiet", json!({"MessageGroupId": "quiet"})).await.ok();
    server.send_to("orders", "alone", json!({})).await.ok();
    let next = server.receive("orders", json!({"MaxNumberOfMessages": 3})).await.bodies();
    assert_eq!(
        next,
        ["quiet", "alone", "noisy30"],
        "thirty in flight are noisy; idle capacity is still theirs"
    );
}

/// Vendor: Developer Guide, "Amazon SQS fair queues": a backlog of one tenant and the dwell time of the others
#[tokio::test]
async fn a_quiet_group_goes_before_the_backlog_of_a_noisy_one_when_nothing_is_in_flight() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    for number in 0..30 {
        server.send_to("orders", &format!("noisy{number}"), json!({"MessageGroupId": "noisy"})).await.ok();
    }
    server.send_to("orders", "quiet", json!({"MessageGroupId": "quiet"})).await.ok();
    server.send_to("orders", "alone", json!({})).await.ok();
    let next = server.receive("orders", json!({"MaxNumberOfMessages": 3})).await.bodies();
    assert_eq!(next, ["quiet", "alone", "noisy0"]);
}
