//! A store that lies in two databases, on servers of their own: what one of them does is not felt in the other.

use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};
use serde_json::Value;

use super::commands::{contents, fill_many, sorted, text};
use super::fleet::wait_until_it_knows_all;
use super::load::Load;
use super::nodes::{Node, ask, ask_within, request_within};
use super::proxy::Proxy;
use super::store_tool::{done, errors, tool};

/// Served again this long after a database came back.
const BACK_MAX: Duration = Duration::from_secs(10);
/// A request is answered this soon, even by a refusal.
const ANSWERS_WITHIN: Duration = Duration::from_secs(12);

/// Two servers with a database each, and a store of eight shards in both.
struct Two {
    servers: [PgServer; 2],
    urls: [String; 2],
}

impl Two {
    fn begin() -> Self {
        let servers = [(); 2].map(|()| PgServer::start(&["fsync=off"]).expect("PostgreSQL starts"));
        let urls = servers.each_ref().map(|server| server.database().expect("the server makes databases"));
        let made = done(&urls[0], &["create", "--shards", "8", "--databases", &urls[0], &urls[1]]);
        assert!(
            made.starts_with("made an empty store of 8 shards in 2 databases, the first of them"),
            "{made}"
        );
        Self { servers, urls }
    }

    /// Three nodes that know the URL of the first database only.
    fn nodes(&self) -> [Node; 3] {
        let nodes = [(); 3].map(|()| Node::start_with(&self.urls[0], &[("KEW_PEER", "127.0.0.1:0")]));
        nodes.iter().for_each(wait_until_it_knows_all);
        nodes
    }
}

