//! How long consumers keep messages, and the visibility timeout that suits that.

use std::time::Duration;

use serde_json::{Value, json};

use super::browser::Browser;

/// Sends, leases and deletes messages, each kept for this number of seconds.
async fn work(browser: &Browser, messages: usize, seconds: u64) {
    for _ in 0..messages {
        browser.message("orders", r#"{"body":"x"}"#).await;
    }
    let rig = &browser.rig;
    let mut receipts = Vec::new();
    while receipts.len() < messages {
        let leased = rig.done("POST", "/queues/orders/receive", r#"{"max":10}"#).await;
        let found = leased["messages"].as_array().expect("messages are a list");
        receipts.extend(found.iter().map(|message| message["receipt"].clone()));
    }
    kew_testing::advance(&rig.engine, Duration::from_secs(seconds)).await;
    for some in receipts.chunks(10) {
        rig.done("POST", "/queues/orders/settle", &json!({ "delete": some }).to_string()).await;
    }
}

#[tokio::test]
async fn a_visibility_timeout_is_suggested_from_how_long_messages_were_kept() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders","settings":{"visibility_seconds":300}}"#).await;
    browser.queue(r#"{"name":"other"}"#).await;
    assert!(browser.get("/queues/orders/leases").await.has("The history remembers no message"));
    work(&browser, 10, 4).await;
    let few = browser.rig.get("/queues/orders/processing").await.body;
    assert_eq!((&few["messages"], &few["suggested_seconds"]), (&json!(10), &Value::Null));
    work(&browser, 15, 20).await;
    let found = browser.rig.get("/queues/orders/processing").await.body;
    assert_eq!(
        [&found["messages"], &found["p50_ms"], &found["p99_ms"], &found["suggested_seconds"]],
        [25, 20_000, 20_000, 60]
    );
    let page = browser.get("/queues/orders/leases").await;
    for expected in
        ["A visibility timeout of <strong>1 min</strong> would suit that", "heat-4", "Kept less than"]
    {
        assert!(page.has(expected), "{expected}: {}", page.text);
    }
    let fields = [("visibility_seconds", "60"), ("was.visibility_seconds", "300")];
    browser.done("/queues/orders/settings", &fields).await;
    assert!(browser.get("/queues/orders/leases").await.has("The visibility timeout suits that"));
    let other = browser.rig.get("/queues/other/processing").await.body;
    assert_eq!(other["messages"], 0, "each queue has its own");
    assert_eq!(browser.get("/queues/none/leases").await.status, 404);
}

#[tokio::test]
async fn who_holds_messages_stands_in_the_list_and_by_consumer() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    assert!(browser.get("/queues/orders/leases").await.has("No message of this queue is in flight."));
    browser.message("orders", r#"{"body":"x"}"#).await;
    browser.rig.done("POST", "/queues/orders/receive", r#"{"visibility_seconds":60}"#).await;
    let leases = browser.get("/queues/orders/leases").await;
    assert!(leases.has("admin open") && leases.has("in 1 min"), "{}", leases.text);
    let list = browser.get("/queues/orders?state=in_flight").await;
    assert!(list.has("by <bdi>admin open</bdi>"), "{}", list.text);
}

#[tokio::test]
async fn who_may_not_act_sees_the_suggestion_without_a_button() {
    let browser = Browser::signed_in("anna").await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let page = browser.get("/queues/orders/leases").await;
    assert!(
        page.has("How long consumers keep messages") && !page.has("Set the visibility timeout"),
        "{}",
        page.text
    );
}
