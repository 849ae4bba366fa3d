//! Three nodes in networks of their own, cut off from each other and from the database in every pattern.

use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;

use super::fleet::wait_until_it_knows_all;
use super::load::Load;
use super::network::{End, Network};
use super::nodes::{Host, Node};
use super::takeover::{judge, kills};

const DATABASE: End = End::Database;
const NODES: usize = 3;
/// Every link: of each node to the database, and of each pair of nodes.
const LINKS: [[End; 2]; 6] = [
    [End::Node(0), DATABASE],
    [End::Node(1), DATABASE],
    [End::Node(2), DATABASE],
    [End::Node(0), End::Node(1)],
    [End::Node(0), End::Node(2)],
    [End::Node(1), End::Node(2)],
];
/// Patterns of a short run, a bit for each link: a node without the database; two of them; a node alone; two nodes that
/// do not see each other; a node that sees only the database; no node sees the database.
const SOME: [u32; 6] = [0b000_001, 0b000_011, 0b011_001, 0b001_000, 0b011_000, 0b000_111];
/// A cut is longer than a node may go on without the database.
const CUT_FOR: Duration = Duration::from_secs(4);
/// Served again this long after a cut began or ended, where a node sees the database.
const BACK_MAX: Duration = Duration::from_secs(5);
const SKIPPED: &str =
    "SKIPPED  this process may make no network namespaces (it needs root and the program ip)";

/// The nodes, and the database that they reach at an address of the network.
fn start(network: &Network) -> (PgServer, Vec<Node>) {
    let server = PgServer::start(&["fsync=off", "listen_addresses='*'"]).expect("PostgreSQL starts");
    let address = network.inner(DATABASE);
    let access = server.data().join("pg_hba.conf");
    let mut lines = std::fs::read_to_string(&access).expect("root reads the files of the server");
    lines.push_str(&format!("\nhost all kew {address}/24 trust\n"));
    std::fs::write(&access, lines).expect("root writes the files of the server");
    let url = server.database().expect("the server makes databases");
    server.psql("postgres", "SELECT pg_reload_conf()").expect("the server reads its files again");
    let url = url.replace("127.0.0.1", &address.to_string());
    let node = |number: usize| {
        let host = Host { space: network.space(number), address: network.outer(number) };
        let peer = format!("{}:9330", network.inner(End::Node(number)));
        Node::start_at(&url, host, &[("KEW_PEER", &peer), ("KEW_INSECURE", "true")])
    };
    let nodes: Vec<Node> = (0..NODES).map(node).collect();
    nodes.iter().for_each(wait_until_it_knows_all);
    (server, nodes)
}

/// The links of a pattern.
fn links(pattern: u32) -> Vec<[End; 2]> {
    let is_cut = |(place, _): &(usize, &[End; 2])| pattern >> place & 1 == 1;
    LINKS.iter().enumerate().filter(is_cut).map(|(_, link)| *link).collect()
}

/// Whether a node still sees the database.
fn is_served(cut: &[[End; 2]]) -> bool {
    (0..NODES).any(|node| !cut.contains(&[End::Node(node), DATABASE]))
}

#[test]
fn nodes_that_are_cut_off_in_any_pattern_lose_double_and_disorder_nothing() {
    let Some(network) = Network::new(NODES) else {
        println!("{SKIPPED}");
        return;
    };
    let (_server, nodes) = start(&network);
    let load = Load::begin(&nodes.iter().map(|node| node.sqs).collect::<Vec<_>>(), false);
    let patterns: Vec<u32> = if kills() > 50 { (1..1 << LINKS.len()).collect() } else { SOME.to_vec() };
    let (mut during, mut after) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let (begun, cut) = (Instant::now(), links(pattern));
        cut.iter().for_each(|link| network.cut(*link));
        if is_served(&cut) {
            during.push(load.time_to_serve());
        }
        std::thread::sleep(CUT_FOR.saturating_sub(begun.elapsed()));
        for (number, node) in nodes.iter().enumerate() {
            let is_cut = cut.contains(&[End::Node(number), DATABASE]);
            let what = format!("{number} is ready just where it sees the database ({cut:?})");
            // Waited for: a node whose machine stands still does not hear the database either.
            node.wait_until(&what, |reply| matches!(reply, Ok((200, _))) != is_cut);
        }
        cut.iter().for_each(|link| network.heal(*link));
        after.push(load.time_to_serve());
        nodes.iter().for_each(wait_until_it_knows_all);
        for node in &nodes {
            let what = format!("is ready without a reason to look at it ({cut:?} was healed)");
            node.wait_until(&what, |reply| matches!(reply, Ok((200, body)) if body.trim_end() == "ready"));
        }
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("links cut", during, BACK_MAX);
    judge("links healed", after, BACK_MAX);
}
