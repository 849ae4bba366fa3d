//! A store that is spread over several databases of PostgreSQL: how it is made, refused and found again, who owns what,
//! whose names of queues are, and a database that is away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../kept/mod.rs"]
mod kept;
mod moves;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kept::{block_on, count, is_owned, key, read, wait_until, write};
use kew_core::ShardId;
use kew_log_pg::server::{PgServer, name_in};
use kew_log_pg::{
    Ending, Founding, Look, Node, PeerSecret, PgDisk, PgError, PgNode, TENURE, Urls, create, join, own_all,
    wait_to_own,
};

/// What another run of `kew store create` begins with: chance of its own.
fn founding(shards: u16) -> Founding {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    Founding { shards: count(shards), secret: PeerSecret::from_chance(run.into(), 7) }
}

fn empty<const N: usize>() -> [String; N] {
    [(); N].map(|()| kept::server().database().unwrap())
}

fn all(urls: &[String]) -> Urls {
    Urls::all(urls.iter().cloned()).unwrap()
}

fn psql(url: &str, text: &str) -> String {
    kept::server().psql(name_in(url), text).unwrap()
}

fn has_tables(url: &str) -> bool {
    psql(url, "SELECT to_regclass('kew_migration') IS NOT NULL") == "t"
}

/// A store of this many shards in as many databases as there are URLs.
fn store<const N: usize>(shards: u16) -> [String; N] {
    let urls = empty();
    create(all(&urls), founding(shards)).unwrap();
    urls
}

fn run() -> Node {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    kept::node(RUNS.fetch_add(1, Ordering::Relaxed).into())
}

/// A node of a store that is there.
fn node(urls: impl Into<Urls>) -> PgNode {
    join(urls, &run(), founding(1)).unwrap().node
}

