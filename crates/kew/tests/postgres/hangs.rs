//! Statements that hang although the server lives: they wait for a lock that somebody holds, or their connection leads
//! nowhere.

use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};

use super::nodes::{Node, ask, ask_within, request_within};
use super::proxy::Proxy;

/// How long an answer may take, whatever the database does: 3 s, and more where the machine stands still.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// A node ends this long after a signal.
const END_MAX: Duration = Duration::from_secs(15);
/// Served again this long after connections were lost.
const BACK_MAX: Duration = Duration::from_secs(10);

/// Sends that nothing holds up are answered this soon.
const ANSWERS_SOON: Duration = Duration::from_secs(1);
/// How long such sends go on. What fails for good, once a tenure has ended or a statement is given up, fails for longer
/// than a spell.
const SENDS_FOR: Duration = Duration::from_secs(12);
/// How long one spell of slow and refused sends may be. A machine that stands still for 3 s holds a send up, and after
/// that the node refuses others until it has renewed its shards and made its connections again.
const SPELL_MAX: Duration = Duration::from_secs(5);
/// The pause after each of these sends.
const PAUSE: Duration = Duration::from_millis(50);

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

/// Repeats a send that is refused with "try again", as clients do, for at most [`BACK_MAX`]. Answers how many it took.
fn send_soon(node: &Node, text: &str) -> usize {
    let (begun, mut sends) = (Instant::now(), 1);
    while !send(node, text) {
        assert!(begun.elapsed() < BACK_MAX, "the lane does not go on by itself\n{}", node.errors());
        std::thread::sleep(Duration::from_millis(50));
        sends += 1;
    }
    sends
}

/// Sends for a while. Each send is accepted soon, but for one spell: the machine may stand still. Answers how many were
/// accepted, and how many refused.
pub(super) fn send_for_a_while(node: &Node, send: impl Fn() -> bool) -> (usize, usize) {
    let (begun, mut accepted, mut refused) = (Instant::now(), 0, 0);
    let (mut spell, mut spells): (Option<Instant>, u32) = (None, 0);
    while begun.elapsed() < SENDS_FOR {
        let asked = Instant::now();
        let is_accepted = send();
        accepted += usize::from(is_accepted);
        refused += usize::from(!is_accepted);
        if is_accepted && asked.elapsed() < ANSWERS_SOON {
            spell = None;
        } else if spell.is_none() {
            (spell, spells) = (Some(asked), spells + 1);
        }
        let lasts = spell.map_or(Duration::ZERO, |since| since.elapsed());
        assert!(
            spells <= 1 && lasts < SPELL_MAX,
            "after {:?}: {accepted} accepted, {refused} refused, in spell {spells} for {lasts:?}\n{}",
            begun.elapsed(),
            node.errors()
        );
        std::thread::sleep(PAUSE);
    }
    (accepted, refused)
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
    let lock = format!("LOCK TABLE {tables} IN EXCLUSIVE MODE");
    server.while_held(database, &lock, work).expect("the server answers");
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
    let sends = send_soon(&node, "after");
    while_locked(&server, name_in(&url), "^kew_journal_[0-9]+$", || {
        assert!(!send(&node, "locked again"));
        assert_ends(&mut node);
    });
    let next = Node::start(&url);
    next.wait_until_ready();
    // What was refused may be stored all the same: its outcome is not known.
    let (stored, sent) = (stored(&next), 4 + sends);
    assert!((2..=sent).contains(&stored), "{stored} messages are counted, of {sent} sends");
}

#[test]
fn files_that_somebody_has_locked_hold_up_neither_sends_nor_the_end() {
    let (server, url) = database();
    let mut node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    let (mut sent, mut refused) = (0, 0);
    while_locked(&server, name_in(&url), FILES, || {
        // Whether there is room yet or not: neither takes long.
        let is_sent = send(&node, "maybe without room");
        sent += usize::from(is_sent);
        refused += usize::from(!is_sent);
    });
    while !send(&node, "with room") {
        refused += 1;
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
        // A segment holds more than what is sent here.
        let (accepted, not_accepted) = send_for_a_while(&node, || send(&node, "the journal is not locked"));
        sent += accepted;
        refused += not_accepted;
        assert_ends(&mut node);
    });
    assert!(node.errors().contains("the store is left as it is"), "{}", node.errors());
    let next = Node::start(&url);
    next.wait_until_ready();
    // One that was refused may have been stored.
    let stored = stored(&next);
    assert!((sent..=sent + refused).contains(&stored), "{sent} sent, {refused} refused, {stored} stored");
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
    let (mut sent, mut spells) = (0, 0);
    for round in 0..3 {
        for _ in 0..20 {
            spells += usize::from(send_soon(&node, "m") > 1);
            sent += 1;
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
    // Once the machine may have stood still.
    assert!(spells <= 1, "sends were refused again, {spells} times\n{}", node.errors());
    assert!(stored(&node) >= sent, "{sent} sent, {} stored", stored(&node));
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
        let (status, body) = request_within(old.sqs, "POST", "/", &[&target], json, ANSWER_MAX)
            .expect("a node without its shard refuses in time");
        assert!(status == 503 && body.contains("ServiceUnavailable"), "{action}: {status} {body}");
    }
}
