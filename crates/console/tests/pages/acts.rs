//! What forms do.

use super::browser::Browser;

#[tokio::test]
async fn a_queue_is_made_changed_and_deleted_by_forms() {
    let browser = Browser::open().await;
    browser.get("/new-queue").await;
    let page = browser.done("/new-queue", &[("name", "orders"), ("visibility_seconds", "45")]).await;
    assert!(page.has("The queue was made."), "{}", page.text);
    let page = browser.get("/queues/orders/settings").await;
    assert!(page.has("name=\"visibility_seconds\" type=\"number\" inputmode=\"numeric\" min=\"0\" max=\"43200\" value=\"45\""), "{}", page.text);
    assert!(page.has("From 0 to 43,200. Default: <code>30</code>"), "{}", page.text);
    assert!(!page.has("deduplication_scope"), "it is no FIFO queue");
    // What was not touched keeps what others have set meanwhile.
    let headers = [("content-type", "application/json")];
    let patch = r#"{"settings":{"delay_seconds":7}}"#;
    assert_eq!(browser.rig.ask("PATCH", "/queues/orders", &headers, patch).await.status, 200);
    let fields = [
        ("visibility_seconds", ""),
        ("was.visibility_seconds", "45"),
        ("delay_seconds", "0"),
        ("was.delay_seconds", "0"),
    ];
    let page = browser.done("/queues/orders/settings", &fields).await;
    assert!(page.has("The settings were saved."));
    let shown = browser.rig.get("/queues/orders").await.body;
    assert_eq!(shown["settings"]["visibility_seconds"], 30);
    assert_eq!(shown["settings"]["delay_seconds"], 7);
    let page = browser.post("/queues/orders/settings", &[("visibility_seconds", "99999")]).await;
    assert_eq!((page.status, page.has("from 0 to 43200")), (400, true), "{}", page.text);
    let page = browser.post("/queues/orders/delete", &[("confirm", "order")]).await;
    assert_eq!((page.status, page.has("type its name, orders")), (409, true), "{}", page.text);
    let page = browser.done("/queues/orders/delete", &[("confirm", "orders")]).await;
    assert!(page.has("The queue was deleted.") && !page.has("/queues/orders"), "{}", page.text);
}

#[tokio::test]
async fn deliveries_are_paused_and_messages_purged() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    browser.message("orders", r#"{"body":"x"}"#).await;
    browser.get("/queues/orders").await;
    let page = browser.done("/queues/orders/pause", &[]).await;
    assert!(page.has("Deliveries are paused.") && page.has("Resume deliveries"));
    let page = browser.done("/queues/orders/resume", &[]).await;
    assert!(page.has("Deliveries go on.") && page.has("Pause deliveries"));
    let page = browser.post("/queues/orders/purge", &[("confirm", "")]).await;
    assert_eq!((page.status, page.has("type the queue")), (409, true), "{}", page.text);
    let page = browser.done("/queues/orders/purge", &[("confirm", "orders")]).await;
    assert!(page.has("All messages were deleted.") && page.has("The queue is empty."), "{}", page.text);
}

#[tokio::test]
async fn messages_of_every_kind_are_sent_by_the_form() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    browser.queue(r#"{"name":"orders.fifo"}"#).await;
    browser.get("/queues/orders/send").await;
    let page = browser.done("/queues/orders/send", &[("body", "one\r\ntwo"), ("delay_seconds", "60")]).await;
    assert!(page.has("The message was sent.") && page.has("delayed"), "{}", page.text);
    assert!(page.has("one\ntwo"), "{}", page.text);
    let page =
        browser.done("/queues/orders/send", &[("body", "/w ==".trim()), ("content_type", "bytes")]).await;
    assert!(page.has("00000000  ff"), "white space in Base64 does not count: {}", page.text);
    let fields = [("body", "\n{<"), ("content_type", "json"), ("name.7", "kept"), ("type.7", "Number.odd")];
    let page = browser.post("/queues/orders/send", &fields).await;
    assert_eq!((page.status, page.has("is no JSON")), (400, true), "{}", page.text);
    for kept in [
        ">\n\n{&lt;</textarea>",
        "value=\"json\" selected",
        "value=\"kept\"",
        "<option selected>Number.odd</option>",
    ] {
        assert!(page.has(kept), "what was typed stays: {kept}: {}", page.text);
    }
    let fields = [("body", "x"), ("name.1", "forbidden"), ("type.1", "String"), ("value.1", "red")];
    let page = browser.post("/queues/orders/send", &fields).await;
    assert_eq!((page.status, page.has("that one is forbidden")), (400, true), "{}", page.text);
    let fields = [("body", "x"), ("group", "g"), ("deduplication_id", "d")];
    let page = browser.done("/queues/orders.fifo/send", &fields).await;
    assert!(page.has("The message was sent.") && page.has("<bdi>g</bdi>"), "{}", page.text);
    let page = browser.done("/queues/orders.fifo/send", &fields).await;
    assert!(page.has("Nothing new was sent"), "{}", page.text);
    assert!(browser.get("/queues/orders.fifo/send").await.has("name=\"group\""));
}

#[tokio::test]
async fn one_message_is_released_extended_promoted_and_deleted() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"x","delay_seconds":60}"#).await;
    let path = format!("/queues/orders/messages/{id}");
    browser.get(&path).await;
    let page = browser.done(&format!("{path}/promote"), &[]).await;
    assert!(page.has("The delay was ended.") && !page.has("/promote\""), "{}", page.text);
    let page = browser.post(&format!("{path}/release"), &[]).await;
    assert_eq!((page.status, page.has("lease_ended")), (409, true), "{}", page.text);
    browser.api("/queues/orders/receive", "{}").await;
    let page = browser.done(&format!("{path}/extend"), &[("seconds", "3600")]).await;
    assert!(page.has("The lease ends at another time now.") && page.has("in 1 h"), "{}", page.text);
    assert_eq!(browser.post(&format!("{path}/extend"), &[("seconds", "soon")]).await.status, 400);
    let page = browser.done(&format!("{path}/release"), &[]).await;
    assert!(page.has("The lease was ended."), "{}", page.text);
    let page = browser.done(&format!("{path}/delete"), &[]).await;
    assert!(page.has("The message was deleted.") && page.has("The queue is empty."), "{}", page.text);
    assert_eq!(
        browser.rig.audited().last().map(String::as_str),
        Some(&*format!("open deleteMessage orders/{id} ok"))
    );
}
