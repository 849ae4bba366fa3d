//! The program as it is run: started, asked, stopped, killed, started again.

mod access;
mod admin;
mod admin_api;
mod alarms;
mod also;
mod answers;
mod backups;
mod bodies;
mod config;
mod dev;
mod dialects;
mod documents;
mod fail_stop;
mod init;
mod limits;
mod log_reader;
mod long_poll;
mod metrics;
mod pipelined;
mod places;
mod program;
mod push;
mod push_attempts;
mod push_places;
mod rebinding;
mod shards;
mod store;
mod store_tool;
mod strict;
mod telemetry;
mod tls;
mod unread;
mod unsigned;
mod watching;
mod welcome;
mod why;
mod worker_kills;
mod worker_schedules;
mod worker_traffic;
mod worker_versions;
mod worker_visits;
mod workers;

use program::{Kew, data_directory};

fn body(kew: &Kew, action: &str, json: &str) -> String {
    let (status, body) = kew.ask(action, json);
    assert_eq!(status, 200, "{action}: {body}");
    body
}

/// The first member of this name.
fn member(json: &str, name: &str) -> String {
    let found = json.split(&format!("\"{name}\":\"")).nth(1).and_then(|rest| rest.split('"').next());
    found.unwrap_or_else(|| panic!("no {name} in {json}")).to_owned()
}

#[test]
fn ready_is_the_last_line_and_the_ports_file_is_there_by_then() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    let greeting = kew.greeting();
    assert!(greeting.ends_with("\nReady.\n"), "{greeting}");
    assert!(greeting.contains(&format!("http://{}", kew.sqs)));
}

#[test]
fn sigterm_ends_long_polls_closes_the_store_cleanly_and_exits_with_zero() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    let poll = kew.begin("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    // Answered behind the poll, so the poll has come in too.
    body(&kew, "GetQueueUrl", r#"{"QueueName":"orders"}"#);
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    assert_eq!(program::reply(poll), (200, "{}".to_owned()));
    let again = Kew::start(directory.path());
    assert!(!again.errors().contains("cut short"), "{}", again.errors());
    body(&again, "GetQueueUrl", r#"{"QueueName":"orders"}"#);
}

#[test]
fn a_second_signal_while_it_is_ending_stops_it_at_once() {
    use std::io::Write;
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    // A request that has begun is waited for, far longer than this test.
    let mut half = std::net::TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    let head =
        "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: 100\r\n\r\n{";
    half.write_all(head.as_bytes()).expect("the server reads the request");
    body(&kew, "ListQueues", "{}");
    kew.signal("TERM");
    while !kew.errors().contains("a second signal stops at once") {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(kew.is_running(), "{}", kew.errors());
    let begun = std::time::Instant::now();
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(130), "{}", kew.errors());
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    let again = Kew::start(directory.path());
    body(&again, "GetQueueUrl", r#"{"QueueName":"orders"}"#);
}

#[test]
fn a_terminal_that_closes_ends_the_server_cleanly_and_is_no_second_signal() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let command = program::command_that_heeds_hang_up();
    let mut kew = Kew::start_by(command, directory.path(), &["--store", &data]);
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    // The terminal sends it, and the shell in it.
    kew.signal("HUP");
    kew.signal("HUP");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    assert!(kew.errors().contains("SIGHUP"), "{}", kew.errors());
    let again = Kew::start(directory.path());
    assert!(!again.errors().contains("cut short"), "{}", again.errors());
}

#[test]
fn under_nohup_a_terminal_may_close() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let mut kew =
        Kew::start_by(program::command_that_ignores_hang_up(), directory.path(), &["--store", &data]);
    // The lowest bit of each mask is SIGHUP: it is still ignored, and not caught.
    let status = program::status(kew.id());
    let is_in = |mask: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(mask));
        let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.unwrap_or_else(|| panic!("no masks of signals in {status}")) & 1 == 1
    };
    assert_eq!((is_in("SigIgn:"), is_in("SigCgt:")), (true, false), "{status}");
    kew.signal("HUP");
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    assert!(kew.is_running(), "{}", kew.errors());
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let directory = data_directory();
    let first = Kew::start(directory.path());
    let (code, errors) = program::fail(&["--store", &directory.path().join("data").to_string_lossy()]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("is in use by"), "{errors}");
    body(&first, "CreateQueue", r#"{"QueueName":"orders"}"#);
}

#[test]
fn wrong_settings_exit_with_two_and_say_what_is_allowed() {
    for (flags, expected) in [
        (["--sqs", "here"], "--sqs here"),
        (["--sqs", "0.0.0.0:0"], "--insecure"),
        (["--durability", "perhaps"], "--durability perhaps is not allowed; it must be one of sync, os"),
        (["--colour", "red"], "--colour"),
    ] {
        let (code, errors) = program::fail(&flags);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    for number in 0..20 {
        body(&kew, "SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"m{number}"}}"#));
    }
    let leased = body(&kew, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let deleted = body(&kew, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let handle = member(&deleted, "ReceiptHandle");
    body(&kew, "DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#));
    kew.kill();

    let again = Kew::start(directory.path());
    assert!(again.errors().contains("cut short"), "{}", again.errors());
    let mut found = Vec::new();
    loop {
        let reply = body(&again, "ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
        let bodies: Vec<String> = reply
            .split("\"Body\":\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(str::to_owned)
            .collect();
        if bodies.is_empty() {
            break;
        }
        found.extend(bodies);
    }
    let expected: Vec<String> = (2..20).map(|number| format!("m{number}")).collect();
    assert_eq!(found, expected, "m0 is still leased, m1 is deleted");
    let handle = member(&leased, "ReceiptHandle");
    body(&again, "DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#));
}

#[test]
fn memory_forgets_and_says_so() {
    let directory = data_directory();
    let mut kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    assert!(kew.errors().contains("in memory only"), "{}", kew.errors());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    body(&kew, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#);
    assert!(body(&kew, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#).contains("\"Body\":\"m\""));
    kew.signal("INT");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
}

#[test]
fn relaxed_durability_is_said_aloud_in_json_too() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_with(directory.path(), &["--store", &data, "--durability", "os", "--log", "json"]);
    let errors = kew.errors();
    let line =
        errors.lines().find(|line| line.contains("power cut")).expect("the log mentions the power cut");
    let line: serde_json::Value = serde_json::from_str(line).expect("lines are JSON");
    assert_eq!(line["level"], "warn");
}
