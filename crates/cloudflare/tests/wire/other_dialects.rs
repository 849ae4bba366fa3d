//! Queues that other dialects made, and rules that they wrote.

use kew_core::command::{CreateQueue, FirstReceipts, Lease, Send, UpdateQueue};
use kew_core::{
    AccountId, Carries, Content, ContentType, DeadLetterAction, DeadLetterRule, NewMessage, Policy, Queue,
    QueueKey,
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::server::{CloudflareAnswer, CloudflareServer, only, text};

fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "us-east-1", name)
}

/// A queue as SQS or Azure would make it.
async fn foreign(server: &CloudflareServer, name: &str) -> (Arc<Queue>, String) {
    let create = CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() };
    let queue = server.engine.create_queue(create).await.expect("the name is free");
    (queue, server.path(name).await.expect("the list shows queues of other dialects"))
}

/// A rule as SQS would write it.
async fn redrive(server: &CloudflareServer, queue: &Queue, target: &str, receives: u32) {
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
    server.engine.update_queue(update).await.expect("the queue that is changed exists");
}

fn rule(server: &CloudflareServer, name: &str) -> Option<DeadLetterRule> {
    server
        .engine
        .queue(&key(name))
        .expect("the queue of the rule exists")
        .policy
        .dead_letters
        .as_deref()
        .cloned()
}

#[tokio::test]
async fn messages_of_other_dialects_are_pulled_as_text() {
    let server = CloudflareServer::open().await;
    let (queue, path) = foreign(&server, "orders").await;
    server.consume(&path, json!({ "type": "http_pull" })).await;
    let message = NewMessage {
        content: Content {
            content_type: ContentType::Text,
            body: "hello".into(),
            annotations: "S\u{1}another's".into(),
        },
        ..NewMessage::text(server.engine.message_id(), "")
    };
    let send = Send { queue: queue.id, messages: vec![message], receipts: FirstReceipts::Untold };
    server.engine.send(send).await.expect("the engine accepts a message of another dialect");
    let pulled = only(server.pull(&path, json!({})).await);
    let metadata = json!({ "CF-Content-Type": "text", "CF-sourceMessageSource": "api" });
    assert_eq!((&pulled["body"], &pulled["metadata"]), (&json!("hello"), &metadata));
}

#[tokio::test]
async fn a_receipt_of_another_dialect_settles_here() {
    let server = CloudflareServer::open().await;
    let (queue, path) = foreign(&server, "orders").await;
    server.push(&path, "m", json!({})).await.result();
    let leased = server
        .engine
        .lease(Lease::of(queue.id, 1, server.engine.now()))
        .await
        .expect("the queue that is leased from exists");
    use base64::Engine as _;
    let id = base64::engine::general_purpose::STANDARD.encode(leased[0].token.to_bytes());
    let settled = server.settle(&path, json!({ "acks": [{ "lease_id": id }] })).await;
    assert_eq!(settled["ackCount"], 1);
}

#[tokio::test]
async fn a_default_puller_drops_nothing_of_a_queue_that_another_dialect_made() {
    let server = CloudflareServer::open().await;
    let (_, path) = foreign(&server, "orders").await;
    let made = server.consume(&path, json!({ "type": "http_pull" })).await;
    server.push(&path, "m", json!({})).await.result();
    for attempt in 1..=10 {
        let pulled = only(server.pull(&path, json!({})).await);
        assert_eq!(pulled["attempts"], attempt);
        server.settle(&path, json!({ "retries": [{ "lease_id": pulled["lease_id"] }] })).await;
    }
    assert_eq!(made["settings"]["max_retries"], Value::Null, "there is no limit");
    // A request with a limit gets that limit.
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    let limited = json!({ "type": "http_pull", "settings": { "max_retries": 2 } });
    server.call("PUT", &consumer, limited).await.result();
    assert_eq!(
        rule(&server, "orders").map(|rule| (rule.attempts_max, rule.then)),
        Some((3, DeadLetterAction::Drop))
    );
}

