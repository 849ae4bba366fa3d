//! Queues: made, listed, changed, renamed, deleted, counted, emptied.

use kew_core::command::{CreateQueue, DeleteQueue};
use kew_core::{AccountId, Policy, QueueKey};
use serde_json::{Value, json};

use super::server::{ACCOUNT, CloudflareAnswer, CloudflareServer, text};

#[tokio::test]
async fn a_queue_is_made_with_defaults_and_shown_whole() {
    let server = CloudflareServer::open().await;
    let made = server.call("POST", "/queues", json!({ "queue_name": "orders" })).await.result();
    let id = text(&made, "queue_id");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    let expected = json!({
        "queue_id": id, "queue_name": "orders",
        "created_on": "2026-01-01T00:00:00.000000Z", "modified_on": "2026-01-01T00:00:00.000000Z",
        "settings": { "delivery_delay": 0, "delivery_paused": false, "message_retention_period": 345_600 },
        "producers": [], "producers_total_count": 0, "consumers": [], "consumers_total_count": 0,
    });
    assert_eq!(made, expected);
    assert_eq!(server.ask("GET", &format!("/queues/{id}"), "").await.result(), expected);
}

/// Vendor: API schema, queues: `jurisdiction` of eu or us
#[tokio::test]
async fn a_queue_keeps_its_settings_and_where_it_must_stay() {
    let server = CloudflareServer::open().await;
    let settings = json!({ "delivery_delay": 300, "message_retention_period": 60, "delivery_paused": true });
    let body = json!({ "queue_name": "orders", "jurisdiction": "eu", "settings": settings });
    let made = server.call("POST", "/queues", body).await.result();
    assert_eq!((&made["jurisdiction"], &made["settings"]), (&json!("eu"), &settings));
    let odd = json!({ "queue_name": "other", "jurisdiction": "moon" });
    server.call("POST", "/queues", odd).await.is_error(400, 100_128);
}

