//! The list of a queue's messages and the page of one.

use super::browser::Browser;

#[tokio::test]
async fn messages_are_searched_by_what_stands_in_the_address() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let body = |text: &str| serde_json::json!({ "body": text }).to_string();
    browser.message("orders", &body(r#"{"order":{"id":17}}"#)).await;
    browser.message("orders", &body("a plain one")).await;
    browser.message("orders", r#"{"body":"a late one","delay_seconds":60}"#).await;
    browser.api("/queues/orders/receive", r#"{"max":1}"#).await;
    for (query, expected) in [
        ("", [true, true, true]),
        ("?state=visible", [false, true, false]),
        ("?state=in_flight", [true, false, false]),
        ("?state=delayed", [false, false, true]),
        ("?text=plain&state=any", [false, true, false]),
        ("?json=%24.order.id%3D17", [true, false, false]),
        ("?min_attempts=1", [true, false, false]),
        ("?group=g", [false, false, false]),
        ("?text=&json=&min_attempts=", [true, true, true]),
    ] {
        let page = browser.get(&format!("/queues/orders{query}")).await;
        let seen = ["&quot;id&quot;:17", "a plain one", "a late one"].map(|text| page.has(text));
        assert_eq!(seen, expected, "{query}");
    }
    let page = browser.get("/queues/orders?json=x&text=kept").await;
    assert!(page.status == 200 && page.has("role=\"alert\"") && page.has("value=\"kept\""), "{}", page.text);
    assert!(browser.get("/queues/orders?text=none").await.has("No message fits the search."));
    let delayed = browser.get("/queues/orders?state=delayed").await;
    assert!(delayed.has("in 1 min"), "the remaining time is shown: {}", delayed.text);
}

#[tokio::test]
async fn a_page_of_messages_leads_to_the_next() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    for number in 0..60 {
        browser
            .message("orders", &serde_json::json!({ "body": format!("number-{number:02}") }).to_string())
            .await;
    }
    let page = browser.get("/queues/orders?state=visible").await;
    assert!(page.has("number-49") && !page.has("number-50"));
    let next = page.between("rel=\"next\" href=\"", "\"").replace("&amp;", "&");
    assert!(next.starts_with("/queues/orders?state=visible&cursor="), "{next}");
    let page = browser.get(&next).await;
    assert!(
        page.has("number-50") && page.has("number-59") && !page.has("number-49") && !page.has("rel=\"next\"")
    );
}

#[tokio::test]
async fn a_body_is_shown_in_every_view_and_as_commands() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let body = serde_json::json!({ "body": r#"{"b":1.0,"a":"it's"}"#, "content_type": "json" });
    let id = browser.message("orders", &body.to_string()).await;
    let path = format!("/queues/orders/messages/{id}");
    let page = browser.get(&path).await;
    assert!(page.has("{\n  &quot;b&quot;: 1.0,\n  &quot;a&quot;: &quot;it&#39;s&quot;\n}"), "{}", page.text);
    for (view, expected) in [
        ("text", "{&quot;b&quot;:1.0,&quot;a&quot;:&quot;it&#39;s&quot;}"),
        (
            "hex",
            "00000000  7b 22 62 22 3a 31 2e 30  2c 22 61 22 3a 22 69 74  {&quot;b&quot;:1.0,&quot;a&quot;:&quot;it",
        ),
        ("base64", "eyJiIjoxLjAsImEiOiJpdCdzIn0="),
    ] {
        let page = browser.get(&format!("{path}?view={view}")).await;
        assert!(page.has(expected), "{view}: {}", page.text);
    }
    for expected in [
        "kew message show",
        "kew send orders &#39;{&quot;b&quot;:1.0,&quot;a&quot;:&quot;it&#39;\\&#39;&#39;s&quot;}&#39; --content-type json",
        "curl -sS --fail-with-body http://localhost:9325/api/v1/queues/orders/messages",
        "sqs.send_message(QueueUrl=url, MessageBody=",
    ] {
        let expected = expected.replace("&#39;", "'");
        let text = page.text.replace("&#39;", "'");
        assert!(text.contains(&expected), "{expected}: {text}");
    }
}

#[tokio::test]
async fn a_long_body_is_cut_and_can_be_seen_to_its_end() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let long = format!("{}the end", "<>&\u{202e}".repeat(100_000));
    let id = browser.message("orders", &serde_json::json!({ "body": long }).to_string()).await;
    let list = browser.get("/queues/orders").await;
    assert!(list.text.len() < 20_000, "the list has {} bytes", list.text.len());
    let mut path = format!("/queues/orders/messages/{id}");
    let mut parts = 0;
    loop {
        let page = browser.get(&path).await;
        assert!(page.text.len() < 400_000, "{path} has {} bytes", page.text.len());
        parts += 1;
        if page.has("the end") {
            break;
        }
        let section = page.between("aria-label=\"Parts of the body\"", "</nav>");
        path = section
            .split("rel=\"next\" href=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("more parts follow until the end")
            .replace("&amp;", "&");
        assert!(parts < 100, "parts end");
    }
    assert!(parts > 10, "{parts}");
}

#[tokio::test]
async fn the_story_says_why_a_message_came_again() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"x"}"#).await;
    for _ in 0..2 {
        browser.api("/queues/orders/receive", r#"{"visibility_seconds":60}"#).await;
        browser.done(&format!("/queues/orders/messages/{id}/release"), &[]).await;
    }
    let page = browser.get(&format!("/queues/orders/messages/{id}")).await;
    for expected in
        ["Why was this delivered again?", "<strong>sent</strong>", "<strong>leased</strong>", "attempt 2"]
    {
        assert!(page.has(expected), "{expected}: {}", page.text);
    }
    let page = browser.get(&format!("/messages?id={}", id.replace('-', ""))).await;
    assert_eq!(page.header("location"), format!("/queues/orders/messages/{id}"));
    browser.done(&format!("/queues/orders/messages/{id}/delete"), &[("sure", "yes")]).await;
    let page = browser.get(&format!("/queues/orders/messages/{id}")).await;
    assert!(page.status == 200 && page.has("gone") && !page.has("action=\"/queues"), "{}", page.text);
    assert!(page.has("<strong>deleted</strong>"), "no receiver had it: {}", page.text);
}

#[tokio::test]
async fn a_deletion_by_the_holder_of_a_lease_says_that_it_was_leased() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"x"}"#).await;
    let leased = browser.api("/queues/orders/receive", r#"{"visibility_seconds":60}"#).await;
    let settled = serde_json::json!({ "delete": [leased["messages"][0]["receipt"]] });
    browser.api("/queues/orders/settle", &settled.to_string()).await;
    let page = browser.get(&format!("/queues/orders/messages/{id}")).await;
    assert!(page.has("<strong>deleted while it was leased</strong>"), "{}", page.text);
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_says_so() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    for (path, status, expected) in [
        ("/queues/none", 404, "There is no queue none."),
        ("/queues/orders/messages/00000000-0000-4000-8000-000000000000", 404, "message_not_found"),
        ("/queues/orders/messages/x", 400, "UUID"),
        ("/messages?id=x", 400, "UUID"),
        ("/messages", 400, "UUID"),
        ("/nothing", 404, "There is nothing at /nothing."),
        ("/queues/", 404, "There is nothing at /queues/."),
        ("/queues//settings", 404, "There is nothing at /queues//settings."),
        ("/queues/orders/messages/", 404, "There is nothing at /queues/orders/messages/."),
        ("/redrives/", 404, "There is nothing at /redrives/."),
        ("/queues/a:b", 400, "names no queue"),
        ("/?cursor=a:b", 400, "names no queue"),
    ] {
        let page = browser.get(path).await;
        assert_eq!((page.status, page.has(expected)), (status, true), "{path}: {}", page.text);
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
    }
}

#[tokio::test]
async fn a_long_attribute_is_cut_and_can_be_had_whole() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let long = "<&\u{202e}".repeat(50_000);
    let sent = serde_json::json!({ "body": "x", "attributes": {
        "long/one": long, "short": "red", "bytes": { "type": "Binary", "value": "/w==" },
    } });
    let id = browser.message("orders", &sent.to_string()).await;
    let path = format!("/queues/orders/messages/{id}");
    let page = browser.get(&path).await;
    assert!(page.text.len() < 60_000, "the page has {} bytes", page.text.len());
    assert!(page.has("<bdi>red</bdi>") && page.has("too long for a command"), "{}", page.text);
    let file = page.between(&format!("href=\"{path}/attribute"), "\"").replace("&amp;", "&");
    let file = browser.get(&format!("{path}/attribute{file}")).await;
    assert_eq!((file.status, &*file.reply.body), (200, long.as_bytes()));
    assert_eq!(file.header("content-type"), "application/octet-stream");
    let bytes = browser.get(&format!("{path}/attribute?name=bytes")).await;
    assert_eq!(&*bytes.reply.body, b"\xff");
    assert_eq!(browser.get(&format!("{path}/attribute?name=none")).await.status, 404);
}