#[tokio::test]
async fn a_consumer_without_a_dead_letter_queue_keeps_the_target_of_a_redrive_policy() {
    let server = CloudflareServer::open().await;
    let (queue, path) = foreign(&server, "orders").await;
    foreign(&server, "theirs").await;
    redrive(&server, &queue, "theirs", 10).await;
    let made = server.consume(&path, json!({ "type": "http_pull", "settings": { "max_retries": 4 } })).await;
    assert_eq!((&made["dead_letter_queue"], &made["settings"]["max_retries"]), (&json!("theirs"), &json!(4)));
    let kept = rule(&server, "orders").expect("the queue keeps a dead-letter rule");
    assert_eq!((kept.attempts_max, kept.carries, &*kept.written_by), (5, Carries::History, "sqs"));
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    assert_eq!(server.ask("DELETE", &consumer, "").await.result(), Value::Null);
    assert_eq!(rule(&server, "orders"), Some(kept), "a consumer takes away only what a consumer wrote");
}

#[tokio::test]
async fn a_default_puller_keeps_the_target_of_a_redrive_policy_and_changes_its_limit_alone() {
    let server = CloudflareServer::open().await;
    foreign(&server, "theirs").await;
    for (name, is_ours) in [("made-there", false), ("made-here", true)] {
        let path = if is_ours { server.queue(name).await } else { foreign(&server, name).await.1 };
        let queue = server.engine.queue(&key(name)).expect("the queue of another dialect exists");
        redrive(&server, &queue, "theirs", 10).await;
        let theirs = rule(&server, name).expect("the rule of another dialect is kept");
        let with = |receives| Some(DeadLetterRule { attempts_max: receives, ..theirs.clone() });
        let made = server.consume(&path, json!({ "type": "http_pull" })).await;
        let shown = (&made["dead_letter_queue"], &made["settings"]["max_retries"]);
        assert_eq!(shown, (&json!("theirs"), &json!(3)), "{name}");
        assert_eq!(rule(&server, name), with(4), "{name}");
        let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
        let limited = json!({ "type": "http_pull", "settings": { "max_retries": 1 } });
        server.call("PUT", &consumer, limited).await.result();
        assert_eq!(rule(&server, name), with(2), "{name}");
        server.call("PUT", &consumer, json!({ "type": "http_pull" })).await.result();
        assert_eq!(rule(&server, name), with(4), "{name}: what is not given returns to its default");
        server.ask("DELETE", &consumer, "").await.result();
        assert_eq!(rule(&server, name), with(4), "{name}: no consumer wrote it");
    }
}

#[tokio::test]
async fn a_default_puller_of_a_queue_made_elsewhere_takes_back_the_limit_of_the_one_before() {
    let server = CloudflareServer::open().await;
    let (_, path) = foreign(&server, "orders").await;
    let limited =
        json!({ "type": "http_pull", "dead_letter_queue": "dead", "settings": { "max_retries": 1 } });
    let made = server.consume(&path, limited.clone()).await;
    let consumer = format!("{path}/consumers/{}", text(&made, "consumer_id"));
    let changed = server.call("PUT", &consumer, json!({ "type": "http_pull" })).await.result();
    let shown = (&changed["dead_letter_queue"], &changed["settings"]["max_retries"]);
    assert_eq!((shown, rule(&server, "orders")), ((&json!(""), &Value::Null), None));
    server.call("PUT", &consumer, limited).await.result();
    assert_eq!(rule(&server, "orders").map(|rule| rule.attempts_max), Some(2));
    server.ask("DELETE", &consumer, "").await.result();
    assert_eq!(rule(&server, "orders"), None);
}

#[tokio::test]
async fn the_last_write_of_a_rule_is_what_is_shown() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "ours" })).await;
    foreign(&server, "theirs").await;
    let now = server.engine.queue(&key("orders")).expect("the queue `orders` exists");
    redrive(&server, &now, "theirs", 8).await;
    let shown = server.ask("GET", &format!("{queue}/consumers"), "").await.result();
    let shown = (&shown[0]["dead_letter_queue"], &shown[0]["settings"]["max_retries"]);
    assert_eq!(shown, (&json!("theirs"), &json!(7)));
}
