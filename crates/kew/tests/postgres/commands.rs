//! `kew store` on PostgreSQL, and between PostgreSQL and a directory.

use std::path::Path;

use kew_log_pg::server::PgServer;

use super::nodes::{Node, ask};
use super::store_tool::{done, errors, tool};

pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Serves a store, makes a queue with three messages of which one is in flight, and ends in order.
fn fill(url: &str) {
    let mut node = Node::start(url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    for number in 0..3 {
        let send = format!(r#"{{"QueueUrl":"orders","MessageBody":"m{number}"}}"#);
        ask(node.sqs, "SendMessage", &send).expect("the node serves");
    }
    ask(node.sqs, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#).expect("the node serves");
    node.signal("TERM");
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
}

/// The lines of an export without the store's own id, which an import does not take over.
pub fn contents(export: &str) -> String {
    let (first, rest) = export.split_once('\n').expect("an export has lines");
    let mut first: serde_json::Value = serde_json::from_str(first).expect("each line is JSON");
    first["store"]["store_id"] = serde_json::Value::Null;
    format!("{first}\n{rest}")
}

#[test]
fn store_moves_from_postgres_to_a_directory_and_back_losing_nothing() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let [one, other] = [0, 1].map(|_| server.database().expect("the server makes databases"));
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    fill(&one);
    let lines = text(&directory.path().join("lines"));
    done(&one, &["export", "--to", &lines]);
    let exported = contents(&std::fs::read_to_string(&lines).expect("the file was written"));
    let between = text(&directory.path().join("data"));
    done(&between, &["import", "--from", &lines]);
    assert_eq!(contents(&done(&between, &["export"])), exported, "the directory holds something else");
    done(&other, &["import", "--from", &lines]);
    assert_eq!(contents(&done(&other, &["export"])), exported, "the other database holds something else");
    assert!(done(&other, &["check"]).contains("sound: "));
    let node = Node::start(&other);
    node.wait_until_ready();
    let receive = r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#;
    let found = ask(node.sqs, "ReceiveMessage", receive).expect("the node serves");
    assert_eq!(found.matches("\"Body\":\"m").count(), 2, "the third is in flight: {found}");
}

/// Queues of all kinds, over which the shards are spread. Answers the receipt of a message in flight.
pub fn fill_many(store: &str) -> String {
    let mut node = Node::start(store);
    node.wait_until_ready();
    let said = |operation: &str, body: &str| ask(node.sqs, operation, body).expect("the node serves");
    for number in 0..20 {
        said("CreateQueue", &format!(r#"{{"QueueName":"queue-{number}"}}"#));
        let send = format!(r#"{{"QueueUrl":"queue-{number}","MessageBody":"for {number}"}}"#);
        said("SendMessage", &send);
    }
    said("SendMessage", r#"{"QueueUrl":"queue-3","MessageBody":"late","DelaySeconds":900}"#);
    let fifo = r#"{"QueueName":"turns.fifo","Attributes":{"FifoQueue":"true"}}"#;
    said("CreateQueue", fifo);
    let once = said("SendMessage", ONCE);
    assert!(once.contains("MessageId"), "{once}");
    let leased = said("ReceiveMessage", r#"{"QueueUrl":"queue-7","VisibilityTimeout":3600}"#);
    let leased: serde_json::Value = serde_json::from_str(&leased).expect("the node answers in JSON");
    node.signal("TERM");
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    leased["Messages"][0]["ReceiptHandle"].as_str().expect("a message was there").to_owned()
}

const ONCE: &str =
    r#"{"QueueUrl":"turns.fifo","MessageBody":"once","MessageGroupId":"g","MessageDeduplicationId":"d"}"#;

pub fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn store_moves_from_a_directory_to_sixteen_shards_and_back_losing_nothing() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let [here, lines, back] = ["here", "lines", "back"].map(|name| text(&directory.path().join(name)));
    let receipt = fill_many(&here);
    done(&here, &["export", "--to", &lines]);
    let exported = contents(&std::fs::read_to_string(&lines).expect("the file was written"));
    done(&url, &["import", "--shards", "16", "--from", &lines]);
    let spread = contents(&done(&url, &["export"]));
    assert_eq!(sorted(&spread), sorted(&exported), "the shards hold something else");
    let checked = done(&url, &["check"]);
    assert_eq!(checked.matches(": sound: ").count(), 16, "{checked}");
    let stats = done(&url, &["stats"]);
    assert!(stats.starts_with("queues               21\nmessages             22\n"), "{stats}");
    assert!(stats.ends_with("shards               16\n"), "{stats}");
    let backup = tool(&url, &["backup", &text(&directory.path().join("backup"))]);
    let said = errors(&backup);
    assert!(backup.status.code() == Some(1) && said.contains("has 16 shards"), "{said}");
    std::fs::write(&lines, done(&url, &["export"])).expect("the directory is the test's own");
    done(&back, &["import", "--from", &lines]);
    assert_eq!(contents(&done(&back, &["export"])), exported, "the directory holds something else");

    let nodes =
        [(); 2].map(|()| Node::start_with(&url, &[("KEW_PEER", "127.0.0.1:0"), ("KEW_PEER_TLS", "on")]));
    nodes.iter().for_each(super::fleet::wait_until_it_knows_all);
    let said = |number: usize, operation: &str, body: &str| {
        ask(nodes[number % 2].sqs, operation, body).expect("the node serves")
    };
    let gone = said(0, "DeleteMessage", &format!(r#"{{"QueueUrl":"queue-7","ReceiptHandle":"{receipt}"}}"#));
    assert!(!gone.contains("__type"), "{gone}");
    for number in (0..20).filter(|number| *number != 7) {
        let got = said(number, "ReceiveMessage", &format!(r#"{{"QueueUrl":"queue-{number}"}}"#));
        assert!(got.contains(&format!("for {number}")), "{got}");
    }
    let again = said(1, "SendMessage", ONCE);
    assert!(again.contains("MessageId"), "{again}");
    let turns = r#"{"QueueUrl":"turns.fifo","MaxNumberOfMessages":10}"#;
    assert_eq!(said(0, "ReceiveMessage", turns).matches("\"Body\"").count(), 1, "it was sent once");
}

#[test]
fn store_of_many_shards_is_made_for_nodes_that_serve_it_together() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let made = done(&url, &["create", "--shards", "4"]);
    assert!(made.starts_with("made an empty store of 4 shards in postgres://"), "{made}");
    assert!(done(&url, &["create"]).contains("holds a store already"));
    let other = tool(&url, &["create", "--shards", "8"]);
    assert!(errors(&other).contains("a store already, of 4 shards"));
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let place = text(&directory.path().join("data"));
    let many = tool(&place, &["create", "--shards", "300"]);
    assert!(errors(&many).contains("a store in a directory has 256 shards at most"));
    let (code, errors) = super::refusals::refused(&url);
    assert!(code == Some(1) && errors.contains("the store has 4 shards"), "{errors}");
    assert!(errors.contains("--peer"), "{errors}");
}

#[test]
fn store_is_made_checked_counted_and_backed_up() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nothing = tool(&url, &["check"]);
    assert_eq!(nothing.status.code(), Some(1), "an empty database is no store");
    let said = errors(&nothing);
    assert!(said.contains("holds no store"), "{said}");
    assert!(done(&url, &["create"]).starts_with("made an empty store in postgres://"));
    assert!(done(&url, &["create"]).contains("holds a store already"));
    fill(&url);
    assert!(done(&url, &["check"]).contains("sound: "));
    let stats = done(&url, &["stats"]);
    assert!(stats.starts_with("queues               1\nmessages             3\n"), "{stats}");
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let target = text(&directory.path().join("backup"));
    done(&url, &["backup", &target]);
    done(&url, &["backup", "--verify", &target]);
    assert_eq!(done(&target, &["export"]), done(&url, &["export"]));
}

#[test]
fn import_that_is_cut_short_says_what_to_do_with_what_it_left() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let [from, to] = [0, 1].map(|_| server.database().expect("the server makes databases"));
    fill(&from);
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let lines = text(&directory.path().join("lines"));
    let export = done(&from, &["export"]);
    std::fs::write(&lines, &export[..export.len() / 2]).expect("the directory is the test's own");
    let short = tool(&to, &["import", "--from", &lines]);
    let said = errors(&short);
    assert_eq!(short.status.code(), Some(1), "{said}");
    assert!(said.contains("holds an empty store now: drop the tables that begin with kew_"), "{said}");
}

#[test]
fn tools_keep_away_from_a_store_that_is_served() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let node = Node::start(&url);
    node.wait_until_ready();
    for arguments in [&["check"][..], &["stats"], &["export"], &["import"]] {
        let output = tool(&url, arguments);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("is in use by"), "{arguments:?}: {said}");
    }
}