#[tokio::test]
async fn the_place_where_a_long_search_went_on_is_kept_by_everything_on_the_page() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"x","delay_seconds":60}"#).await;
    let found = browser.rig.get("/queues/orders/messages?state=any").await.body;
    let sequence = found["messages"][0]["sequence"].as_u64().expect("a message has a sequence");
    // The first queue of an engine.
    let cursor = format!("1-{sequence}");
    let path = format!("/queues/orders/messages/{id}");
    let page = browser.get(&format!("{path}?cursor={cursor}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.has(&format!("href=\"{path}/body?cursor={cursor}\"")), "{}", page.text);
    assert!(page.has(&format!("name=\"cursor\" value=\"{cursor}\"")), "{}", page.text);
    let promoted = browser.post(&format!("{path}/promote"), &[("cursor", &cursor)]).await;
    assert_eq!(promoted.header("location"), format!("{path}?cursor={cursor}"));
    let found = browser.get(&format!("/messages?id={id}&cursor={cursor}")).await;
    assert_eq!(found.header("location"), format!("{path}?cursor={cursor}"));
    let resend = browser.get(&format!("{path}/resend?cursor={cursor}")).await;
    assert!(resend.has(&format!("name=\"cursor\" value=\"{cursor}\"")), "{}", resend.text);
    for place in ["", "/body", "/resend"] {
        let page = browser.get(&format!("{path}{place}?cursor=x")).await;
        assert_eq!(
            (page.status, page.has("ursor is not one of this API")),
            (400, true),
            "it is handed on: {place}"
        );
    }
    let refused = browser.post(&format!("{path}/release"), &[("cursor", "x")]).await;
    assert_eq!(
        (refused.status, refused.has("ursor is not one of this API")),
        (400, true),
        "{}",
        refused.text
    );
}
