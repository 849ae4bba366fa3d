//! Messages looked at in every state, found by what is in them, and acted on one by one; a look changes nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{self, Rig};

/// A queue with one message of each state: leased, delayed, visible.
async fn with_messages() -> Rig {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    send(&rig, json!({ "body": r#"{"order":{"id":17}}"#, "content_type": "json" })).await;
    rig.done("POST", "/queues/orders/receive", r#"{"visibility_seconds":60}"#).await;
    send(&rig, json!({ "body": "later", "delay_seconds": 30 })).await;
    send(&rig, json!({ "body_base64": "AP8=", "content_type": "bytes", "group": "g" })).await;
    rig
}

async fn send(rig: &Rig, body: Value) -> String {
    let sent = rig.done("POST", "/queues/orders/messages", &body.to_string()).await;
    sent["id"].as_str().expect("an id is a text").to_owned()
}

/// The bodies of a page.
async fn bodies(rig: &Rig, query: &str) -> Vec<String> {
    let page = rig.get(&format!("/queues/orders/messages?{query}")).await;
    assert_eq!((page.status, &page.body["next"]), (200, &Value::Null), "{query}: {page:?}");
    let body = |message: &Value| {
        let body = message["body"].as_str().or(message["body_base64"].as_str());
        body.expect("a message has a body").to_owned()
    };
    page.body["messages"].as_array().into_iter().flatten().map(body).collect()
}

/// Everything that is counted.
async fn counted(rig: &Rig) -> [Value; 3] {
    let queue = rig.get("/queues/orders").await.body;
    let store = rig.get("/store").await.body;
    let messages = rig.get("/queues/orders/messages").await.body;
    [queue, store, messages]
}

#[tokio::test]
async fn messages_are_shown_in_every_state_and_found_by_what_is_asked() {
    const ORDER: &str = r#"{"order":{"id":17}}"#;
    let rig = with_messages().await;
    let all = rig.get("/queues/orders/messages").await.body;
    let messages = all["messages"].as_array().expect("messages are an array");
    let states: Vec<&Value> = messages.iter().map(|message| &message["state"]).collect();
    assert_eq!(states, ["in_flight", "delayed", "visible"]);
    let now = rig.engine.now().0;
    assert_eq!(
        messages[0]["lease"],
        json!({ "by": "admin open", "since_ms": now, "until_ms": now + 60_000 })
    );
    assert_eq!((&messages[0]["attempts"], &messages[0]["readable"]), (&1.into(), &true.into()));
    assert_eq!(messages[1]["visible_at_ms"], now + 30_000);
    assert_eq!((&messages[2]["lease"], &messages[2]["group"]), (&Value::Null, &"g".into()));
    for (query, expected) in [
        ("state=in_flight", &[ORDER][..]),
        ("state=delayed", &["later"]),
        ("state=visible", &["AP8="]),
        ("state=any&limit=1000", &[ORDER, "later", "AP8="]),
        ("text=ate", &["later"]),
        ("text=P8%3D", &["AP8="]),
        ("json=$.order.id%3D17", &[ORDER]),
        ("json=$.order.id%3D18", &[]),
        ("group=g", &["AP8="]),
        ("min_attempts=1", &[ORDER]),
        ("older_than_seconds=0", &[ORDER, "later", "AP8="]),
        ("older_than_seconds=1", &[]),
        ("state=visible&text=ate", &[]),
    ] {
        assert_eq!(bodies(&rig, query).await, expected, "{query}");
    }
    for wrong in ["json=$.order.id", "state=gone", "cursor=x", "limit=0", "other=1"] {
        let refused = rig.get(&format!("/queues/orders/messages?{wrong}")).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{wrong}");
    }
    assert_eq!(rig.get("/queues/nowhere/messages").await.code(), "queue_not_found");
}

#[tokio::test]
async fn pages_follow_the_order_of_sends_and_end() {
    let rig = with_messages().await;
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let page = rig.get(&format!("/queues/orders/messages?limit=1{cursor}")).await.body;
        let messages = page["messages"].as_array().expect("messages are an array");
        assert!(messages.len() <= 1);
        found.extend(messages.iter().map(|message| message["state"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, ["in_flight", "delayed", "visible"]);
}

#[tokio::test]
async fn a_search_that_finds_nothing_in_a_long_queue_ends_with_a_cursor() {
    let rig = with_messages().await;
    let queue = rig.engine.all_queues()[0].id;
    for _ in 0..101 {
        let messages = (0..1_000).map(|_| kew_core::NewMessage::text(rig.engine.message_id(), "x")).collect();
        let receipts = kew_core::command::FirstReceipts::Untold;
        let send = kew_core::command::Send { queue, messages, receipts };
        rig.engine.send(send).await.expect("the store has room for 101 000 small messages");
    }
    let first = rig.get("/queues/orders/messages?text=nothing").await.body;
    assert_eq!(first["messages"], json!([]));
    let next = first["next"].as_str().expect("a search through 101 000 messages takes two requests");
    let second = rig.get(&format!("/queues/orders/messages?text=nothing&cursor={next}")).await.body;
    assert_eq!(second, json!({ "messages": [], "next": null }));
    let unknown = "/messages/00000000000000000000000000000000";
    let first = rig.get(unknown).await;
    assert_eq!((first.status, &first.body["state"]), (202, &"searching".into()));
    let next = first.body["next"].as_str().expect("a search that is not finished has a cursor");
    assert_eq!(rig.get(&format!("{unknown}?cursor={next}")).await.code(), "message_not_found");
    let newest = send(&rig, json!({ "body": "newest" })).await;
    let found = rig.get(&format!("/messages/{newest}?cursor={next}")).await.body;
    assert_eq!(
        (&found["body"], words(&found)),
        (&"newest".into(), vec!["sent"]),
        "found by the search alone"
    );
}

#[tokio::test]
async fn looking_at_messages_changes_no_counter() {
    let rig = with_messages().await;
    let before = counted(&rig).await;
    for path in ["", "?text=ate", "?json=$.order.id%3D17", "?state=visible&limit=1"] {
        assert_eq!(rig.get(&format!("/queues/orders/messages{path}")).await.status, 200);
    }
    let messages = before[2]["messages"].as_array().expect("messages are an array");
    for id in messages.iter().filter_map(|message| message["id"].as_str()) {
        for path in [format!("/messages/{id}"), format!("/queues/orders/messages/{id}")] {
            assert_eq!(rig.get(&path).await.status, 200);
        }
    }
    assert_eq!(counted(&rig).await, before);
    assert_eq!(rig.audited().iter().filter(|line| line.contains("listMessages")).count(), 0);
}

/// The words of a timeline.
fn words(message: &Value) -> Vec<&str> {
    let events = message["timeline"].as_array().into_iter().flatten();
    events.filter_map(|event| event["event"].as_str()).collect()
}

#[tokio::test]
async fn a_message_is_shown_with_what_happened_to_it_and_why_it_came_again() {
    let rig = with_messages().await;
    rig.done("POST", "/queues/orders/purge", r#"{"confirm":"orders"}"#).await;
    let id = send(&rig, json!({ "body": "done" })).await;
    let found = rig.done("POST", "/queues/orders/receive", "").await;
    let delete = json!({ "delete": [found["messages"][0]["receipt"]] });
    rig.done("POST", "/queues/orders/settle", &delete.to_string()).await;
    let id_kept = send(&rig, json!({ "body": "again" })).await;
    rig.done("POST", "/queues/orders/receive", r#"{"visibility_seconds":30}"#).await;
    kew_testing::advance(&rig.engine, Duration::from_secs(31)).await;
    rig.done("POST", "/queues/orders/receive", r#"{"visibility_seconds":30}"#).await;
    let shown = rig.get(&format!("/messages/{}", id_kept.replace('-', ""))).await.body;
    assert_eq!(words(&shown), ["sent", "leased", "lease_ended", "leased"]);
    assert_eq!((&shown["queue"], &shown["state"]), (&"orders".into(), &"in_flight".into()));
    assert_eq!((&shown["id"], &shown["lease"]["by"]), (&id_kept.as_str().into(), &"admin open".into()));
    let because = &shown["why"][0];
    assert_eq!(
        (&because["attempts"], &because["because"]),
        (&2.into(), &"Its lease (of admin open) ran out after 30 s.".into())
    );
    assert_eq!(rig.get(&format!("/queues/orders/messages/{id_kept}")).await.body, shown);
    let gone = rig.get(&format!("/messages/{id}")).await.body;
    assert_eq!((&gone["state"], words(&gone)), (&"gone".into(), vec!["sent", "leased", "acked"]));
    let unknown = rig.get("/messages/00000000000000000000000000000000").await;
    assert_eq!((unknown.status, unknown.code()), (404, "message_not_found"));
    let elsewhere = rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    assert_eq!(elsewhere["queue"], "other");
    assert_eq!(rig.get(&format!("/queues/other/messages/{id_kept}")).await.code(), "message_not_found");
    for wrong in ["/messages/x", &format!("/messages/{id}?cursor=x")] {
        assert_eq!(rig.get(wrong).await.code(), "bad_request", "{wrong}");
    }
}

#[tokio::test]
async fn leases_are_counted_by_consumer_and_each_is_named_in_pages() {
    let rig = with_messages().await;
    let terms = kew_core::LeaseTerms { length: Some(Duration::from_secs(20)), ..Default::default() };
    let by = kew_core::event::Tag::new("billing-7");
    let queue = rig.engine.all_queues()[0].id;
    let lease =
        kew_core::command::Lease { by, terms, ..kew_core::command::Lease::of(queue, 1, rig.engine.now()) };
    assert_eq!(rig.engine.lease(lease).await.map(|leased| leased.len()), Ok(1));
    let page = rig.get("/queues/orders/messages?state=in_flight").await.body;
    let by = page["messages"].as_array().into_iter().flatten().map(|message| &message["lease"]["by"]);
    assert_eq!(by.collect::<Vec<_>>(), ["admin open", "billing-7"]);
    let now = rig.engine.now().0;
    let consumer = |by: &str, seconds: u64| json!({ "by": by, "leases": 1, "since_ms": now, "until_ms": now + seconds * 1_000 });
    let expected = json!({
        "consumers": [consumer("admin open", 60), consumer("billing-7", 20)],
        "leases": 2, "counted_all": true,
    });
    assert_eq!(rig.get("/queues/orders/leases").await.body, expected);
    assert_eq!(rig.get("/queues/nowhere/leases").await.code(), "queue_not_found");
}

#[tokio::test]
async fn a_message_that_went_with_its_queue_says_so() {
    let rig = with_messages().await;
    let gone = send(&rig, json!({ "body": "received before" })).await;
    rig.done("POST", &format!("/queues/orders/messages/{gone}/delete"), "{}").await;
    let purged = send(&rig, json!({ "body": "purged" })).await;
    rig.done("POST", "/queues/orders/purge", r#"{"confirm":"orders"}"#).await;
    let deleted = send(&rig, json!({ "body": "deleted" })).await;
    let shown = rig.get(&format!("/queues/orders/messages/{purged}")).await.body;
    assert_eq!((&shown["state"], words(&shown)), (&"gone".into(), vec!["sent", "purged"]));
    assert_eq!(shown["timeline"][1]["reason"], Value::Null);
    assert_eq!(words(&rig.get(&format!("/messages/{gone}")).await.body), ["sent", "acked"]);
    assert_eq!(words(&rig.get(&format!("/messages/{deleted}")).await.body), ["sent"]);
    rig.done("DELETE", "/queues/orders", "").await;
    let shown = rig.get(&format!("/messages/{deleted}")).await.body;
    assert_eq!((&shown["state"], &shown["queue"]), (&"gone".into(), &Value::Null));
    assert_eq!(
        (words(&shown), &shown["timeline"][1]["reason"]),
        (vec!["sent", "purged"], &"queue_deleted".into())
    );
    let shown = rig.get(&format!("/messages/{purged}")).await.body;
    assert_eq!((words(&shown), &shown["timeline"][1]["reason"]), (vec!["sent", "purged"], &Value::Null));
    assert_eq!(words(&rig.get(&format!("/messages/{gone}")).await.body), ["sent", "acked"]);
}

#[tokio::test]
async fn a_dead_letter_is_followed_through_its_queues() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    let settings = r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#;
    rig.done("POST", "/queues", settings).await;
    let id = send(&rig, json!({ "body": "bad" })).await;
    rig.done("POST", "/queues/orders/receive", r#"{"visibility_seconds":1}"#).await;
    kew_testing::advance(&rig.engine, Duration::from_secs(2)).await;
    rig.done("POST", "/queues/orders/receive", "").await;
    let shown = rig.get(&format!("/messages/{id}")).await.body;
    assert_eq!((&shown["queue"], &shown["reason"]), (&"dead".into(), &"attempts_exhausted".into()));
    assert_eq!(shown["origin"], "orders");
    assert_eq!(words(&shown), ["sent", "leased", "lease_ended", "dead_lettered"]);
    assert_eq!(shown["timeline"][3]["detail"], "to dead");
    let left = rig.get(&format!("/queues/orders/messages/{id}")).await.body;
    assert_eq!((&left["state"], &left["queue"]), (&"gone".into(), &"dead".into()));
    assert_eq!(rig.get(&format!("/queues/dead/messages/{id}")).await.body["state"], "visible");
}

#[tokio::test]
async fn an_operator_acts_on_one_message_or_is_refused_with_the_reason() {
    let rig = with_messages().await;
    let page = rig.get("/queues/orders/messages").await.body;
    let ids: Vec<&str> = (0..3).filter_map(|place| page["messages"][place]["id"].as_str()).collect();
    let [leased, delayed, visible] = ids.as_slice() else { panic!("{page}") };
    let now = rig.engine.now().0;
    for (id, act, body, status, expected) in [
        (leased, "extend", r#"{"seconds":90}"#, 200, "in_flight"),
        (leased, "promote", "", 409, "not_delayed"),
        (leased, "release", "", 200, "visible"),
        (leased, "release", "", 409, "lease_ended"),
        (leased, "extend", r#"{"seconds":1}"#, 409, "lease_ended"),
        (leased, "extend", "", 400, "bad_request"),
        (leased, "extend", r#"{"seconds":43201}"#, 400, "bad_request"),
        (delayed, "promote", "", 200, "visible"),
        (delayed, "promote", "", 409, "not_delayed"),
        (visible, "delete", "", 200, "gone"),
        (visible, "delete", "", 404, "message_not_found"),
        (&"00000000000000000000000000000000", "delete", "", 404, "message_not_found"),
        (&"x", "delete", "", 400, "bad_request"),
    ] {
        let answer = rig.post(&format!("/queues/orders/messages/{id}/{act}"), body).await;
        let said = answer.body["state"].as_str().unwrap_or_else(|| answer.code());
        assert_eq!((answer.status, said), (status, expected), "{act} {id} {body}: {answer:?}");
        if (act, status) == ("extend", 200) {
            assert_eq!(answer.body["until_ms"], now + 90_000);
        }
    }
    let left = rig.get("/queues/orders/messages").await.body;
    let states: Vec<&Value> =
        left["messages"].as_array().into_iter().flatten().map(|message| &message["state"]).collect();
    assert_eq!(states, ["visible", "visible"]);
    let audited = rig.audited();
    for line in [
        format!("open extendMessage orders/{leased} ok"),
        format!("open promoteMessage orders/{delayed} not_delayed"),
        format!("open deleteMessage orders/{visible} ok"),
    ] {
        assert!(audited.contains(&line), "{line} is not in {audited:?}");
    }
}

#[tokio::test]
async fn the_reply_to_an_act_is_what_the_message_does_afterwards() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    let settings = r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":2}}"#;
    rig.done("POST", "/queues", settings).await;
    let id = rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await["id"].clone();
    let path = format!("/queues/orders/messages/{}", id.as_str().expect("an id is a text"));
    for (act, body, state) in [("extend", r#"{"seconds":0}"#, "visible"), ("release", "", "gone")] {
        rig.done("POST", "/queues/orders/receive", "{}").await;
        let done = rig.done("POST", &format!("{path}/{act}"), body).await;
        assert_eq!((&done["state"], &done["until_ms"]), (&state.into(), &Value::Null), "{act}: {done}");
        assert_eq!(rig.get(&path).await.body["state"], state, "{act}");
    }
    assert_eq!(rig.get("/queues/dead").await.body["visible"], 1);
}

#[tokio::test]
async fn who_may_only_look_acts_on_no_message_and_pauses_nothing() {
    let rig = rig::rig(rig::Guarded::Strictly).await;
    let json = ("content-type", "application/json");
    let password = json!({ "user": "bert", "password": rig::PASSWORD }).to_string();
    let session = rig.ask("POST", "/session", &[json], &password).await;
    let csrf = session.body["csrf"].as_str().expect("a session has a second secret").to_owned();
    let cookie = session.header("set-cookie");
    let cookie = cookie.split(';').next().expect("a cookie has a value");
    let headers = [json, ("cookie", cookie), ("x-kew-csrf", csrf.as_str())];
    for path in [
        "messages/x/delete",
        "messages/x/release",
        "messages/x/extend",
        "messages/x/promote",
        "pause",
        "resume",
    ] {
        let refused = rig.ask("POST", &format!("/queues/orders/{path}"), &headers, "").await;
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
    }
    assert_eq!(rig.ask("GET", "/queues/orders/messages", &headers[1..2], "").await.code(), "queue_not_found");
}

#[tokio::test]
async fn a_paused_queue_delivers_nothing_until_it_is_resumed() {
    let rig = with_messages().await;
    assert_eq!(rig.done("POST", "/queues/orders/pause", "").await["paused"], true);
    assert_eq!(rig.done("POST", "/queues/orders/pause", "{}").await["paused"], true, "again is no error");
    assert_eq!(rig.get("/queues").await.body["queues"][0]["paused"], true);
    send(&rig, json!({ "body": "taken" })).await;
    assert_eq!(rig.done("POST", "/queues/orders/receive", "").await, json!({ "messages": [] }));
    assert_eq!(rig.get("/queues/orders/messages?state=visible").await.body["messages"][1]["body"], "taken");
    assert_eq!(rig.done("POST", "/queues/orders/resume", "").await["paused"], false);
    let found = rig.done("POST", "/queues/orders/receive", r#"{"max":9}"#).await;
    assert_eq!(found["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(rig.post("/queues/nowhere/pause", "").await.code(), "queue_not_found");
    assert!(rig.audited().contains(&"open pauseQueue orders ok".to_owned()));
}

#[tokio::test]
async fn groups_show_what_locks_them_and_an_id_shows_its_first_send() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"o.fifo"}"#).await;
    rig.done("POST", "/queues", r#"{"name":"g.fifo","settings":{"deduplication_scope":"group"}}"#).await;
    let mut ids = Vec::new();
    for (queue, group, id) in [("o", "a", "1"), ("o", "a", "2"), ("o", "b", "3"), ("g", "a", "1")] {
        let message = json!({ "body": "x", "group": group, "deduplication_id": id }).to_string();
        let sent = rig.done("POST", &format!("/queues/{queue}.fifo/messages"), &message).await;
        ids.push(sent["id"].clone());
    }
    let now = rig.engine.now().0;
    rig.done("POST", "/queues/o.fifo/receive", r#"{"visibility_seconds":60}"#).await;
    let shown = rig.get("/queues/o.fifo/groups?prefix=a").await.body;
    let locked = json!({ "group": "a", "waiting": 1, "locked_by": ids[0], "locked_until_ms": now + 60_000 });
    assert_eq!(shown, json!({ "groups": [locked], "next": null }));
    let open = json!({ "group": "b", "waiting": 1, "locked_by": null, "locked_until_ms": null });
    assert_eq!(rig.get("/queues/o.fifo/groups?prefix=b").await.body["groups"], json!([open]));
    let mut first = rig.get("/queues/o.fifo/groups?limit=1").await.body;
    let next = first["next"].take();
    let next = next.as_str().expect("two groups are two pages of one");
    let second = rig.get(&format!("/queues/o.fifo/groups?limit=1&cursor={next}")).await.body;
    assert_ne!(first["groups"][0]["group"], second["groups"][0]["group"]);
    let known = rig.get("/queues/o.fifo/deduplication?id=2").await.body;
    let expected =
        json!({ "deduplication_id": "2", "group": null, "message": ids[1], "until_ms": now + 300_000 });
    assert_eq!(known, json!({ "ids": [expected], "next": null }));
    assert_eq!(rig.get("/queues/o.fifo/deduplication?id=9").await.body["ids"], json!([]));
    let in_group = rig.get("/queues/g.fifo/deduplication?id=1&group=a").await.body;
    assert_eq!((&in_group["ids"][0]["group"], &in_group["ids"][0]["message"]), (&"a".into(), &ids[3]));
    assert_eq!(rig.get("/queues/g.fifo/deduplication?id=1&group=b").await.body["ids"], json!([]));
    for wrong in [
        "o.fifo/deduplication",
        "o.fifo/deduplication?id=",
        "g.fifo/deduplication?id=1",
        "o.fifo/groups?cursor=x",
    ] {
        assert_eq!(rig.get(&format!("/queues/{wrong}")).await.code(), "bad_request", "{wrong}");
    }
}
