//! What an operator sees of a fleet and does to it, through any node.

use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;
use serde_json::{Value, json};

use super::fleet::wait_until_it_knows_all;
use super::nodes::{Node, ask};

/// Longer than nodes wait before they spread shards evenly.
const SETTLED: Duration = Duration::from_secs(6);
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Three nodes whose shards have found their places.
fn fleet(url: &str) -> [Node; 3] {
    let start = |name| Node::start_with(url, &[("KEW_PEER", "127.0.0.1:0"), ("KEW_NODE", name)]);
    let nodes = NAMES.map(start);
    nodes.iter().for_each(wait_until_it_knows_all);
    until("the shards are even", || {
        let shards = nodes[0].shows("/nodes")["nodes"].as_array().map_or(0, |all| {
            all.iter().filter(|node| node["shards"].as_array().is_some_and(|own| own.len() >= 5)).count()
        });
        shards == 3
    });
    nodes
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The owner of each shard, as a node shows it.
fn owners(node: &Node) -> Vec<String> {
    let shards = node.shows("/shards");
    let owner = |shard: &Value| shard["owner"].as_str().unwrap_or_default().to_owned();
    shards["shards"].as_array().expect("shards are a list").iter().map(owner).collect()
}

#[test]
fn shard_is_handed_over_through_any_node_and_stays_where_it_was_sent() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    for node in &nodes {
        until("every shard is served", || {
            let shown = node.shows("/shards");
            let all = shown["shards"].as_array().expect("shards are a list");
            all.iter().all(|shard| shard["state"] == "serving")
        });
        let shown = node.shows("/shards");
        let shards = shown["shards"].as_array().expect("shards are a list");
        assert_eq!(shards.len(), 16);
        for shard in shards {
            assert_eq!(shard["state"], "serving", "{shard}");
            assert!(shard["taken_over_at_ms"].as_u64() > Some(1_600_000_000_000), "{shard}");
        }
        let heard = &node.shows("/nodes")["nodes"][0]["heartbeat_age_seconds"];
        assert!(heard.as_f64().is_some_and(|age| age < 2.5), "{heard}");
    }
    assert!(ask(nodes[0].sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).is_some());
    let send = r#"{"QueueUrl":"orders","MessageBody":"m"}"#;
    assert!(ask(nodes[0].sqs, "SendMessage", send).is_some());
    let receive = r#"{"QueueUrl":"orders","VisibilityTimeout":600}"#;
    assert!(ask(nodes[1].sqs, "ReceiveMessage", receive).is_some_and(|got| got.contains("\"Body\"")));
    let shard = nodes[2].shows("/queues/orders")["shard"].as_u64().expect("a queue is in a shard");
    let shard = usize::try_from(shard).expect("a store has few shards");
    let from = owners(&nodes[2])[shard].clone();
    let to = *NAMES
        .iter()
        .find(|name| **name != from && **name != "three")
        .expect("two nodes do not own the shard, and one of them is not three");
    let path = format!("/shards/{shard}/hand-over");
    let handed = nodes[2].api("POST", &path, &json!({ "to": to }).to_string()).expect("the node answers");
    assert_eq!(handed, (200, json!({ "shard": shard, "from": from, "to": to, "done": true })));
    until("its queue is served at its new node", || {
        let shown = nodes[0].shows("/shards");
        shown["shards"][shard]["owner"] == to && shown["shards"][shard]["state"] == "serving"
    });
    // The lease went along.
    assert!(ask(nodes[2].sqs, "ReceiveMessage", receive).is_some_and(|got| !got.contains("\"Body\"")));
    std::thread::sleep(SETTLED);
    for node in &nodes {
        assert_eq!(owners(node)[shard], to, "the shards were spread again: {:?}", owners(node));
    }
    let refused = |node: &Node, path: &str, to: &str| {
        let (status, body) =
            node.api("POST", path, &json!({ "to": to }).to_string()).expect("the node answers");
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(&nodes[0], "/shards/16/hand-over", "two"), (404, "shard_not_found".to_owned()));
    nodes[2].kill();
    until("the node has gone", || {
        nodes[0].shows("/nodes")["nodes"].as_array().is_some_and(|all| all.len() == 2)
    });
    assert_eq!(refused(&nodes[0], &path, "three"), (409, "node_not_found".to_owned()));
    until("its shards are served by others", || {
        nodes[1].shows("/shards")["shards"]
            .as_array()
            .is_some_and(|all| all.iter().all(|shard| shard["state"] == "serving"))
    });
}

#[test]
fn any_node_shows_the_figures_and_messages_of_queues_that_others_keep() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    let names: Vec<String> = (0..9).map(|number| format!("queue-{number}")).collect();
    for name in &names {
        let create = format!(r#"{{"QueueName":"{name}"}}"#);
        assert!(ask(nodes[0].sqs, "CreateQueue", &create).is_some(), "{name} is made");
    }
    until("every node shows rates of every queue", || {
        for name in &names {
            let send = format!(r#"{{"QueueUrl":"{name}","MessageBody":"for {name}"}}"#);
            assert!(ask(nodes[1].sqs, "SendMessage", &send).is_some());
        }
        nodes.iter().all(|node| {
            let listed = node.shows("/queues");
            assert_eq!(listed["silent"], json!([]), "{listed}");
            let rows = listed["queues"].as_array().expect("queues are a list");
            rows.len() == 9 && rows.iter().all(|row| row["sent_per_second"].as_f64() > Some(0.0))
        })
    });
    for (number, name) in names.iter().enumerate() {
        let node = &nodes[number % 3];
        let shown = node.shows(&format!("/queues/{name}"));
        assert!(
            shown["visible"].as_u64() > Some(1) && shown["sent_per_second"].as_f64() > Some(0.0),
            "{shown}"
        );
        let samples = node.shows(&format!("/queues/{name}/samples"));
        assert!(samples["samples"].as_array().is_some_and(|all| !all.is_empty()), "{name}: {samples}");
        let message = node.shows(&format!("/queues/{name}/messages?limit=1&text=for"))["messages"][0].clone();
        let id = message["id"].as_str().expect("a message has an id");
        let anywhere = nodes[(number + 1) % 3].shows(&format!("/messages/{id}"));
        assert_eq!((&anywhere["queue"], &anywhere["body"]), (&json!(name), &json!(format!("for {name}"))));
        assert_eq!(anywhere["timeline"][0]["event"], "sent", "{anywhere}");
        let delete = format!("/queues/{name}/messages/{id}/delete");
        let deleted = nodes[(number + 2) % 3].api("POST", &delete, "{}").expect("the node answers");
        assert_eq!(deleted.0, 200, "{deleted:?}");
    }
}

#[test]
fn node_that_stands_still_leaves_its_figures_out_and_holds_no_page_up() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = fleet(&url);
    // One in each shard.
    for number in 0..16 {
        let create = format!(r#"{{"QueueName":"queue-{number}"}}"#);
        assert!(ask(nodes[0].sqs, "CreateQueue", &create).is_some());
    }
    nodes[2].signal("STOP");
    let begun = Instant::now();
    let listed = nodes[0].shows("/queues");
    let took = begun.elapsed();
    nodes[2].signal("CONT");
    assert_eq!(listed["silent"], json!(["three"]), "{listed}");
    assert!(took < Duration::from_secs(2), "the page took {took:?}");
    let rows = listed["queues"].as_array().expect("queues are a list");
    let (without, with): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["visible"].is_null());
    assert!(rows.len() == 16 && !without.is_empty() && !with.is_empty(), "{listed}");
    assert!(without.iter().all(|row| row["sent_per_second"].is_null()), "{listed}");
}
