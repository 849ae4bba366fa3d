//! Dead letters that go from one shard to another, while a node is killed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;
use serde_json::{Value, json};

use super::fleet::fleet;
use super::nodes::ask;

const MESSAGES: usize = 300;
/// How long all of them may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// Asks one node after the other until one answers.
fn answer(nodes: &[SocketAddr], action: &str, asked: &Value) -> Value {
    let begun = Instant::now();
    for node in nodes.iter().cycle() {
        if let Some(reply) = ask(*node, action, &asked.to_string()) {
            // Some actions say nothing.
            return if reply.is_empty() {
                Value::Null
            } else {
                serde_json::from_str(&reply).expect("a reply is JSON")
            };
        }
        assert!(begun.elapsed() < ARRIVES_WITHIN, "no node answered {action} {asked}");
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("a cycle has no end")
}

/// The bodies and receipts of a receive.
fn received(nodes: &[SocketAddr], queue: &str) -> Vec<(String, String)> {
    let asked = json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10 });
    let reply = answer(nodes, "ReceiveMessage", &asked);
    let text = |value: &Value| value.as_str().expect("the field is a text").to_owned();
    let messages = reply["Messages"].as_array().into_iter().flatten();
    messages.map(|message| (text(&message["Body"]), text(&message["ReceiptHandle"]))).collect()
}

#[test]
fn dead_letters_reach_a_queue_of_another_shard_once_each_though_a_node_is_killed() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = fleet(&url);
    let all = [0, 1, 2].map(|place: usize| nodes[place].sqs);
    // Each in another shard: the rule comes when both are there.
    let visibility = json!({ "VisibilityTimeout": "2" });
    answer(&all, "CreateQueue", &json!({ "QueueName": "source", "Attributes": visibility }));
    answer(&all, "CreateQueue", &json!({ "QueueName": "dead" }));
    let policy = json!({
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": "1",
    });
    let attributes = json!({ "RedrivePolicy": policy.to_string() });
    answer(&all, "SetQueueAttributes", &json!({ "QueueUrl": "source", "Attributes": attributes }));
    for number in 0..MESSAGES {
        answer(&all, "SendMessage", &json!({ "QueueUrl": "source", "MessageBody": format!("{number}") }));
    }
    let mut leased = 0;
    while leased < MESSAGES {
        let some = received(&all, "source");
        if some.is_empty() {
            break;
        }
        leased += some.len();
    }
    // Now the leases end, and what they held is on its way.
    std::thread::sleep(Duration::from_millis(1_900));
    nodes[0].kill();
    let (alive, begun) = ([all[1], all[2]], Instant::now());
    let mut arrived = BTreeMap::<String, u32>::new();
    while arrived.len() < MESSAGES && begun.elapsed() < ARRIVES_WITHIN {
        // A lease of the source, too: a lease that a crash forgot is taken again, and its message leaves after that.
        received(&alive, "source");
        for (body, receipt) in received(&alive, "dead") {
            answer(&alive, "DeleteMessage", &json!({ "QueueUrl": "dead", "ReceiptHandle": receipt }));
            *arrived.entry(body).or_default() += 1;
        }
    }
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(received(&alive, "dead"), [], "nothing comes twice");
    assert_eq!((arrived.len(), arrived.values().max()), (MESSAGES, Some(&1)));
    assert_eq!(received(&alive, "source"), []);
    println!("{MESSAGES} messages arrived {:?} after the kill", begun.elapsed());
}
