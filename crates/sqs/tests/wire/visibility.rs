//! Visibility timeouts of standard queues: how long a received message is hidden, and how that is changed.

use std::time::Duration;

use kew_core::Policy;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

const SECOND: Duration = Duration::from_secs(1);
const TOTAL: &str = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";

/// A queue with a message that was received on these terms, and its handle.
async fn received(timeout: i64) -> (SqsServer, String) {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server.send_to("orders", "m", json!({})).await.ok();
    let handle = server.receive("orders", json!({"VisibilityTimeout": timeout})).await.handles().remove(0);
    (server, handle)
}

async fn is_there(server: &SqsServer) -> bool {
    !server.receive("orders", json!({})).await.messages().is_empty()
}

#[tokio::test]
async fn a_timeout_counts_from_the_receive_and_a_change_from_the_change() {
    // [seed] spec 7: a timeout of 60 s, set to 10 s at 15 s, ends at 25 s.
    let (server, handle) = received(60).await;
    server.advance(SECOND * 15).await;
    server.change("orders", &handle, 10).await.ok();
    server.advance(SECOND * 10 - Duration::from_millis(1)).await;
    assert!(!is_there(&server).await);
    server.advance(Duration::from_millis(1)).await;
    assert!(is_there(&server).await);
}

#[tokio::test]
async fn a_change_holds_for_its_receive_only() {
    // [seed] spec 7: the next receive uses the queue's timeout again.
    let (server, handle) = received(60).await;
    server.change("orders", &handle, 600).await.ok();
    server.advance(SECOND * 600).await;
    assert!(is_there(&server).await);
    server.advance(SECOND * 30).await;
    assert!(is_there(&server).await);
}

#[tokio::test]
async fn a_change_to_zero_makes_the_message_available_at_once_and_wakes_waiting_receives() {
    // [seed] spec 7: 0 makes it available at once; [seed] it wakes long polls.
    let (server, handle) = received(600).await;
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 20}));
    let change = async {
        server.until_waiting(1).await;
        server.change("orders", &handle, 0).await
    };
    let (polled, changed) = tokio::join!(poll, change);
    assert_eq!((changed.ok(), changed.header("content-length")), ("", Some("0")));
    assert_eq!(polled.bodies(), ["m"]);
}

/// Vendor: Developer Guide, "Amazon SQS visibility timeout"; API Reference, ChangeMessageVisibility
#[tokio::test]
async fn twelve_hours_from_the_receive_are_the_limit_however_often_it_is_extended() {
    // [seed] spec 7: 43200 s in total from the receive; extending does not reset it; 43195 works right after.
    let (server, handle) = received(30).await;
    server.change("orders", &handle, 43_200).await.ok();
    server.advance(SECOND * 5).await;
    let reason =
        |seconds: i64| format!("Value {seconds} for parameter VisibilityTimeout is invalid. Reason: {TOTAL}");
    server.change("orders", &handle, 43_200).await.is_invalid(&reason(43_200));
    server.change("orders", &handle, 43_196).await.is_invalid(&reason(43_196));
    server.change("orders", &handle, 43_195).await.ok();
    for _ in 0..10 {
        server.advance(SECOND * 3_600).await;
        server.change("orders", &handle, 3_590).await.ok();
        server.change("orders", &handle, 3_605).await.ok();
    }
    // 36005 seconds have passed.
    server.change("orders", &handle, 7_196).await.is_invalid(&reason(7_196));
    server.change("orders", &handle, 7_195).await.ok();
    server.advance(SECOND * 7_195).await;
    assert!(is_there(&server).await);
}

#[tokio::test]
async fn the_limit_counts_from_the_request_and_does_not_cut_the_receive_itself() {
    // [seed] spec 7: from the arrival of the ReceiveMessage request; in a long poll that is before the lease's start.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 20, "VisibilityTimeout": 43_200}));
    let send = async {
        server.until_waiting(1).await;
        server.advance(SECOND * 15).await;
        server.send_to("orders", "m", json!({})).await.ok().len()
    };
    let (polled, _) = tokio::join!(poll, send);
    let handle = polled.handles().remove(0);
    server
        .change("orders", &handle, 43_186)
        .await
        .is_invalid(&format!("Value 43186 for parameter VisibilityTimeout is invalid. Reason: {TOTAL}"));
    server.advance(SECOND * 43_200 - Duration::from_millis(1)).await;
    assert!(!is_there(&server).await, "the receive's own timeout is whole");
    server.advance(Duration::from_millis(1)).await;
    assert!(is_there(&server).await);
}

