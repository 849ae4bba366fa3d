//! What an operator sees of each batch: by the admin API, and counted in the metrics.

use std::time::Instant;

use serde_json::{Value, json};

use super::answers::{plain, reply};
use super::program::{self, Kew, data_directory};
use super::push::{PATIENCE, call, cloudflare, send};
use super::workers;

/// The attempts that the admin API shows for a query.
fn attempts(kew: &Kew, query: &str) -> Vec<Value> {
    let (status, body) = kew.admin("GET", &format!("/api/v1/push/attempts{query}"), &[], "");
    assert_eq!(status, 200, "{body}");
    let shown: Value = serde_json::from_str(&body).expect("the reply is JSON");
    shown["attempts"].as_array().expect("attempts is a list").clone()
}

/// The one attempt of a queue, as soon as it has ended.
fn attempt(kew: &Kew, queue: &str) -> Value {
    let begun = Instant::now();
    loop {
        let found = attempts(kew, &format!("?queue={queue}"));
        if let Some(one) = found.first() {
            assert_eq!(found.len(), 1, "of tries in vain the latest is shown: {found:?}");
            return one.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "nothing came of {queue}: {}", kew.errors());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A queue with two messages for a webhook; the id of its consumer.
fn bring(kew: &Kew, name: &str, hook: &str) -> String {
    let address = cloudflare(kew);
    let made = call(&address, "POST", "", &json!({ "queue_name": name }));
    let id = made["queue_id"].as_str().expect("a queue has an id").to_owned();
    // Both are there before the first batch leaves, and nothing comes again while the test looks.
    let timeout = if name == "silent" { 1_000 } else { 30_000 };
    let settings =
        json!({ "batch_size": 2, "max_wait_time_ms": 60_000, "retry_delay": 3_600, "timeout_ms": timeout });
    let consumer =
        json!({ "type": "http_push", "url": format!("http://{hook}/secret/path"), "settings": settings });
    let made = call(&address, "POST", &format!("/{id}/consumers"), &consumer);
    send(&address, &id, &["a".to_owned(), "b".to_owned()]);
    made["consumer_id"].as_str().expect("a consumer has an id").to_owned()
}

#[test]
fn every_attempt_is_shown_with_its_outcome_and_its_cause() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    // No system gives this port to a program that asks for any.
    let unused_port = "127.0.0.1:1".to_owned();
    let first = |batch: &Value| batch["messages"][0]["id"].as_str().expect("id is text").to_owned();
    let rows: Vec<(&str, String, &str, u64, Value, &str)> = vec![
        ("good", plain(|_| Some(reply(200, ""))), "ok", 2, json!(200), ""),
        (
            "again",
            plain(move |batch| {
                let verdict = json!({ "acks": [first(batch)], "retry_all": { "delay_seconds": 600 } });
                Some(reply(200, &verdict.to_string()))
            }),
            "ok",
            1,
            json!(200),
            "",
        ),
        ("silent", plain(|_| None), "failed", 0, Value::Null, "no whole reply within 1s"),
        ("absent", unused_port, "unreached", 0, Value::Null, "cannot connect to"),
        ("broken", plain(|_| Some(reply(500, "oh"))), "failed", 0, json!(500), "the reply is 500"),
        (
            "endless",
            plain(|_| Some(reply(200, &"x".repeat(10 << 20)))),
            "failed",
            0,
            Value::Null,
            "the reply has more than 1048576 bytes",
        ),
        (
            "html",
            plain(|_| Some(reply(200, "<html>fine</html>"))),
            "failed",
            0,
            json!(200),
            "cannot be understood",
        ),
    ];
    for (name, hook, outcome, acked, status, error) in &rows {
        let consumer = bring(&kew, name, hook);
        let found = attempt(&kew, name);
        let told = found["error"].as_str().unwrap_or_default();
        assert!(if error.is_empty() { told.is_empty() } else { told.contains(error) }, "{name}: {found}");
        let expected = json!([name, consumer, format!("webhook {hook}"), outcome, 2, acked, status]);
        let shown =
            ["queue", "consumer", "target", "outcome", "messages", "acked", "status"].map(|key| &found[key]);
        assert_eq!(json!(shown), expected, "{found}");
        assert!(found["took_ms"].as_f64().is_some_and(|took| took >= 0.0), "{found}");
        assert_eq!(found["batch"].as_str().map(str::len), Some(32), "{found}");
        if *outcome != "unreached" {
            // That one is tried again and again.
            assert_eq!(attempts(&kew, &format!("?consumer={consumer}")), [found], "{name}");
        }
    }
    let names = |query: &str| -> Vec<String> {
        attempts(&kew, query).iter().map(|one| one["queue"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut ended = names("");
    ended.retain(|name| name != "absent");
    assert_eq!(ended, ["html", "endless", "broken", "silent", "again", "good"], "newest first");
    assert_eq!(names("?outcome=ok"), ["again", "good"]);
    assert_eq!(names("?outcome=failed&max=2"), ["html", "endless"]);
    assert_eq!(names("?outcome=unreached"), ["absent"]);
    let (_, body) = kew.admin("GET", "/api/v1/push/attempts", &[], "");
    let shown: Value = serde_json::from_str(&body).expect("the reply is JSON");
    let open = &shown["circuits"][0];
    assert_eq!(
        json!([open["queue"], open["state"], shown["circuits"].as_array().map(Vec::len)]),
        json!(["absent", "open", 1])
    );
    assert!(open["tries"].as_u64() > Some(0) && open["pause_ms"].as_u64() > Some(0), "{open}");
    assert!(open["error"].as_str().is_some_and(|error| error.contains("cannot connect to")), "{open}");
    assert!(kew.errors().contains("a consumer cannot be reached"), "{}", kew.errors());
    assert!(
        attempts(&kew, "?queue=silent")[0]["took_ms"].as_f64().is_some_and(|took| took >= 1_000.0),
        "it took its time"
    );
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    for line in [
        "kew_push_attempts_total{outcome=\"ok\"} 2",
        "kew_push_attempts_total{outcome=\"failed\"} 4",
        "kew_push_circuits_open 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(!metrics.contains("kew_push_attempts_total{outcome=\"unreached\"} 0"), "{metrics}");
    for (method, query, status) in [("POST", "", 405), ("GET", "?max=0", 400), ("GET", "?outcome=fine", 400)]
    {
        let path = format!("/api/v1/push/attempts{query}");
        assert_eq!(kew.admin(method, &path, &[], "").0, status, "{method} {query}");
    }
}

#[test]
fn an_exception_in_a_worker_is_an_attempt_like_others() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = workers::start(directory.path(), &runtime);
    let (orders, _) = workers::queues(&kew);
    let code =
        "export default { async queue(batch) { batch.messages[0].ack(); throw new Error('at two'); } };";
    let (status, reply) = workers::upload(&kew, &[workers::TOKEN], &workers::metadata(), code);
    assert_eq!(status, 200, "{reply}");
    let settings = json!({ "batch_size": 2, "max_wait_time_ms": 60_000, "retry_delay": 3_600 });
    let consumer = json!({ "type": "worker", "script_name": "w", "settings": settings });
    workers::done(&kew, "POST", &format!("/queues/{orders}/consumers"), &consumer);
    for number in [1, 2] {
        workers::send(&kew, &orders, &json!({ "number": number }));
    }
    let found = attempt(&kew, "orders");
    let shown = ["target", "outcome", "messages", "acked", "status"].map(|key| &found[key]);
    assert_eq!(json!(shown), json!(["worker w", "failed", 2, 1, null]), "{found}");
    assert_eq!(found["error"], "Error: at two", "{found}");
}
