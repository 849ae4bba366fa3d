//! The database fails over to a synchronous standby under load: its server is killed, the standby promoted.

use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};

use super::load::{GIVES_UP_AFTER, Load};
use super::nodes::{Node, ask, ask_within};
use super::proxy::Proxy;
use super::takeover::{judge, kills};

/// Served again this long after a promotion.
const BACK_MAX: Duration = Duration::from_secs(10);
/// The standby's name in `synchronous_standby_names`.
const STANDBY: &str = "other";

/// How often the database fails over.
fn fail_overs() -> usize {
    kills().div_ceil(10)
}

/// Two servers, of which the first takes writes, and every commit waits for the second.
struct Cluster {
    primary: PgServer,
    standby: PgServer,
}

impl Cluster {
    fn start(settings: &[&str]) -> Self {
        let primary = PgServer::start(settings).expect("PostgreSQL starts");
        let standby = primary.standby(STANDBY, None).expect("the standby starts");
        let cluster = Self { primary, standby };
        cluster.wait_for_the_standby();
        cluster
    }

    /// A URL of a new database with both servers.
    fn url(&self) -> String {
        let url = self.primary.database().expect("the server makes databases");
        let hosts = format!("127.0.0.1:{},127.0.0.1:{}", self.primary.port(), self.standby.port());
        url.replace(&format!("127.0.0.1:{}", self.primary.port()), &hosts)
    }

    /// From now on a commit is acknowledged once the standby has it.
    fn wait_for_the_standby(&self) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'");
        self.primary.psql("postgres", &set).expect("the server answers");
        self.primary.psql("postgres", "SELECT pg_reload_conf()").expect("the server answers");
        let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let begun = Instant::now();
        while self.primary.psql("postgres", state).expect("the server answers") != "1" {
            assert!(begun.elapsed() < Duration::from_secs(30), "the standby does not follow");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the first server and promotes the second; then the first is made anew on its old port and follows.
    fn fail_over(mut self, promoted: impl FnOnce()) -> Self {
        self.primary.kill().expect("the server can be killed");
        self.standby.promote().expect("the standby can be promoted");
        promoted();
        let port = self.primary.port();
        let standby = self.standby.standby(STANDBY, Some(port)).expect("the old server follows");
        let cluster = Self { primary: self.standby, standby };
        cluster.wait_for_the_standby();
        cluster
    }
}

#[test]
fn killed_database_is_followed_by_its_synchronous_standby_with_nothing_lost_or_disordered() {
    let mut cluster = Cluster::start(&[]);
    let url = cluster.url();
    let nodes = [Node::start(&url), Node::start(&url)];
    nodes.iter().for_each(Node::wait_until_owned);
    assert!(!nodes[0].errors().contains("synchronous_standby_names"), "{}", nodes[0].errors());
    // The leases of the last moments may be forgotten.
    let load = Load::begin(&[nodes[0].sqs, nodes[1].sqs], true);
    let mut took = Vec::new();
    for _ in 0..fail_overs() {
        std::thread::sleep(Duration::from_millis(500));
        cluster = cluster.fail_over(|| took.push(load.time_to_serve()));
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("database failed over", took, BACK_MAX);
    let shown =
        cluster.primary.psql(name_in(&url), "SELECT epoch FROM kew_shard").expect("the server answers");
    println!("epoch {shown}");
}

#[test]
fn send_is_acknowledged_once_a_standby_shows_it_where_the_database_asks_for_that() {
    let cluster = Cluster::start(&["synchronous_commit=remote_apply"]);
    let url = cluster.url();
    let node = Node::start(&url);
    node.wait_until_ready();
    ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    let send = |within: Duration| {
        let json = r#"{"QueueUrl":"orders","MessageBody":"shown"}"#;
        ask_within(node.sqs, "SendMessage", json, within).is_some()
    };
    assert!(send(BACK_MAX));
    let replay = |doing: &str| {
        let text = format!("SELECT pg_wal_replay_{doing}()");
        cluster.standby.psql("postgres", &text).expect("the standby answers");
    };
    replay("pause");
    let paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'";
    while cluster.standby.psql("postgres", paused).expect("the standby answers") != "t" {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!send(GIVES_UP_AFTER), "the standby receives it and does not show it");
    replay("resume");
    let begun = Instant::now();
    while !send(GIVES_UP_AFTER) {
        assert!(begun.elapsed() < BACK_MAX, "not served again\n{}", node.errors());
    }
}

#[test]
fn first_host_that_vanishes_is_left_for_the_second_though_it_closes_nothing_and_still_accepts() {
    let cluster = Cluster::start(&["fsync=off"]);
    let proxy = Proxy::to(cluster.primary.port());
    let url =
        cluster.url().replace(&format!("127.0.0.1:{}", cluster.primary.port()), &proxy.address.to_string());
    let nodes = [Node::start(&url), Node::start(&url)];
    nodes.iter().for_each(Node::wait_until_owned);
    let create = r#"{"QueueName":"orders"}"#;
    assert!(nodes.iter().any(|node| ask(node.sqs, "CreateQueue", create).is_some()));
    let send = r#"{"QueueUrl":"orders","MessageBody":"after"}"#;
    let is_sent = |node: &Node| ask_within(node.sqs, "SendMessage", send, GIVES_UP_AFTER).is_some();
    proxy.cut_off();
    cluster.standby.promote().expect("the standby can be promoted");
    let promoted = Instant::now();
    let mut served = 0;
    // Again and again: the host that is gone is still the first of the URL.
    while served < 20 {
        if nodes.iter().any(is_sent) {
            served += 1;
        }
        let logged: Vec<_> = nodes.iter().map(Node::errors).collect();
        assert!(promoted.elapsed() < BACK_MAX, "{served} sends\n{}", logged.join("\n"));
    }
    println!("first host vanished: 20 sends after {:?}", promoted.elapsed());
    let (mut owners, mut took) = (Vec::from(nodes), Vec::new());
    // Twice: the machine may stand still during one of them.
    for _ in 0..2 {
        let next = Node::start(&url);
        next.wait_until_owned();
        // Killed by this.
        drop(std::mem::replace(&mut owners, vec![next]));
        let gone = Instant::now();
        owners[0].wait_until_ready();
        took.push(gone.elapsed());
    }
    judge("owner killed beside a vanished host", took, BACK_MAX / 2);
}
