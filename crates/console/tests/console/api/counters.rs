//! Counters of queues in the metrics, and messages that left by rule.

use std::time::Duration;

use kew_console::News;
use serde_json::{Value, json};

use super::rig::{self, Parts, Rig};

/// The value of a counter of a queue; `None` where it has no series.
async fn counter(rig: &Rig, name: &str, queue: &str, reason: &str) -> Option<u64> {
    let (account, region) = if queue == "*" { ("*", "*") } else { ("000000000000", "us-east-1") };
    let reason = if reason.is_empty() { String::new() } else { format!(",reason=\"{reason}\"") };
    let start = format!(
        "kew_messages_{name}_total{{account=\"{account}\",region=\"{region}\",queue=\"{queue}\"{reason}}} "
    );
    let metrics = rig.metrics().await;
    metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
}

async fn send(rig: &Rig, queue: &str, messages: usize) {
    for _ in 0..messages {
        rig.done("POST", &format!("/queues/{queue}/messages"), r#"{"body":"x"}"#).await;
    }
}

#[tokio::test]
async fn what_happens_in_a_queue_is_counted_under_its_name() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    let orders = r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#;
    rig.done("POST", "/queues", orders).await;
    send(&rig, "orders", 3).await;
    let found = rig.done("POST", "/queues/orders/receive", r#"{"max":2}"#).await;
    let receipts: Vec<&Value> =
        found["messages"].as_array().into_iter().flatten().map(|message| &message["receipt"]).collect();
    rig.done("POST", "/queues/orders/settle", &json!({ "delete": [receipts[0]] }).to_string()).await;
    kew_testing::advance(&rig.engine, Duration::from_secs(31)).await;
    for (name, queue, reason, expected) in [
        ("sent", "orders", "", 3),
        ("leased", "orders", "", 2),
        ("acked", "orders", "", 1),
        ("expired", "orders", "", 0),
        ("deduplicated", "orders", "", 0),
        ("redelivered", "orders", "lease_expired", 0),
        ("redelivered", "orders", "released", 0),
        ("dead_lettered", "orders", "attempts_exhausted", 1),
        ("dead_lettered", "orders", "dropped", 0),
        ("sent", "dead", "", 0),
        ("dead_lettered", "dead", "attempts_exhausted", 0),
    ] {
        assert_eq!(counter(&rig, name, queue, reason).await, Some(expected), "{name} {queue} {reason}");
    }
    assert_eq!(counter(&rig, "sent", "*", "").await, None, "every queue has a series");
}

#[tokio::test]
async fn beyond_the_bound_queues_share_a_series_and_none_of_the_others_falls() {
    let rig = rig::rig_of(Parts { metrics_queues: 1, ..Parts::default() }).await;
    rig.done("POST", "/queues", r#"{"name":"m"}"#).await;
    send(&rig, "m", 2).await;
    rig.console.look().await;
    // Before it by name, but the series is taken.
    rig.done("POST", "/queues", r#"{"name":"a"}"#).await;
    send(&rig, "a", 5).await;
    assert_eq!(counter(&rig, "sent", "m", "").await, Some(2));
    assert_eq!(counter(&rig, "sent", "a", "").await, None);
    assert_eq!(counter(&rig, "sent", "*", "").await, Some(5));
    rig.done("DELETE", "/queues/m", "").await;
    assert_eq!(counter(&rig, "sent", "m", "").await, None);
    assert_eq!(counter(&rig, "sent", "a", "").await, Some(0), "the series is free");
    send(&rig, "a", 1).await;
    assert_eq!(counter(&rig, "sent", "a", "").await, Some(1));
    assert_eq!(counter(&rig, "sent", "*", "").await, Some(5), "what was counted there stays counted there");
}

#[tokio::test]
async fn a_message_that_left_by_rule_is_told_with_its_queue_and_id() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    // What is due at one instant happens in the order in which queues were made.
    let dropping = r#"{"name":"dropping","settings":{"drop_exhausted":true,"max_attempts":1}}"#;
    rig.done("POST", "/queues", dropping).await;
    let orders = r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#;
    rig.done("POST", "/queues", orders).await;
    let mut ids = Vec::new();
    for queue in ["dropping", "orders"] {
        let sent = rig.done("POST", &format!("/queues/{queue}/messages"), r#"{"body":"x"}"#).await;
        ids.push(sent["id"].as_str().unwrap_or_default().to_owned());
        rig.done("POST", &format!("/queues/{queue}/receive"), "").await;
    }
    send(&rig, "orders", 12).await;
    for _ in 0..2 {
        rig.done("POST", "/queues/orders/receive", r#"{"max":10}"#).await;
    }
    kew_testing::advance(&rig.engine, Duration::from_secs(31)).await;
    rig.console.look().await;
    let news: Vec<News> = rig.news.lock().drain(..).collect();
    let told = |queue: &str, to: Option<&str>, id: &str| {
        let is_it = |news: &News| {
            matches!(news, News::Departed { queue: from, to: place, id: Some(known) }
                if from == queue && place.as_deref() == to && known.to_string() == id)
        };
        news.iter().any(is_it)
    };
    assert!(told("dropping", None, &ids[0]) && told("orders", Some("dead"), &ids[1]), "{news:?}");
    let one_by_one = news.iter().filter(|news| matches!(news, News::Departed { .. })).count();
    assert_eq!(one_by_one, 10);
    let of_others = |news: &News| match news {
        News::MoreDeparted { queue, messages, ids } => {
            Some((queue.clone(), *messages, ids.iter().collect::<std::collections::BTreeSet<_>>().len()))
        }
        _ => None,
    };
    let others: Vec<_> = news.iter().filter_map(of_others).collect();
    assert_eq!(others, [(Some("orders".to_owned()), 4, 4)], "the others are told by number and ids");
    rig.console.look().await;
    assert_eq!(*rig.news.lock(), []);
}
