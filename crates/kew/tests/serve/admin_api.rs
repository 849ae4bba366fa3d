//! The admin API and the command line over it, against the program as it is run.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::program::{self, Kew, data_directory};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// What a command printed: exit code, output, errors.
pub type Ran = (i32, String, String);

pub fn run(kew: &Kew, arguments: &[&str], input: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KEW_")) {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .env("KEW_ADMIN_URL", format!("http://{}", kew.admin))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program kew is built with its tests");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A command that does not read closes it.
    let _written = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the child process was not waited for before");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// What a command that succeeds prints.
pub fn printed(kew: &Kew, arguments: &[&str]) -> String {
    let (code, output, errors) = run(kew, arguments, "");
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {output}");
    output
}

pub fn memory() -> (tempfile::TempDir, Kew) {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    (directory, kew)
}

#[test]
fn a_message_is_sent_and_received_from_the_command_line() {
    let (_directory, kew) = memory();
    assert_eq!(printed(&kew, &["queue", "create", "orders", "visibility_seconds=60"]), "orders\n");
    assert_eq!(printed(&kew, &["queue", "create", "orders"]), "orders\n", "it is there already");
    let id = printed(&kew, &["send", "orders", "hello"]);
    assert_eq!(id.trim().len(), 36, "{id}");
    assert_eq!(printed(&kew, &["receive", "orders", "--keep"]), "hello\n");
    assert_eq!(printed(&kew, &["receive", "orders"]), "hello\n");
    assert_eq!(printed(&kew, &["receive", "orders"]), "");
    let (code, _, errors) = run(&kew, &["send", "orders"], "from input\n");
    assert_eq!((code, errors.as_str()), (0, ""));
    let (code, _, errors) = run(&kew, &["send", "orders", "-", "--attribute", "colour=red"], "é");
    assert_eq!((code, errors.as_str()), (0, ""));
    let received = kew.ask(
        "ReceiveMessage",
        r#"{"QueueUrl":"orders","MaxNumberOfMessages":10,"MessageAttributeNames":["All"]}"#,
    );
    assert!(received.1.contains(r#""Body":"from input\n""#), "{received:?}");
    assert!(received.1.contains(r#""StringValue":"red""#), "{received:?}");
}

#[test]
fn what_is_given_twice_or_not_at_all_is_refused_before_anything_is_sent() {
    let (_directory, kew) = memory();
    printed(&kew, &["queue", "create", "orders"]);
    let attributes = ["--attribute", "colour=red", "--attribute", "colour=blue"];
    let (code, output, errors) = run(&kew, &[&["send", "orders", "x"], &attributes[..]].concat(), "");
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("colour is given twice"), "{errors}");
    let (code, output, errors) = run(&kew, &["send", "orders"], "");
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("standard input is empty"), "{errors}");
    let settings = ["delay_seconds=1", "delay_seconds=2"];
    for words in [&["queue", "create", "letters"], &["queue", "set", "orders"]] {
        let (code, _, errors) = run(&kew, &[&words[..], &settings].concat(), "");
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains("delay_seconds is given twice"), "{errors}");
    }
    for (path, body) in [
        ("/queues", r#"{"name":"letters","name":"numbers"}"#),
        ("/queues", r#"{"name":"letters","settings":{"delay_seconds":1,"delay_seconds":2}}"#),
        ("/queues/orders/messages", r#"{"body":"a","attributes":{"colour":"red","colour":"blue"}}"#),
    ] {
        let (status, told) = kew.admin("POST", &format!("/api/v1{path}"), &[JSON], body);
        assert_eq!(status, 400, "{told}");
        assert!(told.contains("is given twice"), "{told}");
    }
    let shown: Value =
        serde_json::from_str(&printed(&kew, &["queue", "ls", "--json"])).expect("the command prints JSON");
    assert_eq!((&shown["queue"], &shown["visible"]), (&"orders".into(), &0.into()));
    // A body that is said to be empty is one.
    printed(&kew, &["send", "orders", ""]);
}

#[test]
fn receive_prints_objects_for_scripts_and_more_than_one_request_brings() {
    let (_directory, kew) = memory();
    printed(&kew, &["queue", "create", "orders"]);
    for number in 0..105 {
        let body = json!({ "QueueUrl": "orders", "MessageBody": format!("m{number}") }).to_string();
        assert_eq!(kew.ask("SendMessage", &body).0, 200);
    }
    let kept = printed(&kew, &["receive", "orders", "--keep", "--max", "200", "--json"]);
    let bodies: Vec<Value> = kept
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("lines are JSON")["body"].clone())
        .collect();
    assert_eq!((bodies.len(), &bodies[104]), (105, &"m104".into()));
    assert_eq!(printed(&kew, &["receive", "orders", "--max", "1000"]).lines().count(), 105);
    let shown: Value = serde_json::from_str(&printed(&kew, &["queue", "show", "orders", "--json"]))
        .expect("kew queue show --json prints JSON");
    assert_eq!([&shown["visible"], &shown["in_flight"]], [0, 0]);
}

#[test]
fn queues_are_made_changed_listed_and_deleted_from_the_command_line() {
    let (_directory, kew) = memory();
    printed(&kew, &["queue", "create", "dead"]);
    printed(&kew, &["queue", "create", "orders", "dead_letters_to=dead", "max_attempts=1"]);
    printed(&kew, &["queue", "create", "o.fifo", "--fifo", "content_deduplication=true"]);
    let shown = printed(&kew, &["queue", "set", "orders", "visibility_seconds=7", "delay_seconds=default"]);
    assert!(shown.contains("visibility_seconds  7\n"), "{shown}");
    let listed = printed(&kew, &["queue", "ls"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("QUEUE   ") && lines[3].starts_with("orders  standard"), "{listed}");
    let nodes = printed(&kew, &["node", "ls"]);
    assert!(nodes.starts_with("NODE") && nodes.contains("serving") && nodes.lines().count() == 2, "{nodes}");
    assert!(printed(&kew, &["node", "ls", "--json"]).contains("\"heartbeat_age_seconds\":0"));
    let listed = printed(&kew, &["queue", "ls", "o", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    printed(&kew, &["send", "orders", "x"]);
    printed(&kew, &["receive", "orders", "--keep"]);
    assert!(printed(&kew, &["queue", "top"]).lines().nth(1).is_some_and(|line| line.starts_with("dead ")));
    assert_eq!(printed(&kew, &["redrive", "dead", "--dry-run"]), "1 messages would be moved\n");
    assert_eq!(printed(&kew, &["redrive", "dead"]), "1 messages moved, 0 left: done\n");
    printed(&kew, &["send", "dead", "sent here"]);
    printed(&kew, &["receive", "orders", "--keep"]);
    let filtered = |filter: &str, more: &[&str]| {
        run(&kew, &[&["redrive", "dead", "--filter", filter], more].concat(), "")
    };
    assert_eq!(
        filtered("text=here", &["--dry-run"]).1,
        "0 messages would be moved; 1 that fit have no queue to go to and would stay\n"
    );
    let (code, output, errors) = filtered("text=here", &[]);
    assert_eq!(
        (code, output.as_str()),
        (3, "0 messages moved, 1 left: done\n"),
        "it came from nowhere: {errors}"
    );
    let (code, output, _) = filtered("text=x,min_attempts=1", &["--rate", "100"]);
    assert_eq!((code, output.as_str()), (0, "1 messages moved, 0 left: done\n"));
    assert_eq!((filtered("state=delayed", &[]).0, filtered("here", &[]).0), (2, 2));
    printed(&kew, &["queue", "purge", "dead", "--yes"]);
    for command in ["purge", "delete"] {
        let (code, _, errors) = run(&kew, &["queue", command, "orders"], "orders\n");
        assert!(code == 2 && errors.contains("--yes"), "{errors}");
    }
    assert_eq!(printed(&kew, &["queue", "purge", "orders", "--yes"]), "deleted 1 messages of orders\n");
    assert_eq!(printed(&kew, &["queue", "delete", "orders", "--yes"]), "deleted orders with 0 messages\n");
}

#[test]
fn messages_are_looked_at_from_the_command_line_and_stay_as_they_are() {
    let (_directory, kew) = memory();
    printed(&kew, &["queue", "create", "orders"]);
    let id = printed(&kew, &["send", "orders", "hello\nworld"]).trim().to_owned();
    printed(&kew, &["send", "orders", "later", "--delay", "60"]);
    let peeked = printed(&kew, &["peek", "orders"]);
    let lines: Vec<&str> = peeked.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines.len() == 3, "{peeked}");
    assert_eq!(lines[1], format!("{id}  visible           0  hello\\nworld"));
    let delayed = printed(&kew, &["peek", "orders", "--filter", "state=delayed,text=ate", "--json"]);
    let delayed: Value = serde_json::from_str(&delayed).expect("a peeked message is printed as an object");
    assert_eq!((&delayed["body"], &delayed["state"]), (&"later".into(), &"delayed".into()));
    assert_eq!(printed(&kew, &["peek", "orders", "--max", "1", "--json"]).lines().count(), 1);
    let shown: Value = serde_json::from_str(&printed(&kew, &["queue", "show", "orders", "--json"]))
        .expect("kew queue show --json prints JSON");
    assert_eq!([&shown["visible"], &shown["in_flight"], &shown["delayed"]], [1, 0, 1]);
    printed(&kew, &["receive", "orders", "--keep"]);
    printed(&kew, &["receive", "orders", "--keep"]);
    let shown = printed(&kew, &["message", "show", &id]);
    let expected =
        ["queue             orders\n", "  sent ", " by admin open attempt 1", "released", "hello\nworld\n"];
    for part in expected.into_iter().chain(["attempt 2: Its lease (of admin open) was released."]) {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let (code, _, errors) = run(&kew, &["message", "show", "00000000000000000000000000000000"], "");
    assert!(code == 1 && errors.contains("the history does not know it"), "{errors}");
    assert_eq!(run(&kew, &["peek", "orders", "--filter", "colour=red"], "").0, 2);
    assert_eq!(printed(&kew, &["queue", "pause", "orders"]), "deliveries of orders: paused\n");
    assert_eq!(printed(&kew, &["receive", "orders"]), "");
    assert_eq!(printed(&kew, &["queue", "resume", "orders"]), "deliveries of orders: resumed\n");
    assert_eq!(printed(&kew, &["receive", "orders"]), "hello\nworld\n");
}

#[test]
fn tail_shows_what_is_there_and_what_comes() {
    let (_directory, kew) = memory();
    printed(&kew, &["queue", "create", "orders"]);
    printed(&kew, &["send", "orders", "first"]);
    let mut tail = Command::new(env!("CARGO_BIN_EXE_kew"))
        .args(["tail", "orders", "--json"])
        .env("KEW_ADMIN_URL", format!("http://{}", kew.admin))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program kew is built with its tests");
    let output = tail.stdout.take().expect("standard output is a pipe");
    let mut lines = std::io::BufReader::new(output).lines().map(|line| {
        let line = line.expect("the output is UTF-8");
        serde_json::from_str::<Value>(&line).expect("lines are JSON")["body"].clone()
    });
    assert_eq!(lines.next(), Some("first".into()));
    printed(&kew, &["send", "orders", "second"]);
    assert_eq!(lines.next(), Some("second".into()), "each message is shown once");
    tail.kill().expect("tail goes on until it is ended");
    tail.wait().expect("the child process was not waited for before");
}

#[test]
fn failures_say_what_would_help_and_have_their_exit_codes() {
    let (_directory, mut kew) = memory();
    for (arguments, code, expected) in [
        (&["queue", "show", "nowhere"][..], 1, "kew queue create"),
        (&["queue", "create", "orders", "visibility_seconds=99999"], 2, "from 0 to 43200"),
        (&["queue", "create", "orders", "colour=red"], 2, "has no \"colour\""),
        (&["queue", "create", "orders", "x"], 2, "KEY=VALUE"),
        (&["queue", "lss"], 2, "ls"),
        (&["recieve", "orders"], 2, "receive"),
        (&["queue", "ls", "--admin", "ftp://h"], 2, "--admin ftp://h"),
        (&["queue", "ls", "--admin", "1"], 1, "is the server running?"),
        (&["health", "--admin", "%%"], 2, "it must be an address and a port such as 127.0.0.1:9325"),
    ] {
        let (found, output, errors) = run(&kew, arguments, "");
        assert!(found == code && errors.contains(expected), "{arguments:?} {found} {output} {errors}");
    }
    let port = kew.admin.rsplit(':').next().unwrap_or_default().to_owned();
    assert_eq!(printed(&kew, &["queue", "ls", "--admin", &port]), "");
    kew.kill();
    assert_eq!(run(&kew, &["queue", "ls"], "").0, 1);
}

#[test]
fn users_of_the_file_log_in_and_their_changes_are_in_the_log() {
    let directory = data_directory();
    let mut hash = Command::new(env!("CARGO_BIN_EXE_kew"));
    hash.args(["admin", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = hash.spawn().expect("the program kew is built with its tests");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin.write_all(b"correct horse\n").expect("the program reads the password");
    drop(stdin);
    let output = child.wait_with_output().expect("the child process was not waited for before");
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let user = format!("[[admin.users]]\nname = \"anna\"\npassword_hash = \"{hash}\"\nrole = \"operator\"\n");
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, format!("[server]\nauth = \"strict\"\n{user}")).expect("the directory is ours");
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--config", &file.to_string_lossy()]);
    assert_eq!(kew.admin("GET", "/api/v1/queues", &[], "").0, 401);
    let login = |password: &str| {
        let body = json!({ "user": "anna", "password": password }).to_string();
        program::whole(&kew.admin, "POST", "/api/v1/session", &[JSON], &body)
    };
    assert!(login("wrong").starts_with("HTTP/1.1 401"));
    let reply = login("correct horse");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let after = |mark: &str, end: char| {
        let rest = reply.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark} in {reply}"));
        rest.split(end).next().unwrap_or_default().to_owned()
    };
    let (cookie, csrf) = (format!("kew_session={}", after("kew_session=", ';')), after("\"csrf\":\"", '"'));
    let headers = [JSON, ("Cookie", cookie.as_str()), ("X-Kew-CSRF", csrf.as_str())];
    let (status, made) = kew.admin("POST", "/api/v1/queues", &headers, r#"{"name":"orders"}"#);
    assert_eq!(status, 201, "{made}");
    let (_, config) = kew.admin("GET", "/api/v1/config", &headers[1..2], "");
    assert!(config.contains("\"auth\"") && !config.contains(&hash), "{config}");
    let errors = kew.errors();
    let line = errors.lines().find(|line| line.contains("createQueue")).unwrap_or_else(|| panic!("{errors}"));
    assert!(line.contains("who=\"anna\"") && line.contains("target=\"orders\""), "{line}");
    assert!(errors.contains("outcome=\"wrong_password\""), "{errors}");
    let (code, output, _) = program::printed(&["--config", &file.to_string_lossy(), "--print-config"], &[]);
    assert!(code == Some(0) && output.contains("[[admin.users]]\nname = \"anna\""), "{output}");
    assert!(!output.contains(&hash), "{output}");
}

#[test]
fn version_completions_and_man_pages_come_from_the_program() {
    let directory = data_directory();
    let about = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_kew")).args(arguments).output();
        let output = output.expect("the program kew is built with its tests");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(about(&["version"]).starts_with(&format!("kew {} (commit ", env!("CARGO_PKG_VERSION"))));
    let version: Value =
        serde_json::from_str(&about(&["version", "--json"])).expect("kew version --json prints JSON");
    assert!(version["commit"].is_string());
    for shell in ["bash", "zsh", "fish"] {
        assert!(about(&["completions", shell]).contains("redrive"), "{shell}");
    }
    assert!(
        about(&["completions", "bash"]).contains("kew__subcmd__init")
            && about(&["man"]).contains("kew\\-init(1)")
    );
    assert!(about(&["man", "init"]).contains("\\-\\-dry\\-run"));
    assert!(about(&["man"]).contains(".TH kew 1"));
    assert!(about(&["man", "queue", "purge"]).contains("\\-\\-yes"));
    about(&["man", "--dir", &directory.path().to_string_lossy()]);
    assert!(directory.path().join("kew-queue-ls.1").exists());
}
