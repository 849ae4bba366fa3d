//! Consumers: their types, settings and dead-letter queues.

use serde_json::{Value, json};

use super::server::{CloudflareAnswer, CloudflareServer, text};

fn worker_defaults() -> Value {
    // [seed] Batches of 10 that wait 5 seconds, and 3 retries.
    json!({
        "batch_size": 10, "max_wait_time_ms": 5_000, "max_retries": 3, "retry_delay": 0, "max_concurrency": null,
    })
}

#[tokio::test]
async fn a_worker_is_shown_under_both_of_its_names_with_defaults() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let body = json!({ "type": "worker", "script_name": "w", "environment_name": "", "settings": {} });
    let made = server.consume(&queue, body).await;
    let id = text(&made, "consumer_id");
    assert_eq!(id.len(), 32);
    let expected = json!({
        "consumer_id": id, "created_on": "2026-01-01T00:00:00.000000Z", "queue_name": "orders",
        "type": "worker", "script": "w", "script_name": "w", "dead_letter_queue": "",
        "settings": worker_defaults(),
    });
    assert_eq!(made, expected);
    assert_eq!(server.ask("GET", &format!("{queue}/consumers/{id}"), "").await.result(), made);
    assert_eq!(server.ask("GET", &format!("{queue}/consumers"), "").await.result(), json!([made]));
    let shown = server.ask("GET", &queue, "").await.result();
    assert_eq!((&shown["consumers"], &shown["consumers_total_count"]), (&json!([made]), &json!(1)));
}

#[tokio::test]
async fn a_puller_has_defaults_of_its_own() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let made = server.consume(&queue, json!({ "type": "http_pull" })).await;
    let settings =
        json!({ "batch_size": 5, "visibility_timeout_ms": 30_000, "max_retries": 3, "retry_delay": 0 });
    assert_eq!((&made["settings"], made.get("script")), (&settings, None));
}

#[tokio::test]
async fn a_webhook_keeps_its_secret_to_itself() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let body = json!({ "type": "http_push", "url": "http://127.0.0.1:1/hook", "secret": "quiet" });
    let made = server.consume(&queue, body).await;
    assert_eq!((&made["type"], &made["url"]), (&json!("http_push"), &json!("http://127.0.0.1:1/hook")));
    assert_eq!(made["settings"]["timeout_ms"], 30_000);
    assert!(!made.to_string().contains("quiet"));
}

#[tokio::test]
async fn a_queue_has_one_consumer() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for second in [json!({ "type": "http_pull" }), json!({ "type": "worker", "script_name": "w" })] {
        let refused = server.call("POST", &format!("{queue}/consumers"), second).await;
        assert_eq!(refused.is_error(409, 11_004), "workers.api.error.consumer_exists");
    }
}

// [seed] Where the command line and the file both change a setting, the last write wins.
/// Vendor: API schema, consumers: PUT; seen from wrangler 4.164.0
#[tokio::test]
async fn put_replaces_all_settings_and_keeps_id_and_type() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let settings = json!({
        "batch_size": 100, "max_wait_time_ms": 60_000, "max_retries": 100, "retry_delay": 86_400,
        "max_concurrency": 250,
    });
    let body = json!({
        "type": "worker", "script_name": "w", "dead_letter_queue": "dead", "settings": settings,
    });
    let made = server.consume(&queue, body).await;
    assert_eq!((&made["settings"], &made["dead_letter_queue"]), (&settings, &json!("dead")));
    let path = format!("{queue}/consumers/{}", text(&made, "consumer_id"));
    let deployed = json!({ "type": "worker", "script_name": "w", "settings": {} });
    let changed = server.call("PUT", &path, deployed).await.result();
    assert_eq!((&changed["settings"], &changed["dead_letter_queue"]), (&worker_defaults(), &json!("")));
    assert_eq!(changed["consumer_id"], made["consumer_id"]);
    server.call("PUT", &path, json!({ "type": "http_pull" })).await.is_error(400, 100_127);
    server.call("PUT", &path, json!({ "settings": {} })).await.is_error(400, 10_026);
    assert_eq!(server.ask("GET", &path, "").await.result(), changed);
}

#[tokio::test]
async fn settings_out_of_range_and_unfit_queues_are_refused_and_change_nothing() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let worker = |settings: Value| json!({ "type": "worker", "script_name": "w", "settings": settings });
    let pull = |settings: Value| json!({ "type": "http_pull", "settings": settings });
    for (body, code) in [
        (json!({ "settings": {} }), 10_026),
        (json!({ "type": "notification" }), 100_127),
        (json!({ "type": "worker" }), 100_127),
        (json!({ "type": "http_push", "url": "nowhere" }), 100_127),
        (pull(json!({ "batch_size": 101 })), 100_127),
        (pull(json!({ "batch_size": 0 })), 100_127),
        (pull(json!({ "max_retries": 101 })), 100_127),
        (pull(json!({ "retry_delay": 86_401 })), 100_127),
        (pull(json!({ "visibility_timeout_ms": 43_200_001 })), 100_127),
        (worker(json!({ "max_wait_time_ms": 60_001 })), 100_127),
        (worker(json!({ "max_concurrency": 0 })), 100_127),
        (json!({ "type": "http_pull", "dead_letter_queue": "orders" }), 100_127),
        (json!({ "type": "http_pull", "dead_letter_queue": "a_b" }), 100_127),
        (
            json!({ "type": "http_pull", "dead_letter_queue": "new", "settings": { "batch_size": 0 } }),
            100_127,
        ),
    ] {
        server.call("POST", &format!("{queue}/consumers"), body).await.is_error(400, code);
    }
    assert_eq!(server.ask("GET", &format!("{queue}/consumers"), "").await.result(), json!([]));
    assert_eq!(server.ask("GET", "/queues", "").await.result().as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_dead_letter_queue_that_is_not_there_is_made_where_its_queue_is() {
    let server = CloudflareServer::open().await;
    let made = server.call("POST", "/queues", json!({ "queue_name": "orders", "jurisdiction": "us" })).await;
    let queue = format!("/queues/{}", text(&made.result(), "queue_id"));
    let consumer = server.consume(&queue, json!({ "type": "http_pull", "dead_letter_queue": "dead" })).await;
    assert_eq!(consumer["dead_letter_queue"], "dead");
    let dead = server.path("dead").await.expect("the consumer's dead-letter queue exists");
    assert_eq!(server.ask("GET", &dead, "").await.result()["jurisdiction"], "us");
    // Two queues may take each other's dead letters.
    server.consume(&dead, json!({ "type": "http_pull", "dead_letter_queue": "orders" })).await;
}

#[tokio::test]
async fn a_consumer_that_is_gone_is_not_found_and_makes_room_for_another_type() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let made = server.consume(&queue, json!({ "type": "http_pull" })).await;
    let path = format!("{queue}/consumers/{}", text(&made, "consumer_id"));
    assert_eq!(server.ask("DELETE", &path, "").await.result(), Value::Null);
    for (method, body) in [("GET", ""), ("DELETE", ""), ("PUT", r#"{"type":"http_pull"}"#)] {
        server.ask(method, &path, body).await.is_error(404, 11_006);
        server.ask(method, &format!("{queue}/consumers/nobody"), body).await.is_error(404, 11_006);
    }
    server.consume(&queue, json!({ "type": "worker", "script_name": "w" })).await;
}
