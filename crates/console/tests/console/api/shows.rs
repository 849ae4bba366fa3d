//! What the server shows of itself, and that every reply is as the OpenAPI document says.

use serde_json::{Value, json};

use super::rig::{self, Parts, Rig};

#[tokio::test]
async fn store_shards_and_settings_are_shown() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    let store = rig.get("/store").await.body;
    assert_eq!((&store["kind"], &store["queues"], &store["sent"]), (&"memory".into(), &1.into(), &1.into()));
    let shard = rig.get("/shards").await.body["shards"][0].clone();
    assert_eq!(
        (&shard["owner"], &shard["epoch"], &shard["state"]),
        (&"here".into(), &3.into(), &"serving".into())
    );
    let nodes = rig.get("/nodes").await.body;
    let node = json!({
        "node": "here", "id": null, "address": null, "state": "serving", "shards": [0], "heartbeat_age_seconds": 0, "version": "0",
    });
    assert_eq!(nodes, json!({ "nodes": [node] }));
    let refused = rig.post("/shards/0/hand-over", "{}").await;
    assert_eq!((refused.status, refused.code()), (409, "no_fleet"));
    for unknown in ["1", "x"] {
        assert_eq!(rig.post(&format!("/shards/{unknown}/hand-over"), "{}").await.status, 404);
    }
    let config = rig.get("/config").await.body;
    assert_eq!(config["settings"][0]["value"], "********");
}

#[tokio::test]
async fn the_audit_log_is_paged_newest_first() {
    let rig = rig::open().await;
    for name in ["a", "b", "c"] {
        rig.done("POST", "/queues", &json!({ "name": name }).to_string()).await;
    }
    let targets = async |query: &str| {
        let page = rig.get(&format!("/audit{query}")).await.body;
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        let targets: Vec<Value> = entries.iter().map(|entry| entry["target"].clone()).collect();
        (targets, page["next"].clone())
    };
    assert_eq!(targets("").await, (vec!["c".into(), "b".into(), "a".into()], Value::Null));
    assert_eq!(targets("?limit=2").await, (vec!["c".into(), "b".into()], "2".into()));
    assert_eq!(targets("?limit=2&cursor=2").await, (vec!["a".into()], Value::Null));
    assert_eq!(rig.get("/audit?cursor=x").await.status, 400);
}

