//! Queues: listed, made, shown, changed, purged, deleted.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{self, Rig};

async fn names(rig: &Rig, query: &str) -> (Vec<String>, Value) {
    let answer = rig.get(&format!("/queues{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let queues = answer.body["queues"].as_array().cloned().unwrap_or_default();
    let names = queues.iter().map(|queue| queue["queue"].as_str().unwrap_or_default().to_owned()).collect();
    (names, answer.body["next"].clone())
}

#[tokio::test]
async fn queues_are_listed_by_the_beginning_of_either_form_of_their_names() {
    let rig = rig::open().await;
    let far =
        ["000000000000:eu-west-1:in_eu", "000000000000:eu-west-1:in_eu-2", "000000000000:eu-west-3:in_eu"];
    let other = ["000000000007:eu-west-1:in_eu", "000000000007:us-east-1:0"];
    for name in [&far[..], &other, &["in_eu", "orders"]].concat() {
        rig.done("POST", "/queues", &json!({ "name": name }).to_string()).await;
    }
    for (prefix, expected) in [
        ("000000000000:eu-west-1:in_eu", &far[..2]),
        ("000000000000:eu-west-1:in_eu-", &far[1..2]),
        ("000000000000:eu-west-1:", &far[..2]),
        ("000000000000:eu-west-1:x", &[]),
        ("000000000000:eu-west", &far),
        ("000000000000:us-east-1:o", &["orders"]),
        ("000000000007:", &other),
        ("000000000007:eu-west-1:in_eu:", &[]),
        ("7:", &[]),
        (":", &[]),
        ("x:eu-west-1:in_eu", &[]),
        ("0", &other[1..]),
        ("o", &["orders"]),
    ] {
        assert_eq!(names(&rig, &format!("?prefix={prefix}")).await.0, expected, "{prefix}");
    }
    let (first, next) = names(&rig, "?prefix=000000000000:eu&limit=2").await;
    assert_eq!(
        (first.as_slice(), next.as_str()),
        ([far[0], far[1]].map(str::to_owned).as_slice(), Some(far[1]))
    );
    let (second, next) = names(&rig, &format!("?prefix=000000000000:eu&limit=2&cursor={}", far[1])).await;
    assert_eq!((second, next), (vec![far[2].to_owned()], Value::Null));
}

#[tokio::test]
async fn a_queue_is_made_once_shown_changed_and_deleted() {
    let rig = rig::open().await;
    let settings = r#"{"visibility_seconds":60,"delay_seconds":5}"#;
    let create = format!(r#"{{"name":"orders","settings":{settings}}}"#);
    let made = rig.post("/queues", &create).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(rig.post("/queues", &create).await.status, 200);
    assert_eq!(
        rig.post("/queues", r#"{"name":"orders"}"#).await.status,
        200,
        "what is not given is not compared"
    );
    let other = rig.post("/queues", r#"{"name":"orders","settings":{"visibility_seconds":61}}"#).await;
    assert_eq!((other.status, other.code()), (409, "queue_exists"));
    assert!(other.body["error"]["message"].as_str().is_some_and(|text| text.contains("visibility_seconds")));
    let shown = rig.get("/queues/orders").await;
    assert_eq!(shown.body, made.body);
    let expected = json!({
        "visibility_seconds": 60, "delay_seconds": 5, "retention_seconds": 345_600, "wait_seconds": 0,
        "body_bytes_max": 1_048_576, "dead_letters_to": null, "max_attempts": null, "drop_exhausted": false,
    });
    assert_eq!(shown.body["settings"], expected);
    let changed =
        rig.done("PATCH", "/queues/orders", r#"{"settings":{"visibility_seconds":null,"wait_seconds":9}}"#);
    let settings = changed.await["settings"].clone();
    assert_eq!(
        [&settings["visibility_seconds"], &settings["wait_seconds"], &settings["delay_seconds"]],
        [30, 9, 5]
    );
    assert_eq!(rig.done("DELETE", "/queues/orders", "").await, json!({ "messages": 0 }));
    for (method, path) in
        [("GET", "/queues/orders"), ("DELETE", "/queues/orders"), ("POST", "/queues/orders/purge")]
    {
        let gone = rig.change(method, path, "").await;
        assert_eq!((gone.status, gone.code()), (404, "queue_not_found"), "{method} {path}");
    }
    let lines = rig.audited();
    assert_eq!(lines[0], "open createQueue orders ok");
    assert_eq!(lines[3], "open createQueue orders queue_exists");
    assert_eq!(lines[5], "open deleteQueue orders ok");
}

#[tokio::test]
async fn settings_are_refused_outside_their_ranges_and_where_they_contradict_each_other() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    rig.done("POST", "/queues", r#"{"name":"dead.fifo"}"#).await;
    for settings in [
        r#"{"visibility_seconds":43201}"#,
        r#"{"visibility_seconds":"30"}"#,
        r#"{"retention_seconds":59}"#,
        r#"{"colour":1}"#,
        r#"{"max_attempts":0,"dead_letters_to":"dead"}"#,
        r#"{"max_attempts":3}"#,
        r#"{"drop_exhausted":true}"#,
        r#"{"drop_exhausted":true,"max_attempts":3,"dead_letters_to":"dead"}"#,
        r#"{"dead_letters_to":"nowhere"}"#,
        r#"{"dead_letters_to":"dead.fifo"}"#,
        r#"{"dead_letters_to":"orders"}"#,
        r#"{"dead_letters_to":"000000000001:us-east-1:dead"}"#,
        r#"{"content_deduplication":true}"#,
    ] {
        let refused = rig.post("/queues", &format!(r#"{{"name":"orders","settings":{settings}}}"#)).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_request"), "{settings}");
    }
    for name in ["", "a b", "a/b", "a:b", "orders.fif"] {
        let refused = rig.post("/queues", &json!({ "name": name }).to_string()).await;
        assert_eq!(refused.status, 400, "{name}");
    }
    assert_eq!(rig.post("/queues", r#"{"name":"orders","kind":"fifo"}"#).await.status, 400);
    assert_eq!(rig.post("/queues", r#"{"name":"o.fifo","kind":"standard"}"#).await.status, 400);
    let late = rig.post("/queues", r#"{"name":"o.fifo","settings":{"delay_seconds":901}}"#).await;
    assert_eq!(late.status, 400, "{late:?}");
    assert_eq!(rig.engine.queue_count(), 2);
}

#[tokio::test]
async fn a_dead_letter_rule_is_changed_member_by_member() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"dead"}"#).await;
    rig.done("POST", "/queues", r#"{"name":"orders","settings":{"dead_letters_to":"dead"}}"#).await;
    let rule = async |settings: &str| {
        let body = format!(r#"{{"settings":{settings}}}"#);
        let shown = rig.done("PATCH", "/queues/orders", &body).await;
        let settings = &shown["settings"];
        (
            settings["dead_letters_to"].clone(),
            settings["max_attempts"].clone(),
            settings["drop_exhausted"].clone(),
        )
    };
    assert_eq!(rule("{}").await, ("dead".into(), 10.into(), false.into()));
    assert_eq!(rule(r#"{"max_attempts":3}"#).await, ("dead".into(), 3.into(), false.into()));
    assert_eq!(rule(r#"{"max_attempts":null}"#).await, ("dead".into(), 10.into(), false.into()));
    let dropping = r#"{"max_attempts":2,"dead_letters_to":null,"drop_exhausted":true}"#;
    assert_eq!(rule(dropping).await, (Value::Null, 2.into(), true.into()));
    assert_eq!(rule(r#"{"dead_letters_to":"dead"}"#).await, ("dead".into(), 2.into(), false.into()));
    assert_eq!(rule(r#"{"dead_letters_to":null}"#).await, (Value::Null, Value::Null, false.into()));
    let listed = rig.get("/queues?prefix=orders").await;
    assert_eq!(listed.body["queues"][0]["dead_letters_to"], Value::Null);
}

#[tokio::test]
async fn queues_are_listed_in_pages_by_prefix_with_their_counts() {
    let rig = rig::open().await;
    for name in ["b2", "a", "b1", "000000000007:eu-west-3:b0", "b3.fifo"] {
        rig.done("POST", "/queues", &json!({ "name": name }).to_string()).await;
    }
    let all = ["a", "b1", "b2", "b3.fifo", "000000000007:eu-west-3:b0"];
    assert_eq!(names(&rig, "").await, (all.map(str::to_owned).to_vec(), Value::Null));
    let (first, next) = names(&rig, "?prefix=b&limit=2").await;
    assert_eq!(first, ["b1", "b2"]);
    let cursor = next.as_str().expect("a page of 2 of 3 queues has a cursor").replace(':', "%3A");
    let (second, next) = names(&rig, &format!("?prefix=b&limit=2&cursor={cursor}")).await;
    assert_eq!(
        (second, next),
        (vec!["b3.fifo".to_owned(), "000000000007:eu-west-3:b0".to_owned()], Value::Null)
    );
    for wrong in ["?limit=0", "?limit=1001", "?cursor=a:b", "?prefix=a&prefix=b"] {
        assert_eq!(rig.get(&format!("/queues{wrong}")).await.status, 400, "{wrong}");
    }
    rig.done("POST", "/queues/000000000007%3Aeu-west-3%3Ab0/messages", r#"{"body":"x"}"#).await;
    kew_testing::advance(&rig.engine, Duration::from_secs(90)).await;
    let shown = rig.get("/queues/000000000007%3Aeu-west-3%3Ab0").await.body;
    assert_eq!((&shown["visible"], &shown["oldest_age_seconds"]), (&1.into(), &90.0.into()));
    assert_eq!((&shown["account"], &shown["region"]), (&"000000000007".into(), &"eu-west-3".into()));
}

#[tokio::test]
async fn a_purge_needs_the_name_and_a_full_name_counts_too() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    for _ in 0..2 {
        rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    }
    for confirm in ["", "{}", r#"{"confirm":"order"}"#, r#"{"confirm":"ORDERS"}"#] {
        let refused = rig.post("/queues/orders/purge", confirm).await;
        assert_eq!((refused.status, refused.code()), (409, "not_confirmed"), "{confirm}");
    }
    let purged = rig.done("POST", "/queues/orders/purge", r#"{"confirm":"orders"}"#).await;
    assert_eq!(purged, json!({ "messages": 2 }));
    let full = r#"{"confirm":"000000000000:us-east-1:orders"}"#;
    assert_eq!(rig.done("POST", "/queues/orders/purge", full).await, json!({ "messages": 0 }));
}

#[tokio::test]
async fn five_thousand_queues_have_a_small_first_page() {
    let rig = rig::open().await;
    for number in 0..5_000 {
        let key = kew_core::QueueKey::new(kew_core::AccountId(0), "us-east-1", &format!("queue-{number:04}"));
        let create = kew_core::command::CreateQueue {
            key,
            policy: kew_core::Policy::standard(),
            documents: Vec::new(),
        };
        rig.engine.create_queue(create).await.expect("the queue's name is free");
    }
    let answer = rig.get("/queues").await;
    assert_eq!(answer.body["queues"].as_array().map(Vec::len), Some(100));
    assert!(answer.body.to_string().len() < 150_000, "{}", answer.body.to_string().len());
    assert_eq!(answer.body["next"], "000000000000:us-east-1:queue-0099");
    let none = rig.get("/queues?prefix=r").await;
    assert_eq!((&none.body["queues"], &none.body["next"]), (&json!([]), &Value::Null));
}
