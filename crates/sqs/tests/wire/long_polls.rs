//! Long polls: how long a receive waits, and what ends the wait.

use std::time::Duration;

use kew_core::Policy;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

const SECOND: Duration = Duration::from_secs(1);

async fn with_queue() -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server
}

#[tokio::test]
async fn a_wait_ends_empty_when_its_time_is_over_and_not_before() {
    let server = with_queue().await;
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 20}));
    let wait = async {
        server.until_waiting(1).await;
        server.advance(SECOND * 20 - Duration::from_millis(1)).await;
        assert_eq!(server.engine.stats().waiting_receives.value(), 1);
        server.advance(Duration::from_millis(1)).await;
    };
    let (polled, ()) = tokio::join!(poll, wait);
    assert_eq!(polled.ok(), "{}");
}

#[tokio::test]
async fn the_queues_own_wait_counts_unless_the_request_says_zero() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy { wait: SECOND * 5, ..Policy::standard() }).await;
    assert_eq!(server.receive("orders", json!({"WaitTimeSeconds": 0})).await.ok(), "{}");
    let poll = server.receive("orders", json!({}));
    let wait = async {
        server.until_waiting(1).await;
        server.advance(SECOND * 5).await;
    };
    let (polled, ()) = tokio::join!(poll, wait);
    assert_eq!(polled.ok(), "{}");
}

#[tokio::test]
async fn a_wait_ends_with_the_first_message_even_if_more_were_asked_for() {
    // [rec] spec 7: returns as soon as at least one message is available.
    let server = with_queue().await;
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 20, "MaxNumberOfMessages": 10}));
    let send = async {
        server.until_waiting(1).await;
        server.send_to("orders", "m", json!({})).await
    };
    let (polled, _) = tokio::join!(poll, send);
    assert_eq!(polled.bodies(), ["m"]);
}

#[tokio::test]
async fn the_end_of_a_delay_and_of_a_timeout_end_waits() {
    let server = with_queue().await;
    server.send_to("orders", "m", json!({"DelaySeconds": 3})).await.ok();
    for timeout in [3, 7] {
        let poll = server.receive("orders", json!({"WaitTimeSeconds": 20, "VisibilityTimeout": 7}));
        let begun = server.now();
        let wait = async {
            server.until_waiting(1).await;
            server.advance(SECOND * timeout).await;
        };
        let (polled, ()) = tokio::join!(poll, wait);
        assert_eq!(polled.bodies(), ["m"]);
        assert_eq!(server.now() - begun, u64::from(timeout) * 1_000);
    }
}

#[tokio::test]
async fn waits_are_served_in_the_order_they_came() {
    let server = with_queue().await;
    let poll = json!({"WaitTimeSeconds": 20});
    let (first, second) = (server.receive("orders", poll.clone()), async {
        server.until_waiting(1).await;
        server.receive("orders", poll.clone()).await
    });
    let sends = async {
        server.until_waiting(2).await;
        server.send_to("orders", "one", json!({})).await.ok();
        server.until_waiting(1).await;
        server.send_to("orders", "two", json!({})).await.ok().len()
    };
    let (first, second, _) = tokio::join!(first, second, sends);
    assert_eq!((first.bodies(), second.bodies()), (vec!["one".to_owned()], vec!["two".to_owned()]));
}

#[tokio::test]
async fn nothing_is_consumed_for_a_client_that_went_away() {
    let server = with_queue().await;
    let body = json!({"QueueUrl": "orders", "WaitTimeSeconds": 20}).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = server.client().await;
    client.send(request.as_bytes()).await;
    server.until_waiting(1).await;
    drop(client);
    server.until_waiting(0).await;
    server.send_to("orders", "m", json!({})).await.ok();
    let received = server.receive("orders", json!({"AttributeNames": ["ApproximateReceiveCount"]})).await;
    assert_eq!(received.messages()[0]["Attributes"], json!({"ApproximateReceiveCount": "1"}));
}
