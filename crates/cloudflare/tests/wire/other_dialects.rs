//! Queues that other dialects made, and rules that they wrote.

use kew_core::command::{CreateQueue, FirstReceipts, Lease, Send, UpdateQueue};
use kew_core::{
    AccountId, Carries, Content, ContentType, DeadLetterAction, DeadLetterRule, NewMessage, Policy, Queue,
    QueueKey,
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::house::{House, only, text};

fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "us-east-1", name)
}

/// A queue as SQS or Azure would make it.
async fn foreign(house: &House, name: &str) -> (Arc<Queue>, String) {
    let create = CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() };
    let queue = house.engine.create_queue(create).await.expect("the name is free");
    (queue, house.path(name).await.expect("it is listed"))
}

/// A rule as SQS would write it.
async fn redrive(house: &House, queue: &Queue, target: &str, receives: u32) {
    let rule = DeadLetterRule {
        attempts_max: receives,
        then: DeadLetterAction::MoveTo(key(target)),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    let policy = Policy { dead_letters: Some(rule.into()), ..queue.policy.clone() };
    let update = UpdateQueue {
        queue: queue.id,
        if_version: None,
        policy: Some(policy),
        documents: Vec::new(),
        rename: None,
    };
    house.engine.update_queue(update).await.expect("it is there");
}

fn rule(house: &House, name: &str) -> Option<DeadLetterRule> {
    house.engine.queue(&key(name)).expect("it is there").policy.dead_letters.as_deref().cloned()
}

#[tokio::test]
async fn messages_of_other_dialects_are_pulled_as_text() {
    let house = House::open().await;
    let (queue, path) = foreign(&house, "orders").await;
    house.consume(&path, json!({ "type": "http_pull" })).await;
    let message = NewMessage {
        content: Content {
            content_type: ContentType::Text,
            body: "hello".into(),
            annotations: "S\u{1}another's".into(),
        },
        ..NewMessage::text(house.engine.message_id(), "")
    };
    let send = Send { queue: queue.id, messages: vec![message], receipts: FirstReceipts::Untold };
    house.engine.send(send).await.expect("it is accepted");
    let pulled = only(house.pull(&path, json!({})).await);
    let metadata = json!({ "CF-Content-Type": "text", "CF-sourceMessageSource": "api" });
    assert_eq!((&pulled["body"], &pulled["metadata"]), (&json!("hello"), &metadata));
}

#[tokio::test]
async fn a_receipt_of_another_dialect_settles_here() {
    let house = House::open().await;
    let (queue, path) = foreign(&house, "orders").await;
    house.push(&path, "m", json!({})).await.result();
    let leased = house.engine.lease(Lease::of(queue.id, 1, house.engine.now())).await.expect("it is there");
    use base64::Engine as _;
    let id = base64::engine::general_purpose::STANDARD.encode(leased[0].token.to_bytes());
    let settled = house.settle(&path, json!({ "acks": [{ "lease_id": id }] })).await;
    assert_eq!(settled["ackCount"], 1);
}

#[tokio::test]
async fn a_default_puller_drops_nothing_of_a_queue_that_another_dialect_made() {
    let house = House::open().await;
    let (_, path) = foreign(&house, "orders").await;
    let made = house.consume(&path, json!({ "type": "http_pull" })).await;
    house.push(&path, "m", json!({})).await.result();
    for attempt in 1..=10 {
        let pulled = only(house.pull(&path, json!({})).await);
        assert_eq!(pulled["attempts"], attempt);
        house.settle(&path, json!({ "retries": [{ "lease_id": pulled["lease_id"] }] })).await;
    }
    assert_eq!(made["settings"]["max_retries"], Value::Null, "there is no limit");
    // Whoever asks for a limit gets it.
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    let limited = json!({ "type": "http_pull", "settings": { "max_retries": 2 } });
    house.call("PUT", &consumer, limited).await.result();
    assert_eq!(
        rule(&house, "orders").map(|rule| (rule.attempts_max, rule.then)),
        Some((3, DeadLetterAction::Drop))
    );
}

#[tokio::test]
async fn a_consumer_without_a_dead_letter_queue_keeps_the_target_of_a_redrive_policy() {
    let house = House::open().await;
    let (queue, path) = foreign(&house, "orders").await;
    foreign(&house, "theirs").await;
    redrive(&house, &queue, "theirs", 10).await;
    let made = house.consume(&path, json!({ "type": "http_pull", "settings": { "max_retries": 4 } })).await;
    assert_eq!((&made["dead_letter_queue"], &made["settings"]["max_retries"]), (&json!("theirs"), &json!(4)));
    let kept = rule(&house, "orders").expect("there is one");
    assert_eq!((kept.attempts_max, kept.carries, &*kept.written_by), (5, Carries::History, "sqs"));
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    assert_eq!(house.ask("DELETE", &consumer, "").await.result(), Value::Null);
    assert_eq!(rule(&house, "orders"), Some(kept), "a consumer takes away only what a consumer wrote");
}

#[tokio::test]
async fn a_default_puller_keeps_the_target_of_a_redrive_policy_and_changes_its_limit_alone() {
    let house = House::open().await;
    foreign(&house, "theirs").await;
    for (name, is_ours) in [("made-there", false), ("made-here", true)] {
        let path = if is_ours { house.queue(name).await } else { foreign(&house, name).await.1 };
        let queue = house.engine.queue(&key(name)).expect("it is there");
        redrive(&house, &queue, "theirs", 10).await;
        let theirs = rule(&house, name).expect("it is theirs");
        let with = |receives| Some(DeadLetterRule { attempts_max: receives, ..theirs.clone() });
        let made = house.consume(&path, json!({ "type": "http_pull" })).await;
        let shown = (&made["dead_letter_queue"], &made["settings"]["max_retries"]);
        assert_eq!(shown, (&json!("theirs"), &json!(3)), "{name}");
        assert_eq!(rule(&house, name), with(4), "{name}");
        let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
        let limited = json!({ "type": "http_pull", "settings": { "max_retries": 1 } });
        house.call("PUT", &consumer, limited).await.result();
        assert_eq!(rule(&house, name), with(2), "{name}");
        house.call("PUT", &consumer, json!({ "type": "http_pull" })).await.result();
        assert_eq!(rule(&house, name), with(4), "{name}: what is not given returns to its default");
        house.ask("DELETE", &consumer, "").await.result();
        assert_eq!(rule(&house, name), with(4), "{name}: no consumer wrote it");
    }
}

#[tokio::test]
async fn a_default_puller_of_a_queue_made_elsewhere_takes_back_the_limit_of_the_one_before() {
    let house = House::open().await;
    let (_, path) = foreign(&house, "orders").await;
    let limited =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 1 } });
    let made = house.consume(&path, limited.clone()).await;
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    let changed = house.call("PUT", &consumer, json!({ "type": "http_pull" })).await.result();
    let shown = (&changed["dead_letter_queue"], &changed["settings"]["max_retries"]);
    assert_eq!((shown, rule(&house, "orders")), ((&json!(""), &Value::Null), None));
    house.call("PUT", &consumer, limited).await.result();
    assert_eq!(rule(&house, "orders").map(|rule| rule.attempts_max), Some(2));
    house.ask("DELETE", &consumer, "").await.result();
    assert_eq!(rule(&house, "orders"), None);
}

#[tokio::test]
async fn the_last_write_of_a_rule_is_what_is_shown() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    house.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "ours" })).await;
    foreign(&house, "theirs").await;
    let now = house.engine.queue(&key("orders")).expect("it is there");
    redrive(&house, &now, "theirs", 8).await;
    let shown = house.ask("GET", &format!("{queue}/consumers"), "").await.result();
    let shown = (&shown[0]["dead_letter_queue"], &shown[0]["settings"]["max_retries"]);
    assert_eq!(shown, (&json!("theirs"), &json!(7)));
}
