//! Statements that hang although the server lives: they wait for a lock that somebody holds, or their connection leads
//! nowhere.

use std::time::{Duration, Instant};

use kew_log_pg::TENURE;
use kew_log_pg::server::{PgServer, name_in};

use super::nodes::{Node, ask, ask_within, request};
use super::proxy::Proxy;

/// How long an answer may take, whatever the database does.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// A node ends this long after a signal.
const END_MAX: Duration = Duration::from_secs(15);
/// Served again this long after connections were lost.
const BACK_MAX: Duration = Duration::from_secs(10);

/// The tables that making and storing files takes, but no append to the journal.
const FILES: &str = "^kew_(file|slice_[0-9]+)$";

fn database() -> (PgServer, String) {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    (server, url)
}

fn send(node: &Node, text: &str) -> bool {
    let json = format!(r#"{{"QueueUrl":"orders","MessageBody":"{text}"}}"#);
    let begun = Instant::now();
    let sent = ask_within(node.sqs, "SendMessage", &json, 2 * ANSWER_MAX).is_some();
    assert!(begun.elapsed() < ANSWER_MAX, "an answer took {:?}\n{}", begun.elapsed(), node.errors());
    sent
}

/// How many messages are counted.
fn stored(node: &Node) -> usize {
    let json = r#"{"QueueUrl":"orders","AttributeNames":["ApproximateNumberOfMessages"]}"#;
    let counted = ask(node.sqs, "GetQueueAttributes", json).expect("the node serves");
    let counted: serde_json::Value = serde_json::from_str(&counted).expect("the reply is JSON");
    let stored = counted["Attributes"]["ApproximateNumberOfMessages"]
        .as_str()
        .expect("the reply has the attribute that was asked for");
    stored.parse().expect("a count is a number")
}

/// Does something while another session has locked tables against writing.
fn while_locked(server: &PgServer, database: &str, tables: &str, work: impl FnOnce()) {
    let named = format!(
        "SELECT string_agg(relname, ', ') FROM pg_class WHERE relkind = 'r' AND relname ~ '{tables}'"
    );
    let tables = server.psql(database, &named).expect("the server answers");
    while_held(server, database, &format!("LOCK TABLE {tables} IN EXCLUSIVE MODE"), work);
}

/// Does something while another session holds the locks of a statement.
pub(super) fn while_held(server: &PgServer, database: &str, statement: &str, work: impl FnOnce()) {
    let lock = format!("BEGIN; {statement}; SELECT pg_sleep(600)");
    let sleeps = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_sleep(600)%'";
    std::thread::scope(|scope| {
        scope.spawn(|| server.psql(database, &lock));
        let is_locked = format!("SELECT count(*) {sleeps} AND wait_event = 'PgSleep'");
        while server.psql(database, &is_locked).expect("the server answers") == "0" {
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let free = format!("SELECT count(pg_terminate_backend(pid)) {sleeps}");
        server.psql(database, &free).expect("the server answers");
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

fn assert_ends(node: &mut Node) {
    node.signal("TERM");
    let begun = Instant::now();
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    assert!(begun.elapsed() < END_MAX, "it took {:?}\n{}", begun.elapsed(), node.errors());
}

#[test]
fn journal_that_somebody_has_locked_refuses_sends_in_time_and_holds_no_end_up() {
    let (server, url) = database();
    let mut node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    assert!(send(&node, "before"));
    while_locked(&server, name_in(&url), "^kew_journal_[0-9]+$", || {
        assert!(!send(&node, "while it is locked"));
        node.wait_until_it_says("the database takes no writes");
        assert!(!send(&node, "refused at once"));
    });
    node.wait_until_ready();
    assert!(send(&node, "after"), "the lane goes on by itself");
    while_locked(&server, name_in(&url), "^kew_journal_[0-9]+$", || {
        assert!(!send(&node, "locked again"));
        assert_ends(&mut node);
    });
    let next = Node::start(&url);
    next.wait_until_ready();
    assert!((2..=5).contains(&stored(&next)), "{} messages are counted", stored(&next));
}

#[test]
fn files_that_somebody_has_locked_hold_up_neither_sends_nor_the_end() {
    let (server, url) = database();
    let mut node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    let mut sent = 0;
    while_locked(&server, name_in(&url), FILES, || {
        // Whether there is room yet or not: neither takes long.
        sent += usize::from(send(&node, "maybe without room"));
    });
    while !send(&node, "with room") {
        std::thread::sleep(Duration::from_millis(50));
    }
    sent += 1;
    // As many as there ever are: sends need no further room for long.
    let spares = "SELECT count(*) > 2 FROM kew_file WHERE name LIKE 'segments/%.spare'";
    let begun = Instant::now();
    while server.psql(name_in(&url), spares).expect("the server answers") != "t" {
        assert!(begun.elapsed() < 6 * BACK_MAX, "no room is made\n{}", node.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
    while_locked(&server, name_in(&url), FILES, || {
        let begun = Instant::now();
        while begun.elapsed() < 2 * TENURE {
            let asked = begun.elapsed();
            assert!(
                send(&node, "the journal is not locked"),
                "after {asked:?}, {sent} sent: {}",
                node.errors()
            );
            sent += 1;
            // A segment holds more than what is sent here.
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_ends(&mut node);
    });
    assert!(node.errors().contains("the store is left as it is"), "{}", node.errors());
    let next = Node::start(&url);
    next.wait_until_ready();
    // One that was refused may have been stored.
    assert!((sent..=sent + 9).contains(&stored(&next)), "{sent} sent, {} stored", stored(&next));
}

#[test]
fn shard_that_somebody_has_locked_is_waited_for_and_taken_when_it_is_free() {
    let (server, url) = database();
    let node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    assert!(send(&node, "before"));
    drop(node);
    let mut waits = None;
    while_locked(&server, name_in(&url), "^kew_shard$", || {
        let node = Node::start(&url);
        node.wait_until_it_says("the database does not answer");
        waits = Some(node);
    });
    let node = waits.expect("the node was started");
    node.wait_until_ready();
    assert_eq!(stored(&node), 1);
}

#[test]
fn lost_connections_are_replaced_though_neither_side_closes_them() {
    let (server, url) = database();
    let proxy = Proxy::to(server.port());
    let url = url.replace(&format!("127.0.0.1:{}", server.port()), &proxy.address.to_string());
    let node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    let mut sent = 0;
    for round in 0..3 {
        for _ in 0..20 {
            sent += usize::from(send(&node, "m"));
        }
        proxy.lose();
        let lost = Instant::now();
        while !send(&node, "n") {
            assert!(lost.elapsed() < BACK_MAX, "round {round}: not served again\n{}", node.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        sent += 1;
        println!("lost connections: served again after {:?}", lost.elapsed());
    }
    assert!(sent >= 63 && stored(&node) >= sent, "{sent} sent, {} stored", stored(&node));
}

#[test]
fn owner_that_is_cut_off_from_the_database_answers_nothing_from_memory() {
    let (server, url) = database();
    let proxy = Proxy::to(server.port());
    let old = Node::start(&url.replace(&format!("127.0.0.1:{}", server.port()), &proxy.address.to_string()));
    old.wait_until_ready();
    let next = Node::start(&url);
    next.wait_until_standing_by();
    proxy.cut_off();
    next.wait_until_ready();
    ask(next.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    let actions = [
        ("ListQueues", "{}"),
        ("GetQueueUrl", r#"{"QueueName":"orders"}"#),
        ("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#),
        ("ReceiveMessage", r#"{"QueueUrl":"orders"}"#),
    ];
    for (action, json) in actions {
        let target = format!("X-Amz-Target: AmazonSQS.{action}");
        let (status, body) = request(old.sqs, "POST", "/", &[&target], json)
            .expect("a node without its shard refuses in time");
        assert!(status == 503 && body.contains("ServiceUnavailable"), "{action}: {status} {body}");
    }
}
