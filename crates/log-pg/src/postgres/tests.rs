//! Connections on a PostgreSQL of the tests' own: hosts that are gone, and renewals that are carried out late.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use bytes::Bytes;

use super::*;
use crate::map::{Founding, PeerSecret};
use crate::schema::{self, Making};
use crate::server::{PgServer, name_in};
use crate::tenure::TENURE;

const SHARD: i32 = 0;
const LENGTH: Duration = Duration::from_secs(60);

/// A connection to a store with tables, and the epoch in which a node owns its shard there.
async fn owner_of(url: &str) -> (Connection, i64) {
    let mut connection = Target::of(url).unwrap().open().await.unwrap();
    let making = Making::only(Founding::usual(PeerSecret([7; 32])));
    schema::migrate(&mut connection.client, Some(&making)).await.unwrap();
    match connection.take(SHARD, &Node::alone("owner/1", "owner"), LENGTH).await {
        Ok(Taking::Taken { epoch, .. }) => (connection, epoch),
        Ok(Taking::Owned(node)) => panic!("{node} owns it"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn release_or_renaming_that_is_carried_out_late_frees_no_name_that_was_claimed_since() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = |name: &str| QueueKey::new(kew_core::AccountId(1), "here", name);
    for is_afar in [false, true] {
        let url = server.database().unwrap();
        runtime.block_on(async {
            let (mut connection, epoch) = owner_of(&url).await;
            let own = Own { shard: SHARD, epoch };
            let mut act = async |claimant: Claimant, naming: Naming| {
                let session: &mut dyn Session = &mut connection;
                let done = match is_afar {
                    true => session.name_afar(claimant, &naming).await,
                    false => session.name(claimant, &naming).await,
                };
                done.unwrap()
            };
            let nth = |before: u32| Claimant::new(own, before);
            let release = || Naming::Release(key("a"));
            let rename = || Naming::Rename { from: key("a"), to: key("b") };
            assert_eq!(act(nth(0), Naming::Claim(key("a"))).await, Some(SHARD));
            // The outcome of number 1, a release, is not known when the name is claimed again.
            assert_eq!(act(nth(2), Naming::Claim(key("a"))).await, Some(SHARD));
            assert_eq!(act(nth(1), release()).await, Some(SHARD), "its shard has it");
            assert_eq!(act(nth(3), Naming::ClaimAll(Arc::from([key("a")]))).await, None);
            assert_eq!(act(nth(1), rename()).await, Some(SHARD), "the new name is claimed");
            assert_eq!(act(nth(2), release()).await, Some(SHARD), "its shard has it still");
            assert_eq!(act(nth(4), release()).await, None);
            assert_eq!(act(nth(4), release()).await, None, "a second time");
            assert_eq!(act(nth(u32::MAX), Naming::Claim(key("a"))).await, Some(SHARD));
            // A new owner begins to count anew, in a higher epoch.
            let node = Node::alone("next/1", "next");
            connection.give_up(own, &Node::alone("owner/1", "owner"), None).await.unwrap();
            let Ok(Taking::Taken { epoch: next, .. }) = connection.take(SHARD, &node, LENGTH).await else {
                panic!("the shard is free, and was not taken");
            };
            assert!(next > epoch);
            let (first, release) = (Claimant::new(Own { epoch: next, ..own }, 0), Naming::Release(key("a")));
            let session: &mut dyn Session = &mut connection;
            let released = match is_afar {
                true => session.name_afar(first, &release).await,
                false => session.name(first, &release).await,
            };
            assert_eq!(released.unwrap(), None);
        });
    }
}

#[test]
fn rows_that_are_there_are_those_of_position_number_and_epoch() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = server.database().unwrap();
    runtime.block_on(async {
        let (mut connection, epoch) = owner_of(&url).await;
        let own = Own { shard: SHARD, epoch };
        let table = Arc::new(Table::new(1, Purpose::Slices));
        let name = "checkpoints/slice".to_owned();
        let create = Change::Create { id: 1, name, table: Some(Arc::clone(&table)) };
        assert!(connection.change(own, &create).await.unwrap());
        for (pos, seq) in [(0, 1), (0, 2), (7, 3), (1 << 40, 4)] {
            let row = Row { table: Some(Arc::clone(&table)), pos, seq, ..Row::barrier() };
            assert_eq!(connection.insert(own, &row, &[], IfThere::Skip).await.unwrap(), 1);
            assert_eq!(connection.insert(own, &row, &[], IfThere::Skip).await.unwrap(), 0, "it is there");
        }
        let asked = [(1 << 40, 4), (7, 4), (0, 1), (8, 3), (0, 2)];
        let mut found = connection.which(&table, epoch, &asked).await.unwrap();
        found.sort_unstable();
        assert_eq!(found, [(0, 1), (0, 2), (1 << 40, 4)]);
        assert_eq!(connection.which(&table, epoch + 1, &asked).await.unwrap(), []);
        assert_eq!(connection.which(&table, epoch, &[]).await.unwrap(), []);
    });
}

#[test]
fn insert_is_not_planned_each_time() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = server.database().unwrap();
    runtime.block_on(async {
        let (mut connection, epoch) = owner_of(&url).await;
        let own = Own { shard: SHARD, epoch };
        let table = Arc::new(Table::new(1, Purpose::Journal));
        let name = "segments/1".to_owned();
        let create = Change::Create { id: 1, name, table: Some(Arc::clone(&table)) };
        assert!(connection.change(own, &create).await.unwrap());
        let mut before = Vec::new();
        for seq in 1..=60 {
            let bytes = Bytes::from(vec![7; seq as usize * 300]);
            let row = Row { table: Some(Arc::clone(&table)), pos: seq as u64, seq, bytes, ..Row::barrier() };
            assert_eq!(connection.insert(own, &row, &before, IfThere::Fail).await.unwrap(), 1);
            let over = Own { epoch: epoch - 1, ..own };
            assert_eq!(connection.insert(over, &row, &[], IfThere::Fail).await.unwrap(), 0, "not its epoch");
            before = row.placed().into_iter().collect();
        }
        // PostgreSQL plans the first five times, and then only if that pays.
        let text = "SELECT max(custom_plans), min(generic_plans) FROM pg_prepared_statements
            WHERE statement LIKE 'INSERT%' AND custom_plans + generic_plans > 5";
        let plans = connection.client.query_one(text, &[]).await.unwrap();
        let (custom, generic): (i64, i64) = (plans.get(0), plans.get(1));
        assert!(custom <= 5 && generic >= 50, "planned {custom} times, not planned {generic} times");
    });
}

