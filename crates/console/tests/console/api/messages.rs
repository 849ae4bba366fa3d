//! Messages: sent with all that they may carry, received, settled.

use serde_json::{Value, json};

use super::rig::{self, Rig};

async fn receive(rig: &Rig, body: &str) -> Vec<Value> {
    let answer = rig.done("POST", "/queues/orders/receive", body).await;
    answer["messages"].as_array().cloned().unwrap_or_default()
}

async fn with_queue() -> Rig {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.done("POST", "/queues", r#"{"name":"orders.fifo","settings":{"content_deduplication":true}}"#).await;
    rig
}

#[tokio::test]
async fn a_message_is_sent_received_and_deleted() {
    let rig = with_queue().await;
    let sent = rig.change("POST", "/queues/orders/messages", r#"{"body":"hé\u0000<b>"}"#).await;
    assert_eq!((sent.status, &sent.body["duplicate"]), (201, &false.into()));
    let found = receive(&rig, "{}").await;
    let [message] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((&message["id"], &message["body"]), (&sent.body["id"], &"hé\u{0}<b>".into()));
    assert_eq!((&message["attempts"], &message["content_type"]), (&1.into(), &"text".into()));
    assert_eq!(receive(&rig, "").await, Vec::<Value>::new(), "it is leased");
    let settle = json!({ "delete": [message["receipt"]] }).to_string();
    let settled = rig.done("POST", "/queues/orders/settle", &settle).await;
    assert_eq!(settled, json!({ "deleted": 1, "released": 0, "failed": [] }));
    let again = rig.done("POST", "/queues/orders/settle", &settle).await;
    assert_eq!(again["failed"][0]["code"], "message_not_found");
    let shown = rig.get("/queues/orders").await.body;
    assert_eq!([&shown["visible"], &shown["in_flight"], &shown["delayed"]], [0, 0, 0]);
}

#[tokio::test]
async fn a_released_message_is_there_again_at_once() {
    let rig = with_queue().await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    let found = receive(&rig, r#"{"max":100,"visibility_seconds":600}"#).await;
    let release = json!({ "release": [found[0]["receipt"]] }).to_string();
    let settled = rig.done("POST", "/queues/orders/settle", &release).await;
    assert_eq!(settled, json!({ "deleted": 0, "released": 1, "failed": [] }));
    let again = receive(&rig, "").await;
    assert_eq!(again[0]["attempts"], 2);
    let stale = rig.done("POST", "/queues/orders/settle", &release).await;
    assert_eq!(stale["failed"][0]["code"], "receipt_stale");
    let garbage = rig.post("/queues/orders/settle", r#"{"delete":["garbage"]}"#).await;
    assert_eq!((garbage.status, garbage.code()), (400, "bad_receipt"));
}

#[tokio::test]
async fn a_receive_that_waits_is_answered_by_the_next_send() {
    let rig = with_queue().await;
    let waiting = rig.post("/queues/orders/receive", r#"{"wait_seconds":20}"#);
    let sending = async {
        tokio::task::yield_now().await;
        rig.done("POST", "/queues/orders/messages", r#"{"body":"late"}"#).await
    };
    let (found, _) = tokio::join!(waiting, sending);
    assert_eq!(found.body["messages"][0]["body"], "late");
}

#[tokio::test]
async fn content_types_and_delays_are_kept() {
    let rig = with_queue().await;
    for body in [
        r#"{"body":"{\"a\":1}","content_type":"json"}"#,
        r#"{"body_base64":"AP8=","content_type":"bytes"}"#,
        r#"{"body":"later","delay_seconds":60}"#,
    ] {
        rig.done("POST", "/queues/orders/messages", body).await;
    }
    let found = receive(&rig, r#"{"max":9}"#).await;
    assert_eq!(found.len(), 2);
    assert_eq!((&found[0]["body"], &found[0]["content_type"]), (&"{\"a\":1}".into(), &"json".into()));
    assert_eq!((&found[1]["body_base64"], &found[1]["content_type"]), (&"AP8=".into(), &"bytes".into()));
    assert_eq!(rig.get("/queues/orders").await.body["delayed"], 1);
}

#[tokio::test]
async fn a_body_may_be_empty_where_a_dialect_takes_such() {
    let rig = with_queue().await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":""}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body_base64":"","content_type":"bytes"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"","attributes":{"a":"1"}}"#).await;
    let found = receive(&rig, r#"{"max":9}"#).await;
    assert_eq!((&found[0]["body"], &found[1]["body_base64"]), (&"".into(), &"".into()));
    assert_eq!((&found[2]["body"], &found[2]["attributes"]["a"]["value"]), (&"".into(), &"1".into()));
    let fifo = rig.post("/queues/orders.fifo/messages", r#"{"body":"","group":"g"}"#).await;
    assert_eq!((fifo.status, fifo.code()), (400, "bad_request"));
}

#[tokio::test]
async fn fifo_messages_need_a_group_and_are_deduplicated() {
    let rig = with_queue().await;
    let send = async |body: Value| rig.post("/queues/orders.fifo/messages", &body.to_string()).await;
    let missing = send(json!({ "body": "x" })).await;
    assert_eq!((missing.status, missing.code()), (400, "group_missing"));
    let first = send(json!({ "body": "x", "group": "g", "deduplication_id": "d" })).await;
    let again = send(json!({ "body": "y", "group": "g", "deduplication_id": "d", "delay_seconds": 0 })).await;
    assert_eq!((&again.body["id"], &again.body["duplicate"]), (&first.body["id"], &true.into()));
    let (one, other) =
        (send(json!({ "body": "z", "group": "g" })).await, send(json!({ "body": "z", "group": "g" })).await);
    assert_eq!(one.body["id"], other.body["id"], "the body's hash stands in for an id");
    let late = send(json!({ "body": "w", "group": "g", "delay_seconds": 5 })).await;
    assert_eq!((late.status, late.code()), (400, "delay_not_allowed"));
    let standard = rig.post("/queues/orders/messages", r#"{"body":"x","deduplication_id":"d"}"#).await;
    assert_eq!((standard.status, standard.code()), (400, "deduplication_not_allowed"));
}

#[tokio::test]
async fn what_no_queue_takes_is_refused() {
    let rig = with_queue().await;
    rig.done("PATCH", "/queues/orders", r#"{"settings":{"body_bytes_max":1024}}"#).await;
    for (body, status) in [
        (json!({}), 400),
        (json!({ "body": "", "content_type": "json" }), 400),
        (json!({ "body_base64": "", "content_type": "v8" }), 400),
        (json!({ "body": "x", "body_base64": "eA==" }), 400),
        (json!({ "body_base64": "AP8=" }), 400),
        (json!({ "body_base64": "?", "content_type": "bytes" }), 400),
        (json!({ "body": "{", "content_type": "json" }), 400),
        (json!({ "body": "x", "content_type": "xml" }), 400),
        (json!({ "body": "x", "group": "a b" }), 400),
        (json!({ "body": "x", "group": "" }), 400),
        (json!({ "body": "x", "delay_seconds": 86_401 }), 400),
        (json!({ "body": "x", "attributes": { "a": 1 } }), 400),
        (json!({ "body": "x", "attributes": { "a": { "type": "String" } } }), 400),
        (json!({ "body": "x", "attributes": { "a": { "type": "Binary", "value": "?" } } }), 400),
        (json!({ "body": "x", "attributes": { "forbidden": "1" } }), 400),
        (json!({ "body": "1", "content_type": "json", "attributes": { "a": "1" } }), 400),
        (json!({ "body": "x".repeat(1_025) }), 413),
        (json!({ "body": "x".repeat(1_020), "attributes": { "a": "1" } }), 413),
    ] {
        let refused = rig.post("/queues/orders/messages", &body.to_string()).await;
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 0);
    let large = json!({ "body": "x".repeat(1_024) }).to_string();
    assert_eq!(rig.post("/queues/orders/messages", &large).await.status, 201);
}
