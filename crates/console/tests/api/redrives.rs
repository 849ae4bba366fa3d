//! Redrives: counted, begun, watched, cancelled.

use serde_json::{Value, json};

use super::rig::{self, Rig};

/// Two messages that were dead-lettered from `orders`.
async fn with_dead_letters() -> Rig {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    rig.done(
        "POST",
        "/queues",
        r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#,
    )
    .await;
    for body in ["a", "b"] {
        rig.done("POST", "/queues/orders/messages", &json!({ "body": body }).to_string()).await;
    }
    let found = rig.done("POST", "/queues/orders/receive", r#"{"max":2}"#).await;
    let receipts: Vec<&Value> = found["messages"]
        .as_array()
        .expect("messages is an array")
        .iter()
        .map(|one| &one["receipt"])
        .collect();
    rig.done("POST", "/queues/orders/settle", &json!({ "release": receipts }).to_string()).await;
    assert_eq!(rig.get("/queues/dead").await.body["visible"], 2);
    rig
}

/// The task when it runs no more.
async fn ended(rig: &Rig, task: &Value) -> Value {
    for _ in 0..1_000 {
        let shown = rig.get(&format!("/redrives/{}", task.as_str().expect("a task is a text"))).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        if shown.body["state"] != "running" {
            return shown.body;
        }
        tokio::task::yield_now().await;
    }
    panic!("the task does not end");
}

#[tokio::test]
async fn dead_letters_return_to_where_they_came_from_after_a_dry_run() {
    let rig = with_dead_letters().await;
    let counted = rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","dry_run":true}"#).await;
    assert_eq!(counted, json!({ "matched": 2, "task": null }));
    assert_eq!(rig.get("/queues/dead").await.body["visible"], 2);
    let begun = rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin"}"#).await;
    assert_eq!(begun["matched"], 2);
    let ended = ended(&rig, &begun["task"]).await;
    assert_eq!((&ended["state"], &ended["moved"], &ended["left"]), (&"done".into(), &2.into(), &0.into()));
    assert_eq!((&ended["source"], &ended["to"]), (&"dead".into(), &"origin".into()));
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 2);
}

#[tokio::test]
async fn a_slow_redrive_is_watched_and_cancelled() {
    let rig = with_dead_letters().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let begun = rig.done("POST", "/queues/dead/redrive", r#"{"to":"other","per_second":1}"#).await;
    let path = format!("/redrives/{}", begun["task"].as_str().expect("a task is a text"));
    let second = rig.post("/queues/dead/redrive", "{}").await;
    assert_eq!((second.status, second.code()), (409, "task_running"));
    let cancelled = rig.done("POST", &format!("{path}/cancel"), "").await;
    assert_eq!(cancelled["state"], "cancelled");
    let (moved, left) = (cancelled["moved"].as_u64(), cancelled["left"].as_u64());
    assert_eq!(moved.zip(left).map(|(moved, left)| moved + left), Some(2));
    let again = rig.post(&format!("{path}/cancel"), "").await;
    assert_eq!((again.status, again.code()), (404, "task_not_found"));
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused() {
    let rig = with_dead_letters().await;
    rig.done("POST", "/queues", r#"{"name":"o.fifo"}"#).await;
    for (body, status) in [
        (r#"{"to":"nowhere"}"#, 404),
        (r#"{"to":"dead"}"#, 400),
        (r#"{"to":"o.fifo"}"#, 409),
        (r#"{"per_second":0}"#, 400),
        (r#"{"filter":{}}"#, 400),
    ] {
        assert_eq!(rig.post("/queues/dead/redrive", body).await.status, status, "{body}");
    }
    for task in ["999", "x", "-1", "99999999999999999999999"] {
        assert_eq!(rig.get(&format!("/redrives/{task}")).await.code(), "task_not_found", "{task}");
    }
}