#[test]
fn statements_of_files_that_are_gone_do_not_stay_prepared() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = server.database().unwrap();
    runtime.block_on(async {
        let mut connection = Target::of(&url).unwrap().open().await.unwrap();
        for file in 0..3 * PREPARED_MAX {
            connection.statement(&Arc::from(format!("SELECT {file}"))).await.unwrap();
        }
        let prepared = connection.client.query_one("SELECT count(*) FROM pg_prepared_statements", &[]);
        let prepared: i64 = prepared.await.unwrap().get(0);
        // And the one that counts.
        assert_eq!(prepared, PREPARED_MAX as i64 + 1);
        assert!(connection.prepared.contains_key(format!("SELECT {}", 3 * PREPARED_MAX - 1).as_str()));
    });
}

#[test]
fn row_and_barrier_are_committed_only_behind_the_rows_that_they_rest_on() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = server.database().unwrap();
    runtime.block_on(async {
        let (mut connection, epoch) = owner_of(&url).await;
        let own = Own { shard: SHARD, epoch };
        let (one, other) = (Table::new(1, Purpose::Journal), Table::new(2, Purpose::Journal));
        let (one, other) = (Arc::new(one), Arc::new(other));
        for table in [&one, &other] {
            let create = Change::Create {
                id: table.id,
                name: format!("segments/{}", table.id),
                table: Some(Arc::clone(table)),
            };
            assert!(connection.change(own, &create).await.unwrap());
        }
        let row = |table: &Arc<Table>, pos| Row { table: Some(Arc::clone(table)), pos, ..Row::barrier() };
        let placed = |table: &Arc<Table>, pos| Placed { table: Arc::clone(table), key: (pos, 0) };
        let mut commit = async |row: &Row, rests_on: &[Placed], if_there| {
            connection.insert(own, row, rests_on, if_there).await.unwrap()
        };
        assert_eq!(commit(&row(&one, 0), &[], IfThere::Fail).await, 1);
        let (there, missing) = (placed(&one, 0), placed(&one, 7));
        assert_eq!(commit(&row(&other, 0), std::slice::from_ref(&missing), IfThere::Fail).await, 0);
        assert_eq!(commit(&row(&other, 0), &[there.clone(), missing.clone()], IfThere::Skip).await, 0);
        assert_eq!(commit(&row(&other, 0), std::slice::from_ref(&there), IfThere::Fail).await, 1);
        let both = [there.clone(), placed(&other, 0)];
        assert_eq!(commit(&row(&one, 7), &both, IfThere::Skip).await, 1);
        assert_eq!(commit(&Row::barrier(), &both, IfThere::Fail).await, 1);
        assert_eq!(commit(&Row::barrier(), &[there, missing], IfThere::Fail).await, 1, "it is there now");
        assert_eq!(commit(&Row::barrier(), &[placed(&other, 8)], IfThere::Fail).await, 0);
    });
}

