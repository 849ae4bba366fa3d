//! Nodes that lose their store, or are ended, while they open it.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};

use super::nodes::{Node, ask};

/// How long a test waits for a node to be in the middle of its opening.
const PATIENCE: Duration = Duration::from_secs(30);
/// A node that is to end while it opens its store ends this soon.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A store without an owner, on a server of its own.
fn store() -> (PgServer, String) {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut node = Node::start(&url);
    node.wait_until_ready();
    assert!(ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).is_some());
    node.signal("TERM");
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    (server, url)
}

/// Does something with a node that owns its store and cannot go on opening it: the table of files is locked.
fn while_opening(server: &PgServer, url: &str, work: impl FnOnce(&mut Node)) -> Node {
    let database = name_in(url);
    let psql = |text: &str| server.psql(database, text).expect("the server answers");
    let lock = "BEGIN; LOCK TABLE kew_file IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)";
    let sleeps = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    std::thread::scope(|scope| {
        scope.spawn(|| server.psql(database, lock));
        let begun = Instant::now();
        let wait_for = |text: &str| {
            while psql(text) != "t" {
                assert!(begun.elapsed() < PATIENCE, "not yet: {text}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        wait_for(&format!("SELECT count(*) > 0 {sleeps}"));
        let mut node = Node::start(url);
        wait_for("SELECT count(*) > 0 FROM kew_shard JOIN kew_node ON kew_node.id = kew_shard.node");
        wait_for(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database()
                AND wait_event_type = 'Lock' AND query LIKE '%kew_file%'",
        );
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut node)));
        psql(&format!("SELECT count(pg_terminate_backend(pid)) {sleeps}"));
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
        node
    })
}

#[test]
fn store_that_is_lost_while_it_is_opened_is_waited_for_and_opened_again() {
    let (server, url) = store();
    let node = while_opening(&server, &url, |_| {
        // Another node takes it, serves for a moment and gives it away.
        let taken = "UPDATE kew_shard SET epoch = epoch + 1, node = ''";
        server.psql(name_in(&url), taken).expect("the server answers");
    });
    node.wait_until_ready();
    assert!(node.errors().contains("the store was lost while it was being opened"), "{}", node.errors());
    assert!(ask(node.sqs, "ListQueues", "{}").is_some_and(|queues| queues.contains("orders")));
}

#[test]
fn store_that_is_lost_while_it_is_opened_is_served_on_no_port_meanwhile() {
    let (server, url) = store();
    let psql = |text: &str| server.psql(name_in(&url), text).expect("the server answers");
    let node = while_opening(&server, &url, |_| {
        // Another node takes it, and lives.
        psql("INSERT INTO kew_node (id, name, until) VALUES ('o', 'other', clock_timestamp() + '1 hour')");
        psql("UPDATE kew_shard SET epoch = epoch + 1, node = 'o'");
    });
    node.wait_until_standing_by();
    for address in [node.sqs, node.azure, node.cloudflare] {
        let refused = TcpStream::connect(address).map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused), "clients go to the other node");
    }
    psql("DELETE FROM kew_node WHERE id = 'o'");
    node.wait_until_ready();
    assert!(ask(node.sqs, "ListQueues", "{}").is_some_and(|queues| queues.contains("orders")));
}

#[test]
fn signal_while_a_store_is_opened_gives_it_up_at_once() {
    let (server, url) = store();
    let mut took: Vec<Duration> = Vec::new();
    while took.iter().all(|took| *took >= AT_ONCE) {
        // Once more: the machine may have stood still.
        assert!(took.len() < 2, "it took {took:?}");
        while_opening(&server, &url, |node| {
            let asked = Instant::now();
            node.signal("TERM");
            assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
            took.push(asked.elapsed());
            let owners = "SELECT count(*) FROM kew_shard JOIN kew_node ON kew_node.id = kew_shard.node";
            let owners = server.psql(name_in(&url), owners).expect("the server answers");
            assert_eq!(owners, "0", "the store has an owner that has ended");
        });
    }
}

#[test]
fn store_that_cannot_be_opened_for_lack_of_connections_says_so_and_is_opened_when_there_are_some() {
    let (server, url) = store();
    let psql = |text: &str| server.psql(name_in(&url), text).expect("the server answers");
    psql("CREATE ROLE few LOGIN CONNECTION LIMIT 3");
    psql("CREATE DATABASE few OWNER few");
    let few = url.replacen("kew@", "few@", 1).replace(name_in(&url), "few");
    let node = Node::start(&few);
    let begun = Instant::now();
    let says = |text: &str| node.errors().contains(text);
    while !says("too many connections for role") {
        assert!(begun.elapsed() < PATIENCE, "{}", node.errors());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(TcpStream::connect(node.sqs).is_err(), "clients wait for a server that answers nothing");
    psql("ALTER ROLE few CONNECTION LIMIT 20");
    node.wait_until_ready();
}
