//! `/metrics`: the promised names, and figures that follow what happens.

use std::collections::BTreeSet;

use super::program::{Kew, data_directory};

/// The alert rules that come with Kew.
const ALERTS: &str = include_str!("../../../../deploy/prometheus/kew-alerts.yml");
/// Their tests, which `promtool test rules` runs.
const ALERT_TESTS: &str = include_str!("../../../../deploy/prometheus/kew-alerts.test.yml");
/// The dashboards for Grafana.
const OVERVIEW: &str = include_str!("../../../../deploy/grafana/kew-overview.json");
const QUEUES: &str = include_str!("../../../../deploy/grafana/kew-queues.json");

fn scrape(kew: &Kew) -> String {
    let (status, text) = kew.admin("GET", "/metrics", &[], "");
    assert_eq!(status, 200, "{text}");
    text
}

fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().expect("the text is a number")
}

/// The names of all samples, histograms by the name of the family too.
fn names(text: &str) -> BTreeSet<String> {
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let samples =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(['{', ' ']).next());
    families.chain(samples).map(str::to_owned).collect()
}

#[test]
fn every_promised_name_is_there_and_follows_what_happens() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let ask = |action: &str, json: &str| {
        let (status, body) = kew.ask(action, json);
        assert_eq!(status, 200, "{action}: {body}");
        body
    };
    ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    for body in ["a", "b", "c"] {
        ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"{body}"}}"#));
    }
    ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"d","DelaySeconds":900}"#);
    let leased = ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let handle = super::member(&leased, "ReceiptHandle");
    ask("DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#));
    assert_ne!(kew.ask("GetQueueUrl", r#"{"QueueName":"missing"}"#).0, 200);
    let text = scrape(&kew);
    let queue = r#"account="000000000000",region="us-east-1",queue="orders""#;
    for (sample, expected) in [
        (format!("kew_messages{{{queue},state=\"visible\"}}"), 1.0),
        (format!("kew_messages{{{queue},state=\"in_flight\"}}"), 1.0),
        (format!("kew_messages{{{queue},state=\"delayed\"}}"), 1.0),
        (format!("kew_in_flight_limit{{{queue}}}"), 120_000.0),
        (format!("kew_messages_sent_total{{{queue}}}"), 4.0),
        (format!("kew_messages_leased_total{{{queue}}}"), 2.0),
        (format!("kew_messages_acked_total{{{queue}}}"), 1.0),
        (format!("kew_messages_expired_total{{{queue}}}"), 0.0),
        (format!("kew_messages_deduplicated_total{{{queue}}}"), 0.0),
        (of_orders("kew_messages_redelivered_total", "lease_expired"), 0.0),
        (of_orders("kew_messages_redelivered_total", "released"), 0.0),
        (of_orders("kew_messages_dead_lettered_total", "attempts_exhausted"), 0.0),
        ("kew_empty_receives_total".to_owned(), 0.0),
        ("kew_waiting_receives".to_owned(), 0.0),
        (request_count("SendMessage", 200), 4.0),
        (request_count("GetQueueUrl", 400), 1.0),
    ] {
        assert_eq!(value(&text, &sample), expected, "{sample}");
    }
    assert!(value(&text, &format!("kew_oldest_message_age_seconds{{{queue}}}")) >= 0.0);
    assert!(value(&text, "kew_store_sync_seconds_count") >= 5.0);
    assert!(value(&text, "kew_store_bytes{kind=\"live\"}") > 0.0);
    assert!(value(&text, "kew_store_bytes{kind=\"dead\"}") >= 0.0);
    assert!(text.contains("kew_build_info{version=\""));
}

/// A counter of the queue `orders`; with a reason, if it has one.
fn of_orders(name: &str, reason: &str) -> String {
    let queue = r#"account="000000000000",region="us-east-1",queue="orders""#;
    let reason = if reason.is_empty() { String::new() } else { format!(",reason=\"{reason}\"") };
    format!("{name}{{{queue}{reason}}}")
}

fn request_count(operation: &str, code: u16) -> String {
    format!("kew_request_duration_seconds_count{{dialect=\"sqs\",operation=\"{operation}\",code=\"{code}\"}}")
}

#[test]
fn a_lease_that_expires_and_one_that_waits_are_counted() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--clock", "virtual"]);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#);
    kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let json = [("Content-Type", "application/json")];
    kew.admin("POST", "/api/v1/clock", &json, r#"{"advance_ms":31000}"#);
    let text = scrape(&kew);
    assert_eq!(value(&text, &of_orders("kew_messages_redelivered_total", "lease_expired")), 1.0);
    kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    assert_eq!(kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).1, "{}");
    let _poll = kew.begin("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    kew.ask("GetQueueUrl", r#"{"QueueName":"orders"}"#);
    let text = scrape(&kew);
    assert_eq!(value(&text, "kew_waiting_receives"), 1.0);
    assert_eq!(value(&text, "kew_empty_receives_total"), 1.0);
    kew.admin("POST", "/api/v1/clock", &json, r#"{"advance_ms":400000000}"#);
    assert_eq!(value(&scrape(&kew), &of_orders("kew_messages_expired_total", "")), 1.0);
}

#[test]
fn a_message_that_its_consumer_gives_back_is_counted_as_released_and_not_as_expired() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--clock", "virtual"]);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#);
    let (_, leased) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let receipt = super::member(&leased, "ReceiptHandle");
    let back = serde_json::json!({ "QueueUrl": "orders", "ReceiptHandle": receipt, "VisibilityTimeout": 0 });
    assert_eq!(kew.ask("ChangeMessageVisibility", &back.to_string()).0, 200);
    let azure = kew.ports["azure"].as_str().expect("azure is bound").to_owned();
    let ask = |method: &str, path: &str| {
        super::program::http(&azure, method, path, &[("x-ms-version", "2024-11-04")], "")
    };
    let (_, leased) = ask("GET", "/devstoreaccount1/orders/messages");
    let between = |name: &str| {
        let (from, to) = (format!("<{name}>"), format!("</{name}>"));
        let (_, rest) = leased.split_once(&from).expect("the reply has this element");
        rest.split_once(&to).expect("the element is closed").0.to_owned()
    };
    let receipt: String = between("PopReceipt").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!(
        "/devstoreaccount1/orders/messages/{}?popreceipt={receipt}&visibilitytimeout=0",
        between("MessageId")
    );
    assert_eq!(ask("PUT", &path).0, 204);
    let json = [("Content-Type", "application/json")];
    kew.admin("POST", "/api/v1/clock", &json, r#"{"advance_ms":31000}"#);
    let text = scrape(&kew);
    assert_eq!(value(&text, &of_orders("kew_messages_redelivered_total", "released")), 2.0);
    assert_eq!(value(&text, &of_orders("kew_messages_redelivered_total", "lease_expired")), 0.0);
}

#[test]
fn requests_of_azure_are_counted_by_operation_also_when_they_are_refused() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let azure = kew.ports["azure"].as_str().expect("azure is bound").to_owned();
    let ask = |method: &str, path: &str| {
        super::program::http(&azure, method, path, &[("x-ms-version", "2024-11-04")], "").0
    };
    assert_eq!(ask("PUT", "/devstoreaccount1/orders"), 201);
    assert_eq!(ask("GET", "/devstoreaccount1/orders/messages"), 200);
    assert_eq!(ask("DELETE", "/devstoreaccount1/nowhere"), 404);
    let text = scrape(&kew);
    for (operation, code) in [("CreateQueue", 201), ("GetMessages", 200), ("DeleteQueue", 404)] {
        let name = "kew_request_duration_seconds_count";
        let sample = format!("{name}{{dialect=\"azure\",operation=\"{operation}\",code=\"{code}\"}}");
        assert_eq!(value(&text, &sample), 1.0, "{sample}");
    }
}

#[test]
fn queues_beyond_the_bound_share_a_series() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, "[limits]\nmetrics_queues = 2\n").expect("the directory is ours");
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--config", &file.to_string_lossy()]);
    for name in ["a", "b", "c", "d"] {
        kew.ask("CreateQueue", &format!(r#"{{"QueueName":"{name}"}}"#));
        kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"{name}","MessageBody":"m"}}"#));
    }
    let text = scrape(&kew);
    let visible: Vec<&str> =
        text.lines().filter(|line| line.starts_with("kew_messages{") && line.contains("visible")).collect();
    assert_eq!(visible.len(), 3, "{visible:?}");
    assert_eq!(value(&text, "kew_messages{account=\"*\",region=\"*\",queue=\"*\",state=\"visible\"}"), 2.0);
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !is_word(character)).filter(|word| word.starts_with("kew_")).collect()
}

