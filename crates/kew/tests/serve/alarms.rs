//! Alarms of a running server, and what its log holds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use super::program::{Kew, data_directory, fail};

/// Takes one POST, answers it with a status, and says what it held.
fn take(hook: &TcpListener, status: u16) -> Value {
    let (stream, _) = hook.accept().expect("the server posts");
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).expect("the server sends a whole head");
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("the length is a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the server sends a whole body");
    let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.into_inner().write_all(reply.as_bytes()).expect("the server reads the reply");
    serde_json::from_slice(&body).expect("the body is JSON")
}

#[test]
fn an_alarm_is_posted_until_that_succeeds_shown_logged_and_ends() {
    let directory = data_directory();
    let hook = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let file = directory.path().join("kew.toml");
    let rule = format!(
        "[[alarms]]\nname = \"many\"\nqueue = \"ord*\"\nmetric = \"visible\"\nabove = 0\nwebhook = \"http://{}/secret\"\n",
        hook.local_addr().expect("a bound socket has an address")
    );
    std::fs::write(&file, rule).expect("the directory is ours");
    let flags = ["--store", "memory", "--config", &file.to_string_lossy(), "--log", "json"];
    let kew = Kew::start_with(directory.path(), &flags);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#);
    let first = take(&hook, 500);
    let again = take(&hook, 204);
    assert_eq!(first, again, "a try that failed is made again");
    assert_eq!(
        (&again["name"], &again["queue"], &again["state"], &again["value"]),
        (&"many".into(), &"orders".into(), &"firing".into(), &1.0.into())
    );
    let (_, shown) = kew.admin("GET", "/api/v1/alarms", &[], "");
    assert!(shown.contains(r#""state":"firing""#), "{shown}");
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    assert!(metrics.contains("kew_alarm_firing{name=\"many\",queue=\"orders\"} 1\n"), "{metrics}");
    let json = [("Content-Type", "application/json")];
    kew.admin("POST", "/api/v1/queues/orders/purge", &json, r#"{"confirm":"orders"}"#);
    assert_eq!(take(&hook, 200)["state"], "ok");
    let lines: Vec<Value> = kew.errors().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let fires = lines.iter().find(|line| line["message"] == "an alarm fires");
    let fires = fires.unwrap_or_else(|| panic!("no line of the alarm in {lines:?}"));
    assert_eq!(
        (&fires["area"], &fires["level"], &fires["value"], &fires["bound"]),
        (&"alarms".into(), &"warn".into(), &1.into(), &0.into())
    );
    assert!(!kew.errors().contains("secret"), "the path of a webhook may be a secret");
}

#[test]
fn a_rule_that_makes_no_sense_stops_the_start_with_a_clear_text() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, "[[alarms]]\nname = \"a\"\nqueue = \"*\"\nmetric = \"mood\"\nabove = 1\n")
        .expect("the directory is ours");
    let (code, told) = fail(&["--store", "memory", "--config", &file.to_string_lossy()]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("alarms[0].metric = \"mood\" is not allowed; it must be one of oldest_age_seconds"),
        "{told}"
    );
}

#[test]
fn the_log_holds_what_its_levels_ask_for() {
    let directory = data_directory();
    let create = |kew: &Kew| {
        let json = [("Content-Type", "application/json")];
        assert_eq!(kew.admin("POST", "/api/v1/queues", &json, r#"{"name":"orders"}"#).0, 201);
    };
    let audited = "[admin] a change through the admin API";
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    create(&kew);
    assert!(kew.errors().contains(audited) && kew.errors().contains("[server] messages are kept in memory"));
    drop(kew);
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--log-level", "error,admin=info"]);
    create(&kew);
    assert!(kew.errors().contains(audited) && !kew.errors().contains("messages are kept in memory"));
    drop(kew);
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--log-level", "admin=warn"]);
    create(&kew);
    assert!(!kew.errors().contains(audited) && kew.errors().contains("messages are kept in memory"));
    let (code, told) = fail(&["--log-level", "loud"]);
    assert!(
        code == Some(2) && told.contains("error, warn, info, debug") && told.contains("queues"),
        "{told}"
    );
}

#[test]
fn alarms_of_removed_rules_leave_their_file_at_the_start_of_the_one_who_has_the_store() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let file = directory.path().join("data/ALARMS");
    std::fs::write(&file, r#"[["removed","orders"]]"#).expect("the directory is ours");
    let kept = || std::fs::read_to_string(&file).expect("the file is there");
    let _kew = Kew::start(directory.path());
    assert_eq!(kept(), "[]");
    std::fs::write(&file, r#"[["removed","orders"]]"#).expect("the directory is ours");
    let (code, told) = fail(&["--store", &directory.path().join("data").to_string_lossy()]);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(kept(), r#"[["removed","orders"]]"#, "one that is refused the store leaves the file alone");
}