fn refused(created: Result<(), PgError>) -> String {
    match created {
        Err(error @ PgError::OtherDatabase { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_database_has_the_rows_of_its_shards_and_the_first_one_the_list() {
    let urls = store::<3>(8);
    let shards =
        urls.each_ref().map(|url| psql(url, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM kew_shard"));
    assert_eq!(shards, ["0 3 6", "1 4 7", "2 5"]);
    let said = urls.each_ref().map(|url| psql(url, "SELECT shards, number, databases FROM kew_store"));
    assert_eq!(said, ["8|0|3", "8|1|3", "8|2|3"]);
    let alike = urls.each_ref().map(|url| psql(url, "SELECT encode(secret || mark, 'hex') FROM kew_store"));
    assert!(alike[0] == alike[1] && alike[1] == alike[2], "{alike:?}");
    let listed = psql(&urls[0], "SELECT string_agg(url, ' ' ORDER BY number) FROM kew_database");
    assert_eq!(listed, urls.join(" "));
    assert_eq!(psql(&urls[1], "SELECT count(*) FROM kew_database"), "0");
    // A program that knows no databases is refused.
    assert_eq!(psql(&urls[0], "SELECT max(compatible_from) FROM kew_migration"), "4");
    let one = store::<1>(2);
    assert_eq!(psql(&one[0], "SELECT max(compatible_from) FROM kew_migration"), "3");
}

#[test]
fn list_holds_no_password_and_the_user_of_the_first_url_has_the_same_one_elsewhere() {
    let urls = empty::<2>();
    let with = |url: &str| format!("{}?password=b%40d&connect_timeout=7", url.replace("kew@", "kew:s3cret@"));
    create(all(&urls.each_ref().map(|url| with(url))), founding(2)).unwrap();
    let listed = psql(&urls[0], "SELECT string_agg(url, ' ' ORDER BY number) FROM kew_database");
    assert_eq!(listed, urls.each_ref().map(|url| format!("{url}?connect_timeout=7")).join(" "));
    assert_eq!(node(&with(&urls[0])).databases(), 2);
}

#[test]
fn password_of_the_first_url_opens_the_others_for_the_same_user() {
    let server = PgServer::start(&["fsync=off"]).unwrap();
    let access = server.data().join("pg_hba.conf");
    let lines = std::fs::read_to_string(&access).unwrap();
    std::fs::write(&access, format!("host all app 127.0.0.1/32 scram-sha-256\n{lines}")).unwrap();
    server.psql("postgres", "CREATE ROLE app LOGIN PASSWORD 'p@ss'; SELECT pg_reload_conf()").unwrap();
    let urls = [(); 2].map(|()| {
        let url = server.database().unwrap();
        server.psql(name_in(&url), "GRANT ALL ON SCHEMA public TO app").unwrap();
        url.replace("kew@", "app:p%40ss@")
    });
    let without = urls.each_ref().map(|url| url.replace(":p%40ss", ""));
    assert!(create(all(&without), founding(2)).is_err(), "the server asks for a password");
    let urls = [urls[0].clone(), without[1].clone()];
    create(all(&urls), founding(2)).unwrap();
    let by_the_list = node(&urls[0]).take(ShardId(1));
    assert!(by_the_list.is_ok(), "{:?}", by_the_list.err());
    let given = node(all(&urls)).take(ShardId(1));
    assert!(given.is_ok() || is_owned(&given), "{:?}", given.err());
    assert!(join(&without[0], &run(), founding(1)).is_err());
}

#[test]
fn creation_that_was_cut_short_is_finished_by_the_same_one() {
    let urls = empty::<3>();
    create(all(&urls), founding(4)).unwrap();
    // As if it had been cut short before the first one, which is made last.
    psql(&urls[0], "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    let secret = psql(&urls[2], "SELECT encode(secret, 'hex') FROM kew_store");
    psql(&urls[1], "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    create(all(&urls), founding(4)).unwrap();
    for url in &urls {
        assert_eq!(psql(url, "SELECT encode(secret, 'hex') FROM kew_store"), secret);
    }
    assert_eq!(node(&urls[0]).shards(), count(4));
    // One that is there stays as it is.
    create(all(&urls), founding(4)).unwrap();
    assert_eq!(psql(&urls[0], "SELECT encode(secret, 'hex') FROM kew_store"), secret);
    assert!(matches!(create(all(&urls), founding(5)), Err(PgError::StoreExists { shards: 4 })));
}

#[test]
fn database_that_is_another_one_is_refused_by_its_number_before_anything_is_changed() {
    let ([one, two], other) = (store::<2>(4), store::<2>(4));
    let [new] = empty::<1>();
    let single = store::<1>(1);
    for (urls, expected) in [
        ([&new, &single[0]], "database 2 of 2 is another one: it holds a store of one database"),
        ([&new, &one], "database 2 of 2 is another one: it is database 1 of 2 of the same store"),
        ([&two, &one], "database 1 of 2 is another one: it is database 2 of 2 of the same store"),
        ([&one, &other[1]], "database 2 of 2 is another one: it belongs to another store"),
        ([&new, &new], "database 2 of 2 is another one: it is the same as database 1 of 2"),
    ] {
        let error = refused(create(all(&urls.map(Clone::clone)), founding(4)));
        assert!(error.starts_with(expected), "{error}");
    }
    let three = [new.clone(), one.clone(), two.clone()];
    let error = refused(create(all(&three), founding(4)));
    assert!(error.starts_with("database 2 of 3 is another one: it belongs to"), "{error}");
    assert!(!has_tables(&new));
    let few = create(all(&[new.clone(), one]), founding(1));
    assert!(matches!(few, Err(PgError::TooFewShards { shards: 1, databases: 2 })));
    assert!(!has_tables(&new));
}

#[test]
fn node_needs_only_the_first_url_and_another_one_is_refused() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    assert_eq!((node.shards(), node.databases()), (count(4), 2));
    for shard in count(4).all() {
        let disk = node.take(shard).unwrap();
        write(&disk, format!("{:03}", shard.0).as_bytes());
        assert_eq!(read(&disk), format!("{:03}", shard.0).as_bytes());
    }
    assert!(matches!(node.take(ShardId(4)), Err(PgError::NoShard { shards: 4, .. })));
    let ids = |map: u16| node.map(map).unwrap().shards.iter().map(|row| row.shard.0).collect::<Vec<_>>();
    assert_eq!((ids(0), ids(1)), (vec![0, 2], vec![1, 3]));
    let second = join(&urls[1], &run(), founding(1)).map(drop);
    let error = second.unwrap_err().to_string();
    assert!(error.starts_with("this is database 2 of 2 of its store"), "{error}");
    assert!(matches!(Look::open(&urls[1]).map(drop), Err(PgError::NotTheFirst { .. })));
    let alone = wait_to_own(&urls[0], ShardId(0), (&run(), founding(1)), &Ending::default(), |_| {});
    assert!(matches!(alone, Err(PgError::ManyShards { shards: 4 })));
}

#[test]
fn urls_that_are_given_win_over_the_list_and_each_has_to_lead_where_it_should() {
    let (urls, others) = (store::<2>(4), store::<2>(4));
    psql(&urls[0], "UPDATE kew_database SET url = 'postgres://kew@127.0.0.1:1/gone' WHERE number = 1");
    let joined = join(&urls[0], &run(), founding(1)).unwrap();
    assert!(
        joined.warnings.iter().any(|line| line.contains("database 2 of 2") && line.contains("other nodes")),
        "{:?}",
        joined.warnings
    );
    drop(joined);
    node(all(&urls)).take(ShardId(1)).unwrap();
    for wrong in [[&urls[0], &others[1]], [&urls[0], &urls[0]]] {
        let error =
            join(all(&wrong.map(Clone::clone)), &run(), founding(1)).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("database 2 of 2 is another one"), "{error}");
    }
    let three = [&urls[0], &urls[1], &urls[1]].map(Clone::clone);
    let given = join(all(&three), &run(), founding(1)).map(drop);
    assert!(matches!(given, Err(PgError::OtherNumber { given: 3, of: 2 })));
    // The list says where they are now.
    create(all(&urls), founding(4)).unwrap();
    node(&urls[0]).take(ShardId(3)).unwrap();
}

#[test]
fn url_that_leads_elsewhere_since_yesterday_is_an_error_and_no_second_store() {
    let (urls, others) = (store::<2>(4), store::<2>(4));
    let node = node(&urls[0]);
    let disk = node.take(ShardId(1)).unwrap();
    // What another fail-over of the machine behind a name would do: the same address, another database.
    let (mine, theirs) = (name_in(&urls[1]), name_in(&others[1]));
    let server = kept::server();
    let cut = |name: &str| {
        server.psql("postgres", &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).unwrap();
        let all = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        server.psql("postgres", &all).unwrap();
    };
    cut(mine);
    cut(theirs);
    for (from, to) in [(mine, "elsewhere"), (theirs, mine)] {
        server.psql("postgres", &format!("ALTER DATABASE {from} RENAME TO {to}")).unwrap();
    }
    server.psql("postgres", &format!("ALTER DATABASE {mine} ALLOW_CONNECTIONS true")).unwrap();
    wait_until("the node says so", || {
        let failing = node.membership(1).failing;
        failing.is_some_and(|why| why.contains("database 2 of 2 is another one: it belongs to another store"))
    });
    wait_until("it may not answer", || !disk.tenure().is_held());
    assert_eq!(server.psql(mine, "SELECT count(*) FROM kew_node").unwrap(), "0");
    assert!(node.membership(0).failing.is_none());
}

#[test]
fn names_are_unique_over_all_databases() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disks: Vec<PgDisk> = count(4).all().map(|shard| node.take(shard).unwrap()).collect();
    for round in 0..20 {
        let key = key(&format!("queue-{round}"));
        let has: Vec<ShardId> = std::thread::scope(|scope| {
            let claim = |disk: &PgDisk| block_on(disk.claim_name(key.clone())).unwrap();
            let claims: Vec<_> = disks.iter().map(|disk| scope.spawn(move || claim(disk))).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert!(has.iter().all(|shard| *shard == has[0]), "round {round}: {has:?}");
        assert_eq!(block_on(node.shard_of_name(key)).unwrap(), Some(has[0]));
    }
    let names = |shard: u16| block_on(node.names_of(ShardId(shard), None)).unwrap();
    assert_eq!((0..4).map(|shard| names(shard).len()).sum::<usize>(), 20);
    assert_eq!(psql(&urls[0], "SELECT count(*) FROM kew_name"), "20");
    assert_eq!(psql(&urls[1], "SELECT count(*) FROM kew_name"), "0");
}

#[test]
fn names_of_a_shard_elsewhere_are_claimed_changed_and_released_once_however_often_that_is_asked() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let (second, third) = (node.take(ShardId(1)).unwrap(), node.take(ShardId(2)).unwrap());
    let names = |shard: u16| block_on(node.names_of(ShardId(shard), None)).unwrap();
    for _twice in 0..2 {
        assert_eq!(block_on(second.claim_name(key("a"))).unwrap(), ShardId(1));
        assert_eq!(block_on(third.claim_name(key("b"))).unwrap(), ShardId(2));
    }
    assert_eq!(block_on(second.claim_name(key("b"))).unwrap(), ShardId(2));
    assert_eq!(block_on(third.claim_name(key("a"))).unwrap(), ShardId(1));
    assert_eq!(block_on(second.change_name(key("a"), key("b"))).unwrap(), ShardId(2));
    for _twice in 0..2 {
        assert_eq!(block_on(second.change_name(key("a"), key("c"))).unwrap(), ShardId(1));
    }
    assert_eq!((names(1), names(2)), (vec![key("c")], vec![key("b")]));
    for _twice in 0..2 {
        block_on(second.release_name(key("b"))).unwrap();
        block_on(second.release_name(key("c"))).unwrap();
    }
    assert_eq!((names(1), names(2)), (vec![], vec![key("b")]));
    assert_eq!(second.claim_names(vec![key("x"), key("y")]).unwrap(), None);
    assert_eq!(second.claim_names(vec![key("x"), key("y")]).unwrap(), None, "a second time");
    assert_eq!(second.claim_names(vec![key("b"), key("z")]).unwrap(), Some(ShardId(2)));
    assert_eq!(names(1), ["x", "y", "z"].map(key));
}

/// Two owners of a shard of the second database, of which the first does not know yet that it is over.
fn old_and_new(urls: &[String; 2], by_old: impl FnOnce(&PgDisk)) -> (PgNode, PgDisk, PgDisk) {
    let (one, other) = (node(&urls[0]), node(&urls[0]));
    let old = one.take(ShardId(1)).unwrap();
    by_old(&old);
    let new = kept::take_over(&urls[1], || other.take(ShardId(1)));
    (other, old, new)
}

#[test]
fn late_release_of_an_old_owner_frees_nothing_that_a_newer_one_has_claimed() {
    let urls = store::<2>(4);
    let (node, old, new) = old_and_new(&urls, |_| {});
    // The old owner had claimed and deleted it, and its release is late.
    assert_eq!(block_on(new.claim_name(key("orders"))).unwrap(), ShardId(1));
    let late = block_on(old.release_name(key("orders")));
    assert!(matches!(late, Err(PgError::Fenced { shard: 1, epoch: 1 })), "{late:?}");
    let late = block_on(old.claim_name(key("orders")));
    assert!(matches!(late, Err(PgError::Fenced { .. })), "{late:?}");
    let late = block_on(old.change_name(key("orders"), key("other")));
    assert!(matches!(late, Err(PgError::Fenced { .. })), "{late:?}");
    let late = old.claim_names(vec![key("orders"), key("more")]);
    assert!(matches!(late, Err(PgError::Fenced { .. })), "{late:?}");
    let names = block_on(node.names_of(ShardId(1), None)).unwrap();
    assert!(names.contains(&key("orders")), "{names:?}");
    // What it claimed late, which no queue can have, the new owner lets go and takes.
    match block_on(old.claim_name(key("late"))) {
        Ok(shard) => assert_eq!(shard, ShardId(1)),
        // It has heard by a renewal meanwhile that it is owner no more.
        Err(error) => assert!(matches!(error, PgError::Fenced { .. }), "{error}"),
    }
    assert_eq!(block_on(new.claim_name(key("late"))).unwrap(), ShardId(1));
    assert!(block_on(old.release_name(key("late"))).is_err());
    block_on(new.release_name(key("late"))).unwrap();
    assert_eq!(block_on(node.shard_of_name(key("late"))).unwrap(), None);
}

#[test]
fn name_that_an_old_owner_claimed_is_raised_by_the_new_one() {
    let urls = store::<2>(4);
    let (node, old, new) = old_and_new(&urls, |old| {
        assert_eq!(block_on(old.claim_name(key("orders"))).unwrap(), ShardId(1));
    });
    assert_eq!(block_on(new.claim_name(key("orders"))).unwrap(), ShardId(1));
    assert!(matches!(block_on(old.release_name(key("orders"))), Err(PgError::Fenced { .. })));
    assert_eq!(block_on(node.shard_of_name(key("orders"))).unwrap(), Some(ShardId(1)));
}

#[test]
fn names_that_a_new_owner_found_in_its_shard_are_its_own_once_it_has_claimed_them_all() {
    let urls = store::<2>(4);
    let keys = ["orders", "bills"].map(key);
    let (node, old, new) = old_and_new(&urls, |old| {
        assert_eq!(old.claim_names(keys.to_vec()).unwrap(), None);
    });
    assert_eq!(block_on(new.claim_all(&keys)).unwrap(), None);
    for key in keys {
        assert!(matches!(block_on(old.release_name(key.clone())), Err(PgError::Fenced { .. })));
        assert_eq!(block_on(node.shard_of_name(key)).unwrap(), Some(ShardId(1)));
    }
}

#[test]
fn all_shards_of_all_databases_are_taken_at_once_or_none_and_looked_at_together() {
    let urls = empty::<2>();
    let disks = own_all(all(&urls), &run(), (founding(1), Some(count(5)))).unwrap();
    assert_eq!(disks.iter().map(PgDisk::shard).collect::<Vec<_>>(), count(5).all().collect::<Vec<_>>());
    assert!(disks.iter().all(|disk| disk.receipts_key() == disks[0].receipts_key()));
    // Longer than a tenure: they are renewed in both.
    std::thread::sleep(TENURE + Duration::from_millis(500));
    wait_until("all of them are held", || disks.iter().all(|disk| disk.tenure().is_held()));
    let epochs = urls.each_ref().map(|url| psql(url, "SELECT DISTINCT epoch FROM kew_shard"));
    assert_eq!(epochs, ["1", "1"]);
    disks.iter().filter(|disk| disk.shard() != ShardId(3)).for_each(PgDisk::give_up);
    assert!(is_owned(&own_all(&urls[0], &run(), (founding(1), None))));
    disks.iter().for_each(PgDisk::give_up);
    drop(disks);
    let looked = Look::open(&urls[0]).unwrap();
    assert_eq!(looked.shards(), count(5));
    assert!(looked.end().is_ok());
    let looked = Look::open(&urls[0]).unwrap();
    let disk = node(&urls[0]).take(ShardId(3)).unwrap();
    disk.give_up();
    assert!(matches!(looked.end(), Err(PgError::TakenMeanwhile { shard: ShardId(3) })));
}

#[test]
fn node_that_is_cut_off_from_one_database_keeps_its_shards_in_the_other() {
    let first = PgServer::start(&["fsync=off"]).unwrap();
    let mut second = PgServer::start(&["fsync=off"]).unwrap();
    let urls = [first.database().unwrap(), second.database().unwrap()];
    create(all(&urls), founding(4)).unwrap();
    let node = node(&urls[0]);
    let disks: Vec<PgDisk> = count(4).all().map(|shard| node.take(shard).unwrap()).collect();
    write(&disks[1], b"one");
    second.kill().unwrap();
    wait_until("the shards of the second database are lost", || {
        !disks[1].tenure().is_held() && !disks[3].tenure().is_held()
    });
    let why = disks[1].tenure().refusal().unwrap();
    assert!(why.contains("database 2 of 2"), "{why}");
    std::thread::sleep(TENURE);
    wait_until("those of the first one are held", || {
        disks[0].tenure().is_held() && disks[2].tenure().is_held()
    });
    let epochs = "SELECT DISTINCT epoch FROM kew_shard";
    assert_eq!(first.psql(name_in(&urls[0]), epochs).unwrap(), "1");
    write(&disks[0], b"two");
    // Names are in the first one.
    assert_eq!(block_on(disks[2].claim_name(key("orders"))).unwrap(), ShardId(2));
    // A node that starts now serves what it can, and the rest later.
    let begun = Instant::now();
    let joined = join(&urls[0], &run(), founding(1)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(joined.node.map(0).is_some() && joined.node.map(1).is_none());
    let leaves = Instant::now();
    let other = joined.node.clone();
    second.run().unwrap();
    wait_until("both are renewed", || disks[1].tenure().is_held() && disks[3].tenure().is_held());
    assert_eq!(read(&disks[1]), b"one");
    wait_until("the new node is there too", || {
        other.map(1).is_some_and(|map| map.node(&other.node().id).is_some() && map.nodes.len() == 2)
    });
    second.kill().unwrap();
    other.leave();
    assert!(leaves.elapsed() < Duration::from_secs(20), "{:?}", leaves.elapsed());
    let rows = format!("SELECT count(*) FROM kew_node WHERE id = '{}'", other.node().id);
    assert_eq!(first.psql(name_in(&urls[0]), &rows).unwrap(), "0");
    drop(disks);
}

#[test]
fn names_of_a_shard_whose_names_cannot_be_reached_are_refused_for_now() {
    let mut first = PgServer::start(&["fsync=off"]).unwrap();
    let second = PgServer::start(&["fsync=off"]).unwrap();
    let urls = [first.database().unwrap(), second.database().unwrap()];
    create(all(&urls), founding(2)).unwrap();
    let node = node(&urls[0]);
    let disk = node.take(ShardId(1)).unwrap();
    first.kill().unwrap();
    let claimed = block_on(disk.claim_name(key("orders")));
    let why = claimed.as_ref().map_err(ToString::to_string);
    assert!(
        matches!(&claimed, Err(PgError::Unreachable(why)) if why.starts_with("database 1 of 2: ")),
        "{why:?}"
    );
    wait_until("the shard is held", || disk.tenure().is_held());
    assert_eq!(second.psql(name_in(&urls[1]), "SELECT epoch FROM kew_shard").unwrap(), "1");
    write(&disk, b"yes");
}
