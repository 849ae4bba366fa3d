//! The calendar of delayed messages.

use std::time::Duration;

use super::browser::Browser;

#[tokio::test]
async fn delayed_messages_are_counted_by_when_they_become_visible() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    assert!(browser.get("/queues/orders/delayed").await.has("No message is delayed."));
    for seconds in [7_200, 7_200, 600, 0] {
        let message = serde_json::json!({ "body": "x", "delay_seconds": seconds });
        browser.message("orders", &message.to_string()).await;
    }
    let found = browser.rig.get("/queues/orders/delayed").await.body;
    let slots = found["slots"].as_array().expect("slots are a list");
    let shown: Vec<(u64, u64)> = slots
        .iter()
        .map(|slot| {
            let whole = |name: &str| slot[name].as_u64().expect("a slot has numbers");
            ((whole("until_ms") - whole("from_ms")) / 1_000, whole("messages"))
        })
        .collect();
    assert_eq!(shown, [(60, 1), (3_600, 2)], "the visible message is not counted: {found}");
    assert_eq!((&found["messages"], &found["next"]), (&serde_json::json!(3), &serde_json::Value::Null));
    let page = browser.get("/queues/orders/delayed").await;
    for expected in ["3 messages counted", "<meter min=\"0\" max=\"2\" value=\"2\"", ">1 h<", ">1 min<"] {
        assert!(page.has(expected), "{expected}: {}", page.text);
    }
    kew_testing::advance(&browser.rig.engine, Duration::from_secs(601)).await;
    assert!(browser.get("/queues/orders/delayed").await.has("2 messages counted"));
    assert_eq!(browser.get("/queues/none/delayed").await.status, 404);
    assert_eq!(browser.get("/queues/orders/delayed?cursor=x").await.status, 400);
}

#[tokio::test]
async fn a_page_counts_a_queue_that_the_api_counts_in_parts() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let queue = browser.rig.engine.all_queues().remove(0).id;
    // One call of the API looks at a hundred thousand messages.
    for number in 0..101_000_u64 {
        let mut message =
            kew_core::NewMessage::text(browser.rig.engine.message_id(), bytes::Bytes::from_static(b"x"));
        message.delay = Some(Duration::from_secs(if number < 100_500 { 600 } else { 7_200 }));
        let receipts = kew_core::command::FirstReceipts::Untold;
        let send = kew_core::command::Send { queue, messages: vec![message], receipts };
        browser.rig.engine.send(send).await.expect("the queue is there");
    }
    let part = browser.rig.get("/queues/orders/delayed").await.body;
    let next = part["next"].as_str().expect("a part that is not the last names the next one");
    let rest = browser.rig.get(&format!("/queues/orders/delayed?cursor={next}")).await.body;
    assert_eq!(part["messages"].as_u64().zip(rest["messages"].as_u64()).map(|(a, b)| a + b), Some(101_000));
    let page = browser.get("/queues/orders/delayed").await;
    assert!(page.has("101,000 messages counted:"), "{}", page.text);
    assert!(page.has(">100,500<") && page.has(">500<"), "a slot is counted over all parts: {}", page.text);
}
