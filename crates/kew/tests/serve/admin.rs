//! The admin listener: health, the virtual clock, and who may use them.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{self, Kew, data_directory};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn clock(kew: &Kew, change: &str) -> Value {
    let (status, body) = kew.admin("POST", "/api/v1/clock", &[JSON], change);
    assert_eq!(status, 200, "{change}: {body}");
    serde_json::from_str(&body).expect("the reply is JSON")
}

#[test]
fn health_is_shown_to_everyone_by_any_name() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    for path in ["/livez", "/readyz", "/metrics"] {
        let headers =
            [("Host", "kew.monitoring.svc.cluster.local:9325"), ("Origin", "https://elsewhere.example")];
        assert_eq!(kew.admin("GET", path, &headers, "").0, 200, "{path}");
        assert_eq!(kew.admin("POST", path, &[], "").0, 405, "{path}");
    }
    assert_eq!(kew.admin("GET", "/", &[("Host", "evil.example")], "").0, 421);
    assert_eq!(kew.admin("GET", "/", &[("Sec-Fetch-Site", "cross-site")], "").0, 403);
    assert_eq!(kew.admin("GET", "/nothing", &[], "").0, 404);
}

#[test]
fn kew_health_says_it_by_its_exit_code() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    let health = |admin: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
        command.args(["health", "--admin", admin]).output().expect("the program kew is built with its tests")
    };
    let output = health(&kew.admin);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready\n");
    assert_eq!(health("nowhere").status.code(), Some(2));
    let gone = kew.admin.clone();
    kew.kill();
    assert_eq!(health(&gone).status.code(), Some(1));
}

#[test]
fn the_system_clock_cannot_be_moved() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    assert_eq!(kew.admin("GET", "/api/v1/clock", &[], "").0, 404);
    assert_eq!(kew.admin("POST", "/api/v1/clock", &[JSON], r#"{"advance_ms":1}"#).0, 404);
}

#[test]
fn the_virtual_clock_moves_by_json_only_and_never_back() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--clock", "virtual"]);
    let (status, body) = kew.admin("GET", "/api/v1/clock", &[], "");
    assert_eq!(status, 200, "{body}");
    let begun: Value = serde_json::from_str(&body).expect("the reply is JSON");
    assert_eq!((&begun["offset_ms"], &begun["frozen"]), (&Value::from(0), &Value::from(false)));
    let asked = Instant::now();
    let moved = clock(&kew, r#"{"advance_ms":600000}"#);
    // Real time that passes during the jump does not count: the clock is ahead by so much less.
    let passed = u64::try_from(asked.elapsed().as_millis()).expect("the jump is short") + 1;
    let offset = moved["offset_ms"].as_u64().expect("offset_ms is a number");
    assert!(offset <= 600_000 && offset + passed >= 600_000, "{offset} after {passed} ms");
    assert!(moved["now_ms"].as_u64() >= begun["now_ms"].as_u64().map(|now| now + 600_000));
    for wrong in [r#"{"advance_ms":-1}"#, r#"{"advance_ms":1.5}"#, "{}", "", "[", r#"{"freeze":"yes"}"#] {
        assert_eq!(kew.admin("POST", "/api/v1/clock", &[JSON], wrong).0, 400, "{wrong}");
    }
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    for headers in [&[][..], &[form]] {
        assert_eq!(kew.admin("POST", "/api/v1/clock", headers, r#"{"advance_ms":1}"#).0, 415);
    }
    assert_eq!(kew.admin("DELETE", "/api/v1/clock", &[], "").0, 405);
    let frozen = clock(&kew, r#"{"freeze":true}"#);
    assert_eq!(frozen["frozen"], true);
    assert_eq!(
        clock(&kew, r#"{"advance_ms":5000}"#)["now_ms"],
        frozen["now_ms"].as_u64().unwrap_or_default() + 5_000
    );
    assert_eq!(clock(&kew, r#"{"freeze":false}"#)["frozen"], false);
}

#[test]
fn a_jump_shows_all_its_effects_to_the_next_request() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_with(directory.path(), &["--store", &data, "--clock", "virtual"]);
    let ask = |action: &str, json: &str| {
        let (status, body) = kew.ask(action, json);
        assert_eq!(status, 200, "{action}: {body}");
        body
    };
    ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"late","DelaySeconds":30}"#);
    let begun = Instant::now();
    let poll = kew.begin("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    // Answered behind the poll, so the poll has come in too.
    ask("GetQueueUrl", r#"{"QueueName":"orders"}"#);
    clock(&kew, r#"{"advance_ms":31000}"#);
    assert_eq!(program::reply(poll), (200, "{}".to_owned()), "the poll ended before the delay did");
    let found = ask("ReceiveMessage", r#"{"QueueUrl":"orders","VisibilityTimeout":600}"#);
    assert!(found.contains("late"), "{found}");
    assert_eq!(ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#), "{}");
    clock(&kew, r#"{"advance_ms":600000}"#);
    assert!(ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).contains("late"));
    assert!(begun.elapsed() < Duration::from_secs(15), "nothing waited in real time");
}

#[test]
fn a_token_guards_everything_but_health_and_metrics() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, "[admin]\ntoken = \"hush\"\n").expect("the directory is ours");
    let flags = ["--store", "memory", "--clock", "virtual", "--config", &file.to_string_lossy()];
    let kew = Kew::start_with(directory.path(), &flags);
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(kew.admin("GET", path, &[], "").0, 200, "{path}");
    }
    for headers in [&[][..], &[("Authorization", "Bearer hus")], &[("Authorization", "Basic hush")]] {
        assert_eq!(kew.admin("GET", "/api/v1/clock", headers, "").0, 401);
        assert_eq!(kew.admin("GET", "/api/v1/anything", headers, "").0, 401);
    }
    assert_eq!(kew.admin("GET", "/api/v1/clock", &[("Authorization", "Bearer hush")], "").0, 200);
}
