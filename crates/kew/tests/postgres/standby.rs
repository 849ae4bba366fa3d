//! A node that stands by.

use kew_log_pg::server::PgServer;

use super::nodes::{Node, ask};

#[test]
fn node_that_stands_by_says_so_serves_nobody_and_ends_with_zero_at_a_signal() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let first = Node::start(&url);
    first.wait_until_ready();
    let mut second = Node::start(&url);
    second.wait_until_standing_by();
    let (_, body) = second.ready().expect("a node that stands by answers its admin API");
    assert!(body.starts_with("not ready: standing by: node "), "{body}");
    assert!(ask(second.sqs, "ListQueues", "{}").is_none(), "its dialects do not listen");
    assert!(second.errors().contains("another node owns the store"), "{}", second.errors());
    second.signal("TERM");
    assert_eq!(second.exit_code(), Some(0));
}

#[test]
fn node_that_ends_in_order_is_followed_at_once() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut first = Node::start(&url);
    first.wait_until_ready();
    assert!(ask(first.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).is_some());
    let second = Node::start(&url);
    second.wait_until_standing_by();
    first.signal("TERM");
    assert_eq!(first.exit_code(), Some(0), "{}", first.errors());
    second.wait_until_ready();
    let queues = ask(second.sqs, "ListQueues", "{}").expect("the node serves");
    assert!(queues.contains("orders"), "{queues}");
}

#[test]
fn node_ends_at_a_signal_although_its_database_is_away() {
    let mut server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut node = Node::start(&url);
    node.wait_until_ready();
    assert!(ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).is_some());
    server.kill().expect("the server is running");
    node.signal("TERM");
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    assert!(node.errors().contains("the store is left as it is"), "{}", node.errors());
}