#[tokio::test]
async fn json_is_read_whatever_the_content_type_says() {
    let server = CloudflareServer::open().await;
    let kinds =
        ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/json", "image/png"];
    for (place, kind) in kinds.iter().enumerate() {
        let body = format!(r#"{{"queue_name":"q{place}"}}"#);
        let path = format!("{ACCOUNT}/queues");
        server.raw("POST", &path, &[("Content-Type", kind)], body.as_bytes()).await.result();
    }
    let path = format!("{ACCOUNT}{}", server.path("q0").await.expect("the queue `q0` is listed"));
    let deleted = server.raw("DELETE", &path, &[("Content-Type", "application/json")], b"").await;
    assert_eq!(deleted.result(), Value::Null);
}

#[tokio::test]
async fn names_are_letters_digits_and_hyphens() {
    let server = CloudflareServer::open().await;
    for name in ["a", "Orders-1", &"a".repeat(63)] {
        server.call("POST", "/queues", json!({ "queue_name": name })).await.result();
    }
    for name in ["", "-a", "a-", "Bad_Name!", "a.fifo", "ä", &"a".repeat(64)] {
        server.call("POST", "/queues", json!({ "queue_name": name })).await.is_error(400, 11_003);
    }
    server.call("POST", "/queues", json!({})).await.is_error(400, 11_003);
    server.call("POST", "/queues", json!({ "queue_name": "a" })).await.is_error(409, 11_009);
    assert!(server.path("A").await.is_none(), "names are compared exactly");
}

#[tokio::test]
async fn lists_come_in_pages_and_by_exact_names_each_queue_once() {
    let server = CloudflareServer::open().await;
    for name in ["b", "a", "ab", "c"] {
        server.queue(name).await;
    }
    let names = async |query: &str| -> Vec<String> {
        let listed = server.ask("GET", &format!("/queues{query}"), "").await.result();
        listed
            .as_array()
            .expect("queues are shown as a list")
            .iter()
            .map(|queue| text(queue, "queue_name"))
            .collect()
    };
    assert_eq!(names("").await, ["a", "ab", "b", "c"]);
    assert_eq!(names("?page=2&per_page=3").await, ["c"]);
    assert_eq!(names("?page=9&per_page=3").await, [""; 0]);
    assert_eq!(names("?name=a&page=1").await, ["a"]);
    assert_eq!(names("?name=b&name=b&name=a&name=none").await, ["a", "b"]);
    assert_eq!(names("?name=none").await, [""; 0]);
    let info = server.ask("GET", "/queues?per_page=3&page=2", "").await.json()["result_info"].clone();
    let expected = json!({ "page": 2, "per_page": 3, "count": 1, "total_count": 4, "total_pages": 2 });
    assert_eq!(info, expected);
    assert_eq!(server.ask("GET", "/queues", "").await.json()["result_info"]["per_page"], 100);
    server.ask("GET", "/queues?page=0", "").await.is_error(400, 10_207);
}

/// Vendor: API schema, queues: PUT and PATCH
#[tokio::test]
async fn put_replaces_and_patch_merges() {
    let server = CloudflareServer::open().await;
    let queue =
        server.queue_with("orders", json!({ "delivery_delay": 5, "message_retention_period": 600 })).await;
    let change = async |method: &str, settings: Value| {
        let body = json!({ "queue_name": "orders", "settings": settings });
        let settings = server.call(method, &queue, body).await.result()["settings"].clone();
        let names = ["delivery_delay", "message_retention_period", "delivery_paused"];
        Value::from_iter(names.map(|name| settings[name].clone()))
    };
    assert_eq!(change("PATCH", json!({ "delivery_paused": true })).await, json!([5, 600, true]));
    assert_eq!(change("PATCH", json!({ "delivery_delay": 7 })).await, json!([7, 600, true]));
    // [seed] A producer's `delivery_delay` in the configuration file delays every message: the command line of those
    // days writes it so on deploy. It resets neither retention nor the pause.
    assert_eq!(change("PUT", json!({ "delivery_delay": 60 })).await, json!([60, 600, true]));
    assert_eq!(change("PUT", json!({ "message_retention_period": 900 })).await, json!([0, 900, false]));
    assert_eq!(change("PUT", json!({})).await, json!([0, 345_600, false]));
    for method in ["PUT", "PATCH"] {
        let beyond = json!({ "settings": { "delivery_delay": 86_401 } });
        server.call(method, &queue, beyond).await.is_error(400, 100_128);
        let beyond = json!({ "settings": { "message_retention_period": 59 } });
        server.call(method, &queue, beyond).await.is_error(400, 100_128);
        server.call(method, &queue, json!({ "queue_name": "" })).await.is_error(400, 11_003);
    }
    assert_eq!(change("PATCH", json!({})).await, json!([0, 345_600, false]));
}

#[tokio::test]
async fn a_renamed_queue_keeps_its_id_and_rules_that_name_it_follow() {
    let server = CloudflareServer::open().await;
    let dead = server.queue("dead").await;
    let queue = server.queue("orders").await;
    server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    let renamed = server.call("PUT", &dead, json!({ "queue_name": "graveyard" })).await.result();
    assert_eq!(format!("/queues/{}", text(&renamed, "queue_id")), dead);
    let shown = server.ask("GET", &queue, "").await.result();
    assert_eq!(shown["consumers"][0]["dead_letter_queue"], "graveyard");
    server.call("PATCH", &dead, json!({ "queue_name": "orders" })).await.is_error(409, 11_009);
}

#[tokio::test]
async fn a_queue_is_deleted_with_everything_unless_a_consumer_counts_on_it() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let consumer = server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    let dead = server.path("dead").await.expect("the consumer's dead-letter queue exists");
    let told = server.ask("DELETE", &dead, "").await.is_error(409, 11_005);
    assert!(told.contains("serves as dead letter queue for consumers"), "{told}");
    let consumer = format!("{queue}/consumers/{}", text(&consumer, "consumer_id"));
    server.ask("DELETE", &consumer, "").await.result();
    server.push(&dead, "m", json!({})).await.result();
    assert_eq!(server.ask("DELETE", &dead, "").await.result(), Value::Null);
    server.ask("GET", &dead, "").await.is_error(404, 11_000);
    let again = server.queue("dead").await;
    assert_ne!(again, dead, "ids are never used again");
    assert_eq!(server.backlog(&again).await, 0);
}