#[test]
fn renewal_that_is_carried_out_after_the_shard_was_given_up_brings_nothing_back() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let url = server.database().unwrap();
    let database = name_in(&url);
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = Target::of(&url).unwrap();
        let node = Node::alone("owner/1", "owner");
        let (mut first, epoch) = owner_of(&url).await;
        let (mut second, holder) = (target.open().await.unwrap(), target.open().await.unwrap());
        holder.client.batch_execute("BEGIN; LOCK TABLE kew_shard IN EXCLUSIVE MODE").await.unwrap();
        let renewing = node.clone();
        let renewal = tokio::spawn(async move { first.renew(&renewing, LENGTH).await.map(|_| first) });
        while server.psql(database, waiting).unwrap() == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let giver = node.clone();
        let given_up = tokio::spawn(async move {
            second.give_up(Own { shard: SHARD, epoch }, &giver, None).await.map(|_| second)
        });
        // It waits for the lock too, or is done.
        while !given_up.is_finished() && server.psql(database, waiting).unwrap() != "2" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        holder.client.batch_execute("COMMIT").await.unwrap();
        let _renewed = renewal.await.unwrap().unwrap();
        let mut second = given_up.await.unwrap().unwrap();
        assert_eq!(
            second.owner(SHARD).await.unwrap(),
            None,
            "the shard is owned by a node that has given it up"
        );
    });
}

#[test]
fn take_over_sees_the_renewal_that_it_waited_for_whatever_isolation_the_database_is_set_to() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let url = server.database().unwrap();
    let database = name_in(&url);
    let strict = format!("ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'");
    server.psql(database, &strict).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = Target::of(&url).unwrap();
        let (owner, _) = owner_of(&url).await;
        // By the database's clock the owner has just been silent for too long, and its renewal is on its way.
        let past = "UPDATE kew_node SET until = clock_timestamp() - interval '1 millisecond'";
        let renews = "UPDATE kew_node SET until = clock_timestamp() + interval '1 minute'";
        owner.client.batch_execute(past).await.unwrap();
        owner.client.batch_execute("BEGIN; SELECT FROM kew_shard FOR SHARE").await.unwrap();
        let mut other = target.open().await.unwrap();
        let taking =
            tokio::spawn(async move { other.take(SHARD, &Node::alone("next/1", "next"), LENGTH).await });
        while server.psql(database, waiting).unwrap() == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        owner.client.batch_execute(renews).await.unwrap();
        owner.client.batch_execute("COMMIT").await.unwrap();
        let taken = taking.await.unwrap().unwrap();
        assert!(matches!(taken, Taking::Owned(_)), "the shard has two owners");
    });
}

#[test]
fn commit_whose_wait_for_the_standby_is_cancelled_is_not_known_to_be_done() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let url = server.database().unwrap();
    let database = name_in(&url);
    let quiet = format!("ALTER DATABASE {database} SET client_min_messages = 'error'");
    server.psql(database, &quiet).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let standby = |name: &str| {
        server.psql(database, &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).unwrap();
        server.psql(database, "SELECT pg_reload_conf()").unwrap();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut connection, epoch) = owner_of(&url).await;
        let own = Own { shard: SHARD, epoch };
        standby("one_that_is_away");
        let barrier = tokio::spawn(async move { connection.barrier(own).await });
        while server.psql(database, waiting).unwrap() == "0" {
            assert!(!barrier.is_finished(), "it waits for no standby");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.psql(database, cancel).unwrap();
        let done = barrier.await.unwrap();
        assert!(matches!(done, Err(PgError::Unreachable(_))), "{done:?}");
        standby("");
    });
}

