//! Publishing and pulling: bodies, content types, delays, order, limits.

use serde_json::{Value, json};

use super::server::{CloudflareAnswer, CloudflareServer, bodies, only, text};

/// Vendor: docs, "Pull consumers"; API schema, `metadata.metrics` of publish and pull
#[tokio::test]
async fn a_message_is_pulled_with_everything_it_was_sent_with() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let body = json!({ "body": { "a": 1 }, "delay_seconds": 5 });
    let sent = server.call("POST", &format!("{queue}/messages"), body).await.result();
    let metrics = json!({
        "backlog_count": 1, "backlog_bytes": 7, "oldest_message_timestamp_ms": 1_767_225_600_000_u64,
    });
    assert_eq!(sent, json!({ "metadata": { "metrics": metrics } }));
    assert!(server.bodies(&queue).await.is_empty());
    server.advance(5).await;
    let pulled = server.call("POST", &format!("{queue}/messages/pull"), json!({})).await.result();
    assert_eq!((&pulled["message_backlog_count"], &pulled["metadata"]["metrics"]), (&json!(1), &metrics));
    let message = &pulled["messages"][0];
    let expected = json!({
        "id": message["id"], "timestamp_ms": 1_767_225_600_000_u64, "attempts": 1,
        // A pull returns JSON bodies in Base64.
        "body": "eyJhIjoxfQ==", "lease_id": message["lease_id"],
        "metadata": { "CF-Content-Type": "json", "CF-sourceMessageSource": "api", "CF-msg-delay-secs": "5" },
    });
    assert_eq!(*message, expected);
    let id = text(message, "id");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(text(message, "lease_id").len(), 56);
}

#[tokio::test]
async fn bodies_come_back_by_their_content_type() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for (message, body, content_type) in [
        (json!({ "body": "hello \"you\"\n☃", "content_type": "text" }), "hello \"you\"\n☃", "text"),
        (json!({ "body": "hello", "content_type": "json" }), "ImhlbGxvIg==", "json"),
        (json!({ "body": null }), "bnVsbA==", "json"),
        (json!({ "body": [1, 2] }), "WzEsMl0=", "json"),
        (json!({ "body": "AP8=", "content_type": "bytes" }), "AP8=", "bytes"),
        (json!({ "body": "", "content_type": "text" }), "", "text"),
    ] {
        server.call("POST", &format!("{queue}/messages"), message).await.result();
        let pulled = only(server.pull(&queue, json!({})).await);
        let metadata = json!({ "CF-Content-Type": content_type, "CF-sourceMessageSource": "api" });
        assert_eq!((&pulled["body"], &pulled["metadata"]), (&json!(body), &metadata));
        server.settle(&queue, json!({ "acks": [{ "lease_id": pulled["lease_id"] }] })).await;
    }
}

// [seed] Delays: a message's own comes before the batch's, which comes before the queue's; zero is a delay of its own,
// and a longer one than the queue's is honoured as it is.
#[tokio::test]
async fn the_nearest_delay_counts_and_zero_is_one() {
    let server = CloudflareServer::open().await;
    let queue = server.queue_with("orders", json!({ "delivery_delay": 60 })).await;
    server.consume(&queue, json!({ "type": "http_pull" })).await;
    server.push(&queue, "queue's", json!({})).await.result();
    server.push(&queue, "none", json!({ "delay_seconds": 0 })).await.result();
    server.push(&queue, "shorter", json!({ "delay_seconds": 10 })).await.result();
    server.push(&queue, "longer", json!({ "delay_seconds": 90 })).await.result();
    let text =
        |body: &str, delay: Value| json!({ "body": body, "content_type": "text", "delay_seconds": delay });
    let batch = json!({
        "delay_seconds": 30,
        "messages": [text("batch's", Value::Null), text("own", json!(20)), text("own none", json!(0))],
    });
    server.call("POST", &format!("{queue}/messages/batch"), batch).await.result();
    let batch = json!({ "delay_seconds": 0, "messages": [text("batch none", Value::Null)] });
    server.call("POST", &format!("{queue}/messages/batch"), batch).await.result();
    for (seconds, expected) in [
        (0, &["none", "own none", "batch none"][..]),
        (10, &["shorter"]),
        (10, &["own"]),
        (10, &["batch's"]),
        (30, &["queue's"]),
        (30, &["longer"]),
    ] {
        server.advance(seconds).await;
        let pull = json!({ "batch_size": 100, "visibility_timeout_ms": 3_600_000 });
        assert_eq!(bodies(&server.pull(&queue, pull).await), expected);
    }
}