#[test]
fn every_metric_that_rules_and_dashboards_name_is_in_a_scrape_of_a_running_server() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    let rule = "[[alarms]]\nname = \"many\"\nqueue = \"*\"\nmetric = \"visible\"\nabove = 10\n";
    std::fs::write(&file, rule).expect("the directory is ours");
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_with(directory.path(), &["--store", &data, "--config", &file.to_string_lossy()]);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#);
    let known = names(&scrape(&kew));
    let rules: Vec<&str> = ALERTS.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    assert!(named(&rules.join("\n")).len() >= 12);
    for text in [rules.join("\n").as_str(), ALERT_TESTS, OVERVIEW, QUEUES] {
        for name in named(text) {
            assert!(known.contains(name), "{name} is no metric");
        }
    }
}

#[test]
fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    let alerts: Vec<&str> = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for alert in alerts {
        for way in ["fires", "is quiet at its bound"] {
            assert!(ALERT_TESTS.contains(&format!("- name: {alert} {way}\n")), "{alert} {way}: no test");
        }
    }
}

#[test]
fn dashboards_are_whole_and_every_panel_asks_for_something() {
    let mut uids = BTreeSet::new();
    for dashboard in [OVERVIEW, QUEUES] {
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("a dashboard is JSON");
        assert!(uids.insert(dashboard["uid"].to_string()), "two dashboards share {}", dashboard["uid"]);
        let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
        assert!(panels.len() >= 8);
        for panel in panels {
            let targets = panel["targets"].as_array().expect("a panel has queries");
            let is_query = |target: &serde_json::Value| {
                target["expr"].as_str().is_some_and(|expression| !named(expression).is_empty())
            };
            assert!(!targets.is_empty() && targets.iter().all(is_query), "{panel}");
        }
    }
}
