//! Acts that wait a moment and can be undone.

use std::time::Duration;

use super::browser::{Browser, Page};
use super::rig::{Guarded, Parts, rig_of};

/// A browser at a server where acts wait so long that no test sees the end of it.
async fn patient(guarded: Guarded) -> Browser {
    let undo_window = Duration::from_secs(3_600);
    let browser = Browser::at(rig_of(Parts { guarded, undo_window, ..Parts::default() }).await);
    browser.queue(r#"{"name":"orders"}"#).await;
    browser.queue(r#"{"name":"dead"}"#).await;
    browser
}

/// Looks at the page of an act until it has ended.
async fn until_ended(browser: &Browser, path: &str) -> Page {
    let ended = async {
        loop {
            let page = browser.get(path).await;
            if !page.has("data-refresh") {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("an act that has begun ends")
}

#[tokio::test]
async fn a_deletion_that_is_undone_changes_nothing() {
    let browser = patient(Guarded::Open).await;
    let id = browser.message("orders", r#"{"body":"stays"}"#).await;
    browser.get("/").await;
    let sent = browser.post(&format!("/queues/orders/messages/{id}/delete"), &[("sure", "yes")]).await;
    let later = sent.header("location");
    let page = browser.get(&later).await;
    assert!(page.has("Not done yet") && page.has("in 1 h") && page.has(&id), "{}", page.text);
    assert!(browser.get("/queues/orders").await.has("stays"));
    let page = browser.done(&format!("{later}/undo"), &[]).await;
    assert!(page.has("nothing was changed") && !page.has("data-refresh"), "{}", page.text);
    for act in ["undo", "begin"] {
        let late = browser.post(&format!("{later}/{act}"), &[]).await;
        assert_eq!((late.status, late.has("too_late")), (409, true), "{act}: {}", late.text);
    }
    assert!(browser.get("/queues/orders").await.has("stays"));
    let expected = format!("open undo the message {id} of the queue orders is deleted ok");
    assert_eq!(browser.rig.audited().last(), Some(&expected));
}

#[tokio::test]
async fn an_act_begins_at_once_where_that_is_wanted_and_its_page_leads_on() {
    let browser = patient(Guarded::Open).await;
    let id = browser.message("dead", r#"{"body":"moved"}"#).await;
    browser.get("/").await;
    let sent = browser.post("/queues/dead/redrive", &[("to", "orders")]).await;
    let later = sent.header("location");
    assert!(later.starts_with("/later/"), "{sent:?}");
    let page = browser.get(&later).await;
    assert!(page.has("1 message of the queue dead will be moved to the queue orders."), "{}", page.text);
    assert!(page.has("data-due="), "it is loaded again when its moment is over");
    assert!(browser.get("/queues/dead").await.has(&id), "nothing was moved yet");
    browser.post(&format!("{later}/begin"), &[]).await;
    let page = until_ended(&browser, &later).await;
    assert!(page.header("location").starts_with("/redrives/"), "{page:?}");
}

#[tokio::test]
async fn what_would_be_refused_does_not_wait() {
    let browser = patient(Guarded::Open).await;
    for (fields, status, says) in [
        (&[("to", "none")][..], 404, "There is no queue none."),
        (&[("per_second", "many")], 400, "er_second must be a whole number"),
        (&[("json", "order")], 400, "son must be a path"),
    ] {
        let page = browser.post("/queues/dead/redrive", fields).await;
        assert_eq!((page.status, page.has(says)), (status, true), "{fields:?}: {}", page.text);
    }
    let gone = "/queues/dead/messages/00000000-0000-4000-8000-000000000000/delete";
    assert_eq!(browser.post(gone, &[("sure", "yes")]).await.status, 404);
}

#[tokio::test]
async fn the_page_of_an_act_says_which_messages_it_is_for() {
    let browser = patient(Guarded::Open).await;
    for body in ["one", "two"] {
        browser.message("dead", &serde_json::json!({ "body": body }).to_string()).await;
    }
    browser.get("/").await;
    let fields = [("to", "orders"), ("per_second", "5"), ("text", "tw")];
    let sent = browser.post("/queues/dead/redrive", &fields).await;
    let page = browser.get(&sent.header("location")).await;
    let says = "1 message of the queue dead will be moved to the queue orders, at most 5 each second; only those that fit text=tw.";
    assert!(page.has(says), "{}", page.text);
}

#[tokio::test]
async fn what_was_done_late_is_said_by_the_page_that_follows() {
    let browser = patient(Guarded::Open).await;
    let id = browser.message("orders", r#"{"body":"goes"}"#).await;
    browser.get("/").await;
    let sent = browser.post(&format!("/queues/orders/messages/{id}/delete"), &[("sure", "yes")]).await;
    browser.post(&format!("{}/begin", sent.header("location")), &[]).await;
    let ended = until_ended(&browser, &sent.header("location")).await;
    let page = browser.follow(&ended).await;
    assert!(page.has("The message was deleted.") && page.has("The queue is empty."), "{}", page.text);
}

#[tokio::test]
async fn an_act_begins_by_itself_when_its_moment_is_over() {
    let undo_window = Duration::from_millis(1);
    let browser = Browser::at(rig_of(Parts { undo_window, ..Parts::default() }).await);
    browser.queue(r#"{"name":"orders"}"#).await;
    let id = browser.message("orders", r#"{"body":"goes"}"#).await;
    let sent = browser.post(&format!("/queues/orders/messages/{id}/delete"), &[("sure", "yes")]).await;
    let ended = until_ended(&browser, &sent.header("location")).await;
    assert_eq!(ended.header("location"), "/queues/orders");
}

#[tokio::test]
async fn an_act_whose_session_has_ended_is_not_done() {
    let browser = patient(Guarded::Strictly).await;
    browser.sign_in("anna").await;
    let id = browser.message("orders", r#"{"body":"stays"}"#).await;
    let sent = browser.post(&format!("/queues/orders/messages/{id}/delete"), &[("sure", "yes")]).await;
    let later = sent.header("location");
    browser.post("/sign-out", &[]).await;
    browser.sign_in("anna").await;
    browser.post(&format!("{later}/begin"), &[]).await;
    let page = until_ended(&browser, &later).await;
    assert_eq!((page.status, page.has("session_ended")), (409, true), "{}", page.text);
    assert!(browser.get("/queues/orders").await.has("stays"));
}

#[tokio::test]
async fn counting_and_deletions_without_a_check_do_not_wait() {
    let browser = patient(Guarded::Open).await;
    let id = browser.message("dead", r#"{"body":"x"}"#).await;
    let page = browser.post("/queues/dead/redrive", &[("to", "orders"), ("dry_run", "true")]).await;
    assert!(!page.header("location").starts_with("/later/") && page.has("1 message"), "{}", page.text);
    assert_eq!(browser.post(&format!("/queues/dead/messages/{id}/delete"), &[]).await.status, 409);
    assert_eq!(browser.get("/later/none").await.status, 404);
}