/// A queue in each shard, by the number of its database, with a message in it.
fn queues(node: &Node) -> [Vec<String>; 2] {
    let mut queues = [Vec::new(), Vec::new()];
    for number in 0..8 {
        let name = format!("queue-{number}");
        ask(node.sqs, "CreateQueue", &format!(r#"{{"QueueName":"{name}"}}"#)).expect("the queue is made");
        assert!(sends(node, &name), "{name}");
        let shown = node.shows(&format!("/queues/{name}"));
        let shard = shown["shard"].as_u64().expect("a queue of a fleet has a shard");
        queues[usize::try_from(shard % 2).expect("the remainder of 2 is 0 or 1")].push(name);
    }
    assert_eq!(queues.each_ref().map(Vec::len), [4, 4]);
    queues
}

fn sends(node: &Node, queue: &str) -> bool {
    let send = format!(r#"{{"QueueUrl":"{queue}","MessageBody":"for {queue}"}}"#);
    let sent = said(node, "SendMessage", &send);
    if !matches!(&sent, Ok((200, _))) {
        println!("{queue}: a send was answered {sent:?}");
    }
    matches!(sent, Ok((200, _)))
}

/// Receives a message and deletes it.
fn takes(node: &Node, queue: &str) -> bool {
    let receive = format!(r#"{{"QueueUrl":"{queue}"}}"#);
    let got = said(node, "ReceiveMessage", &receive);
    let received: Value =
        got.as_ref().ok().and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default();
    let Some(receipt) = received["Messages"][0]["ReceiptHandle"].as_str() else {
        println!("{queue}: a receive was answered {got:?}");
        return false;
    };
    let delete = format!(r#"{{"QueueUrl":"{queue}","ReceiptHandle":"{receipt}"}}"#);
    let deleted = said(node, "DeleteMessage", &delete);
    if !matches!(deleted, Ok((200, _))) {
        println!("{queue}: a delete was answered {deleted:?}");
    }
    received["Messages"][0]["Body"] == format!("for {queue}") && matches!(deleted, Ok((200, _)))
}

/// The reply to an action of SQS.
fn said(node: &Node, action: &str, json: &str) -> std::io::Result<(u16, String)> {
    let target = format!("X-Amz-Target: AmazonSQS.{action}");
    request_within(node.sqs, "POST", "/", &[&target], json, ANSWERS_WITHIN)
}

fn errors_of(nodes: &[Node]) -> String {
    nodes.iter().map(Node::errors).collect::<Vec<_>>().join("\n")
}

fn wait_until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    begun.elapsed()
}

#[test]
fn nodes_that_know_the_first_url_serve_the_shards_of_all_databases() {
    let two = Two::begin();
    let again = done(&two.urls[0], &["create", "--databases", &two.urls[0], &two.urls[1]]);
    assert!(again.contains("holds a store already"), "{again}");
    let both = format!("{},{}", two.urls[0], two.urls[1]);
    let elsewhere = tool("./kew-data", &["stats", "--databases", &both]);
    assert!(errors(&elsewhere).contains("do not go together"), "{}", errors(&elsewhere));
    let swapped = tool(&two.urls[1], &["stats", "--databases", &two.urls[1], &two.urls[0]]);
    assert!(errors(&swapped).contains("database 2 of 2"), "{}", errors(&swapped));
    let nodes = two.nodes();
    let [first, second] = queues(&nodes[0]);
    for (place, name) in first.iter().chain(&second).enumerate() {
        assert!(takes(&nodes[place % 3], name), "{name}");
    }
    let shown = nodes[2].shows("/shards");
    let shards = shown["shards"].as_array().expect("shards are a list");
    let databases: Vec<u64> = shards.iter().filter_map(|shard| shard["database"].as_u64()).collect();
    assert_eq!(databases, [1, 2, 1, 2, 1, 2, 1, 2]);
    for (server, url) in two.servers.iter().zip(&two.urls) {
        let kept = server.psql(name_in(url), "SELECT count(*) FROM kew_shard WHERE node IS NOT NULL");
        assert_eq!(kept.ok().as_deref(), Some("4"));
    }
    let alone = tool(&two.urls[1], &["check"]);
    assert!(errors(&alone).contains("database 2 of 2"), "{}", errors(&alone));
}

#[test]
fn load_over_two_databases_loses_nothing_while_nodes_and_databases_are_killed() {
    let mut two = Two::begin();
    let mut nodes = two.nodes();
    let load = Load::begin(&nodes.each_ref().map(|node| node.sqs), true);
    for round in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        nodes[round].kill();
        load.time_to_serve();
        nodes[round].start_again();
        wait_until_it_knows_all(&nodes[round]);
        let server = &mut two.servers[round % 2];
        server.kill().expect("PostgreSQL can be killed");
        std::thread::sleep(Duration::from_millis(500));
        server.run().expect("PostgreSQL starts again");
        load.time_to_serve();
        nodes.iter().for_each(wait_until_it_knows_all);
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
}

#[test]
fn second_database_that_is_away_takes_its_queues_along_and_no_others() {
    let mut two = Two::begin();
    let mut nodes = two.nodes();
    let [first, second] = queues(&nodes[0]);
    for attempt in 1.. {
        two.servers[1].kill().expect("PostgreSQL can be killed");
        let mut slowest = Duration::ZERO;
        for (place, name) in first.iter().enumerate() {
            let begun = Instant::now();
            assert!(takes(&nodes[place % 3], name) && sends(&nodes[(place + 1) % 3], name), "{name}");
            slowest = slowest.max(begun.elapsed());
        }
        if slowest < Duration::from_secs(2) {
            break;
        }
        // Once more: the machine may have stood still.
        assert!(attempt < 2, "a queue of the other database took {slowest:?}, again");
        println!("a queue of the other database took {slowest:?}: its database is killed once more");
        two.servers[1].run().expect("PostgreSQL starts again");
        nodes.iter().for_each(wait_until_it_knows_all);
    }
    wait_until("it is said which database does not answer", BACK_MAX, || {
        let line = "the database does not answer this node, which may not answer for its shards there";
        let is_said = |said: &str| said.lines().any(|said| said.contains(line) && said.contains("2 of 2"));
        nodes.iter().all(|node| is_said(&node.errors()))
    });
    assert!(!sends(&nodes[0], &second[0]));
    for node in &nodes {
        // No node is better than another.
        node.wait_until_ready();
    }
    for number in 0..4 {
        let create = format!(r#"{{"QueueName":"new-{number}"}}"#);
        // For a moment an owner that can write no more may still say that it keeps a shard.
        wait_until("new queues go to the other database", BACK_MAX, || {
            ask_within(nodes[number % 3].sqs, "CreateQueue", &create, ANSWERS_WITHIN).is_some()
        });
        assert!(sends(&nodes[(number + 1) % 3], &format!("new-{number}")));
    }
    // A name that is not known may be one of the database that is away.
    let unknown = said(&nodes[1], "GetQueueUrl", r#"{"QueueName":"unknown"}"#);
    let (status, body) = unknown.expect("the node answers");
    assert!(status >= 500 && !body.contains("NonExistentQueue"), "{status} {body}");
    // A node ends in order, and another starts, as ever.
    let begun = Instant::now();
    nodes[0].signal("TERM");
    assert_eq!(nodes[0].exit_code(), Some(0), "{}", nodes[0].errors());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    nodes[0].start_again();
    wait_until("the new node serves the other database", BACK_MAX * 2, || takes(&nodes[0], "new-0"));
    two.servers[1].run().expect("PostgreSQL starts again");
    let took = wait_until("its queues are served", BACK_MAX, || takes(&nodes[1], &second[0]));
    println!("served again after {took:?}");
    nodes.iter().for_each(wait_until_it_knows_all);
    for (place, name) in second.iter().enumerate().skip(1) {
        assert!(takes(&nodes[place % 3], name), "{name}");
    }
}

#[test]
fn first_database_that_is_away_leaves_the_queues_of_the_second() {
    let mut two = Two::begin();
    let nodes = two.nodes();
    let [first, second] = queues(&nodes[0]);
    two.servers[0].kill().expect("PostgreSQL can be killed");
    std::thread::sleep(Duration::from_secs(3));
    for (place, name) in second.iter().enumerate() {
        let passes = takes(&nodes[place % 3], name) && sends(&nodes[(place + 1) % 3], name);
        assert!(passes, "{name}\n{}", errors_of(&nodes));
    }
    let create = r#"{"QueueName":"new"}"#;
    let made = ask_within(nodes[0].sqs, "CreateQueue", create, ANSWERS_WITHIN);
    assert!(made.is_none(), "names are in the first database: {made:?}");
    two.servers[0].run().expect("PostgreSQL starts again");
    wait_until("its queues are served", BACK_MAX, || takes(&nodes[1], &first[0]));
    nodes.iter().for_each(wait_until_it_knows_all);
    assert!(ask(nodes[0].sqs, "CreateQueue", create).is_some());
}

#[test]
fn node_that_is_cut_off_from_one_database_is_not_ready_and_serves_through_others() {
    let two = Two::begin();
    let proxy = Proxy::to(two.servers[1].port());
    let by_proxy = format!("postgres://kew@{}/{}", proxy.address, name_in(&two.urls[1]));
    let databases = format!("{},{by_proxy}", two.urls[0]);
    let cut = Node::start_with(&two.urls[0], &[("KEW_PEER", "127.0.0.1:0"), ("KEW_DATABASES", &databases)]);
    let others = [(); 2].map(|()| Node::start_with(&two.urls[0], &[("KEW_PEER", "127.0.0.1:0")]));
    wait_until_it_knows_all(&cut);
    others.iter().for_each(wait_until_it_knows_all);
    let [first, second] = queues(&others[0]);
    proxy.cut_off();
    cut.wait_until_it_says("database 2 of 2");
    // By then the shards that it kept there have other owners.
    std::thread::sleep(Duration::from_secs(1));
    for name in first.iter().chain(&second) {
        assert!(
            takes(&cut, name) && sends(&others[0], name) && takes(&cut, name),
            "{name}: {}",
            cut.errors()
        );
    }
    others.iter().for_each(Node::wait_until_ready);
    proxy.mend();
    cut.wait_until_ready();
    wait_until_it_knows_all(&cut);
}

#[test]
fn store_moves_from_a_directory_to_two_databases_and_back_losing_nothing() {
    let servers = [(); 2].map(|()| PgServer::start(&["fsync=off"]).expect("PostgreSQL starts"));
    let urls = servers.each_ref().map(|server| server.database().expect("the server makes databases"));
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let [here, lines, back] = ["here", "lines", "back"].map(|name| text(&directory.path().join(name)));
    fill_many(&here);
    done(&here, &["export", "--to", &lines]);
    let exported = contents(&std::fs::read_to_string(&lines).expect("the file was written"));
    done(&urls[0], &["import", "--from", &lines, "--databases", &urls[0], &urls[1]]);
    let spread = contents(&done(&urls[0], &["export"]));
    assert_eq!(sorted(&spread), sorted(&exported), "the shards hold something else");
    let checked = done(&urls[0], &["check"]);
    assert_eq!(checked.matches(": sound: ").count(), 16, "{checked}");
    std::fs::write(&lines, done(&urls[0], &["export"])).expect("the directory is the test's own");
    done(&back, &["import", "--from", &lines]);
    assert_eq!(contents(&done(&back, &["export"])), exported, "the directory holds something else");
}

/// A shard is asked to go to a database; answers when it has come there.
fn move_shard(node: &Node, shard: u64, database: u64) -> Duration {
    let begun = Instant::now();
    let body = format!(r#"{{"database":{database}}}"#);
    wait_until("a node takes the request", BACK_MAX, || {
        let asked = node.api("POST", &format!("/shards/{shard}/move"), &body);
        if !matches!(&asked, Ok((200, _))) {
            println!("a move of shard {shard} to database {database} was answered {asked:?}");
        }
        matches!(asked, Ok((200, _)))
    });
    wait_until("the shard has come", Duration::from_secs(60), || {
        let row = node.shows("/shards")["shards"][usize::try_from(shard).expect("shards are few")].clone();
        row["database"] == database && row["moving_to"].is_null() && row["state"] == "serving"
    });
    begun.elapsed()
}

#[test]
fn shards_move_to_the_other_database_and_back_under_load_while_nodes_and_databases_are_killed() {
    let mut two = Two::begin();
    let mut nodes = two.nodes();
    let load = Load::begin(&nodes.each_ref().map(|node| node.sqs), true);
    for (round, (shard, database)) in [(0, 2), (1, 1), (2, 2), (3, 1), (0, 1), (1, 2)].into_iter().enumerate()
    {
        let asks = round % 3;
        let body = format!(r#"{{"database":{database}}}"#);
        let asked = nodes[asks].api("POST", &format!("/shards/{shard}/move"), &body);
        println!("round {round}: {asked:?}");
        match round {
            // Whichever node copies it, one of three is killed meanwhile.
            1 | 2 => {
                let killed = (asks + 1) % 3;
                nodes[killed].kill();
                load.time_to_serve();
                nodes[killed].start_again();
                wait_until_it_knows_all(&nodes[killed]);
            }
            4 => {
                let server = &mut two.servers[0];
                server.kill().expect("PostgreSQL can be killed");
                server.run().expect("PostgreSQL starts again");
                load.time_to_serve();
                nodes.iter().for_each(wait_until_it_knows_all);
            }
            _ => {}
        }
        let took = move_shard(&nodes[asks], shard, database);
        println!("round {round}: shard {shard} lies in database {database} after {took:?} more");
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    assert!(sum.deleted > 0);
    let lies = |server: &PgServer, url: &str| {
        let text = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM kew_shard WHERE moved_to IS NULL AND NOT arriving";
        server.psql(name_in(url), text).expect("the server answers")
    };
    assert_eq!(lies(&two.servers[0], &two.urls[0]), "0 3 4 6", "0 and 1 went and came back, 2 and 3 stayed");
    assert_eq!(lies(&two.servers[1], &two.urls[1]), "1 2 5 7");
    drop(nodes);
    wait_until("no node owns a shard", BACK_MAX, || tool(&two.urls[0], &["stats"]).status.success());
    let checked = done(&two.urls[0], &["check"]);
    assert_eq!(checked.matches(": sound: ").count(), 8, "{checked}");
}

#[test]
fn shard_that_moves_is_served_but_for_a_moment_and_loses_nothing() {
    let two = Two::begin();
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let here = text(&directory.path().join("here"));
    let [lines, exports] = ["lines", "exports"].map(|name| text(&directory.path().join(name)));
    fill_many(&here);
    std::fs::write(&lines, done(&here, &["export"])).expect("the directory is the test's own");
    let [empty] = [(); 1].map(|()| two.servers[0].database().expect("the server makes databases"));
    let other = two.servers[1].database().expect("the server makes databases");
    done(&empty, &["import", "--from", &lines, "--databases", &empty, &other]);
    std::fs::write(&exports, done(&empty, &["export"])).expect("the directory is the test's own");
    let before = contents(&std::fs::read_to_string(&exports).expect("the file was written"));
    let node = Node::start_with(&empty, &[("KEW_PEER", "127.0.0.1:0")]);
    wait_until_it_knows_all(&node);
    for shard in 0..16 {
        move_shard(&node, shard, 1 + (shard + 1) % 2);
    }
    drop(node);
    wait_until("no node owns a shard", BACK_MAX, || tool(&empty, &["stats"]).status.success());
    let after = contents(&done(&empty, &["export"]));
    // But for the first line, which says when something was written last.
    let messages = |lines: &str| {
        let lines = sorted(lines).into_iter().filter(|line| !line.contains("newest_ms"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(messages(&after) == messages(&before), "the shards hold something else: {after}\n{before}");

    let nodes = two.nodes();
    let [_, second] = queues(&nodes[0]);
    let name = &second[0];
    let shard = nodes[0].shows(&format!("/queues/{name}"))["shard"].as_u64().expect("it has a shard");
    assert!(takes(&nodes[0], name));
    let mut pauses = Vec::new();
    for (round, database) in [1, 2, 1, 2, 1].into_iter().enumerate() {
        let (mut slowest, mut is_there) = (Duration::ZERO, false);
        let mover = std::thread::scope(|scope| {
            let mover = scope.spawn(|| move_shard(&nodes[round % 3], shard, database));
            while !is_there {
                is_there = mover.is_finished();
                let begun = Instant::now();
                assert!(
                    sends(&nodes[(round + 1) % 3], name) && takes(&nodes[(round + 2) % 3], name),
                    "{name}"
                );
                slowest = slowest.max(begun.elapsed());
            }
            mover.join().expect("the shard moves")
        });
        println!("moved in {mover:?}, the slowest send and receive together took {slowest:?}");
        pauses.push(slowest);
    }
    pauses.sort();
    assert!(pauses[2] < Duration::from_secs(2), "{pauses:?}");
}
