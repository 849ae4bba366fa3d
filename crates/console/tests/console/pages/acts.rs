//! What forms do.

use super::browser::Browser;

#[tokio::test]
async fn a_queue_is_made_changed_and_deleted_by_forms() {
    let browser = Browser::open().await;
    browser.get("/new-queue").await;
    let page = browser.done("/new-queue", &[("name", "orders"), ("visibility_seconds", "45")]).await;
    assert!(page.has("The queue was made."), "{}", page.text);
    let page = browser.done("/new-queue", &[("name", "orders"), ("visibility_seconds", "45")]).await;
    let said = (page.has("The queue was made."), page.has("There was such a queue already."));
    assert_eq!(said, (false, true), "{}", page.text);
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
    let fields =
        [("visibility_seconds", "99999"), ("was.visibility_seconds", "30"), ("dead_letters_to", "<typed>")];
    let page = browser.post("/queues/orders/settings", &fields).await;
    assert_eq!((page.status, page.has("from 0 to 43200")), (400, true), "{}", page.text);
    for kept in [
        "name=\"visibility_seconds\" type=\"number\" inputmode=\"numeric\" min=\"0\" max=\"43200\" value=\"99999\"",
        "name=\"was.visibility_seconds\" value=\"30\"",
        "value=\"&lt;typed&gt;\"",
        "role=\"alert\"",
    ] {
        assert!(page.has(kept), "what was typed stays: {kept}: {}", page.text);
    }
    let page = browser.post("/queues/orders/settings", &[("delay_seconds", "soon")]).await;
    assert_eq!((page.status, page.has("value=\"soon\"")), (400, true), "{}", page.text);
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
async fn the_form_begins_with_a_template_of_each_dialect() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    browser.queue(r#"{"name":"orders.fifo"}"#).await;
    for (template, expected) in [
        ("sqs", &["{&quot;order&quot;: {&quot;id&quot;: 17}}</textarea>"][..]),
        ("sqs-attributes", &["value=\"priority\"", "<option selected>Number</option>", "value=\"AAEC/w==\""]),
        ("azure", &["<option value=\"text\" selected>"]),
        ("azure-base64", &["<option value=\"text-base64\" selected>", "Sent as Base64 of this text"]),
        ("cloudflare-json", &["<option value=\"json\" selected>"]),
        ("cloudflare-text", &["hello</textarea>"]),
        ("cloudflare-bytes", &["AAEC/w==</textarea>", "<option value=\"bytes\" selected>"]),
    ] {
        let page = browser.get(&format!("/queues/orders/send?template={template}")).await;
        let current = format!("/queues/orders/send?template={template}\" aria-current=\"true\"");
        for part in expected.iter().copied().chain([current.as_str()]) {
            assert!(page.has(part), "{template}: {part}: {}", page.text);
        }
    }
    let page = browser.get("/queues/orders.fifo/send?template=sqs").await;
    assert!(page.has("value=\"a-group\"") && !page.has("Cloudflare:"), "{}", page.text);
    assert!(browser.get("/queues/orders/send?template=%22%3E%3Cb%3E").await.has("name=\"body\""));
    let fields = [("body", "hello"), ("content_type", "text-base64")];
    browser.get("/queues/orders/send").await;
    let page = browser.done("/queues/orders/send", &fields).await;
    assert!(page.has("aGVsbG8="), "{}", page.text);
    let messages = browser.rig.get("/queues/orders/messages").await.body;
    assert_eq!(
        (&messages["messages"][0]["body"], &messages["messages"][0]["content_type"]),
        (&"aGVsbG8=".into(), &"text".into())
    );
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
    let page = browser.done(&format!("{path}/delete"), &[("sure", "yes")]).await;
    assert!(page.has("The message was deleted.") && page.has("The queue is empty."), "{}", page.text);
    assert_eq!(
        browser.rig.audited().last().map(String::as_str),
        Some(&*format!("open deleteMessage orders/{id} ok"))
    );
}

#[tokio::test]
async fn a_new_queue_that_is_refused_keeps_what_was_typed() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"taken"}"#).await;
    for (name, seconds, status, why) in [
        ("a b", "45", 400, "letters"),
        ("taken", "45", 409, "other settings"),
        ("new", "soon", 400, "whole number"),
    ] {
        let page = browser.post("/new-queue", &[("name", name), ("visibility_seconds", seconds)]).await;
        assert_eq!((page.status, page.has(why)), (status, true), "{}", page.text);
        let form = page.between("action=\"/new-queue\"", "</form>");
        for kept in [format!("value=\"{name}\""), format!("value=\"{seconds}\""), "<details open".to_owned()]
        {
            assert!(form.contains(&kept), "{kept}: {form}");
        }
    }
    assert!(!browser.get("/").await.has("/queues/new\""));
}

#[tokio::test]
async fn a_setting_with_choices_goes_back_to_its_default() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"a.fifo","settings":{"content_deduplication":true}}"#).await;
    let page = browser.get("/queues/a.fifo/settings").await;
    let choice = page.between("<select id=\"content_deduplication\"", "</select>");
    assert!(choice.contains("<option value=\"\">default (false)</option>"), "{choice}");
    let fields = [("content_deduplication", ""), ("was.content_deduplication", "true")];
    browser.done("/queues/a.fifo/settings", &fields).await;
    assert_eq!(browser.rig.get("/queues/a.fifo").await.body["settings"]["content_deduplication"], false);
}

#[tokio::test]
async fn what_was_done_is_said_once_and_stands_in_no_address() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let sent = browser.post("/queues/orders/pause", &[]).await;
    assert_eq!(sent.header("location"), "/queues/orders");
    let page = browser.follow(&sent).await;
    assert!(page.has("Deliveries are paused."), "{}", page.text);
    assert!(page.header("set-cookie").starts_with("kew_done=; Path=/; Max-Age=0"), "{page:?}");
    for (path, cookie) in [("/queues/orders?done=paused", ""), ("/queues/orders", "kew_done=<script>")] {
        let page = browser.ask("GET", path, &[("cookie", cookie)], "").await;
        assert!(!page.has("class=\"done\"") && !page.has("<script>"), "{path} {cookie}: {}", page.text);
    }
}
