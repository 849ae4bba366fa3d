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
