//! Nodes and the database fail under load.

use std::time::Duration;

use kew_log_pg::TENURE;
use kew_log_pg::server::PgServer;

use super::load::Load;
use super::nodes::Node;

/// Served again this long after an owner or the database went.
const BACK_MAX: Duration = Duration::from_secs(5);

/// How many nodes are killed.
pub fn kills() -> usize {
    let variable = "KEW_KILLS";
    std::env::var(variable)
        .map_or(3, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// How often other things are done.
fn fewer() -> usize {
    kills().div_ceil(4)
}

/// Says how long it took each time, and checks it: nine of ten times within the bound, each time within twice of it,
/// since the machine may have other things to do. Of two to nine times one may be such a time too.
pub fn judge(what: &str, mut took: Vec<Duration>, most: Duration) {
    took.sort_unstable();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    println!("{what}: {} times, served again after {median:?} (median), {worst:?} (worst)", took.len());
    let beyond = (took.len() / 10).max(1);
    let nine_of_ten = took[(took.len() - 1).saturating_sub(beyond)];
    assert!(nine_of_ten <= most && worst <= 2 * most, "{what}: {took:?}");
}

/// Two nodes; the first one serves.
fn pair(url: &str) -> [Node; 2] {
    let first = Node::start(url);
    first.wait_until_ready();
    let second = Node::start(url);
    second.wait_until_standing_by();
    [first, second]
}

#[test]
fn killed_node_is_followed_by_the_other_with_nothing_lost_doubled_or_disordered() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut nodes = pair(&url);
    let load = Load::begin(&[nodes[0].sqs, nodes[1].sqs], false);
    let mut took = Vec::new();
    for round in 0..kills() {
        std::thread::sleep(Duration::from_millis(300));
        let owner = round % 2;
        nodes[owner].kill();
        took.push(load.time_to_serve());
        nodes[owner].start_again();
        nodes[owner].wait_until_standing_by();
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("node killed", took, BACK_MAX);
}

#[test]
fn killed_database_is_used_again_without_a_restart_of_the_node() {
    let mut server = PgServer::start(&[]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let node = Node::start(&url);
    node.wait_until_ready();
    let load = Load::begin(&[node.sqs], true);
    let mut took = Vec::new();
    for round in 0..fewer() {
        std::thread::sleep(Duration::from_millis(500));
        server.kill().expect("the server can be killed");
        // Each second time it is away for longer than the node may go on without it.
        if round % 2 == 1 {
            std::thread::sleep(TENURE);
        }
        server.run().expect("the server starts again");
        took.push(load.time_to_serve());
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("database killed", took, BACK_MAX);
}

#[test]
fn owner_that_was_stopped_and_continues_does_nothing_to_its_successor() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let nodes = pair(&url);
    let load = Load::begin(&[nodes[0].sqs, nodes[1].sqs], false);
    let mut took = Vec::new();
    for round in 0..fewer() {
        std::thread::sleep(Duration::from_millis(300));
        let owner = &nodes[round % 2];
        owner.signal("STOP");
        took.push(load.time_to_serve());
        owner.signal("CONT");
        owner.wait_until_standing_by();
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("owner stopped", took, BACK_MAX);
}