#[tokio::test]
async fn a_change_after_the_timeout_has_ended_is_accepted_and_does_nothing() {
    // [rec] spec 7: status 200 on standard queues.
    let (server, handle) = received(10).await;
    server.advance(SECOND * 10).await;
    server.change("orders", &handle, 600).await.ok();
    assert!(is_there(&server).await);
}

#[tokio::test]
async fn a_change_of_a_deleted_message_is_refused() {
    // [rec] spec 7: code and text.
    let (server, handle) = received(10).await;
    server.delete("orders", &handle).await.ok();
    server.change("orders", &handle, 10).await.is_invalid(&format!(
        "Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change."
    ));
}

#[tokio::test]
async fn an_older_handle_works_on_the_flight_that_is() {
    // [rec] spec 7: an old handle with 0 makes the message visible; [rep] one with 100 extends it.
    let (server, old) = received(10).await;
    server.advance(SECOND * 10).await;
    let new = server.receive("orders", json!({})).await.handles().remove(0);
    assert_ne!(old, new, "each receive has a handle of its own");
    server.change("orders", &old, 100).await.ok();
    server.advance(SECOND * 99).await;
    assert!(!is_there(&server).await);
    server.change("orders", &old, 0).await.ok();
    assert!(is_there(&server).await);
    server.delete("orders", &old).await.ok();
    server.advance(SECOND * 60).await;
    assert!(!is_there(&server).await, "an older handle deletes, also what another consumer holds");
}

#[tokio::test]
async fn a_deletion_succeeds_after_the_timeout_and_after_the_message_expired() {
    // [rec] spec 7: deleting works after the timeout, repeatedly, and when retention took the message in flight.
    let (server, handle) = received(10).await;
    server.advance(SECOND * 20).await;
    server.delete("orders", &handle).await.ok();
    server.delete("orders", &handle).await.ok();
    assert!(!is_there(&server).await);
    server.queue("short", Policy { retention: SECOND * 60, ..Policy::standard() }).await;
    server.send_to("short", "m", json!({})).await.ok();
    let handle = server.receive("short", json!({"VisibilityTimeout": 600})).await.handles().remove(0);
    server.advance(SECOND * 61).await;
    server.delete("short", &handle).await.ok();
    server.advance(SECOND * 600).await;
    assert_eq!(server.receive("short", json!({})).await.ok(), "{}");
}

#[tokio::test]
async fn handles_and_timeouts_that_cannot_be_are_refused() {
    let (server, handle) = received(10).await;
    server.queue("other", Policy::standard()).await;
    for (queue, handle) in [("orders", "garbage"), ("other", &*handle)] {
        let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        let (kind, query) = ("com.amazonaws.sqs#ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid;Sender");
        server.change(queue, handle, 5).await.is_error(404, kind, query, &message);
    }
    for seconds in [-1, 43_201] {
        let reason = "Must be between 0 and 43200, if provided.";
        let message = format!("Value {seconds} for parameter VisibilityTimeout is invalid. Reason: {reason}");
        server.change("orders", &handle, seconds).await.is_invalid(&message);
    }
    let without =
        server.call("ChangeMessageVisibility", json!({"QueueUrl": "orders", "ReceiptHandle": handle})).await;
    without.is_error(
        400,
        "com.amazon.coral.service#MissingRequiredParameterException",
        "MissingParameter;Sender",
        "The request must contain the parameter VisibilityTimeout.",
    );
}

#[tokio::test]
async fn in_xml_a_change_and_a_deletion_have_no_result() {
    let (server, handle) = received(10).await;
    let handle = handle.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    for action in ["ChangeMessageVisibility", "DeleteMessage"] {
        let form = format!("Action={action}&QueueUrl=orders&ReceiptHandle={handle}&VisibilityTimeout=5");
        let answer = server.query(&form).await;
        assert!(
            answer.ok().contains(&format!(
                "<{action}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ResponseMetadata>"
            )),
            "{}",
            answer.body
        );
    }
}
