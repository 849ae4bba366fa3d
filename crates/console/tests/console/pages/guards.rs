//! What keeps pages to themselves: headers, proofs of forms, roles, and text that stays text.

use std::collections::BTreeSet;

use super::browser::{Browser, FORM, form};

/// All forms, with what each needs. A test compares the list with the forms that the console takes.
const FORMS: &[(&str, &[(&str, &str)])] = &[
    ("/sign-in", &[("token", "hush")]),
    ("/sign-out", &[]),
    ("/theme", &[("theme", "dark")]),
    ("/new-queue", &[("name", "made")]),
    ("/store/backup", &[("to", "/backup")]),
    ("/shards/{shard}/hand-over", &[("to", "")]),
    ("/shards/{shard}/move", &[("database", "1")]),
    ("/redrives/{task}/cancel", &[]),
    ("/later/{id}/undo", &[]),
    ("/later/{id}/begin", &[]),
    ("/queues/{q}/send", &[("body", "x")]),
    ("/queues/{q}/settings", &[("visibility_seconds", "9")]),
    ("/queues/{q}/pause", &[]),
    ("/queues/{q}/resume", &[]),
    ("/queues/{q}/purge", &[("confirm", "orders")]),
    ("/queues/{q}/delete", &[("confirm", "orders")]),
    ("/queues/{q}/redrive", &[("to", "orders")]),
    ("/queues/{q}/messages/{id}/delete", &[("sure", "yes")]),
    ("/queues/{q}/messages/{id}/release", &[]),
    ("/queues/{q}/messages/{id}/extend", &[("seconds", "1")]),
    ("/queues/{q}/messages/{id}/promote", &[]),
];
/// Forms that everybody who is signed in may send: they change nothing but what belongs to the sender.
const OF_EVERYBODY: [&str; 3] = ["/sign-in", "/sign-out", "/theme"];
/// Forms that have a page at their own address.
const WITH_PAGE: [&str; 4] = ["/sign-in", "/new-queue", "/queues/{q}/send", "/queues/{q}/settings"];

/// The address of a form for this message of the queue `orders`.
fn address(template: &str, id: &str) -> String {
    template.replace("{q}", "orders").replace("{id}", id).replace("{task}", "1").replace("{shard}", "0")
}

#[test]
fn the_guards_try_every_form_that_the_console_takes() {
    let tried: BTreeSet<&str> = FORMS.iter().map(|(path, _)| *path).collect();
    assert_eq!(tried, kew_console::form_paths().collect());
}

#[tokio::test]
async fn every_page_has_the_headers_that_keep_it_to_itself() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"x"}"#).await;
    let message = format!("/queues/orders/messages/{id}");
    let paths = [
        "/",
        "/new-queue",
        "/sign-in",
        "/queues/orders",
        "/queues/orders/send",
        "/queues/orders/settings",
        &message,
        &format!("{message}/body"),
        "/nothing",
        "/queues/missing",
        "/assets/console.css",
        "/assets/nothing",
    ];
    for path in paths {
        let page = browser.get(path).await;
        let policy = page.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        assert!(!page.has("style=\"") && !page.has("<style") && !page.has("onclick"), "{path}");
    }
    let style = browser.get("/").await.between("rel=\"stylesheet\" href=\"", "\"");
    assert!(browser.get(&style).await.header("cache-control").contains("immutable"), "{style}");
}

