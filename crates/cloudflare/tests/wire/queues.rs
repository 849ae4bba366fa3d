//! Queues: made, listed, changed, renamed, deleted, counted, emptied.

use kew_core::command::{CreateQueue, DeleteQueue};
use kew_core::{AccountId, Policy, QueueKey};
use serde_json::{Value, json};

use super::house::{ACCOUNT, House, text};

#[tokio::test]
async fn a_queue_is_made_with_defaults_and_shown_whole() {
    let house = House::open().await;
    let made = house.call("POST", "/queues", json!({ "queue_name": "orders" })).await.result();
    let id = text(&made, "queue_id");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)));
    let expected = json!({
        "queue_id": id, "queue_name": "orders",
        "created_on": "2026-01-01T00:00:00.000000Z", "modified_on": "2026-01-01T00:00:00.000000Z",
        "settings": { "delivery_delay": 0, "delivery_paused": false, "message_retention_period": 345_600 },
        "producers": [], "producers_total_count": 0, "consumers": [], "consumers_total_count": 0,
    });
    assert_eq!(made, expected);
    assert_eq!(house.ask("GET", &format!("/queues/{id}"), "").await.result(), expected);
}

#[tokio::test]
async fn a_queue_keeps_its_settings_and_where_it_must_stay() {
    let house = House::open().await;
    let settings = json!({ "delivery_delay": 300, "message_retention_period": 60, "delivery_paused": true });
    let body = json!({ "queue_name": "orders", "jurisdiction": "eu", "settings": settings });
    let made = house.call("POST", "/queues", body).await.result();
    assert_eq!((&made["jurisdiction"], &made["settings"]), (&json!("eu"), &settings));
    let odd = json!({ "queue_name": "other", "jurisdiction": "moon" });
    house.call("POST", "/queues", odd).await.is_error(400, 100_128);
}

