//! Workers of nodes whose store is in PostgreSQL. Without the runtime's program this says so aloud and passes; where
//! `KEW_WORKERD` names it, it runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;

use super::fleet::wait_until_it_knows_all;
use super::nodes::{Node, request};

/// How long a test waits for what a server does by itself.
const PATIENCE: Duration = Duration::from_secs(30);
const WORKERS: usize = 4;
/// Code that takes a while to read.
const CODE_BYTES: usize = 1 << 20;
const CODE: &str = "export default { async fetch() { return new Response('here'); } };";
const SCRIPTS: &str = "/client/v4/accounts/00000000000000000000000000000000/workers/scripts";

/// The Workers runtime that the environment names.
fn workerd() -> Option<String> {
    let found = std::env::var("KEW_WORKERD").ok();
    if found.is_none() {
        let is_needed = std::env::var_os("KEW_WORKERD_NEEDED").is_some();
        assert!(!is_needed, "KEW_WORKERD does not name the program workerd");
        eprintln!("SKIPPED: KEW_WORKERD does not name the program workerd");
    }
    found
}

fn upload(node: &Node, name: &str) {
    let part = |name: &str, kind: &str, text: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n{text}\r\n"
        )
    };
    let metadata = r#"{"main_module":"index.js","compatibility_date":"2026-04-01"}"#;
    let code = format!("{CODE} // {}", "x".repeat(CODE_BYTES));
    let body = format!(
        "{}{}--XX--\r\n",
        part("metadata", "application/json", metadata),
        part("index.js", "application/javascript+module", &code)
    );
    let headers = ["Authorization: Bearer any", "Content-Type: multipart/form-data; boundary=XX"];
    let reply = request(node.cloudflare, "PUT", &format!("{SCRIPTS}/{name}"), &headers, &body);
    assert!(matches!(reply, Ok((200, _))), "{reply:?}\n{}", node.errors());
}

/// Whether a Worker answers at its own address. A visit waits a while for one that is being started.
fn answers(node: &Node, name: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(node.cloudflare) else { return false };
    let asked = write!(stream, "GET / HTTP/1.1\r\nHost: {name}.kew.localhost\r\nConnection: close\r\n\r\n");
    let mut reply = String::new();
    asked.and_then(|()| stream.read_to_string(&mut reply)).is_ok() && reply.ends_with("here")
}

// A node that joins reads the Workers from another one, so its first Worker starts while it reads the rest.
#[test]
fn workers_that_start_while_their_node_does_run_on_when_it_has_started() {
    let Some(runtime) = workerd() else { return };
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let ports = directory.path().join("ports");
    let ports_text = ports.to_string_lossy();
    let start = |more: &[(&str, &str)]| {
        let all = [("KEW_PEER", "127.0.0.1:0"), ("KEW_WORKERS", "on"), ("KEW_WORKERD", &runtime)];
        Node::start_with(&url, &[&all, more].concat())
    };
    let first = start(&[]);
    wait_until_it_knows_all(&first);
    let names: Vec<String> = (0..WORKERS).map(|number| format!("w{number}")).collect();
    names.iter().for_each(|name| upload(&first, name));
    // The file is written when everything has started.
    let joined = start(&[("KEW_PORTS_FILE", &*ports_text)]);
    let begun = Instant::now();
    while !ports.exists() || !names.iter().all(|name| answers(&joined, name)) {
        assert!(begun.elapsed() < PATIENCE, "they do not answer\n{}", joined.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    let errors = joined.errors();
    assert!(!errors.contains("process ended") && !errors.contains("could not be started"), "{errors}");
}

/// What a visitor sees: an answer, or that the node is not there any more.
enum Seen {
    Answer(String),
    Nothing,
}

fn visit(node: &Node, name: &str) -> Seen {
    let Ok(mut stream) = TcpStream::connect(node.cloudflare) else { return Seen::Nothing };
    let asked = write!(stream, "GET / HTTP/1.1\r\nHost: {name}.kew.localhost\r\nConnection: close\r\n\r\n");
    let mut reply = String::new();
    match asked.and_then(|()| stream.read_to_string(&mut reply)) {
        Ok(_) if !reply.is_empty() => Seen::Answer(reply),
        _ => Seen::Nothing,
    }
}

#[test]
fn worker_answers_visits_for_as_long_as_its_node_that_ends_takes_them() {
    let Some(runtime) = workerd() else { return };
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let start = || {
        let all = [("KEW_PEER", "127.0.0.1:0"), ("KEW_WORKERS", "on"), ("KEW_WORKERD", &*runtime)];
        Node::start_with(&url, &all)
    };
    let mut ends = start();
    wait_until_it_knows_all(&ends);
    let _stays = start();
    upload(&ends, "w");
    let begun = Instant::now();
    while !answers(&ends, "w") {
        assert!(begun.elapsed() < PATIENCE, "it does not answer\n{}", ends.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    ends.signal("TERM");
    let (signalled, mut answered) = (Instant::now(), 0);
    while let Seen::Answer(reply) = visit(&ends, "w") {
        if !reply.ends_with("here") {
            // Workers reach their queues through this entrance: it is open until they have ended. The others are not.
            let others = TcpStream::connect(ends.sqs);
            assert!(others.is_err(), "after {answered} visits: {reply}\n{}", ends.errors());
            break;
        }
        answered += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(ends.exit_code(), Some(0), "{}", ends.errors());
    assert!(answered > 0, "it was gone at once");
    let took = signalled.elapsed();
    assert!(
        took < Duration::from_secs(8),
        "a visitor was let wait for a Worker that comes no more: {took:?}"
    );
}