/// Vendor: changelog of Queues, 2026-04-28, "Realtime backlog metrics"; API schema, metrics
#[tokio::test]
async fn metrics_count_what_is_not_acknowledged_and_what_is_delayed() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let metrics = |count: u32, bytes: u32, oldest: u64, delayed: u32| {
        json!({
            "backlog_count": count, "backlog_bytes": bytes, "oldest_message_timestamp_ms": oldest,
            "delayed_count": delayed,
        })
    };
    assert_eq!(server.metrics(&queue).await, metrics(0, 0, 0, 0));
    server.push(&queue, "12345", json!({})).await.result();
    server.advance(1).await;
    // [seed] Delayed messages are seen in the metrics.
    server.push(&queue, "123", json!({ "delay_seconds": 60 })).await.result();
    server.bodies(&queue).await;
    assert_eq!(server.metrics(&queue).await, metrics(2, 8, 1_767_225_600_000, 1));
}

#[tokio::test]
async fn a_purge_leaves_nothing_and_says_when_it_was() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let purge = format!("{queue}/purge");
    assert_eq!(server.ask("GET", &purge, "").await.result(), json!({ "completed": "", "started_at": "" }));
    server.push(&queue, "a", json!({})).await.result();
    server.push(&queue, "b", json!({ "delay_seconds": 60 })).await.result();
    for body in [json!({}), json!({ "delete_messages_permanently": false })] {
        server.call("POST", &purge, body).await.is_error(400, 10_207);
    }
    assert_eq!(server.backlog(&queue).await, 2);
    server.advance(5).await;
    let purged = server.call("POST", &purge, json!({ "delete_messages_permanently": true })).await.result();
    assert_eq!((&purged["queue_name"], &purged["completed"]), (&json!("orders"), &json!("true")));
    let status = json!({ "completed": "true", "started_at": "2026-01-01T00:00:05.000000Z" });
    assert_eq!(server.ask("GET", &purge, "").await.result(), status);
    server.advance(60).await;
    assert!(server.bodies(&queue).await.is_empty());
}

#[tokio::test]
async fn a_queue_does_not_take_the_name_of_the_one_that_takes_its_dead_letters() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    // Another dialect deletes a dead-letter queue although rules name it, and its name is free then.
    let dead = QueueKey::new(AccountId(0), "us-east-1", "dead");
    let dead = server.engine.queue(&dead).expect("the dead-letter queue exists in the engine").id;
    server
        .engine
        .delete_queue(DeleteQueue { queue: dead, if_version: None })
        .await
        .expect("the dead-letter queue can be deleted");
    for method in ["PUT", "PATCH"] {
        let told = server.call(method, &queue, json!({ "queue_name": "dead" })).await.is_error(400, 100_128);
        assert!(told.contains("dead letters"), "{told}");
        server.call(method, &queue, json!({ "queue_name": "orders" })).await.result();
    }
    assert!(server.path("dead").await.is_none());
    server.call("PATCH", &queue, json!({ "queue_name": "renamed" })).await.result();
}

#[tokio::test]
async fn an_account_has_a_maximum_of_queues() {
    let server = CloudflareServer::with_queues_max(3).await;
    // One of SQS, whose name is none here, counts too.
    let key = QueueKey::new(AccountId(0), "us-east-1", "under_score");
    let create = CreateQueue { key, policy: Policy::standard(), documents: Vec::new() };
    server.engine.create_queue(create).await.expect("the name is free");
    let queue = server.queue("a").await;
    server.queue("b").await;
    let told = server.call("POST", "/queues", json!({ "queue_name": "c" })).await.is_error(429, 10_250);
    assert!(told.contains("queues_max"), "{told}");
    server.call("POST", "/queues", json!({ "queue_name": "a" })).await.is_error(409, 11_009);
    let consumer = json!({ "type": "http_pull", "dead_letter_queue": "c" });
    server.call("POST", &format!("{queue}/consumers"), consumer).await.is_error(429, 10_250);
    assert_eq!(server.ask("GET", &format!("{queue}/consumers"), "").await.result(), json!([]));
    let consumer = json!({ "type": "http_pull", "dead_letter_queue": "b" });
    server.consume(&queue, consumer).await;
    server.ask("DELETE", &queue, "").await.result();
    let make = |name: &'static str| server.call("POST", "/queues", json!({ "queue_name": name }));
    let (c, d, e, f) = tokio::join!(make("c"), make("d"), make("e"), make("f"));
    let made = [c, d, e, f].iter().filter(|answer| answer.status == 200).count();
    assert_eq!(made, 1, "of those that are made at once, none gets past the bound");
}
