//! `/metrics`: the promised names, and figures that follow what happens.

use std::collections::BTreeSet;

use super::program::{Kew, data_directory};

/// The alert rules that come with Kew.
const ALERTS: &str = include_str!("../../../../deploy/prometheus/kew-alerts.yml");

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
        ("kew_messages_sent_total".to_owned(), 4.0),
        ("kew_messages_leased_total".to_owned(), 2.0),
        ("kew_messages_acked_total".to_owned(), 1.0),
        ("kew_messages_expired_total".to_owned(), 0.0),
        ("kew_messages_deduplicated_total".to_owned(), 0.0),
        ("kew_messages_redelivered_total{reason=\"lease_expired\"}".to_owned(), 0.0),
        ("kew_messages_redelivered_total{reason=\"released\"}".to_owned(), 0.0),
        ("kew_messages_dead_lettered_total{reason=\"attempts_exhausted\"}".to_owned(), 0.0),
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
    assert_eq!(value(&text, "kew_messages_redelivered_total{reason=\"lease_expired\"}"), 1.0);
    kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    assert_eq!(kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).1, "{}");
    let _poll = kew.begin("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    kew.ask("GetQueueUrl", r#"{"QueueName":"orders"}"#);
    let text = scrape(&kew);
    assert_eq!(value(&text, "kew_waiting_receives"), 1.0);
    assert_eq!(value(&text, "kew_empty_receives_total"), 1.0);
    kew.admin("POST", "/api/v1/clock", &json, r#"{"advance_ms":400000000}"#);
    assert_eq!(value(&scrape(&kew), "kew_messages_expired_total"), 1.0);
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

#[test]
fn every_metric_the_alert_rules_name_exists() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    let known = names(&scrape(&kew));
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let expressions = ALERTS.lines().filter(|line| !line.trim_start().starts_with('#'));
    let named: BTreeSet<&str> = expressions
        .flat_map(|line| line.split(|character| !is_word(character)))
        .filter(|word| word.starts_with("kew_"))
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    for name in named {
        assert!(known.contains(name), "{name} is no metric");
    }
    assert!(ALERTS.contains("0.8") && ALERTS.contains("kew_in_flight_limit"));
}