#[tokio::test]
async fn json_is_read_whatever_the_content_type_says() {
    let house = House::open().await;
    let kinds =
        ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/json", "image/png"];
    for (place, kind) in kinds.iter().enumerate() {
        let body = format!(r#"{{"queue_name":"q{place}"}}"#);
        let path = format!("{ACCOUNT}/queues");
        house.raw("POST", &path, &[("Content-Type", kind)], body.as_bytes()).await.result();
    }
    let path = format!("{ACCOUNT}{}", house.path("q0").await.expect("it is there"));
    let deleted = house.raw("DELETE", &path, &[("Content-Type", "application/json")], b"").await;
    assert_eq!(deleted.result(), Value::Null);
}

#[tokio::test]
async fn names_are_letters_digits_and_hyphens() {
    let house = House::open().await;
    for name in ["a", "Orders-1", &"a".repeat(63)] {
        house.call("POST", "/queues", json!({ "queue_name": name })).await.result();
    }
    for name in ["", "-a", "a-", "Bad_Name!", "a.fifo", "ä", &"a".repeat(64)] {
        house.call("POST", "/queues", json!({ "queue_name": name })).await.is_error(400, 11_003);
    }
    house.call("POST", "/queues", json!({})).await.is_error(400, 11_003);
    house.call("POST", "/queues", json!({ "queue_name": "a" })).await.is_error(409, 11_009);
    assert!(house.path("A").await.is_none(), "names are compared exactly");
}

#[tokio::test]
async fn lists_come_in_pages_and_by_exact_names_each_queue_once() {
    let house = House::open().await;
    for name in ["b", "a", "ab", "c"] {
        house.queue(name).await;
    }
    let names = async |query: &str| -> Vec<String> {
        let listed = house.ask("GET", &format!("/queues{query}"), "").await.result();
        listed.as_array().expect("it is a list").iter().map(|queue| text(queue, "queue_name")).collect()
    };
    assert_eq!(names("").await, ["a", "ab", "b", "c"]);
    assert_eq!(names("?page=2&per_page=3").await, ["c"]);
    assert_eq!(names("?page=9&per_page=3").await, [""; 0]);
    assert_eq!(names("?name=a&page=1").await, ["a"]);
    assert_eq!(names("?name=b&name=b&name=a&name=none").await, ["a", "b"]);
    assert_eq!(names("?name=none").await, [""; 0]);
    let info = house.ask("GET", "/queues?per_page=3&page=2", "").await.json()["result_info"].clone();
    let expected = json!({ "page": 2, "per_page": 3, "count": 1, "total_count": 4, "total_pages": 2 });
    assert_eq!(info, expected);
    assert_eq!(house.ask("GET", "/queues", "").await.json()["result_info"]["per_page"], 100);
    house.ask("GET", "/queues?page=0", "").await.is_error(400, 10_207);
}

#[tokio::test]
async fn put_replaces_and_patch_merges() {
    let house = House::open().await;
    let queue =
        house.queue_with("orders", json!({ "delivery_delay": 5, "message_retention_period": 600 })).await;
    let change = async |method: &str, settings: Value| {
        let body = json!({ "queue_name": "orders", "settings": settings });
        let settings = house.call(method, &queue, body).await.result()["settings"].clone();
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
        house.call(method, &queue, beyond).await.is_error(400, 100_128);
        let beyond = json!({ "settings": { "message_retention_period": 59 } });
        house.call(method, &queue, beyond).await.is_error(400, 100_128);
        house.call(method, &queue, json!({ "queue_name": "" })).await.is_error(400, 11_003);
    }
    assert_eq!(change("PATCH", json!({})).await, json!([0, 345_600, false]));
}

#[tokio::test]
async fn a_renamed_queue_keeps_its_id_and_whoever_names_it_follows() {
    let house = House::open().await;
    let dead = house.queue("dead").await;
    let queue = house.queue("orders").await;
    house.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    let renamed = house.call("PUT", &dead, json!({ "queue_name": "graveyard" })).await.result();
    assert_eq!(format!("/queues/{}", text(&renamed, "queue_id")), dead);
    let shown = house.ask("GET", &queue, "").await.result();
    assert_eq!(shown["consumers"][0]["dead_letter_queue"], "graveyard");
    house.call("PATCH", &dead, json!({ "queue_name": "orders" })).await.is_error(409, 11_009);
}

#[tokio::test]
async fn a_queue_is_deleted_with_everything_unless_a_consumer_counts_on_it() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    let consumer = house.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    let dead = house.path("dead").await.expect("it was made");
    let told = house.ask("DELETE", &dead, "").await.is_error(409, 11_005);
    assert!(told.contains("serves as dead letter queue for consumers"), "{told}");
    let consumer = format!("{queue}/consumers/{}", text(&consumer, "consumer_id"));
    house.ask("DELETE", &consumer, "").await.result();
    house.push(&dead, "m", json!({})).await.result();
    assert_eq!(house.ask("DELETE", &dead, "").await.result(), Value::Null);
    house.ask("GET", &dead, "").await.is_error(404, 11_000);
    let again = house.queue("dead").await;
    assert_ne!(again, dead, "ids are never used again");
    assert_eq!(house.backlog(&again).await, 0);
}

#[tokio::test]
async fn metrics_count_what_is_not_acknowledged_and_what_is_delayed() {
    let house = House::open().await;
    let queue = house.pulled("orders", json!({})).await;
    let metrics = |count: u32, bytes: u32, oldest: u64, delayed: u32| {
        json!({
            "backlog_count": count, "backlog_bytes": bytes, "oldest_message_timestamp_ms": oldest,
            "delayed_count": delayed,
        })
    };
    assert_eq!(house.metrics(&queue).await, metrics(0, 0, 0, 0));
    house.push(&queue, "12345", json!({})).await.result();
    house.advance(1).await;
    // [seed] Delayed messages are seen in the metrics.
    house.push(&queue, "123", json!({ "delay_seconds": 60 })).await.result();
    house.bodies(&queue).await;
    assert_eq!(house.metrics(&queue).await, metrics(2, 8, 1_767_225_600_000, 1));
}

