//! Redrives: counted, begun, watched, cancelled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{self, Parts, Rig};

/// Two messages that were dead-lettered from `orders`.
async fn with_dead_letters() -> Rig {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    rig.done(
        "POST",
        "/queues",
        r#"{"name":"orders","settings":{"dead_letters_to":"dead","max_attempts":1}}"#,
    )
    .await;
    for body in ["a", "b"] {
        rig.done("POST", "/queues/orders/messages", &json!({ "body": body }).to_string()).await;
    }
    let found = rig.done("POST", "/queues/orders/receive", r#"{"max":2}"#).await;
    let receipts: Vec<&Value> = found["messages"]
        .as_array()
        .expect("messages is an array")
        .iter()
        .map(|one| &one["receipt"])
        .collect();
    rig.done("POST", "/queues/orders/settle", &json!({ "release": receipts }).to_string()).await;
    assert_eq!(rig.get("/queues/dead").await.body["visible"], 2);
    rig
}

/// The task when it runs no more.
async fn ended(rig: &Rig, task: &Value) -> Value {
    let looking = async {
        loop {
            let shown = rig.get(&path(task)).await;
            assert_eq!(shown.status, 200, "{shown:?}");
            if shown.body["state"] != "running" {
                return shown.body;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking).await.expect("the task ends")
}

fn path(task: &Value) -> String {
    format!("/redrives/{}", task.as_str().expect("a task is a text"))
}

async fn visible(rig: &Rig, queue: &str) -> Value {
    rig.get(&format!("/queues/{queue}")).await.body["visible"].clone()
}

#[tokio::test]
async fn dead_letters_return_to_where_they_came_from_after_a_dry_run() {
    let rig = with_dead_letters().await;
    let counted = rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","dry_run":true}"#).await;
    assert_eq!(counted, json!({ "matched": 2, "cannot_move": 0, "counted_all": true, "task": null }));
    assert_eq!(rig.get("/queues/dead").await.body["visible"], 2);
    let begun = rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin"}"#).await;
    assert_eq!(begun["matched"], 2);
    let ended = ended(&rig, &begun["task"]).await;
    assert_eq!((&ended["state"], &ended["moved"], &ended["left"]), (&"done".into(), &2.into(), &0.into()));
    assert_eq!((&ended["source"], &ended["to"]), (&"dead".into(), &"origin".into()));
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 2);
}

#[tokio::test]
async fn a_slow_redrive_is_watched_and_cancelled() {
    let rig = with_dead_letters().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let begun = rig.done("POST", "/queues/dead/redrive", r#"{"to":"other","per_second":1}"#).await;
    let path = format!("/redrives/{}", begun["task"].as_str().expect("a task is a text"));
    let second = rig.post("/queues/dead/redrive", r#"{"to":"origin"}"#).await;
    assert_eq!((second.status, second.code()), (409, "task_running"));
    let cancelled = rig.done("POST", &format!("{path}/cancel"), "").await;
    assert_eq!(cancelled["state"], "cancelled");
    let (moved, left) = (cancelled["moved"].as_u64(), cancelled["left"].as_u64());
    assert_eq!(moved.zip(left).map(|(moved, left)| moved + left), Some(2));
    let again = rig.post(&format!("{path}/cancel"), "").await;
    assert_eq!((again.status, again.code()), (409, "task_ended"));
    assert!(again.body.to_string().contains("cancelled"), "{again:?}");
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused() {
    let rig = with_dead_letters().await;
    rig.done("POST", "/queues", r#"{"name":"o.fifo"}"#).await;
    for (body, status) in [
        (r#"{"to":"nowhere"}"#, 404),
        (r#"{"to":"dead"}"#, 400),
        (r#"{"to":"o.fifo"}"#, 409),
        (r#"{"to":"origin","per_second":0}"#, 400),
        (r#"{"to":"origin","filter":"text"}"#, 400),
        (r#"{"to":"origin","filter":{"limit":1}}"#, 400),
        (r#"{"to":"origin","filter":{"state":"in_flight"}}"#, 400),
        (r#"{"to":"origin","filter":{"min_attempts":"1"}}"#, 400),
        (r#"{"to":"origin","filter":{"json":"$.a"}}"#, 400),
        (r#"{"to":"origin","filter":{"json":"$.a"},"dry_run":true}"#, 400),
        (r#"{"to":"dead","filter":{}}"#, 400),
    ] {
        assert_eq!(rig.post("/queues/dead/redrive", body).await.status, status, "{body}");
    }
    assert_eq!(visible(&rig, "dead").await, 2);
    for task in ["999", "x", "f0000000000000000", "-1", "99999999999999999999999"] {
        assert_eq!(rig.get(&format!("/redrives/{task}")).await.code(), "task_not_found", "{task}");
    }
}

/// A queue `dead` with messages of two origins and one that was sent there.
async fn with_mixed_origins() -> Rig {
    let rig = with_dead_letters().await;
    let settings = r#"{"name":"letters","settings":{"dead_letters_to":"dead","max_attempts":1}}"#;
    rig.done("POST", "/queues", settings).await;
    rig.done("POST", "/queues/letters/messages", r#"{"body":"{\"order\":{\"id\":17}}"}"#).await;
    for _ in 0..2 {
        rig.done("POST", "/queues/letters/receive", r#"{"max":9,"visibility_seconds":0}"#).await;
    }
    rig.done("POST", "/queues/dead/messages", r#"{"body":"sent here"}"#).await;
    assert_eq!(visible(&rig, "dead").await, 4);
    rig
}

#[tokio::test]
async fn only_messages_that_fit_the_filter_are_counted_and_moved() {
    let rig = with_mixed_origins().await;
    let counted = rig
        .done(
            "POST",
            "/queues/dead/redrive",
            r#"{"to":"origin","filter":{"json":"$.order.id=17"},"dry_run":true}"#,
        )
        .await;
    assert_eq!(counted, json!({ "matched": 1, "cannot_move": 0, "counted_all": true, "task": null }));
    assert_eq!(visible(&rig, "dead").await, 4);
    let begun = rig
        .done("POST", "/queues/dead/redrive", r#"{"to":"origin","filter":{"json":"$.order.id=17"}}"#)
        .await;
    assert_eq!(begun["matched"], 1);
    let expected = json!({
        "task": begun["task"], "source": "dead", "to": "origin", "state": "done", "moved": 1, "left": 0,
        "filter": { "json": "$.order.id=17" }, "reason": null,
    });
    assert_eq!(ended(&rig, &begun["task"]).await, expected);
    assert_eq!((visible(&rig, "dead").await, visible(&rig, "letters").await), (3.into(), 1.into()));
    for (filter, matched, cannot_move) in [
        (r#"{"text":"sent","state":"any"}"#, 0, 1),
        (r#"{"min_attempts":1}"#, 2, 0),
        (r#"{"older_than_seconds":1000000}"#, 0, 0),
        (r#"{"group":"g"}"#, 0, 0),
        ("{}", 2, 1),
    ] {
        let body = format!(r#"{{"to":"origin","filter":{filter},"dry_run":true}}"#);
        let counted = rig.done("POST", "/queues/dead/redrive", &body).await;
        assert_eq!([&counted["matched"], &counted["cannot_move"]], [matched, cannot_move], "{filter}");
    }
}

#[tokio::test]
async fn a_redrive_says_where_to() {
    let rig = with_dead_letters().await;
    for body in ["{}", r#"{"filter":{}}"#, r#"{"dry_run":true}"#, r#"{"to":null}"#] {
        let refused = rig.post("/queues/dead/redrive", body).await;
        assert_eq!(refused.status, 400, "{body}");
        let message = refused.body["error"]["message"].as_str().expect("a refusal has a message");
        assert!(message.starts_with("to "), "{message}");
    }
    assert_eq!(visible(&rig, "dead").await, 2);
}

#[tokio::test]
async fn a_dry_run_counts_apart_what_has_no_queue_to_go_to() {
    let rig = with_mixed_origins().await;
    let counted = |body| rig.done("POST", "/queues/dead/redrive", body);
    let to_origin = counted(r#"{"to":"origin","dry_run":true}"#).await;
    let apart = json!({ "matched": 3, "cannot_move": 1, "counted_all": true, "task": null });
    assert_eq!(to_origin, apart, "one was sent to the queue itself");
    rig.done("DELETE", "/queues/orders", "{}").await;
    let one_is_gone = counted(r#"{"to":"origin","dry_run":true,"filter":{}}"#).await;
    assert_eq!([&one_is_gone["matched"], &one_is_gone["cannot_move"]], [1, 3]);
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let elsewhere = counted(r#"{"to":"other","dry_run":true}"#).await;
    assert_eq!([&elsewhere["matched"], &elsewhere["cannot_move"]], [4, 0]);
}

#[tokio::test]
async fn a_filter_that_fits_nothing_is_a_task_that_is_done() {
    let rig = with_dead_letters().await;
    let begun =
        rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","filter":{"text":"nothing"}}"#).await;
    assert_eq!(begun["matched"], 0);
    let shown = rig.get(&path(&begun["task"])).await.body;
    assert_eq!((&shown["state"], &shown["moved"]), (&"done".into(), &0.into()));
}

#[tokio::test]
async fn messages_of_mixed_origins_return_each_for_itself_and_the_rest_is_explained() {
    let rig = with_mixed_origins().await;
    let begun = rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","filter":{}}"#).await;
    let ended = ended(&rig, &begun["task"]).await;
    assert_eq!((&ended["state"], &ended["moved"], &ended["left"]), (&"done".into(), &3.into(), &1.into()));
    let why = "1 message came from no other queue, or that queue was deleted or is of another kind";
    assert_eq!(ended["reason"], why);
    assert_eq!((visible(&rig, "orders").await, visible(&rig, "letters").await), (2.into(), 1.into()));
    assert_eq!(visible(&rig, "dead").await, 1);
}

#[tokio::test]
async fn a_slow_redrive_by_filter_is_watched_and_cancelled_and_keeps_others_off_its_queue() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    let begun = rig.done("POST", "/queues/dead/redrive", slow).await;
    for second in [r#"{"to":"origin","filter":{}}"#, r#"{"to":"origin"}"#] {
        let second = rig.post("/queues/dead/redrive", second).await;
        assert_eq!((second.status, second.code()), (409, "task_running"));
    }
    assert_eq!(
        rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","filter":{},"dry_run":true}"#).await["task"],
        Value::Null
    );
    let cancelled = rig.done("POST", &format!("{}/cancel", path(&begun["task"])), "").await;
    let (moved, left) = (cancelled["moved"].as_u64(), cancelled["left"].as_u64());
    assert_eq!(
        (&cancelled["state"], moved.zip(left).map(|(moved, left)| moved + left)),
        (&"cancelled".into(), Some(4))
    );
    assert_eq!(visible(&rig, "other").await, cancelled["moved"]);
    let again = rig.post(&format!("{}/cancel", path(&begun["task"])), "").await;
    assert_eq!((again.status, again.code()), (409, "task_ended"));
    assert!(again.body.to_string().contains("cancelled"), "{again:?}");
    assert_eq!(
        rig.done("POST", "/queues/dead/redrive", r#"{"to":"other","per_second":1}"#).await["matched"],
        json!(left)
    );
    let beside = rig.post("/queues/dead/redrive", r#"{"to":"origin","filter":{}}"#).await;
    assert_eq!((beside.status, beside.code()), (409, "task_running"), "a task of the whole queue runs");
}

#[tokio::test]
async fn a_redrive_by_filter_goes_on_with_the_next_server_and_is_forgotten_when_it_is_done() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let slow = r#"{"to":"other","per_second":1,"filter":{"min_attempts":1}}"#;
    let begun = rig.done("POST", "/queues/dead/redrive", slow).await;
    assert_eq!(begun["matched"], 3);
    rig.console.changes_end().await;
    assert_eq!(rig.get(&path(&begun["task"])).await.body["state"], "running", "it ended where it stood");
    let moved = visible(&rig, "other").await.as_u64().expect("a count");
    assert!(moved < 3, "a message a second");
    let next = rig::rig_of(Parts { engine: Some(Arc::clone(&rig.engine)), ..Parts::default() }).await;
    // Without a look for stored tasks by itself: the first request knows them.
    assert_eq!(next.get(&path(&begun["task"])).await.body["state"], "running");
    for _ in 0..3 {
        rig.engine.advance(Duration::from_secs(1)).await.expect("the clock is virtual");
    }
    let ended = ended(&next, &begun["task"]).await;
    assert_eq!((&ended["state"], visible(&next, "other").await), (&"done".into(), 3.into()), "{ended}");
    assert_eq!(visible(&next, "dead").await, 1, "the one that does not fit");
    let third = rig::rig_of(Parts { engine: Some(Arc::clone(&rig.engine)), ..Parts::default() }).await;
    third.console.resume_redrives().await;
    assert_eq!(third.get(&path(&begun["task"])).await.status, 404);
}

#[tokio::test]
async fn a_redrive_by_filter_is_known_to_the_first_request_after_a_start() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    // Each start moves one at once.
    for _ in 0..4 {
        rig.done("POST", "/queues/dead/messages", r#"{"body":"sent here"}"#).await;
    }
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    let begun = rig.done("POST", "/queues/dead/redrive", slow).await;
    rig.console.changes_end().await;
    let started = || rig::rig_of(Parts { engine: Some(Arc::clone(&rig.engine)), ..Parts::default() });
    for beside in [slow, r#"{"to":"other"}"#] {
        let next = started().await;
        let refused = next.post("/queues/dead/redrive", beside).await;
        next.console.changes_end().await;
        assert_eq!((refused.status, refused.code()), (409, "task_running"), "{beside}");
    }
    let next = started().await;
    let cancelled = next.done("POST", &format!("{}/cancel", path(&begun["task"])), "").await;
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(stored_redrives(&rig).await, 0, "it begins at no later start");
}

#[tokio::test]
async fn a_task_whose_queue_is_deleted_says_so() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    let begun = rig.done("POST", "/queues/dead/redrive", slow).await;
    rig.done("DELETE", "/queues/other", "{}").await;
    rig.engine.advance(Duration::from_secs(2)).await.expect("the clock is virtual");
    let ended = ended(&rig, &begun["task"]).await;
    assert_eq!(
        (&ended["state"], &ended["reason"]),
        (&"failed".into(), &"the queue to move to does not exist".into())
    );
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_is_noted_only_if_it_was_refused() {
    let rig = with_dead_letters().await;
    let before = rig.audited().len();
    rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","dry_run":true}"#).await;
    rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","dry_run":true,"filter":{}}"#).await;
    rig.done("POST", "/queues/dead/redrive", r#"{"to":"origin","filter":{"text":"nothing"}}"#).await;
    rig.post("/queues/dead/redrive", r#"{"to":"origin","dry_run":1}"#).await;
    rig.post("/queues/dead/redrive", r#"{"to":"dead","dry_run":true}"#).await;
    let expected =
        ["open redrive dead ok", "open redrive dead bad_request", "open countRedrive dead bad_request"];
    assert_eq!(rig.audited()[before..], expected);
}

#[tokio::test]
async fn a_slow_redrive_by_filter_does_not_look_again_before_each_message() {
    let rig = rig::open().await;
    for name in ["dead", "other"] {
        rig.done("POST", "/queues", &json!({ "name": name }).to_string()).await;
    }
    for number in 0..50 {
        let body = json!({ "body": number.to_string() }).to_string();
        rig.done("POST", "/queues/dead/messages", &body).await;
    }
    let slow = r#"{"to":"other","per_second":10,"filter":{}}"#;
    let begun = rig.done("POST", "/queues/dead/redrive", slow).await;
    let before = rig.engine.stats().store_steps.value();
    for _ in 0..50 {
        rig.engine.advance(Duration::from_millis(100)).await.expect("the clock is virtual");
    }
    let steps = rig.engine.stats().store_steps.value() - before;
    assert_eq!(ended(&rig, &begun["task"]).await["moved"], 50);
    assert!(steps <= 75, "{steps} steps of the store for 50 messages");
}

#[tokio::test]
async fn a_task_that_could_not_be_stored_is_taken_back_and_begins_at_no_later_start() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    rig.store.lose_next_documents();
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    let refused = rig.post("/queues/dead/redrive", slow).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    rig.engine.advance(Duration::from_secs(2)).await.expect("the clock is virtual");
    let next = rig::rig_of(Parts { engine: Some(Arc::clone(&rig.engine)), ..Parts::default() }).await;
    next.console.resume_redrives().await;
    rig.engine.advance(Duration::from_secs(9)).await.expect("the clock is virtual");
    assert_eq!(visible(&rig, "other").await, 0);
}

#[tokio::test]
async fn a_task_that_was_refused_and_is_stored_all_the_same_is_not_gone_on_with() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    rig.store.lose_next_documents_and_refuse_those_after();
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    assert_eq!(rig.post("/queues/dead/redrive", slow).await.status, 503);
    assert_eq!(stored_redrives(&rig).await, 1, "it was not taken back yet");
    // The first look for stored tasks after a start.
    rig.console.resume_redrives().await;
    rig.engine.advance(Duration::from_secs(9)).await.expect("the clock is virtual");
    assert_eq!(visible(&rig, "other").await, 0, "its client was told that nothing began");
    assert_eq!(stored_redrives(&rig).await, 0);
}

#[tokio::test]
async fn a_task_that_begins_while_stored_tasks_are_looked_for_has_one_driver() {
    let rig = with_mixed_origins().await;
    rig.done("POST", "/queues", r#"{"name":"other"}"#).await;
    let rung = rig.store.hold_next_documents();
    let slow = r#"{"to":"other","per_second":1,"filter":{}}"#;
    let mut beginning = Box::pin(rig.post("/queues/dead/redrive", slow));
    // Until its document is stored, which is not answered yet.
    while stored_redrives(&rig).await == 0 {
        tokio::select! {
            begun = &mut beginning => panic!("its document is not answered: {begun:?}"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    rig.console.resume_redrives().await;
    rung.notify_one();
    let begun = beginning.await;
    assert_eq!(begun.status, 200, "{begun:?}");
    rig.done("POST", &format!("{}/cancel", path(&begun.body["task"])), "").await;
    let moved = visible(&rig, "other").await;
    rig.engine.advance(Duration::from_secs(9)).await.expect("the clock is virtual");
    assert_eq!(visible(&rig, "other").await, moved, "what was cancelled has no other driver");
}

async fn stored_redrives(rig: &Rig) -> usize {
    let stored = kew_core::command::Documents {
        account: kew_core::own::OWN_ACCOUNT,
        owner: kew_core::own::REDRIVES.into(),
    };
    rig.engine.documents(stored).await.expect("the store is there").len()
}
