//! The limits of messages in flight.

use std::time::Duration;

use kew_core::command::{FirstReceipts, Lease, Send};
use kew_core::{DeduplicationId, GroupId, NewMessage, Policy};
use kew_sqs::Settings;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

async fn limited(policy: Policy) -> SqsServer {
    let settings = Settings { standard_in_flight_limit: 2, fifo_in_flight_limit: 2, ..Settings::default() };
    let server = SqsServer::with(settings).await;
    server.queue("orders", policy).await;
    for body in ["a", "b", "c"] {
        let ids = json!({"MessageGroupId": body, "MessageDeduplicationId": body});
        let further = if policy_is_fifo(&server) { ids } else { json!({}) };
        server.send_to("orders", body, further).await.ok();
    }
    server
}

fn policy_is_fifo(server: &SqsServer) -> bool {
    server.engine.all_queues().iter().any(|queue| queue.policy.kind.is_fifo())
}

/// Vendor: API Reference, ReceiveMessage, error OverLimit
#[tokio::test]
async fn a_short_poll_at_the_limit_is_refused_until_something_is_deleted() {
    // [seed] spec 7: OverLimit for a short poll.
    let server = limited(Policy::standard()).await;
    let handles = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    assert_eq!(handles.len(), 2, "no more than the limit are given out");
    let refused = server.receive("orders", json!({})).await;
    assert_eq!((refused.status, refused.header("x-amzn-query-error")), (403, Some("OverLimit;Sender")));
    assert!(refused.body.starts_with(r#"{"__type":"com.amazonaws.sqs#OverLimit""#));
    server.delete("orders", &handles[0]).await.ok();
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["c"]);
}

#[tokio::test]
async fn a_long_poll_at_the_limit_is_silent_until_the_number_falls() {
    // [seed] spec 7: no error, simply no new messages until the number falls.
    let server = limited(Policy::standard()).await;
    let handles = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 5}));
    let wait = async {
        server.until_waiting(1).await;
        server.advance(Duration::from_secs(5)).await;
    };
    let (polled, ()) = tokio::join!(poll, wait);
    assert_eq!(polled.ok(), "{}");
    let poll = server.receive("orders", json!({"WaitTimeSeconds": 20}));
    let delete = async {
        server.until_waiting(1).await;
        server.delete("orders", &handles[0]).await
    };
    let (polled, _) = tokio::join!(poll, delete);
    assert_eq!(polled.bodies(), ["c"]);
}

#[tokio::test]
async fn a_fifo_queue_at_its_limit_is_silent_also_to_short_polls() {
    // [seed] spec 8a: reaching it returns no error, just no more messages.
    let server = limited(Policy::fifo()).await;
    let handles = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    assert_eq!(handles.len(), 2);
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
    server.delete("orders", &handles[0]).await.ok();
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["c"]);
}

// [seed] spec 7: about 120,000 on standard queues; [seed] spec 8a: 20,000 on FIFO ones, where today's service allows
// more.
/// Vendor: Developer Guide, "Amazon SQS standard queue quotas" and "FIFO queue quotas"; FIFO 20 000 is an older
/// figure of it
#[tokio::test]
async fn the_limits_are_those_of_the_seeds_unless_configured() {
    for (policy, limit) in [(Policy::standard(), 120_000), (Policy::fifo(), 20_000)] {
        let fifo = policy.kind.is_fifo();
        let server = SqsServer::open().await;
        let queue = server.queue("orders", policy).await.id;
        for batch in 0..limit / 1_000 + 1 {
            let message = |number: u32| NewMessage {
                group: fifo.then(|| GroupId(number.to_string().as_str().into())),
                deduplication: fifo.then(|| DeduplicationId(format!("{batch}-{number}").as_str().into())),
                ..NewMessage::text(server.engine.message_id(), "x")
            };
            let messages = (0..1_000).map(message).collect();
            let send = Send { queue, messages, receipts: FirstReceipts::Untold };
            server.engine.send(send).await.expect("the engine accepts messages within the limit in flight");
        }
        // All but three are taken in another way, which has no limit of its own here.
        let mut taken = 0;
        while taken < limit - 3 {
            let lease = Lease {
                in_flight_max: u32::MAX,
                ..Lease::of(queue, (limit - 3 - taken).min(1_000), server.engine.now())
            };
            let leased =
                server.engine.lease(lease).await.expect("a lease within the limit in flight succeeds").len();
            assert!(leased > 0, "{taken} are taken");
            taken += u32::try_from(leased).expect("a lease has at most a thousand messages");
        }
        let ten = json!({"MaxNumberOfMessages": 10});
        assert_eq!(server.receive("orders", ten.clone()).await.messages().len(), 3, "up to {limit}");
        let beyond = server.receive("orders", ten).await;
        if fifo {
            assert_eq!(beyond.ok(), "{}");
        } else {
            assert_eq!((beyond.status, beyond.header("x-amzn-query-error")), (403, Some("OverLimit;Sender")));
        }
    }
}