#[tokio::test]
async fn following_the_clock_is_no_change() {
    let rig = rig::open().await;
    rig.done("POST", "/clock", r#"{"advance_ms":5}"#).await;
    rig.done("POST", "/clock", r#"{"follow":{"id":"f","change":0}}"#).await;
    assert_eq!(rig.audited(), ["open moveClock  ok"]);
}

#[tokio::test]
async fn a_queue_s_rates_and_samples_come_from_looks_in_between() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.console.look().await;
    for _ in 0..10 {
        rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    }
    let found = rig.done("POST", "/queues/orders/receive", r#"{"max":5}"#).await;
    let receipts: Vec<&Value> =
        found["messages"].as_array().into_iter().flatten().map(|message| &message["receipt"]).collect();
    rig.done("POST", "/queues/orders/settle", &json!({ "delete": receipts }).to_string()).await;
    *rig.clock.0.lock() = std::time::Duration::from_secs(5);
    kew_testing::advance(&rig.engine, std::time::Duration::from_secs(5)).await;
    rig.console.look().await;
    for shown in [rig.get("/queues/orders").await.body, rig.get("/queues").await.body["queues"][0].clone()] {
        let rates = ["sent", "leased", "acked"].map(|name| shown[format!("{name}_per_second")].clone());
        assert_eq!(rates, [2.0, 1.0, 1.0], "{shown}");
    }
    let samples = rig.get("/queues/orders/samples?seconds=60&step=5").await.body;
    let expected = json!({
        "at_ms": rig.engine.now().0, "visible": 5, "in_flight": 0, "delayed": 0, "oldest_age_seconds": 5,
        "sent": 10, "leased": 5, "acked": 5, "p50_ms": 0.0, "p99_ms": 0.0,
    });
    assert_eq!(samples, json!({ "step": 5, "samples": [expected] }));
    assert_eq!(rig.get("/queues/orders/samples?seconds=4").await.status, 400);
    assert_eq!(rig.get("/queues/nowhere/samples").await.status, 404);
}

/// Whether a value is as a schema of ours says.
fn fits(value: &Value, schema: &Value, place: &str) {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{place} has no type"),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
    };
    let is_right = kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
    assert!(is_right, "{place} is {value}, not {kinds:?}");
    if let (Value::Object(members), Some(properties)) = (value, schema["properties"].as_object()) {
        for (name, member) in members {
            let inner =
                properties.get(name).unwrap_or_else(|| panic!("{place}.{name} is not in the document"));
            fits(member, inner, &format!("{place}.{name}"));
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(members.contains_key(required), "{place} has no {required}");
        }
    }
    if let Value::Array(entries) = value {
        entries.iter().for_each(|entry| fits(entry, &schema["items"], &format!("{place}[]")));
    }
}

/// A reply of the operation, compared with the document.
async fn checked(rig: &Rig, document: &Value, method: &str, template: &str, path: &str, body: &str) -> Value {
    let answer = rig.change(method, path, body).await;
    let operation = &document["paths"][template][method.to_lowercase()];
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{method} {template}: {} is not in the document", answer.status);
    let mut schema = response["content"]["application/json"]["schema"].clone();
    if schema.get("$ref").is_some() {
        schema = document["components"]["schemas"]["Error"].clone();
    }
    fits(&answer.body, &schema, &format!("{method} {template}"));
    answer.body
}

#[tokio::test]
async fn every_reply_is_as_the_document_says() {
    let rig = rig::rig_of(Parts { alarms: vec![super::alarms::many_visible(0)], ..Parts::default() }).await;
    let document = rig.get("/openapi.json").await.body;
    let ask = async |method: &str, template: &str, path: &str, body: &str| {
        checked(&rig, &document, method, template, path, body).await
    };
    ask("POST", "/queues", "/queues", r#"{"name":"dead"}"#).await;
    ask("POST", "/queues", "/queues", r#"{"name":"o.fifo"}"#).await;
    let orders = r#"{"name":"orders","settings":{"dead_letters_to":"dead"}}"#;
    ask("POST", "/queues", "/queues", orders).await;
    ask("POST", "/queues", "/queues", orders).await;
    ask("POST", "/queues", "/queues", r#"{"name":"orders","settings":{"delay_seconds":1}}"#).await;
    ask("GET", "/queues", "/queues", "").await;
    ask("GET", "/queues/{q}/samples", "/queues/orders/samples", "").await;
    ask("GET", "/queues/{q}", "/queues/o.fifo", "").await;
    ask("GET", "/queues/{q}", "/queues/nowhere", "").await;
    ask("PATCH", "/queues/{q}", "/queues/orders", r#"{"settings":{"delay_seconds":0}}"#).await;
    ask("POST", "/queues/{q}/messages", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    ask("GET", "/queues/{q}/messages", "/queues/orders/messages", "").await;
    let found = ask("POST", "/queues/{q}/receive", "/queues/orders/receive", "").await;
    ask("GET", "/queues/{q}/messages", "/queues/orders/messages?state=in_flight", "").await;
    let id = found["messages"][0]["id"].as_str().expect("an id is a text").to_owned();
    ask("GET", "/queues/{q}/messages/{id}", &format!("/queues/orders/messages/{id}"), "").await;
    for (act, body) in [("extend", r#"{"seconds":60}"#), ("release", ""), ("release", ""), ("promote", "")] {
        let template = format!("/queues/{{q}}/messages/{{id}}/{act}");
        ask("POST", &template, &format!("/queues/orders/messages/{id}/{act}"), body).await;
    }
    for act in ["pause", "resume"] {
        ask("POST", &format!("/queues/{{q}}/{act}"), &format!("/queues/orders/{act}"), "").await;
    }
    let grouped = r#"{"body":"x","group":"g","deduplication_id":"d"}"#;
    ask("POST", "/queues/{q}/messages", "/queues/o.fifo/messages", grouped).await;
    ask("GET", "/queues/{q}/groups", "/queues/o.fifo/groups", "").await;
    ask("GET", "/queues/{q}/deduplication", "/queues/o.fifo/deduplication?id=d", "").await;
    let nowhere = "/messages/00000000000000000000000000000000";
    ask("GET", "/messages/{id}", nowhere, "").await;
    let settle = json!({ "release": [found["messages"][0]["receipt"], found["messages"][0]["receipt"]] });
    ask("POST", "/queues/{q}/settle", "/queues/orders/settle", &settle.to_string()).await;
    let moved =
        ask("POST", "/queues/{q}/redrive", "/queues/orders/redrive", r#"{"to":"dead","per_second":1}"#).await;
    let task = moved["task"].as_str().expect("a task is a text").to_owned();
    ask("GET", "/redrives/{task}", &format!("/redrives/{task}"), "").await;
    ask("POST", "/redrives/{task}/cancel", &format!("/redrives/{task}/cancel"), "").await;
    ask("POST", "/queues/{q}/purge", "/queues/orders/purge", "").await;
    ask("GET", "/messages/{id}", &format!("/messages/{id}"), "").await;
    ask("POST", "/queues/{q}/purge", "/queues/orders/purge", r#"{"confirm":"orders"}"#).await;
    ask("GET", "/messages/{id}", &format!("/messages/{id}"), "").await;
    ask("DELETE", "/queues/{q}", "/queues/orders", "").await;
    rig.console.look().await;
    for path in [
        "/push/attempts",
        "/store",
        "/shards",
        "/nodes",
        "/alarms",
        "/config",
        "/audit",
        "/session",
        "/clock",
        "/openapi.json",
    ] {
        ask("GET", path, path, "").await;
    }
    ask("POST", "/store/backup", "/store/backup", r#"{"to":"/b"}"#).await;
    ask("GET", "/store/backups/{task}", "/store/backups/1", "").await;
    ask("POST", "/session", "/session", r#"{"user":"anna","password":"x"}"#).await;
    ask("DELETE", "/session", "/session", "").await;
    ask("POST", "/clock", "/clock", r#"{"advance_ms":1}"#).await;
    ask("POST", "/clock", "/clock", r#"{"follow":{"id":"f","change":0}}"#).await;
    ask("POST", "/clock/confirm", "/clock/confirm", "").await;
}

#[tokio::test]
async fn what_the_store_holds_is_shown_only_while_the_node_may_answer_for_it() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    rig.store.set_away(true);
    let of_store =
        ["/queues", "/queues/orders", "/queues/orders/messages", "/store", "/queues/orders/samples"];
    for path in of_store {
        let answer = rig.get(path).await;
        assert_eq!((answer.status, answer.code()), (503, "unavailable"), "{path}: {}", answer.body);
    }
    // Whether it was done is not known to the client.
    let sent = rig.post("/queues/orders/messages", r#"{"body":"y"}"#).await;
    assert_eq!((sent.status, sent.code()), (503, "unavailable"));
    assert_eq!(rig.audited().last().map(String::as_str), Some("open sendMessage orders unavailable"));
    assert_eq!(
        rig.get("/queues/nowhere").await.status,
        503,
        "that it is not there is known to the owner alone"
    );
    for path in ["/shards", "/nodes", "/config", "/audit", "/alarms", "/session", "/openapi.json"] {
        assert_eq!(rig.get(path).await.status, 200, "{path} is of the node itself");
    }
    rig.store.set_away(false);
    assert_eq!(rig.get("/queues").await.status, 200);
}
