//! The protocol of producer bindings: what a Worker's runtime sends, and what it reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::server::{Answer, CloudflareAnswer, CloudflareServer, only};

async fn send(server: &CloudflareServer, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut headers = headers.to_vec();
    let own =
        [("Host", "fake-host"), ("X-Kew-Queue", "orders"), ("Content-Type", "application/octet-stream")];
    headers.extend(own);
    server.raw("POST", "/message", &headers, body).await
}

async fn send_batch(server: &CloudflareServer, headers: &[(&str, &str)], messages: Value) -> Answer {
    let mut headers = headers.to_vec();
    headers.extend([("Host", "fake-host"), ("X-Kew-Queue", "orders")]);
    server.raw("POST", "/batch", &headers, json!({ "messages": messages }).to_string().as_bytes()).await
}

/// Exactly 200 with figures: the runtime takes everything else for a failure.
#[track_caller]
fn backlog(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["metadata"]["metrics"]["backlogCount"].as_u64().expect("the backlog count is a number")
}

/// A refusal in the headers the runtime reads.
#[track_caller]
fn is_refused(answer: &Answer, status: u16, code: u32) {
    answer.is_error(status, code);
    assert_eq!(answer.header("cf-queues-error-code"), Some(code.to_string().as_str()));
    assert!(answer.header("cf-queues-error-cause").is_some_and(|cause| !cause.is_empty()));
    assert!(!answer.reason.is_empty());
}

/// Vendor: published source of workerd, queue binding; seen from workerd 2026-11-17
#[tokio::test]
async fn messages_keep_their_format_and_say_that_a_worker_sent_them() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for (headers, body, shown, content_type) in [
        (&[("X-Msg-Fmt", "json")][..], &b"{\"a\":1}"[..], "eyJhIjoxfQ==", "json"),
        (&[("X-Msg-Fmt", "TEXT")], b"hello", "hello", "text"),
        (&[("X-Msg-Fmt", "bytes")], b"\x00\xff", "AP8=", "bytes"),
        (&[("X-Msg-Fmt", "v8")], b"\xff\x0f", "/w8=", "v8"),
        // A runtime of older dates does not say.
        (&[], b"\xff\x0f", "/w8=", "v8"),
    ] {
        assert_eq!(backlog(&send(&server, headers, body).await), 1);
        let pulled = only(server.pull(&queue, json!({})).await);
        let metadata = json!({ "CF-Content-Type": content_type, "CF-sourceMessageSource": "worker" });
        assert_eq!((&pulled["body"], &pulled["metadata"]), (&json!(shown), &metadata));
        server.settle(&queue, json!({ "acks": [{ "lease_id": pulled["lease_id"] }] })).await;
    }
}

// [seed] A message's own delay, else the batch's, else the queue's; zero overrides.
#[tokio::test]
async fn delays_come_in_headers_and_zero_is_one() {
    let server = CloudflareServer::open().await;
    let queue = server.queue_with("orders", json!({ "delivery_delay": 60 })).await;
    server.consume(&queue, json!({ "type": "http_pull" })).await;
    let text = ("X-Msg-Fmt", "text");
    backlog(&send(&server, &[text, ("X-Msg-Delay-Secs", "0")], b"now").await);
    backlog(&send(&server, &[text, ("X-Msg-Delay-Secs", "600")], b"ten minutes").await);
    backlog(&send(&server, &[text], b"the queue's").await);
    let body = |text: &str| STANDARD.encode(text);
    let messages = json!([
        { "body": body("batch's"), "contentType": "text" },
        { "body": body("own"), "contentType": "text", "delaySecs": 5 },
        { "body": body("own none"), "contentType": "text", "delaySecs": 0 },
    ]);
    assert_eq!(backlog(&send_batch(&server, &[("X-Msg-Delay-Secs", "300")], messages).await), 6);
    for (seconds, expected) in [
        (0, &["now", "own none"][..]),
        (5, &["own"]),
        (55, &["the queue's"]),
        (240, &["batch's"]),
        (300, &["ten minutes"]),
    ] {
        server.advance(seconds).await;
        let pulled =
            server.pull(&queue, json!({ "batch_size": 100, "visibility_timeout_ms": 3_600_000 })).await;
        assert_eq!(super::server::bodies(&pulled), expected);
    }
}

#[tokio::test]
async fn everything_is_checked_because_the_runtime_checks_nothing() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let text = ("X-Msg-Fmt", "text");
    for delay in ["-1", "86401", "1.5", "soon", ""] {
        is_refused(&send(&server, &[text, ("X-Msg-Delay-Secs", delay)], b"m").await, 400, 10_203);
        let batch = send_batch(&server, &[("X-Msg-Delay-Secs", delay)], json!([{ "body": "" }])).await;
        is_refused(&batch, 400, 10_202);
    }
    is_refused(&send(&server, &[("X-Msg-Fmt", "xml")], b"m").await, 400, 10_203);
    is_refused(&send(&server, &[("X-Msg-Fmt", "json")], b"{").await, 400, 10_208);
    is_refused(&send(&server, &[text], b"\xff").await, 400, 10_207);
    is_refused(&send(&server, &[text], &[b'a'; 128_001]).await, 413, 10_204);
    let one = json!({ "body": "aGk=", "contentType": "text" });
    is_refused(&send_batch(&server, &[], json!(vec![one.clone(); 101])).await, 413, 10_206);
    is_refused(&send_batch(&server, &[], json!([])).await, 400, 10_207);
    let large = json!({ "body": STANDARD.encode([b'a'; 100_000]), "contentType": "text" });
    is_refused(&send_batch(&server, &[], json!(vec![large; 3])).await, 413, 10_205);
    is_refused(&send_batch(&server, &[], json!([one, { "body": "!" }])).await, 400, 10_207);
    assert_eq!(server.backlog(&queue).await, 0, "a batch is all or nothing");
}

/// Vendor: published source of workerd, queue binding, `metrics()`
#[tokio::test]
async fn metrics_are_bare_figures() {
    let server = CloudflareServer::open().await;
    server.queue("orders").await;
    backlog(&send(&server, &[("X-Msg-Fmt", "text")], b"12345").await);
    let metrics = server.raw("GET", "/metrics", &[("X-Kew-Queue", "orders")], b"").await;
    assert_eq!(metrics.status, 200);
    let expected =
        json!({ "backlogCount": 1, "backlogBytes": 5, "oldestMessageTimestamp": 1_767_225_600_000_u64 });
    assert_eq!(metrics.json(), expected);
}

#[tokio::test]
async fn an_unknown_queue_or_call_is_refused() {
    let server = CloudflareServer::open().await;
    for (method, path, code) in [
        ("POST", "/message", 10_104),
        ("POST", "/batch", 10_104),
        ("GET", "/metrics", 10_104),
        ("GET", "/message", 7_003),
        ("POST", "/other", 7_003),
    ] {
        let refused = server.raw(method, path, &[("X-Kew-Queue", "none")], b"m").await;
        is_refused(&refused, 404, code);
        assert_eq!(refused.reason, "Not Found");
    }
    server.raw("POST", "/message", &[], b"m").await.is_error(404, 7_003);
}
