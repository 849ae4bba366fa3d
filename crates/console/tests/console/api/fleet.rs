//! What a node of a fleet shows of the others, and what may be asked of shards.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::fleet_rig::two;
use super::rig::Rig;

/// Three messages in the queue `two`, which node b keeps, and a look at them.
async fn busy(b: &Rig) {
    b.console.look().await;
    for _ in 0..3 {
        b.done("POST", "/queues/two/messages", r#"{"body":"x"}"#).await;
    }
    *b.clock.0.lock() += Duration::from_secs(5);
    b.console.look().await;
}

#[tokio::test]
async fn listing_shows_figures_and_rates_of_queues_that_another_node_keeps() {
    let (a, b, _) = two().await;
    busy(&b).await;
    let listed = a.get("/queues").await.body;
    assert_eq!(listed["silent"], json!([]));
    let row = &listed["queues"][1];
    assert_eq!(
        (&row["name"], &row["visible"], &row["sent_per_second"]),
        (&json!("two"), &json!(3), &json!(0.6))
    );
    assert_eq!(row["body_bytes"], 3);
    assert!(row["oldest_age_seconds"].is_number(), "{row}");
    let samples = a.get("/queues/two/samples").await.body;
    assert_eq!(samples, b.get("/queues/two/samples").await.body);
    assert_eq!(samples["samples"][0]["sent"], 3, "{samples}");
}

#[tokio::test]
async fn node_that_does_not_answer_leaves_its_rows_without_figures_and_the_reply_names_it() {
    let (a, b, shared) = two().await;
    busy(&b).await;
    shared.is_cut.store(true, Ordering::Release);
    let listed = a.get("/queues").await.body;
    assert_eq!(listed["silent"], json!(["b"]));
    let names: Vec<&Value> =
        listed["queues"].as_array().into_iter().flatten().map(|row| &row["name"]).collect();
    assert_eq!(names, ["one", "two"]);
    for name in ["visible", "in_flight", "delayed", "body_bytes", "oldest_age_seconds", "sent_per_second"] {
        assert!(listed["queues"][1][name].is_null(), "{name}");
    }
    assert_eq!(listed["queues"][0]["visible"], 0, "its own figures are shown");
    let samples = a.get("/queues/two/samples").await;
    assert_eq!((samples.status, samples.code()), (503, "unavailable"));
}

#[tokio::test]
async fn watchers_share_what_another_node_answered_for_a_second() {
    let (a, b, shared) = two().await;
    busy(&b).await;
    for _ in 0..10 {
        a.get("/queues").await;
    }
    assert_eq!(shared.asked.load(Ordering::Acquire), 1);
    *a.clock.0.lock() += Duration::from_millis(999);
    a.get("/queues").await;
    assert_eq!(shared.asked.load(Ordering::Acquire), 1);
    *a.clock.0.lock() += Duration::from_millis(1);
    b.done("POST", "/queues/two/messages", r#"{"body":"x"}"#).await;
    assert_eq!(a.get("/queues").await.body["queues"][1]["visible"], 4);
    assert_eq!(shared.asked.load(Ordering::Acquire), 2);
}

#[tokio::test]
async fn metrics_are_of_the_queues_and_shards_that_the_node_keeps() {
    let (a, b, _) = two().await;
    busy(&b).await;
    let metrics = a.metrics().await;
    assert!(metrics.contains(r#"queue="one""#) && !metrics.contains(r#"queue="two""#), "{metrics}");
    for line in [
        "kew_shard_serving{shard=\"1\",node=\"a\"} 1\n",
        "kew_shard_epoch{shard=\"1\"} 4\n",
        "# TYPE kew_shard_append_seconds summary\n",
        "kew_shard_append_seconds{shard=\"1\",quantile=\"0.99\"} 0.02025\n",
        "kew_fleet_nodes 2\n",
        "kew_fleet_shards_without_owner 0\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("shard=\"0\""), "{metrics}");
}

#[tokio::test]
async fn shards_and_nodes_are_shown_as_their_owners_tell_of_them() {
    let (a, _b, shared) = two().await;
    let shard = |number: u64, owner: &str, state: &str| {
        json!({
            "shard": number, "database": 1 + number, "moving_to": null, "owner": owner, "epoch": 4, "state": state, "append_ms_p50": 1.5,
            "append_ms_p99": 20.25, "taken_over_at_ms": 77, "reason": null,
        })
    };
    let shards = a.get("/shards").await.body;
    let rows = [shard(0, "b", "serving"), shard(1, "a", "serving")];
    assert_eq!(shards, json!({ "shards": rows, "databases": 2 }));
    let nodes = a.get("/nodes").await.body;
    let node = json!({
        "node": "b", "id": "b-id", "address": "b:9330", "state": "serving", "shards": [0],
        "heartbeat_age_seconds": 0.25, "version": "7",
    });
    assert_eq!(nodes["nodes"][1], node);
    *a.clock.0.lock() += Duration::from_secs(1);
    shared.is_cut.store(true, Ordering::Release);
    let shard = a.get("/shards").await.body["shards"][0].clone();
    assert_eq!((&shard["state"], &shard["append_ms_p50"]), (&json!("unreachable"), &Value::Null));
    let node = a.get("/nodes").await.body["nodes"][1].clone();
    assert_eq!((&node["state"], &node["heartbeat_age_seconds"]), (&json!("unreachable"), &Value::Null));
    shared.own(0, None);
    let shard = a.get("/shards").await.body["shards"][0].clone();
    assert_eq!((&shard["state"], &shard["owner"]), (&json!("waiting"), &Value::Null));
}

#[tokio::test]
async fn shard_is_handed_over_and_what_cannot_be_is_refused_with_the_reason() {
    let (a, _b, shared) = two().await;
    let done = a.done("POST", "/shards/0/hand-over", r#"{"to":"a"}"#).await;
    assert_eq!(done, json!({ "shard": 0, "from": "b", "to": "a", "done": true }));
    assert_eq!(a.get("/shards").await.body["shards"][0]["owner"], "a");
    let again = a.done("POST", "/shards/0/hand-over", r#"{"to":"a-id"}"#).await;
    assert_eq!((&again["from"], &again["done"]), (&json!("a"), &json!(true)), "it is there already");
    let emptiest = a.done("POST", "/shards/0/hand-over", "{}").await;
    assert_eq!(emptiest["to"], "b");
    let refused = async |path: &str, body: &str| {
        let refused = a.post(path, body).await;
        (refused.status, refused.code().to_owned())
    };
    assert_eq!(refused("/shards/2/hand-over", "{}").await, (404, "shard_not_found".to_owned()));
    assert_eq!(refused("/shards/0/hand-over", r#"{"to":"c"}"#).await, (409, "node_not_found".to_owned()));
    shared.is_leaving.store(true, Ordering::Release);
    assert_eq!(refused("/shards/1/hand-over", r#"{"to":"b"}"#).await, (409, "node_is_leaving".to_owned()));
    assert_eq!(refused("/shards/1/hand-over", "{}").await, (409, "no_other_node".to_owned()));
    shared.own(1, None);
    assert_eq!(refused("/shards/1/hand-over", "{}").await, (409, "shard_is_moving".to_owned()));
    let audited = a.audited();
    assert!(audited.contains(&"open handOverShard 0 ok".to_owned()), "{audited:?}");
    assert!(audited.contains(&"open handOverShard 1 shard_is_moving".to_owned()), "{audited:?}");
}

#[tokio::test]
async fn shard_is_moved_to_another_database_and_what_cannot_be_is_refused_with_the_reason() {
    let (a, _b, shared) = two().await;
    let done = a.done("POST", "/shards/0/move", r#"{"database":2}"#).await;
    assert_eq!(done, json!({ "shard": 0, "from": 1, "to": 2, "done": true }));
    assert_eq!(a.get("/shards").await.body["shards"][0]["database"], 2);
    let again = a.done("POST", "/shards/0/move", r#"{"database":2}"#).await;
    assert_eq!((&again["from"], &again["done"]), (&json!(2), &json!(true)), "it is there already");
    shared.copies_slowly.store(true, Ordering::Release);
    let begun = a.done("POST", "/shards/1/move", r#"{"database":1}"#).await;
    assert_eq!(begun, json!({ "shard": 1, "from": 2, "to": 1, "done": false }));
    let row = a.get("/shards").await.body["shards"][1].clone();
    assert_eq!((&row["database"], &row["moving_to"]), (&json!(2), &json!(1)));
    let ended = a.done("POST", "/shards/1/move", r#"{"database":2}"#).await;
    assert_eq!(ended, json!({ "shard": 1, "from": 2, "to": 2, "done": true }));
    let refused = async |path: &str, body: &str| {
        let refused = a.post(path, body).await;
        (refused.status, refused.code().to_owned())
    };
    assert_eq!(refused("/shards/2/move", r#"{"database":1}"#).await, (404, "shard_not_found".to_owned()));
    assert_eq!(refused("/shards/0/move", r#"{"database":3}"#).await, (409, "no_other_database".to_owned()));
    for body in ["{}", r#"{"database":0}"#, r#"{"database":"two"}"#] {
        assert_eq!(refused("/shards/0/move", body).await.0, 400, "{body}");
    }
    assert!(a.audited().contains(&"open moveShard 0 ok".to_owned()), "{:?}", a.audited());
}
