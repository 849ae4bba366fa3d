//! What an operator sees of a fleet and does to it, through any node.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;
use serde_json::{Value, json};

use super::fleet::wait_until_it_knows_all;
use super::nodes::{Node, ask, request};

/// Longer than nodes wait before they spread shards evenly.
const SETTLED: Duration = Duration::from_secs(6);
/// A page that waits for a node that stands still takes longer: until its connection is given up, at least.
const PAGE_MAX: Duration = Duration::from_secs(2);
/// How long nodes share what another one said, or that it said nothing; and somewhat more.
const SAID_FOR: Duration = Duration::from_secs(2);
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Three nodes whose shards have found their places.
fn fleet(url: &str) -> [Node; 3] {
    let start = |name| Node::start_with(url, &[("KEW_PEER", "127.0.0.1:0"), ("KEW_NODE", name)]);
    let nodes = NAMES.map(start);
    wait_until_even(&nodes);
    nodes
}

/// Returns once every node knows all queues and has its share of the shards.
fn wait_until_even(nodes: &[Node; 3]) {
    nodes.iter().for_each(wait_until_it_knows_all);
    until("the shards are even", || {
        let shards = nodes[0].shows("/nodes")["nodes"].as_array().map_or(0, |all| {
            all.iter().filter(|node| node["shards"].as_array().is_some_and(|own| own.len() >= 5)).count()
        });
        shards == 3
    });
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

/// Receives a message and hides it for the rest of a test.
const RECEIVE: &str = r#"{"QueueUrl":"orders","VisibilityTimeout":600}"#;

/// Hands over the shard of the queue `orders`, whose only message is leased. Whether it stays where it was sent.
fn is_handed_over_and_stays(nodes: &[Node; 3], shard: usize) -> bool {
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
    assert!(ask(nodes[2].sqs, "ReceiveMessage", RECEIVE).is_some_and(|got| !got.contains("\"Body\"")));
    std::thread::sleep(SETTLED);
    let shown = nodes.each_ref().map(owners);
    let stays = shown.iter().all(|owners| owners[shard] == to);
    if !stays {
        println!("shard {shard} was sent to {to}, and the shards were spread again: {shown:?}");
    }
    stays
}

#[test]
fn shard_is_handed_over_through_any_node_and_stays_where_it_was_sent() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    for node in &nodes {
        let mut shards: Vec<Value> = Vec::new();
        until("every shard is served", || {
            shards = node.shows("/shards")["shards"].as_array().expect("shards are a list").clone();
            shards.iter().all(|shard| shard["state"] == "serving")
        });
        assert_eq!(shards.len(), 16);
        for shard in &shards {
            assert!(shard["taken_over_at_ms"].as_u64() > Some(1_600_000_000_000), "{shard}");
        }
        until("the first node was heard of lately", || {
            let shown = node.shows("/nodes");
            shown["nodes"][0]["heartbeat_age_seconds"].as_f64().is_some_and(|age| age < 2.5)
        });
    }
    assert!(ask(nodes[0].sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).is_some());
    let send = r#"{"QueueUrl":"orders","MessageBody":"m"}"#;
    assert!(ask(nodes[0].sqs, "SendMessage", send).is_some());
    assert!(ask(nodes[1].sqs, "ReceiveMessage", RECEIVE).is_some_and(|got| got.contains("\"Body\"")));
    let shard = nodes[2].shows("/queues/orders")["shard"].as_u64().expect("a queue is in a shard");
    let shard = usize::try_from(shard).expect("a store has few shards");
    // Once more where they were spread again: nodes that miss one of them for a moment do that, as they should, and the
    // machine may have stood still.
    assert!((0..2).any(|_| is_handed_over_and_stays(&nodes, shard)), "the shards were spread again, twice");
    let path = format!("/shards/{shard}/hand-over");
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

fn sequence_of(message: &&Value) -> Option<u64> {
    message["sequence"].as_u64()
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
    let is_sent = |name: &str| {
        let send = format!(r#"{{"QueueUrl":"{name}","MessageBody":"for {name}"}}"#);
        ask(nodes[1].sqs, "SendMessage", &send).is_some()
    };
    until("every node shows rates of every queue, and none is silent", || {
        let all_sent = names.iter().all(|name| is_sent(name));
        let shows_all = |node: &Node| {
            let listed = node.shows("/queues");
            let rows = listed["queues"].as_array().expect("queues are a list");
            let has_rate = |row: &Value| row["sent_per_second"].as_f64() > Some(0.0);
            listed["silent"] == json!([]) && rows.len() == 9 && rows.iter().all(has_rate)
        };
        all_sent && nodes.iter().all(shows_all)
    });
    for (number, name) in names.iter().enumerate() {
        let node = &nodes[number % 3];
        until("a node shows the figures of a queue", || {
            // Rates are of the last seconds: they end when nothing is sent.
            let all_sent = is_sent(name);
            let shown = node.shows(&format!("/queues/{name}"));
            all_sent && shown["visible"].as_u64() > Some(1) && shown["sent_per_second"].as_f64() > Some(0.0)
        });
        until("a node shows the samples of a queue", || {
            let shown = node.shows(&format!("/queues/{name}/samples"));
            shown["samples"].as_array().is_some_and(|all| !all.is_empty())
        });
        let mut id = String::new();
        // A new one each time: a node that took a shard over does not tell what a checkpoint took from the log.
        until("a node shows what happened to a message", || {
            let is_sent = is_sent(name);
            let listed = node.shows(&format!("/queues/{name}/messages?limit=100&text=for"));
            let newest = listed["messages"].as_array().and_then(|all| all.iter().max_by_key(sequence_of));
            let Some(newest) = newest.and_then(|one| one["id"].as_str()) else { return false };
            newest.clone_into(&mut id);
            let anywhere = nodes[(number + 1) % 3].shows(&format!("/messages/{id}"));
            let is_it = anywhere["queue"] == **name && anywhere["body"] == format!("for {name}");
            is_sent && is_it && anywhere["timeline"][0]["event"] == "sent"
        });
        let delete = format!("/queues/{name}/messages/{id}/delete");
        let deleted = nodes[(number + 2) % 3].api("POST", &delete, "{}").expect("the node answers");
        assert_eq!(deleted.0, 200, "{deleted:?}");
    }
}

/// What a node lists while another one stands still. Nothing where that takes long, or where it does not name just that
/// one as silent: the machine may have stood still, and all nodes with it.
fn listed_beside_one_that_stands_still(nodes: &[Node; 3]) -> Option<Value> {
    nodes[2].signal("STOP");
    let begun = Instant::now();
    let listed = nodes[0].shows("/queues");
    let took = begun.elapsed();
    nodes[2].signal("CONT");
    if took < PAGE_MAX && listed["silent"] == json!(["three"]) {
        return Some(listed);
    }
    println!("three stood still, and this was listed after {took:?}: {listed}");
    std::thread::sleep(SAID_FOR);
    wait_until_even(nodes);
    None
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
    let listed = (0..3)
        .find_map(|_| listed_beside_one_that_stands_still(&nodes))
        .expect("the page is soon there, and names the node that stands still alone as silent");
    let rows = listed["queues"].as_array().expect("queues are a list");
    let (without, with): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["visible"].is_null());
    assert!(rows.len() == 16 && !without.is_empty() && !with.is_empty(), "{listed}");
    assert!(without.iter().all(|row| row["sent_per_second"].is_null()), "{listed}");
}

/// A webhook that takes every request and answers none. Its address, and the requests that came.
fn silent_webhook() -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("the listener is bound");
    let (came, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for request in listener.incoming().flatten() {
            if came.send(request).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

/// A call of the Cloudflare API; its result.
fn cloudflare(node: &Node, path: &str, body: &Value) -> Value {
    let path = format!("/client/v4/accounts/0/queues{path}");
    let headers = ["Authorization: Bearer any", "Content-Type: application/json"];
    let reply = request(node.cloudflare, "POST", &path, &headers, &body.to_string());
    let (status, reply) = reply.expect("the node answers");
    assert_eq!(status, 200, "{path}: {reply}");
    let reply: Value = serde_json::from_str(&reply).expect("the reply is JSON");
    reply["result"].clone()
}

/// A push consumer of a new queue, a message in it, and the place of the node that brings it.
fn pushed_message(nodes: &[Node; 3], webhook: SocketAddr) -> usize {
    let made = cloudflare(&nodes[0], "", &json!({ "queue_name": "orders" }));
    let queue = made["queue_id"].as_str().expect("a queue has an id");
    let consumer = json!({
        "type": "http_push",
        "url": format!("http://{webhook}/"),
        "settings": { "batch_size": 1, "max_wait_time_ms": 0 },
    });
    cloudflare(&nodes[0], &format!("/{queue}/consumers"), &consumer);
    cloudflare(&nodes[0], &format!("/{queue}/messages"), &json!({ "body": "m", "content_type": "text" }));
    let shard = nodes[0].shows("/queues/orders")["shard"].as_u64().expect("a queue is in a shard");
    let owner = owners(&nodes[0])[usize::try_from(shard).expect("a store has few shards")].clone();
    NAMES.iter().position(|name| *name == owner).expect("every shard is owned by one of three nodes")
}

#[test]
fn batch_under_way_at_a_node_that_ends_in_order_is_brought_once() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let (webhook, requests) = silent_webhook();
    let ends = pushed_message(&nodes, webhook);
    let mut request = requests.recv_timeout(Duration::from_secs(30)).expect("the webhook is asked");
    nodes[ends].signal("TERM");
    std::thread::sleep(Duration::from_secs(3));
    let mut bytes = [0; 4_096];
    assert!(request.read(&mut bytes).expect("the request is there") > 0);
    request.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("the node waits for its reply");
    assert_eq!(nodes[ends].exit_code(), Some(0), "{}", nodes[ends].errors());
    let other = &nodes[(ends + 1) % 3];
    until("the message is gone", || other.shows("/queues/orders")["in_flight"] == 0);
    assert_eq!(other.shows("/queues/orders")["visible"], 0);
    assert!(requests.recv_timeout(Duration::from_secs(2)).is_err(), "it was brought again");
}

#[test]
fn message_that_a_killed_node_held_for_a_webhook_says_that_another_took_its_place() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let (webhook, requests) = silent_webhook();
    let killed = pushed_message(&nodes, webhook);
    let first = requests.recv_timeout(Duration::from_secs(30)).expect("the webhook is asked");
    let page = nodes[1].shows("/queues/orders/messages");
    let id = page["messages"][0]["id"].as_str().expect("the queue holds the message").to_owned();
    nodes[killed].kill();
    let second = requests.recv_timeout(Duration::from_secs(30)).expect("the next owner asks it again");
    let expected = "The server that held its lease ended, or another node took its place.";
    for node in nodes.iter().enumerate().filter(|(place, _)| *place != killed).map(|(_, node)| node) {
        until("its page says why it was delivered again", || {
            let shown = node.api("GET", &format!("/messages/{id}"), "").map(|(_, shown)| shown);
            shown.is_ok_and(|shown| {
                let was_taken_over = |event: &Value| event["event"] == "taken_over";
                let events = shown["timeline"].as_array().map_or(&[][..], Vec::as_slice);
                shown["why"][0]["because"] == expected && events.iter().any(was_taken_over)
            })
        });
    }
    drop((first, second));
}
