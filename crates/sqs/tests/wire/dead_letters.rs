//! What a message keeps on its way to a dead-letter queue.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Carries, DeadLetterAction, DeadLetterRule, Policy, QueueKey};
use serde_json::{Value, json};

use super::server::{SqsAnswer, SqsServer};

fn redriven(policy: Policy) -> Policy {
    let target = QueueKey::new(AccountId(0), "us-east-1", "dead");
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(target),
        carries: Carries::History,
        written_by: Arc::from("sqs"),
    };
    Policy { dead_letters: Some(rule.into()), ..policy }
}

/// A message that died: as it was received first, and as it was then.
async fn died(policy: Policy, further: Value) -> (Value, Value) {
    let server = SqsServer::open().await;
    server.queue("dead", policy.clone()).await;
    server.queue("orders", redriven(policy)).await;
    server.send_to("orders", "m", further).await.ok();
    server.advance(Duration::from_secs(5)).await;
    let all = json!({"AttributeNames": ["All"], "MessageAttributeNames": ["All"]});
    let first = server.receive("orders", all.clone()).await.messages().remove(0);
    server.advance(Duration::from_secs(30)).await;
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
    (first, server.receive("dead", all).await.messages().remove(0))
}

#[tokio::test]
async fn a_dead_letter_keeps_itself_and_goes_on_counting() {
    // [rec] spec 8: id, body, attributes, SentTimestamp and trace are kept, the count goes on (1 + 1 = 2),
    // DeadLetterQueueSourceArn appears.
    let further = json!({
        "MessageAttributes": {"k": {"DataType": "String", "StringValue": "x"}},
        "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
        "MessageGroupId": "tenant",
    });
    let (first, dead) = died(Policy::standard(), further).await;
    for member in ["MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"] {
        assert_eq!(first[member], dead[member], "{member}");
    }
    assert_eq!(first["Attributes"]["ApproximateReceiveCount"], "1");
    assert!(first["Attributes"].get("DeadLetterQueueSourceArn").is_none());
    let mut expected = first["Attributes"].clone();
    expected["ApproximateReceiveCount"] = json!("2");
    expected["DeadLetterQueueSourceArn"] = json!("arn:aws:sqs:us-east-1:000000000000:orders");
    assert_eq!(dead["Attributes"], expected);
}

#[tokio::test]
async fn a_dead_letter_of_a_fifo_queue_keeps_its_group_and_is_deduplicated_by_its_name() {
    let further = json!({"MessageGroupId": "g", "MessageDeduplicationId": "own"});
    let (first, dead) = died(Policy::fifo(), further).await;
    assert_eq!(first["Attributes"]["MessageDeduplicationId"], "own");
    assert_eq!(dead["Attributes"]["MessageDeduplicationId"], first["MessageId"]);
    assert_eq!(dead["Attributes"]["MessageGroupId"], "g");
    assert_eq!(dead["Attributes"]["SequenceNumber"].as_str().map(str::len), Some(20));
}

#[tokio::test]
async fn a_changed_timeout_does_not_follow_a_message_to_another_queue() {
    // [seed] spec 7: in another queue it comes to it arrives visible, and that queue's timeout holds.
    let server = SqsServer::open().await;
    server.queue("dead", Policy { lease_length: Duration::from_secs(10), ..Policy::standard() }).await;
    server.queue("orders", redriven(Policy::standard())).await;
    server.send_to("orders", "m", json!({})).await.ok();
    let handle = server.receive("orders", json!({})).await.handles().remove(0);
    server.change("orders", &handle, 600).await.ok();
    server.change("orders", &handle, 0).await.ok();
    server.advance(Duration::from_millis(1)).await;
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
    assert_eq!(server.receive("dead", json!({})).await.bodies(), ["m"], "it arrives visible");
    server.advance(Duration::from_secs(10) - Duration::from_millis(1)).await;
    assert_eq!(server.receive("dead", json!({})).await.ok(), "{}");
    server.advance(Duration::from_millis(1)).await;
    assert_eq!(server.receive("dead", json!({})).await.bodies(), ["m"]);
    // The receipt of the queue it left is one of another queue there, and means nothing where it was.
    server.delete("orders", &handle).await.ok();
    assert_eq!(server.delete("dead", &handle).await.status, 404);
}