/// A node that has gone, whose row the database's clock was set back under.
#[test]
fn life_that_lies_further_ahead_than_a_renewal_puts_it_is_shortened() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let url = server.database().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = Target::of(&url).unwrap();
        let (gone, _) = owner_of(&url).await;
        let ahead = async |millis: u64| {
            let text = format!(
                "UPDATE kew_node SET until = clock_timestamp() + interval '{millis} milliseconds'
                    WHERE id = 'owner/1'"
            );
            gone.client.batch_execute(&text).await.unwrap();
        };
        let left = async || {
            let text = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM kew_node
                WHERE id = 'owner/1'";
            gone.client.query_one(text, &[]).await.unwrap().get::<_, f64>(0)
        };
        let (mut member, mut waits) = (target.open().await.unwrap(), target.open().await.unwrap());
        let node = Node::alone("member/1", "member");
        ahead(300_000).await;
        let renewed = member.renew(&node, TENURE).await.unwrap();
        assert!(renewed.lives_too_long);
        member.shorten_lives(TENURE).await.unwrap();
        assert!((1.0..=2.5).contains(&left().await), "{} s", left().await);
        assert!(!member.renew(&node, TENURE).await.unwrap().lives_too_long);
        // What a renewal gives, and a little more, is left.
        ahead(3_300).await;
        assert!(!member.renew(&node, TENURE).await.unwrap().lives_too_long);
        member.shorten_lives(TENURE).await.unwrap();
        assert!(left().await > 2.5, "{} s", left().await);
        // One that only waits for the shard.
        ahead(300_000).await;
        let taken = waits.take(SHARD, &Node::alone("next/1", "next"), TENURE).await.unwrap();
        assert!(matches!(taken, Taking::Owned(_)));
        assert!((1.0..=2.5).contains(&left().await), "{} s", left().await);
    });
}

/// An address whose packets are dropped: nothing is accepted, and the queue of those who wait is full.
struct Dropped {
    address: SocketAddr,
    _listener: tokio::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Dropped {
    fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            waiting.push(stream);
        }
        Self { address, _listener: listener, _waiting: waiting }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The server's URL behind other hosts.
fn behind(hosts: &[SocketAddr], server: &PgServer) -> String {
    let own = format!("127.0.0.1:{}", server.port());
    let all: String = hosts.iter().map(|host| format!("{host},")).collect();
    server.database().unwrap().replace(&own, &format!("{all}{own}"))
}

#[test]
fn hosts_that_are_gone_cost_an_attempt_less_than_half_a_tenure() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let runtime = runtime();
    let _inside = runtime.enter();
    let dropped = Dropped::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (silent, address)).unwrap();
    for hosts in [vec![dropped.address], vec![silent.1], vec![dropped.address, silent.1]] {
        // The best of some: another program may hold the machine up.
        let took = (0..5).map(|_| {
            let target = Target::of(&behind(&hosts, &server)).unwrap();
            let begun = Instant::now();
            runtime.block_on(target.open()).unwrap();
            begun.elapsed()
        });
        let took = took.min().unwrap();
        assert!(took < TENURE / 2, "{hosts:?}: {took:?}");
    }
}

#[test]
fn host_that_took_writes_last_is_tried_first() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let target = Target::of(&behind(&[silent.local_addr().unwrap()], &server)).unwrap();
    let runtime = runtime();
    runtime.block_on(target.open()).unwrap();
    silent.accept().unwrap();
    for _ in 0..5 {
        runtime.block_on(target.clone().open()).unwrap();
    }
    // On a busy machine the good host may be late once, and the next is tried beside it.
    let tried = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!(tried < 5, "a host that is gone was tried before the one that takes writes");
}

#[test]
fn attempt_that_finds_no_host_ends_and_names_each() {
    let dropped = {
        let runtime = runtime();
        let _inside = runtime.enter();
        Dropped::new()
    };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = [dropped.address.to_string(), silent.local_addr().unwrap().to_string()];
    let url = format!("postgres://kew:secret@{}/kew?connect_timeout=1", hosts.join(","));
    let begun = Instant::now();
    let Err(error) = runtime().block_on(Target::of(&url).unwrap().open()) else { panic!("nothing answers") };
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(error.may_pass() && hosts.iter().all(|host| error.to_string().contains(host)), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn url_whose_hosts_and_ports_do_not_match_is_refused() {
    for url in
        ["postgres:///kew", "postgres://kew@a,b/kew?port=1,2,3", "postgres://kew@a,b/kew?hostaddr=127.0.0.1"]
    {
        assert!(matches!(Target::of(url), Err(PgError::Url(_))), "{url}");
    }
}