#[tokio::test]
async fn a_purge_leaves_nothing_and_says_when_it_was() {
    let house = House::open().await;
    let queue = house.pulled("orders", json!({})).await;
    let purge = format!("{queue}/purge");
    assert_eq!(house.ask("GET", &purge, "").await.result(), json!({ "completed": "", "started_at": "" }));
    house.push(&queue, "a", json!({})).await.result();
    house.push(&queue, "b", json!({ "delay_seconds": 60 })).await.result();
    for body in [json!({}), json!({ "delete_messages_permanently": false })] {
        house.call("POST", &purge, body).await.is_error(400, 10_207);
    }
    assert_eq!(house.backlog(&queue).await, 2);
    house.advance(5).await;
    let purged = house.call("POST", &purge, json!({ "delete_messages_permanently": true })).await.result();
    assert_eq!((&purged["queue_name"], &purged["completed"]), (&json!("orders"), &json!("true")));
    let status = json!({ "completed": "true", "started_at": "2026-01-01T00:00:05.000000Z" });
    assert_eq!(house.ask("GET", &purge, "").await.result(), status);
    house.advance(60).await;
    assert!(house.bodies(&queue).await.is_empty());
}

#[tokio::test]
async fn a_queue_does_not_take_the_name_of_the_one_that_takes_its_dead_letters() {
    let house = House::open().await;
    let queue = house.queue("orders").await;
    house.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    // Another dialect deletes a dead-letter queue whoever counts on it, and its name is free then.
    let dead = QueueKey::new(AccountId(0), "us-east-1", "dead");
    let dead = house.engine.queue(&dead).expect("it was made").id;
    house.engine.delete_queue(DeleteQueue { queue: dead, if_version: None }).await.expect("it is there");
    for method in ["PUT", "PATCH"] {
        let told = house.call(method, &queue, json!({ "queue_name": "dead" })).await.is_error(400, 100_128);
        assert!(told.contains("dead letters"), "{told}");
        house.call(method, &queue, json!({ "queue_name": "orders" })).await.result();
    }
    assert!(house.path("dead").await.is_none());
    house.call("PATCH", &queue, json!({ "queue_name": "renamed" })).await.result();
}

#[tokio::test]
async fn an_account_has_so_many_queues_and_no_more() {
    let house = House::with_queues_max(3).await;
    // One of SQS, whose name is none here, counts too.
    let key = QueueKey::new(AccountId(0), "us-east-1", "under_score");
    let create = CreateQueue { key, policy: Policy::standard(), documents: Vec::new() };
    house.engine.create_queue(create).await.expect("the name is free");
    let queue = house.queue("a").await;
    house.queue("b").await;
    let told = house.call("POST", "/queues", json!({ "queue_name": "c" })).await.is_error(429, 10_250);
    assert!(told.contains("queues_max"), "{told}");
    house.call("POST", "/queues", json!({ "queue_name": "a" })).await.is_error(409, 11_009);
    let consumer = json!({ "type": "http_pull", "dead_letter_queue": "c" });
    house.call("POST", &format!("{queue}/consumers"), consumer).await.is_error(429, 10_250);
    assert_eq!(house.ask("GET", &format!("{queue}/consumers"), "").await.result(), json!([]));
    let consumer = json!({ "type": "http_pull", "dead_letter_queue": "b" });
    house.consume(&queue, consumer).await;
    house.ask("DELETE", &queue, "").await.result();
    let make = |name: &'static str| house.call("POST", "/queues", json!({ "queue_name": name }));
    let (c, d, e, f) = tokio::join!(make("c"), make("d"), make("e"), make("f"));
    let made = [c, d, e, f].iter().filter(|answer| answer.status == 200).count();
    assert_eq!(made, 1, "of those that are made at once, none gets past the bound");
}
