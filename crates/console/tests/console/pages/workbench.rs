//! The workbench for dead letters, groups and what the server shows of itself.

use kew_core::command::{FirstReceipts, Lease, Send};
use kew_core::{ContentType, NewMessage, QueueId};

use super::browser::{Browser, Page};

/// A queue whose messages were leased too often, and its dead-letter queue with them.
async fn dead_letters(browser: &Browser) -> String {
    browser.queue(r#"{"name":"dead"}"#).await;
    browser.queue(r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#).await;
    let id = browser.message("orders", r#"{"body":"wrong"}"#).await;
    browser.message("orders", r#"{"body":"also wrong"}"#).await;
    browser.message("dead", r#"{"body":"sent here"}"#).await;
    for _ in 0..2 {
        browser.api("/queues/orders/receive", r#"{"max":10,"visibility_seconds":0}"#).await;
    }
    id
}

#[tokio::test]
async fn dead_letters_stand_by_where_they_came_from_and_are_moved_back() {
    let browser = Browser::open().await;
    dead_letters(&browser).await;
    let page = browser.get("/queues/dead/dead-letters").await;
    assert!(
        page.has("2 messages from <a href=\"/queues/orders\">") && page.has("leased too often"),
        "{}",
        page.text
    );
    assert!(page.has("1 message sent here"), "{}", page.text);
    let page = browser.post("/queues/dead/redrive", &[("dry_run", "true"), ("to", "orders")]).await;
    assert_eq!((page.status, page.has("3 messages would be moved")), (200, true), "{}", page.text);
    assert_eq!(browser.post("/queues/dead/redrive", &[("to", "none")]).await.status, 404);
    let page = browser.done("/queues/dead/redrive", &[("to", "orders"), ("per_second", "1000")]).await;
    assert!(
        page.has("<h1>Messages are being moved</h1>") || page.has("<h1>Messages were moved</h1>"),
        "{}",
        page.text
    );
    assert!(page.has("href=\"/queues/orders\""), "{}", page.text);
    assert_eq!(browser.get("/redrives/99").await.status, 404);
}

#[tokio::test]
async fn a_task_is_cancelled_by_a_form() {
    let browser = Browser::open().await;
    dead_letters(&browser).await;
    browser.get("/queues/dead/dead-letters").await;
    let page = browser.done("/queues/dead/redrive", &[("to", "orders"), ("per_second", "1")]).await;
    let cancel = page.between("<form method=\"post\" action=\"/redrives", "\"");
    let page = browser.done(&format!("/redrives{cancel}"), &[]).await;
    assert!(page.has("<h1>The move was cancelled</h1>") && !page.has("data-refresh"), "{}", page.text);
    let (moved, left) =
        (page.between("<strong>", "</strong> moved"), page.between("moved, <strong>", "</strong>"));
    assert_eq!(
        page.between("<progress max=\"", "\" aria-label"),
        format!("3\" value=\"{moved}"),
        "{left} are left"
    );
}

/// The page of a task when it has ended.
async fn ended(browser: &Browser, first: Page) -> Page {
    let path = format!("/redrives/{}", first.between("href=\"/redrives/", "\""));
    let looking = async {
        let mut page = first;
        while page.has("data-refresh") {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            page = browser.get(&path).await;
        }
        page
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), looking).await.expect("the task ends")
}

#[tokio::test]
async fn each_message_returns_for_itself_and_those_without_an_origin_stay() {
    let browser = Browser::open().await;
    dead_letters(&browser).await;
    let page = browser.get("/queues/dead/dead-letters").await;
    for name in ["text", "json", "group", "min_attempts", "older_than_seconds"] {
        assert!(page.has(&format!("<input name=\"{name}\"")), "{name}: {}", page.text);
    }
    let page = ended(&browser, browser.done("/queues/dead/redrive", &[]).await).await;
    assert!(page.has("<strong>2</strong> moved, <strong>1</strong> left"), "{}", page.text);
    assert!(page.has("<p class=\"note\">1 message came from no other queue"), "{}", page.text);
    assert!(page.has("max=\"3\" value=\"2\""), "{}", page.text);
}

#[tokio::test]
async fn only_messages_that_fit_the_form_are_counted_and_moved() {
    let browser = Browser::open().await;
    dead_letters(&browser).await;
    browser.get("/queues/dead/dead-letters").await;
    let fields = [("text", "also"), ("min_attempts", "1"), ("to", "")];
    let page = browser.post("/queues/dead/redrive", &[&fields[..], &[("dry_run", "true")]].concat()).await;
    assert!(page.has("1 message would be moved from"), "{}", page.text);
    let page = ended(&browser, browser.done("/queues/dead/redrive", &fields).await).await;
    assert!(page.has("<strong>1</strong> moved, <strong>0</strong> left"), "{}", page.text);
    assert!(page.has("Only messages that fit:") && page.has("text=<bdi>also</bdi>"), "{}", page.text);
    assert_eq!(browser.post("/queues/dead/redrive", &[("json", "x")]).await.status, 400);
    assert_eq!(browser.post("/queues/dead/redrive", &[("min_attempts", "x")]).await.status, 400);
    assert!(browser.get("/queues/dead/dead-letters").await.has("2 messages can be moved now."));
}

#[tokio::test]
async fn the_tab_of_dead_letters_is_there_where_some_go_or_are() {
    let browser = Browser::open().await;
    let tab = |queue: &str| format!("<a href=\"/queues/{queue}/dead-letters\"");
    browser.queue(r#"{"name":"plain"}"#).await;
    browser.message("plain", r#"{"body":"x"}"#).await;
    assert!(!browser.get("/queues/plain").await.has(&tab("plain")));
    assert!(browser.get("/queues/plain/dead-letters").await.has(&tab("plain")), "whoever is there sees it");
    browser.queue(r#"{"name":"dead"}"#).await;
    assert!(!browser.get("/queues/dead").await.has(&tab("dead")));
    browser.queue(r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#).await;
    assert!(browser.get("/queues/dead").await.has(&tab("dead")), "they go there");
    assert!(!browser.get("/queues/orders").await.has(&tab("orders")));
    browser.message("orders", r#"{"body":"x"}"#).await;
    for _ in 0..2 {
        browser.api("/queues/orders/receive", r#"{"max":1,"visibility_seconds":0}"#).await;
    }
    let headers = [("content-type", "application/json")];
    browser.rig.ask("DELETE", "/queues/orders", &headers, "{}").await;
    assert!(browser.get("/queues/dead").await.has(&tab("dead")), "they are there");
}

#[tokio::test]
async fn a_dead_letter_whose_queue_was_deleted_may_be_sent_to_another() {
    let browser = Browser::open().await;
    let id = dead_letters(&browser).await;
    let page = browser.get(&format!("/queues/dead/messages/{id}")).await;
    assert!(page.has(&format!("href=\"/queues/dead/messages/{id}/resend\"")), "{}", page.text);
    let headers = [("content-type", "application/json")];
    browser.rig.ask("DELETE", "/queues/orders", &headers, "{}").await;
    let resend = format!("/queues/dead/messages/{id}/resend");
    let page = browser.get(&resend).await;
    assert!(page.status == 200 && page.has("There is no queue <bdi>orders</bdi> any more"), "{}", page.text);
    assert!(page.has("action=\"/queues/dead/send\"") && page.has("name=\"to\""), "{}", page.text);
    browser.queue(r#"{"name":"other"}"#).await;
    let page = browser.get(&format!("{resend}?to=other")).await;
    assert!(page.has("action=\"/queues/other/send\"") && !page.has("There is no queue"), "{}", page.text);
    assert_eq!(browser.get("/queues/none/messages/x/resend").await.status, 404);
}

#[tokio::test]
async fn a_message_that_is_sent_again_keeps_its_group_and_the_lines_of_its_attributes() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let body = r#"{"body":"x","group":"tenant-1","attributes":{"note":"one\ntwo","plain":"three"}}"#;
    let id = browser.message("orders", body).await;
    let page = browser.get(&format!("/queues/orders/messages/{id}/resend")).await;
    assert!(page.has("name=\"group\" maxlength=\"128\" value=\"tenant-1\""), "{}", page.text);
    assert!(page.has(">\none\ntwo</textarea>") && page.has("value=\"three\""), "{}", page.text);
    // As browsers send lines.
    let fields = [
        ("body", "x"),
        ("group", "tenant-1"),
        ("name.1", "note"),
        ("type.1", "String"),
        ("value.1", "one\r\ntwo"),
    ];
    browser.done("/queues/orders/send", &fields).await;
    let found = browser.rig.get("/queues/orders/messages").await.body;
    assert_eq!(found["messages"][1]["group"], "tenant-1");
    assert_eq!(found["messages"][1]["attributes"]["note"]["value"], "one\ntwo");
}

#[tokio::test]
async fn a_message_that_is_shown_in_base64_is_sent_again_as_what_it_was() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    for content_type in ["v8", "bytes"] {
        let body = format!(r#"{{"body_base64":"/w8=","content_type":"{content_type}"}}"#);
        let id = browser.message("orders", &body).await;
        let page = browser.get(&format!("/queues/orders/messages/{id}/resend")).await;
        let chosen = format!("<option value=\"{content_type}\" selected");
        assert!(page.has(&chosen) && page.has("/w8=</textarea>"), "{content_type}: {}", page.text);
    }
}

#[tokio::test]
async fn a_message_without_a_body_is_sent_again_as_it_was() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":""}"#).await;
    let body = "<textarea name=\"body\" rows=\"8\" spellcheck=\"false\"";
    let page = browser.get(&format!("/queues/orders/messages/{id}/resend")).await;
    assert!(page.has(&format!("{body}>\n</textarea>")), "{}", page.text);
    let empty_form = browser.get("/queues/orders/send").await;
    assert!(empty_form.has(&format!("{body} required>")), "{}", empty_form.text);
    let fields = [("body", ""), ("original_queue", "orders"), ("original", &id), ("delete_original", "yes")];
    let page = browser.done("/queues/orders/send", &fields).await;
    assert!(page.has("The message was sent.") && page.has("text, 0 B"), "{}", page.text);
    assert_eq!(browser.rig.get("/queues/orders").await.body["visible"], 1);
}

#[tokio::test]
async fn one_dead_letter_is_corrected_and_sent_again() {
    let browser = Browser::open().await;
    let id = dead_letters(&browser).await;
    let page = browser.get(&format!("/queues/dead/messages/{id}/resend")).await;
    assert!(page.has(">\nwrong</textarea>") && page.has("action=\"/queues/orders/send\""), "{}", page.text);
    let fields = [
        ("body", "right"),
        ("original_queue", "dead"),
        ("original", id.as_str()),
        ("delete_original", "yes"),
    ];
    let page = browser.done("/queues/orders/send", &fields).await;
    assert!(page.has("The message was sent.") && page.has("right"), "{}", page.text);
    let page = browser.get(&format!("/queues/dead/messages/{id}")).await;
    assert!(page.has("gone"), "{}", page.text);
}

#[tokio::test]
async fn a_message_that_is_no_text_is_sent_again_as_the_bytes_that_it_is() {
    const BODY: &[u8] = b"{\"a\":\xff\xfe}";
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let engine = &browser.rig.engine;
    // The first of the store.
    let queue = QueueId(1);
    let mut message = NewMessage::text(engine.message_id(), BODY);
    // It says JSON of itself, as a client may that encodes wrongly.
    message.content.content_type = ContentType::Json;
    let send = Send { queue, messages: vec![message], receipts: FirstReceipts::Told };
    engine.send(send).await.expect("the queue is there");
    let found = browser.rig.get("/queues/orders/messages").await.body;
    let id = found["messages"][0]["id"].as_str().expect("the message is there").to_owned();
    let page = browser.get(&format!("/queues/orders/messages/{id}/resend")).await;
    let body =
        page.between("<textarea name=\"body\" rows=\"8\" spellcheck=\"false\" required>\n", "</textarea>");
    assert!(page.has("<option value=\"bytes\" selected>"), "{}", page.text);
    let fields = [("body", body.as_str()), ("content_type", "bytes")];
    browser.done("/queues/orders/send", &fields).await;
    let leased = leased_bodies(&browser, queue).await;
    assert_eq!(leased, [BODY, BODY]);
}

/// The bodies of a queue's first messages.
async fn leased_bodies(browser: &Browser, queue: QueueId) -> Vec<Vec<u8>> {
    let engine = &browser.rig.engine;
    let leased = engine.lease(Lease::of(queue, 10, engine.now())).await.expect("the queue is there");
    leased.into_iter().map(|leased| leased.message.content.body.to_vec()).collect()
}

#[tokio::test]
async fn a_dead_letter_stays_where_its_successor_was_not_sent() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"dead.fifo"}"#).await;
    let settings = r#"{"dead_letters_to":"dead.fifo","max_attempts":1}"#;
    browser.queue(&format!(r#"{{"name":"orders.fifo","settings":{settings}}}"#)).await;
    let id = browser.message("orders.fifo", r#"{"body":"wrong","group":"g","deduplication_id":"d"}"#).await;
    for _ in 0..2 {
        browser.api("/queues/orders.fifo/receive", r#"{"max":10,"visibility_seconds":0}"#).await;
    }
    browser.get("/").await;
    let again = [
        ("body", "right"),
        ("group", "g"),
        ("deduplication_id", "d"),
        ("original_queue", "dead.fifo"),
        ("original", id.as_str()),
        ("delete_original", "yes"),
    ];
    let sent = browser.post("/queues/orders.fifo/send", &again).await;
    assert!(browser.follow(&sent).await.has("Nothing new was sent"), "{sent:?}");
    let page = browser.get(&format!("/queues/dead.fifo/messages/{id}")).await;
    assert!(page.has("wrong"), "the only copy: {}", page.text);
}

#[tokio::test]
async fn a_message_that_was_sent_is_said_to_be_also_where_the_original_is_gone() {
    let browser = Browser::open().await;
    let id = dead_letters(&browser).await;
    browser.done(&format!("/queues/dead/messages/{id}/delete"), &[("sure", "yes")]).await;
    let fields = [
        ("body", "right"),
        ("original_queue", "dead"),
        ("original", id.as_str()),
        ("delete_original", "yes"),
    ];
    let page = browser.done("/queues/orders/send", &fields).await;
    assert!(page.has("could not be deleted") && page.has("right"), "{}", page.text);
}

#[tokio::test]
async fn groups_show_what_locks_them_and_an_id_is_looked_up() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders.fifo"}"#).await;
    let first = browser.message("orders.fifo", r#"{"body":"a","group":"g","deduplication_id":"d"}"#).await;
    browser.message("orders.fifo", r#"{"body":"b","group":"g","deduplication_id":"e"}"#).await;
    browser.api("/queues/orders.fifo/receive", "{}").await;
    let page = browser.get("/queues/orders.fifo/groups").await;
    let row = page.between("<th scope=\"row\"><bdi>g</bdi></th>", "</tr>");
    assert!(row.contains(&format!("/messages/{first}")) && row.contains(">1<"), "{row}");
    let page = browser.get("/queues/orders.fifo/groups?id=d").await;
    assert!(page.has("It was sent first as") && page.has(&first), "{}", page.text);
    assert!(browser.get("/queues/orders.fifo/groups?id=x").await.has("No window of this id is open"));
    browser.queue(r#"{"name":"plain"}"#).await;
    let page = browser.get("/queues/plain/groups").await;
    assert!(page.has("No group has messages.") && !page.has("Deduplication id"), "{}", page.text);
}

#[tokio::test]
async fn charts_show_a_queue_over_time() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    assert!(browser.get("/queues/orders/charts").await.has("There are no samples."));
    for second in [0, 5, 10] {
        browser.message("orders", r#"{"body":"x"}"#).await;
        let passed = std::time::Duration::from_secs(second);
        let since = passed - *browser.rig.clock.0.lock();
        kew_testing::advance(&browser.rig.engine, since).await;
        *browser.rig.clock.0.lock() = passed;
        browser.rig.console.look().await;
    }
    let page = browser.get("/queues/orders/charts?seconds=300").await;
    assert!(page.has("d=\"M590.0,40.0L600.0,0.0\""), "two samples, of 2 and 3 messages: {}", page.text);
    for expected in
        ["aria-label=\"Messages, at most 3\"", "aria-label=\"Traffic, at most 0.2/s\"", "in steps of 5 s"]
    {
        assert!(page.has(expected), "{expected}: {}", page.text);
    }
    assert!(browser.get("/queues/orders/charts?seconds=1").await.has("aria-current=\"page\">15 minutes"));
}

#[tokio::test]
async fn the_server_shows_its_store_settings_deliveries_and_changes() {
    let browser = Browser::signed_in("bert").await;
    browser.queue(r#"{"name":"orders"}"#).await;
    for (path, expected) in [
        ("/store", "memory"),
        ("/config", "********"),
        ("/audit", "createQueue"),
        ("/alarms", "No rule watches a queue that is there."),
        ("/push", "There is nothing to show."),
        ("/push?outcome=ok", "There is nothing to show."),
    ] {
        let page = browser.get(path).await;
        assert_eq!((page.status, page.has(expected)), (200, true), "{path}: {}", page.text);
    }
    assert!(!browser.get("/config").await.has("hush"));
}

#[tokio::test]
async fn a_store_without_files_says_why_it_is_not_backed_up() {
    let browser = Browser::signed_in("anna").await;
    assert!(browser.get("/store").await.has("action=\"/store/backup\""));
    let page = browser.post("/store/backup", &[("to", "/backup")]).await;
    assert_eq!((page.status, page.has("The store is in memory")), (409, true), "{}", page.text);
    let reader = Browser::signed_in("bert").await;
    assert!(!reader.get("/store").await.has("/store/backup"), "read-only");
    assert_eq!(browser.get("/store/backups/none").await.status, 404);
}
