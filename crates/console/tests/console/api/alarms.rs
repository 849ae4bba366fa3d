//! Alarms, from the looks to the API and the metrics.

use std::time::Duration;

use kew_console::{AlarmMetric, AlarmRule, News};
use serde_json::{Value, json};

use super::rig::{self, Parts, Rig};

fn rule(name: &str, queue: &str, metric: AlarmMetric, above: f64) -> AlarmRule {
    AlarmRule {
        name: name.into(),
        queue: queue.into(),
        metric,
        above,
        lasting: Duration::from_secs(10),
        webhook: None,
    }
}

/// A rule of all queues that is broken by more than this number of visible messages.
pub fn many_visible(above: u32) -> AlarmRule {
    rule("many", "*", AlarmMetric::Visible, above.into())
}

async fn with(alarms: Vec<AlarmRule>) -> Rig {
    rig::rig_of(Parts { alarms, ..Parts::default() }).await
}

/// Looks again after this time.
async fn look_after(rig: &Rig, seconds: u64) {
    kew_testing::advance(&rig.engine, Duration::from_secs(seconds)).await;
    rig.console.look().await;
}

/// Name, queue and state of each alarm.
async fn shown(rig: &Rig) -> Vec<(String, Value, String)> {
    let body = rig.get("/alarms").await.body;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alarms = body["alarms"].as_array().cloned().unwrap_or_default();
    alarms.iter().map(|alarm| (text(&alarm["name"]), alarm["queue"].clone(), text(&alarm["state"]))).collect()
}

fn changes(rig: &Rig) -> Vec<bool> {
    let change = |news: News| match news {
        News::Alarm(change) => Some(change.is_firing),
        _ => None,
    };
    rig.news.lock().drain(..).filter_map(change).collect()
}

#[tokio::test]
async fn an_alarm_begins_after_its_time_and_is_shown_counted_and_told_once() {
    let rig = with(vec![many_visible(1)]).await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.done("POST", "/queues", r#"{"name":"quiet"}"#).await;
    for _ in 0..2 {
        rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    }
    rig.console.look().await;
    look_after(&rig, 5).await;
    assert!(changes(&rig).is_empty());
    look_after(&rig, 5).await;
    look_after(&rig, 5).await;
    assert_eq!(changes(&rig), [true]);
    let since = rig.engine.now().0 - 5_000;
    let alarm = rig.get("/alarms").await.body["alarms"][0].clone();
    let expected = json!({
        "name": "many", "queue": "orders", "metric": "visible", "state": "firing", "since_ms": since, "value": 2.0,
        "bound": 1.0, "for_seconds": 10,
    });
    assert_eq!(alarm, expected);
    let metrics = rig.metrics().await;
    for line in [
        "kew_alarm_firing{name=\"many\",queue=\"orders\"} 1\n",
        "kew_alarm_firing{name=\"many\",queue=\"quiet\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    rig.done("POST", "/queues/orders/purge", r#"{"confirm":"orders"}"#).await;
    rig.console.look().await;
    assert_eq!(changes(&rig), [false]);
    assert!(shown(&rig).await.iter().all(|(_, _, state)| state == "ok"));
}

#[tokio::test]
async fn each_metric_is_measured_of_the_queues_it_is_for() {
    let at_once = |rule: AlarmRule| AlarmRule { lasting: Duration::ZERO, ..rule };
    let rules = [
        rule("age", "orders", AlarmMetric::OldestAge, 5.0),
        rule("flying", "000000000000:*:orders", AlarmMetric::InFlight, 0.0),
        rule("share", "orders", AlarmMetric::InFlightShare, 0.009),
        rule("hidden", "orders", AlarmMetric::Delayed, 0.0),
        rule("dead", "*", AlarmMetric::DeadLetters, 0.0),
        rule("disk", "", AlarmMetric::DiskShare, 0.74),
        rule("never", "orders*", AlarmMetric::Visible, 1e9),
    ];
    let rig = with(rules.map(at_once).to_vec()).await;
    rig.done("POST", "/queues", r#"{"name":"orders-dead"}"#).await;
    let orders = r#"{"name":"orders","settings":{"dead_letters_to":"orders-dead","max_attempts":1}}"#;
    rig.done("POST", "/queues", orders).await;
    rig.done("POST", "/queues/orders-dead/messages", r#"{"body":"x"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x","delay_seconds":60}"#).await;
    rig.done("POST", "/queues/orders/receive", "").await;
    look_after(&rig, 6).await;
    let firing: Vec<(String, Value)> = shown(&rig)
        .await
        .into_iter()
        .filter(|(_, _, state)| state == "firing")
        .map(|(name, queue, _)| (name, queue))
        .collect();
    let expected = [
        ("age", Value::from("orders")),
        ("flying", "orders".into()),
        ("share", "orders".into()),
        ("hidden", "orders".into()),
        ("dead", "orders-dead".into()),
        ("disk", Value::Null),
    ];
    let expected: Vec<(String, Value)> =
        expected.into_iter().map(|(name, queue)| (name.to_owned(), queue)).collect();
    assert_eq!(firing, expected);
    assert_eq!(shown(&rig).await.len(), 8, "only a dead-letter queue has dead letters");
}

#[tokio::test]
async fn series_of_alarms_are_bounded_and_the_rest_is_counted_in_one() {
    let alarms = vec![AlarmRule { lasting: Duration::ZERO, ..many_visible(0) }];
    let rig = rig::rig_of(Parts { alarms, metrics_queues: 2, ..Parts::default() }).await;
    for name in ["a", "b", "c", "d"] {
        rig.done("POST", "/queues", &json!({ "name": name }).to_string()).await;
        rig.done("POST", &format!("/queues/{name}/messages"), r#"{"body":"x"}"#).await;
    }
    rig.console.look().await;
    let metrics = rig.metrics().await;
    let lines: Vec<&str> = metrics.lines().filter(|line| line.starts_with("kew_alarm_firing")).collect();
    assert_eq!(
        lines,
        [
            "kew_alarm_firing{name=\"many\",queue=\"a\"} 1",
            "kew_alarm_firing{name=\"many\",queue=\"b\"} 1",
            "kew_alarm_firing{name=\"*\",queue=\"*\"} 2",
        ]
    );
}

#[tokio::test]
async fn without_rules_there_is_no_alarm_and_no_series() {
    let rig = rig::open().await;
    rig.console.look().await;
    assert_eq!(rig.get("/alarms").await.body, json!({ "alarms": [] }));
    assert!(!rig.metrics().await.contains("kew_alarm_firing"));
}
