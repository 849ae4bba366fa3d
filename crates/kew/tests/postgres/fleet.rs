//! Three nodes that serve one store together: any of them serves any queue.

use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};
use serde_json::{Value, json};

use super::hangs::send_for_a_while;
use super::load::Load;
use super::nodes::{Node, ask, ask_within, request};
use super::takeover::{judge, kills};

/// Served again this long after a node went.
const BACK_MAX: Duration = Duration::from_secs(5);
/// How long the shards may take to find their first owners.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);

/// Nodes of one fleet, each of which knows all queues.
pub fn fleet(url: &str) -> [Node; 3] {
    let nodes = [(); 3].map(|()| Node::start_with(url, &[("KEW_PEER", "127.0.0.1:0")]));
    for node in &nodes {
        wait_until_it_knows_all(node);
    }
    nodes
}

/// A node lists queues only while it knows all there are.
pub fn wait_until_it_knows_all(node: &Node) {
    let begun = Instant::now();
    while ask(node.sqs, "ListQueues", "{}").is_none_or(|listed| listed.contains("__type")) {
        assert!(begun.elapsed() < SETTLES_WITHIN, "a node never knew all queues: {}", node.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn begin_load(nodes: &[Node; 3]) -> Load {
    Load::begin(&[nodes[0].sqs, nodes[1].sqs, nodes[2].sqs], false)
}

#[test]
fn any_node_serves_a_queue_that_another_one_keeps() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    // Each in another shard, so some of them at each node.
    for number in 0..9 {
        let name = format!("queue-{number}");
        let [made, sent, received] = [0, 1, 2].map(|place| nodes[(number + place) % 3].sqs);
        let create = format!(r#"{{"QueueName":"{name}"}}"#);
        assert!(ask(made, "CreateQueue", &create).is_some_and(|made| made.contains(&name)), "{name} is made");
        let send = format!(r#"{{"QueueUrl":"{name}","MessageBody":"for {name}"}}"#);
        assert!(ask(sent, "SendMessage", &send).is_some_and(|sent| sent.contains("MessageId")));
        let receive = format!(r#"{{"QueueUrl":"{name}"}}"#);
        let got = ask(received, "ReceiveMessage", &receive).expect("the node answers");
        assert!(got.contains(&format!("for {name}")), "{got}");
    }
    for node in &nodes {
        let listed = ask(node.sqs, "ListQueues", "{}").expect("the node answers");
        assert_eq!(listed.matches("/queue-").count(), 9, "{listed}");
    }
}

#[test]
fn rename_to_the_name_of_a_queue_in_another_shard_is_a_conflict_at_every_node() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let call = |node: &Node, method: &str, path: &str, body: &Value| {
        let path = format!("/client/v4/accounts/0/queues{path}");
        let headers = ["Authorization: Bearer any", "Content-Type: application/json"];
        let reply = request(node.cloudflare, method, &path, &headers, &body.to_string());
        let (status, body) = reply.expect("the node answers");
        (status, serde_json::from_str::<Value>(&body).expect("a reply is JSON"))
    };
    let rename = |node: &Node, queue: &str, name: &str| {
        call(node, "PATCH", &format!("/{queue}"), &json!({ "queue_name": name }))
    };
    // Each in another shard, so some of them at each node.
    let queues: Vec<(String, String)> = (0..6)
        .map(|number| {
            let name = format!("queue-{number}");
            let (status, made) = call(&nodes[number % 3], "POST", "", &json!({ "queue_name": name }));
            assert_eq!(status, 200, "{made}");
            (made["result"]["queue_id"].as_str().expect("a queue has an id").to_owned(), name)
        })
        .collect();
    for node in &nodes {
        for pair in queues.windows(2) {
            let (status, reply) = rename(node, &pair[0].0, &pair[1].1);
            assert_eq!((status, &reply["errors"][0]["code"]), (409, &json!(11_009)), "{reply}");
        }
    }
    let (gone, free) = &queues[5];
    assert_eq!(call(&nodes[0], "DELETE", &format!("/{gone}"), &Value::Null).0, 200);
    assert_eq!(rename(&nodes[1], &queues[0].0, free).0, 200, "the name is free");
    for node in &mut nodes {
        node.kill();
        node.start_again();
    }
    for node in &nodes {
        wait_until_it_knows_all(node);
        let listed = ask(node.sqs, "ListQueues", "{}").expect("the node answers");
        assert_eq!(listed.matches("/queue-").count(), 5, "{listed}");
        let (_, shown) = call(node, "GET", &format!("/{}", queues[0].0), &Value::Null);
        assert_eq!(shown["result"]["queue_name"], **free, "{shown}");
    }
}

/// As long as others tell a node of a new queue, and not so long that their links to it end.
const STANDS_STILL: Duration = Duration::from_millis(1_650);

#[test]
fn node_that_stood_still_while_a_queue_was_made_elsewhere_does_not_deny_it() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    let mut missed = 0;
    for round in 0..12 {
        let name = format!("queue-{round}");
        nodes[1].signal("STOP");
        let begun = Instant::now();
        let create = format!(r#"{{"QueueName":"{name}"}}"#);
        let made = ask_within(nodes[0].sqs, "CreateQueue", &create, STANDS_STILL);
        std::thread::sleep(STANDS_STILL.saturating_sub(begun.elapsed()));
        nodes[1].signal("CONT");
        if made.is_some() {
            missed += 1;
            std::thread::sleep(Duration::from_millis(600));
            let found = ask_within(nodes[1].sqs, "GetQueueUrl", &create, Duration::from_secs(10));
            assert!(found.is_some_and(|found| found.contains(&name)), "round {round}: {name} is denied");
        } else {
            // It goes to a shard of the node that stood still; the next one goes to another.
            assert!(ask_within(nodes[0].sqs, "CreateQueue", &create, Duration::from_secs(10)).is_some());
        }
        nodes.iter().for_each(wait_until_it_knows_all);
        if missed == 2 {
            break;
        }
    }
    assert!(missed > 0, "no queue was made while the node stood still");
}

#[test]
fn receive_that_waits_at_one_node_gets_what_is_sent_through_another() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    for name in ["one", "two", "three"] {
        assert!(ask(nodes[0].sqs, "CreateQueue", &format!(r#"{{"QueueName":"{name}"}}"#)).is_some());
        let receiver = nodes[1].sqs;
        let receive = format!(r#"{{"QueueUrl":"{name}","WaitTimeSeconds":20}}"#);
        let waits = std::thread::spawn(move || {
            ask_within(receiver, "ReceiveMessage", &receive, Duration::from_secs(25))
        });
        std::thread::sleep(Duration::from_millis(300));
        let send = format!(r#"{{"QueueUrl":"{name}","MessageBody":"late"}}"#);
        assert!(ask(nodes[2].sqs, "SendMessage", &send).is_some());
        let got = waits.join().expect("the receiver ends").expect("the node answers");
        assert!(got.contains("late"), "{got}");
    }
}

/// How many nodes of three are killed: five times as many in a long run.
fn node_kills() -> usize {
    if kills() > 50 { 5 * kills() } else { kills() }
}

#[test]
fn killed_node_of_three_is_followed_by_the_others_with_nothing_lost_doubled_or_disordered() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let load = begin_load(&nodes);
    let mut took = Vec::new();
    for round in 0..node_kills() {
        std::thread::sleep(Duration::from_millis(300));
        nodes[round % 3].kill();
        took.push(load.time_to_serve());
        nodes[round % 3].start_again();
        wait_until_it_knows_all(&nodes[round % 3]);
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("node of three killed", took, BACK_MAX);
}

#[test]
fn each_node_of_three_is_restarted_in_order_with_nothing_lost_doubled_or_disordered() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let load = begin_load(&nodes);
    for node in &mut nodes {
        std::thread::sleep(Duration::from_millis(300));
        node.signal("TERM");
        assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
        node.start_again();
        wait_until_it_knows_all(node);
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
}

#[test]
fn node_of_three_that_was_stopped_and_continues_does_nothing_to_its_successors() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    let load = begin_load(&nodes);
    let mut took = Vec::new();
    for round in 0..kills().div_ceil(4) {
        std::thread::sleep(Duration::from_millis(300));
        nodes[round % 3].signal("STOP");
        took.push(load.time_to_serve());
        std::thread::sleep(Duration::from_secs(4));
        nodes[round % 3].signal("CONT");
        wait_until_it_knows_all(&nodes[round % 3]);
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("node of three stopped", took, BACK_MAX);
}

#[test]
fn shard_whose_row_is_locked_keeps_no_other_from_answering() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let node = Node::start_with(&url, &[("KEW_PEER", "127.0.0.1:0")]);
    wait_until_it_knows_all(&node);
    // Each in the emptiest shard: one after the other.
    for name in ["first", "second"] {
        assert!(ask(node.sqs, "CreateQueue", &format!(r#"{{"QueueName":"{name}"}}"#)).is_some(), "{name}");
    }
    let send = |name: &str| {
        let send = format!(r#"{{"QueueUrl":"{name}","MessageBody":"a"}}"#);
        ask_within(node.sqs, "SendMessage", &send, SETTLES_WITHIN)
            .is_some_and(|sent| sent.contains("MessageId"))
    };
    assert!(send("first") && send("second"));
    let lock = "SELECT 1 FROM kew_shard WHERE id = 0 FOR UPDATE";
    let done = server.while_held(name_in(&url), lock, || {
        // Past the end of the locked shard's tenure.
        let (accepted, refused) = send_for_a_while(&node, || send("second"));
        println!("beside a locked shard {accepted} sends were accepted and {refused} refused");
    });
    done.expect("the server answers");
    let begun = Instant::now();
    while !send("first") {
        assert!(begun.elapsed() < BACK_MAX, "the shard never went on: {}", node.errors());
    }
}

#[test]
fn node_without_tls_and_one_with_it_say_that_they_have_no_connection_and_why() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = ["off", "on"]
        .map(|tls| Node::start_with(&url, &[("KEW_PEER", "127.0.0.1:0"), ("KEW_PEER_TLS", tls)]));
    let begun = Instant::now();
    let says_why = |node: &Node| node.errors().contains("only one of two nodes speaks TLS");
    while !nodes.iter().all(says_why) {
        let errors = nodes.each_ref().map(Node::errors);
        assert!(begun.elapsed() < SETTLES_WITHIN, "{errors:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn node_that_other_machines_reach_without_tls_warns() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    for (peer, tls, warns) in
        [("0.0.0.0:0", "off", true), ("0.0.0.0:0", "on", false), ("127.0.0.1:0", "off", false)]
    {
        let url = server.database().expect("the server makes databases");
        let node = Node::start_with(&url, &[("KEW_PEER", peer), ("KEW_PEER_TLS", tls)]);
        node.wait_until_ready();
        let errors = node.errors();
        assert_eq!(errors.contains("is not encrypted"), warns, "{peer} {tls}: {errors}");
    }
}