#[tokio::test]
async fn a_form_without_its_proof_is_refused_and_changes_nothing() {
    for browser in [Browser::open().await, Browser::signed_in("anna").await] {
        browser.queue(r#"{"name":"orders"}"#).await;
        let id = browser.message("orders", r#"{"body":"stays"}"#).await;
        for csrf in ["", "0", "00000000000000000000000000000000"] {
            for (path, fields) in FORMS {
                let fields = [&[("csrf", csrf)], *fields].concat();
                let page = browser.ask("POST", &address(path, &id), &[FORM], &form(&fields)).await;
                assert_eq!((page.status, page.has("csrf")), (403, true), "{path}: {}", page.text);
            }
        }
        let page = browser.get("/queues/orders").await;
        assert!(page.has("stays") && page.has("Pause deliveries"), "{}", page.text);
        assert!(!browser.get("/").await.has("/queues/made"));
    }
}

#[tokio::test]
async fn pages_of_other_sites_cannot_send_forms_even_with_the_proof() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let csrf = browser.get("/").await.between("name=\"csrf\" value=\"", "\"");
    for (name, value) in
        [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")]
    {
        for (path, fields) in FORMS {
            let fields = [&[("csrf", csrf.as_str())], *fields].concat();
            let path = address(path, "00000000-0000-4000-8000-000000000000");
            let page = browser.ask("POST", &path, &[FORM, (name, value)], &form(&fields)).await;
            assert_eq!((page.status, page.has("cross_site")), (403, true), "{path} {name} {value}");
        }
    }
    let page = browser.ask("GET", "/queues/orders", &[("sec-fetch-site", "cross-site")], "").await;
    assert!(page.status == 403 && page.has("href=\"/queues/orders\">open this page itself"), "{}", page.text);
}

#[tokio::test]
async fn only_forms_are_taken_and_only_of_a_bounded_size() {
    let browser = Browser::open().await;
    let csrf = browser.get("/").await.between("name=\"csrf\" value=\"", "\"");
    let body = form(&[("csrf", &csrf), ("name", "made")]);
    for content_type in ["application/json", "text/plain", "multipart/form-data; boundary=x", ""] {
        let page = browser.ask("POST", "/new-queue", &[("content-type", content_type)], &body).await;
        assert_eq!(page.status, 415, "{content_type}");
    }
    let long = format!("{body}&more={}", "x".repeat(64 << 10));
    assert_eq!(browser.ask("POST", "/new-queue", &[FORM], &long).await.status, 413);
    let many = format!("{body}{}", "&a=b".repeat(100));
    assert_eq!(browser.ask("POST", "/new-queue", &[FORM], &many).await.status, 400);
    assert_eq!(browser.ask("POST", "/new-queue", &[FORM], &format!("{body}&x=%zz")).await.status, 400);
    assert_eq!(browser.get(&format!("/?{}", "a=b&".repeat(100))).await.status, 400);
    assert_eq!(browser.get("/queues/%ff").await.status, 400);
    assert_eq!(browser.ask("PUT", "/", &[], "").await.status, 405);
}

#[tokio::test]
async fn a_reader_sees_no_form_that_acts_and_is_refused_when_one_is_sent() {
    let browser = Browser::signed_in("bert").await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"stays"}"#).await;
    let message = format!("/queues/orders/messages/{id}");
    let pages =
        ["/", "/new-queue", "/queues/orders", "/queues/orders/send", "/queues/orders/settings", &message];
    for path in pages {
        let page = browser.get(path).await;
        let forms: Vec<&str> = page
            .text
            .split("method=\"post\" action=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!((page.status, forms), (200, vec!["/sign-out", "/theme"]), "{path}");
    }
    for (path, fields) in FORMS.iter().filter(|(path, _)| !OF_EVERYBODY.contains(path)) {
        let page = browser.post(&address(path, &id), fields).await;
        assert_eq!((page.status, page.has("read_only")), (403, true), "{path}: {}", page.text);
    }
    assert!(browser.get("/queues/orders").await.has("stays"));
}

#[tokio::test]
async fn looking_changes_nothing() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"stays"}"#).await;
    let before = browser.rig.audited();
    for (path, _) in FORMS {
        let page = browser.get(&address(path, &id)).await;
        let expected = if WITH_PAGE.contains(path) { 200 } else { 404 };
        assert_eq!(page.status, expected, "{path}");
    }
    browser.get(&format!("/queues/orders/messages/{id}")).await;
    let page = browser.get("/queues/orders?state=visible").await;
    assert!(page.has("stays"), "a look consumes nothing");
    assert_eq!(browser.rig.audited(), before);
}

#[tokio::test]
async fn what_others_sent_is_text_and_acts_on_nothing() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders.fifo"}"#).await;
    let body = "</code><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}gnp\u{0}\u{7}";
    let sent = serde_json::json!({ "body": body, "group": "<b>\"'&", "deduplication_id": "<i>" });
    let id = browser.message("orders.fifo", &sent.to_string()).await;
    let message = format!("/queues/orders.fifo/messages/{id}");
    for path in
        ["/queues/orders.fifo", &message, &format!("{message}?view=text"), &format!("{message}?view=hex")]
    {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        for bad in ["<script>alert", "<img", "<b>", "<i>", "\u{202e}", "\u{0}", "\u{7}"] {
            assert!(!page.has(bad), "{path} has {bad:?}");
        }
    }
    let page = browser.get(&message).await;
    assert!(
        page.has("&lt;script&gt;alert(1)") && page.has("\\u{202e}") && page.has("\\u{0}\\u{7}"),
        "{}",
        page.text
    );
    let odd = ["<script>", "\"><script>", "'", "\u{202e}", "\r\nX: y"];
    for text in odd {
        let text = kew_http::percent::encode(text.as_bytes()).into_owned();
        for path in [
            format!("/?prefix={text}"),
            format!("/queues/{text}"),
            format!("/queues/orders.fifo?text={text}&json={text}&state={text}"),
            format!("/queues/orders.fifo/messages/{text}"),
            format!("/messages?id={text}"),
            format!("/sign-in?next={text}"),
            format!("/{text}?done={text}"),
        ] {
            let page = browser.get(&path).await;
            // A field keeps the text that was typed into it.
            let shown = page.text.replace("value=\"\u{202e}\"", "");
            assert!(!shown.contains("<script>") && !shown.contains('\u{202e}'), "{path}: {}", page.text);
        }
    }
    let file = browser.get(&format!("{message}/body")).await;
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert!(file.header("content-disposition").starts_with("attachment"), "{file:?}");
    assert_eq!(&*file.reply.body, body.as_bytes());
}

#[tokio::test]
async fn a_page_for_who_may_not_be_here_holds_no_proof_and_no_form() {
    let browser = Browser::open().await;
    let csrf = browser.get("/").await.between("name=\"csrf\" value=\"", "\"");
    for (headers, status) in [([("host", "evil.example")], 421), ([("sec-fetch-site", "cross-site")], 403)] {
        let page = browser.ask("GET", "/", &headers, "").await;
        assert_eq!(page.status, status, "{}", page.text);
        assert!(!page.has(&csrf) && !page.has("csrf") && !page.has("method=\"post\""), "{}", page.text);
    }
}

#[tokio::test]
async fn a_message_is_deleted_only_by_who_says_to_be_sure() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"stays"}"#).await;
    let path = format!("/queues/orders/messages/{id}/delete");
    for fields in [&[][..], &[("sure", "")], &[("sure", "no")]] {
        let page = browser.post(&path, fields).await;
        assert_eq!((page.status, page.has("not_sure")), (409, true), "{}", page.text);
    }
    assert!(browser.get("/queues/orders").await.has("stays"));
    browser.done(&path, &[("sure", "yes")]).await;
    assert!(!browser.get("/queues/orders").await.has("stays"));
}