// [seed] Messages may be delayed for twelve hours; today it is twenty-four.
#[tokio::test]
async fn delays_reach_as_far_as_the_service_allows() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    for seconds in [0, 43_200, 86_400] {
        server.push(&queue, "m", json!({ "delay_seconds": seconds })).await.result();
    }
    for delay in [json!(-1), json!(86_401), json!(1.5), json!("5"), json!([])] {
        server.push(&queue, "m", json!({ "delay_seconds": delay })).await.is_error(400, 10_203);
        let batch = json!({ "messages": [{ "body": 1 }], "delay_seconds": delay });
        server.call("POST", &format!("{queue}/messages/batch"), batch).await.is_error(400, 10_202);
    }
    assert_eq!(server.backlog(&queue).await, 3);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let path = format!("{queue}/messages/batch");
    let good = json!({ "body": "m", "content_type": "text" });
    let large = |bytes: usize| json!({ "body": "a".repeat(bytes), "content_type": "text" });
    for (messages, status, code) in [
        (json!([]), 400, 10_207),
        (json!([good, { "body": 7, "content_type": "text" }]), 400, 10_207),
        (json!([good, {}]), 400, 10_207),
        (json!([good, "m"]), 400, 10_207),
        (json!([good, ["m", "text"]]), 400, 10_207),
        (json!([good, { "body": 1, "content_type": "xml" }]), 400, 10_203),
        (json!([good, { "body": 1, "delay_seconds": -1 }]), 400, 10_203),
        (json!([good, large(128_001)]), 413, 10_204),
        (json!(vec![large(100_000); 3]), 413, 10_205),
        (json!(vec![good.clone(); 101]), 413, 10_206),
        (json!({}), 400, 10_207),
        (Value::Null, 400, 10_207),
    ] {
        server.call("POST", &path, json!({ "messages": messages })).await.is_error(status, code);
    }
    assert_eq!(server.backlog(&queue).await, 0);
    server.call("POST", &path, json!({ "messages": vec![good; 100] })).await.result();
    server.call("POST", &path, json!({ "messages": vec![large(128_000); 2] })).await.result();
    assert_eq!(server.backlog(&queue).await, 102);
}

#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    for (body, code) in [
        ("", 10_208),
        ("hello", 10_208),
        ("{\"body\":", 10_208),
        ("body=hello", 10_208),
        ("[]", 10_207),
        ("null", 10_207),
        ("{}", 10_207),
        (r#"{"body":1,"content_type":"text"}"#, 10_207),
        (r#"{"body":"!","content_type":"bytes"}"#, 10_207),
        (r#"{"body":1,"content_type":"v8"}"#, 10_203),
    ] {
        server.ask("POST", &format!("{queue}/messages"), body).await.is_error(400, code);
    }
    assert_eq!(server.backlog(&queue).await, 0);
}

#[tokio::test]
async fn messages_come_in_the_order_they_were_sent_as_many_as_asked_for() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    assert!(server.pull(&queue, json!({})).await.is_empty(), "an empty queue answers at once");
    for number in 0..7 {
        server.push(&queue, &number.to_string(), json!({})).await.result();
    }
    // The consumer's own batch size, then what the pull asks for.
    assert_eq!(bodies(&server.pull(&queue, json!({})).await), ["0", "1", "2", "3", "4"]);
    assert_eq!(bodies(&server.pull(&queue, json!({ "batch_size": 1 })).await), ["5"]);
    assert_eq!(server.bodies(&queue).await, ["6"]);
}

#[tokio::test]
async fn a_peek_changes_nothing_and_its_references_delete() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for body in ["a", "b", "c"] {
        server.push(&queue, body, json!({})).await.result();
    }
    let peek = async || {
        let seen = server.call("POST", &format!("{queue}/messages/peek"), json!({ "batch_size": 2 })).await;
        seen.result()["messages"].as_array().expect("a preview returns a list of messages").clone()
    };
    let seen = peek().await;
    assert_eq!(seen, peek().await);
    assert_eq!((bodies(&seen), &seen[0]["attempts"]), (vec!["a".to_owned(), "b".to_owned()], &json!(0)));
    assert!(seen[0].get("lease_id").is_none());
    let first = text(&seen[0], "ref");
    let purge = async |queue: &str, refs: Value| {
        server.call("POST", &format!("{queue}/messages/purge"), json!({ "refs": refs })).await.result()
    };
    assert_eq!(purge(&queue, json!([{ "ref": first }])).await, json!({ "errors": [], "warnings": {} }));
    let again = purge(&queue, json!([{ "ref": first }, { "ref": "nonsense" }])).await;
    assert_eq!(again["errors"].as_array().map(Vec::len), Some(1), "{again}");
    assert!(again["warnings"][&first].is_string(), "{again}");
    let other = server.queue("other").await;
    let elsewhere = purge(&other, json!([{ "ref": seen[1]["ref"] }])).await;
    assert_eq!(elsewhere["errors"].as_array().map(Vec::len), Some(1), "{elsewhere}");
    let settled = server.settle(&queue, json!({ "acks": [{ "lease_id": seen[1]["ref"] }] })).await;
    assert_eq!(settled["ackCount"], 0, "a reference is no lease");
    assert_eq!(server.bodies(&queue).await, ["b", "c"]);
}
