//! Messages that other front-ends sent to a queue SQS reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::command::{Extend, Extension, FirstReceipts, Lease, Send};
use kew_core::outcome::Sent;
use kew_core::{
    Content, ContentType, DeduplicationId, GroupId, NewMessage, Policy, QueueId, ReceiptRule, WhenFree,
};
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

async fn send(server: &SqsServer, queue: QueueId, content: Content) -> Sent {
    let message = NewMessage { content, ..NewMessage::text(server.engine.message_id(), Bytes::new()) };
    server
        .engine
        .send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told })
        .await
        .expect("the engine accepts a message of another dialect")
        .remove(0)
}

#[tokio::test]
async fn bodies_are_shown_by_their_content_type_and_hashed_as_shown() {
    let server = SqsServer::open().await;
    let queue = server.queue("orders", Policy::standard()).await;
    for (content_type, body, shown, hash) in [
        (ContentType::Text, &b"hello"[..], "hello", "5d41402abc4b2a76b9719d911017c592"),
        (ContentType::Json, b"{\"a\":1}", "{\"a\":1}", "bb6cb5c68df4652941caf652a366f2d8"),
        (ContentType::Text, b"a\0", "YQA=", "4ca70c78e0dc8fbf53bd0d30b7aa2a7c"),
        (ContentType::Bytes, b"hello", "aGVsbG8=", "0733351879b2fa9bd05c7ca3061529c0"),
        (ContentType::V8, b"\xff\x0f", "/w8=", "76748037e93b9adb021d1812bed2dbb0"),
    ] {
        let annotations = Bytes::from_static(b"another's");
        send(&server, queue.id, Content { content_type, body: Bytes::from_static(body), annotations }).await;
        let all = json!({"AttributeNames": ["SenderId", "AWSTraceHeader"], "MessageAttributeNames": ["All"]});
        let received = server.receive("orders", all).await.messages().remove(0);
        assert_eq!(received["Body"], shown);
        assert_eq!(received["MD5OfBody"], hash);
        assert_eq!(received["Attributes"], json!({"SenderId": "000000000000"}));
        assert!(received.get("MessageAttributes").is_none());
    }
}

#[tokio::test]
async fn a_body_another_front_end_replaced_is_hashed_anew_and_keeps_its_attributes() {
    let server = SqsServer::open().await;
    let queue = server.queue("orders", Policy::standard()).await;
    let attributes = json!({"k": {"DataType": "String", "StringValue": "x"}});
    let sent = server.send_to("orders", "hello", json!({"MessageAttributes": attributes})).await;
    let hash = sent.json();
    let leased = server
        .engine
        .lease(Lease::of(queue.id, 1, server.engine.now()))
        .await
        .expect("the queue `orders` exists");
    let content = Content { body: Bytes::from_static(b"world"), ..Content::default() };
    let entry =
        Extension { token: leased[0].token, length: std::time::Duration::ZERO, content: Some(content) };
    let extend = Extend {
        queue: queue.id,
        receipt: ReceiptRule::Current,
        when_free: WhenFree::Hide,
        renew: true,
        entries: vec![entry],
    };
    server.engine.extend(extend).await.expect("the leased message can be extended")[0]
        .clone()
        .expect("the lease token of the only message is current");
    let received =
        server.receive("orders", json!({"MessageAttributeNames": ["All"]})).await.messages().remove(0);
    assert_eq!(
        (&received["Body"], &received["MD5OfBody"]),
        (&json!("world"), &json!("7d793037a0760186574b0282f2f435e7"))
    );
    assert_eq!(received["MessageAttributes"], attributes);
    assert_eq!(received["MD5OfMessageAttributes"], hash["MD5OfMessageAttributes"]);
}

#[tokio::test]
async fn the_receipt_of_a_send_deletes_on_a_standard_queue_and_not_on_a_fifo_queue() {
    let server = SqsServer::open().await;
    let queue = server.queue("orders", Policy::standard()).await;
    let sent =
        send(&server, queue.id, Content { body: Bytes::from_static(b"m"), ..Content::default() }).await;
    let handle = STANDARD.encode(sent.token.expect("a send that asks for tokens returns one").to_bytes());
    server.change("orders", &handle, 600).await.ok();
    server.delete("orders", &handle).await.ok();
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
    let queue = server.queue("strict", Policy::fifo()).await;
    let message = NewMessage {
        group: Some(GroupId("g".into())),
        deduplication: Some(DeduplicationId("1".into())),
        ..NewMessage::text(server.engine.message_id(), "m")
    };
    let sent = server
        .engine
        .send(Send { queue: queue.id, messages: vec![message], receipts: FirstReceipts::Told })
        .await
        .expect("the engine accepts a message of another dialect");
    let handle = STANDARD.encode(sent[0].token.expect("a send that asks for tokens returns one").to_bytes());
    server.delete("strict", &handle).await.is_invalid(&format!(
        "Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
    ));
}

#[tokio::test]
async fn a_handle_of_sqs_is_good_elsewhere() {
    let server = SqsServer::open().await;
    let handle = server.with_message("orders", "m").await;
    let bytes = STANDARD.decode(handle).expect("handles are Base64");
    assert!(kew_core::LeaseToken::from_bytes(&bytes).is_some());
}
