//! Many shards and several nodes on PostgreSQL: who owns what, hand-overs, names, connections, and stores of before
//! there were shards.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kept;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kept::{block_on, count, is_owned, key, read, wait_until, write};
use kew_core::{ShardCount, ShardId};
use kew_log_pg::server::name_in;
use kew_log_pg::{
    Ending, Look, Node, PgDisk, PgError, PgNode, TENURE, create, join, look, own_all, wait_to_own,
};
use kew_store::contract::model::SeededEntropy;
use kew_store_log::{Disk, LogStore};

const FIRST: ShardId = ShardId(0);
const SECOND: ShardId = ShardId(1);

/// A store of this many shards.
fn store(shards: u16) -> String {
    let url = kept::server().database().unwrap();
    create(&url, kept::founding(count(shards))).unwrap();
    url
}

/// A node of a store that is there.
fn node(url: &str) -> PgNode {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let node = Node {
        peer: Some(format!("10.0.0.{run}:9400")),
        version: Some("1".into()),
        ..kept::node(run.into())
    };
    join(url, &node, kept::founding(ShardCount::ONE)).unwrap().node
}

/// The epoch of each shard. One that is not raised shows that no other node has taken the shard.
fn epochs(url: &str) -> String {
    let each = "SELECT string_agg(epoch::text, ' ' ORDER BY id) FROM kew_shard";
    kept::server().psql(name_in(url), each).unwrap()
}

#[test]
fn two_nodes_hold_shards_of_one_store_and_know_of_each_other() {
    let url = store(4);
    let (one, other) = (node(&url), node(&url));
    assert_eq!(one.shards(), count(4));
    assert_eq!(one.secret(), other.secret());
    let first = one.take(FIRST).unwrap();
    let second = other.take(SECOND).unwrap();
    assert!(is_owned(&other.take(FIRST)));
    write(&first, b"one");
    write(&second, b"two");
    assert_eq!((read(&first), read(&second)), (b"one".to_vec(), b"two".to_vec()));
    for node in [&one, &other] {
        wait_until("both are on the map", || {
            let map = node.map(0).unwrap();
            let owner = |shard| map.owner(shard).map(|owner| (owner.id.clone(), owner.peer.clone()));
            let is = |of: &PgNode| Some((of.node().id.clone(), of.node().peer.clone()));
            owner(FIRST) == is(&one) && owner(SECOND) == is(&other) && map.without_owner().count() == 2
        });
    }
    // Longer than any tenure. On a machine that stood still a renewal is late.
    std::thread::sleep(2 * TENURE);
    wait_until("both are held", || first.tenure().is_held() && second.tenure().is_held());
    assert_eq!(epochs(&url), "1 1 0 0");
}

#[test]
fn shard_that_is_handed_over_is_stolen_by_no_one_and_goes_on_at_its_node() {
    let url = store(2);
    let (one, other, thief) = (node(&url), node(&url), node(&url));
    let disk = one.take(FIRST).unwrap();
    let stays = one.take(SECOND).unwrap();
    write(&disk, b"one");
    disk.hand_over(&other.node().id).unwrap();
    assert!(is_owned(&thief.take(FIRST)));
    assert!(is_owned(&one.take(FIRST)));
    let taken = other.take(FIRST).unwrap();
    assert_eq!((read(&taken), taken.tenure().epoch()), (b"one".to_vec(), 2));
    assert!(matches!(disk.hand_over(&thief.node().id), Err(PgError::Fenced { .. })));
    std::thread::sleep(TENURE);
    wait_until("both are held", || taken.tenure().is_held() && stays.tenure().is_held());
    assert_eq!(epochs(&url), "2 1");
    let wanted = "SELECT count(*) FROM kew_shard WHERE wanted <> '' OR wanted_at IS NOT NULL";
    assert_eq!(kept::server().psql(name_in(&url), wanted).unwrap(), "0");
    // The node that it is meant for does not come.
    let begun = Instant::now();
    taken.hand_over(&one.node().id).unwrap();
    wait_until("another node may take it", || thief.take(FIRST).is_ok());
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());
    // And one that has gone is not waited for.
    let gone = node(&url);
    gone.leave();
    stays.hand_over(&gone.node().id).unwrap();
    other.take(SECOND).unwrap();
}

#[test]
fn node_that_vanished_is_followed_within_five_seconds_for_each_of_its_shards() {
    let url = store(4);
    let (one, other) = (node(&url), node(&url));
    let disks: Vec<PgDisk> = (0..3).map(|shard| one.take(ShardId(shard)).unwrap()).collect();
    write(&disks[1], b"one");
    drop((one, disks));
    let begun = Instant::now();
    // By the database's clock, which goes on while the machine stands still, no node lives for longer than a tenure.
    let lives_longer = format!(
        "SELECT count(*) FROM kew_node WHERE until > clock_timestamp() + interval '{} milliseconds'",
        TENURE.as_millis()
    );
    assert_eq!(kept::server().psql(name_in(&url), &lives_longer).unwrap(), "0");
    for shard in (0..3).map(ShardId) {
        let taken = std::cell::OnceCell::new();
        wait_until("the shard is free", || other.take(shard).is_ok_and(|disk| taken.set(disk).is_ok()));
        let taken = taken.into_inner().unwrap();
        assert_eq!(taken.tenure().epoch(), 2);
        if shard == SECOND {
            assert_eq!(read(&taken), b"one");
        }
    }
    // Excludes that something else than the end of the tenure has to be waited for.
    assert!(begun.elapsed() < Duration::from_secs(5) + kept::STALL, "{:?}", begun.elapsed());
}

#[test]
fn shard_row_that_is_locked_holds_up_no_other_shard_of_its_node() {
    let url = store(2);
    let one = node(&url);
    let (first, second) = (one.take(FIRST).unwrap(), one.take(SECOND).unwrap());
    let done =
        kept::server().while_held(name_in(&url), "SELECT FROM kew_shard WHERE id = 0 FOR UPDATE", || {
            wait_until("the first shard is not renewed", || {
                first.tenure().refusal().is_some_and(|why| why.contains("is locked"))
            });
            wait_until("the second shard is renewed", || second.tenure().is_held());
            assert!(!first.tenure().is_held());
        });
    done.unwrap();
    wait_until("both are renewed", || first.tenure().is_held() && second.tenure().is_held());
    assert_eq!(epochs(&url), "1 1");
}

#[test]
fn shards_that_are_locked_hold_an_opening_up_no_longer_than_taking_one_may_take() {
    let url = store(1);
    std::thread::scope(|scope| {
        let locks = "BEGIN; LOCK TABLE kew_shard IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(20)";
        let holds = scope.spawn(|| kept::server().psql(name_in(&url), locks));
        let held = "SELECT count(*) FROM pg_locks WHERE relation = 'kew_shard'::regclass AND granted
            AND mode = 'AccessExclusiveLock'";
        wait_until("the table is locked", || kept::server().psql(name_in(&url), held).unwrap() == "1");
        let begun = Instant::now();
        let owned = kept::own_first(&url, 1);
        assert!(matches!(owned, Err(PgError::Unreachable(_))), "{:?}", owned.err());
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        holds.join().unwrap().unwrap();
    });
    kept::own_first(&url, 2).unwrap();
}

#[test]
fn name_that_many_claim_at_once_belongs_to_one_shard() {
    let url = store(4);
    let (one, other) = (node(&url), node(&url));
    let disks: Vec<PgDisk> =
        (0..4).map(|shard| if shard < 2 { &one } else { &other }.take(ShardId(shard)).unwrap()).collect();
    for round in 0..20 {
        let key = key(&format!("queue-{round}"));
        let has: Vec<ShardId> = std::thread::scope(|scope| {
            let claims: Vec<_> = disks
                .iter()
                .map(|disk| scope.spawn(|| block_on(disk.claim_name(key.clone())).unwrap()))
                .collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert!(has.iter().all(|shard| *shard == has[0]), "round {round}: {has:?}");
        assert_eq!(block_on(one.shard_of_name(key)).unwrap(), Some(has[0]));
    }
    let all: usize = (0..4).map(|shard| block_on(one.names_of(ShardId(shard), None)).unwrap().len()).sum();
    assert_eq!(all, 20);
}

#[test]
fn names_are_claimed_changed_and_released_once_however_often_that_is_asked() {
    let url = store(2);
    let one = node(&url);
    let (first, second) = (one.take(FIRST).unwrap(), one.take(SECOND).unwrap());
    let names = |shard| block_on(one.names_of(shard, None)).unwrap();
    for _twice in 0..2 {
        assert_eq!(block_on(first.claim_name(key("a"))).unwrap(), FIRST);
        assert_eq!(block_on(second.claim_name(key("b"))).unwrap(), SECOND);
    }
    assert_eq!(block_on(second.claim_name(key("a"))).unwrap(), FIRST);
    assert_eq!(block_on(first.change_name(key("a"), key("b"))).unwrap(), SECOND);
    assert_eq!((names(FIRST), names(SECOND)), (vec![key("a")], vec![key("b")]));
    for _twice in 0..2 {
        assert_eq!(block_on(first.change_name(key("a"), key("c"))).unwrap(), FIRST);
    }
    for _twice in 0..2 {
        block_on(first.release_name(key("b"))).unwrap();
        block_on(second.release_name(key("b"))).unwrap();
    }
    assert_eq!((names(FIRST), names(SECOND)), (vec![key("c")], vec![]));
    // Capital letters come first, as in the order of bytes.
    for name in ["B", "a", "d"] {
        block_on(first.claim_name(key(name))).unwrap();
    }
    assert_eq!(names(FIRST), ["B", "a", "c", "d"].map(key));
    assert_eq!(block_on(one.names_of(FIRST, Some(key("a")))).unwrap(), ["c", "d"].map(key));
}

#[test]
fn old_owner_writes_no_name() {
    let url = store(1);
    let (one, other) = (node(&url), node(&url));
    let old = one.take(FIRST).unwrap();
    block_on(old.claim_name(key("kept"))).unwrap();
    // For the database its node has gone, which it does not know yet.
    let new = kept::take_over(&url, || other.take(FIRST));
    let claimed = block_on(old.claim_name(key("late")));
    let released = block_on(old.release_name(key("kept")));
    let changed = block_on(old.change_name(key("kept"), key("late")));
    assert!(
        claimed.is_err() && released.is_err() && changed.is_err(),
        "{claimed:?} {released:?} {changed:?}"
    );
    assert_eq!(block_on(other.names_of(FIRST, None)).unwrap(), [key("kept")]);
    assert_eq!(block_on(new.claim_name(key("late"))).unwrap(), FIRST);
}

#[test]
fn sixteen_shards_on_three_nodes_need_few_connections() {
    let url = store(16);
    let nodes = [node(&url), node(&url), node(&url)];
    let disks: Vec<PgDisk> =
        (0..16).map(|shard| nodes[usize::from(shard) % 3].take(ShardId(shard)).unwrap()).collect();
    let all = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let connections = || kept::server().psql(name_in(&url), all).unwrap().parse::<usize>().unwrap();
    wait_until("what took the shards is closed", || connections() <= 16 * 2 + 3 * 5);
    // Every journal and every upkeep writes, and files are made.
    for (number, disk) in (0..).zip(&disks) {
        write(disk, format!("{number:03}").as_bytes());
        let slice = disk.create("checkpoints/1").unwrap();
        slice.write_at(0, b"slice").unwrap();
        slice.sync_data().unwrap();
    }
    let busy = connections();
    assert!(busy <= 16 * 3 + 3 * 5, "{busy} connections");
    for (number, disk) in (0..).zip(&disks) {
        assert_eq!(read(disk), format!("{number:03}").as_bytes());
    }
}

#[test]
fn store_that_is_there_keeps_its_shards() {
    let url = store(4);
    create(&url, kept::founding(count(4))).unwrap();
    assert!(matches!(create(&url, kept::founding(count(8))), Err(PgError::StoreExists { shards: 4 })));
    assert_eq!(node(&url).shards(), count(4));
    assert!(matches!(node(&url).take(ShardId(4)), Err(PgError::NoShard { shards: 4, .. })));
    assert!(look(&url, ShardId(3)).is_ok());
    assert!(look(&url, ShardId(4)).is_err());
}

#[test]
fn store_of_the_version_before_shards_becomes_one_of_one_shard_with_everything_in_it() {
    let url = kept::server().database().unwrap();
    let psql = |text: &str| kept::server().psql(name_in(&url), text).unwrap();
    // A store with data, and then all that the second migration brought is taken back.
    let kept_shard = kept::take(&url);
    write(&kept_shard.disk, b"old");
    let opened = LogStore::open(
        Arc::new(kept_shard.disk.clone()),
        kew_testing::small_log(),
        Arc::new(SeededEntropy::new(1)),
        kew_core::Timestamp(0),
    );
    opened.unwrap().0.close().unwrap();
    kept_shard.disk.give_up();
    drop(kept_shard);
    psql(
        "DROP TABLE kew_name, kew_store, kew_database;
        ALTER TABLE kew_node DROP COLUMN peer, DROP COLUMN version;
        ALTER TABLE kew_shard DROP COLUMN wanted, DROP COLUMN wanted_at;
        ALTER TABLE kew_shard DROP COLUMN moves, DROP COLUMN wanted_in, DROP COLUMN moved_to,
            DROP COLUMN arrives_as, DROP COLUMN arriving, DROP COLUMN copied_by,
            DROP COLUMN is_whole;
        DELETE FROM kew_migration WHERE number > 1;
        ALTER TABLE kew_migration DROP COLUMN compatible_from",
    );
    let columns = |table: &str| {
        psql(&format!(
            "SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns
                WHERE table_schema = 'public' AND table_name = '{table}'"
        ))
    };
    assert_eq!(columns("kew_shard"), "id,epoch,node,taken_at");
    assert!(matches!(look(&url, FIRST), Err(PgError::OlderSchema { found: 1 })));
    // A node that asks for many shards does not get them: the store has one.
    let many = kept::founding(count(8));
    let joined = join(&url, &kept::node(77), many).unwrap();
    assert_eq!(joined.node.shards(), ShardCount::ONE);
    let disk = joined.node.take(FIRST).unwrap();
    assert_eq!((read(&disk), disk.tenure().epoch()), (b"old".to_vec(), 2));
    let opened = LogStore::open(
        Arc::new(disk),
        kew_testing::small_log(),
        Arc::new(SeededEntropy::new(2)),
        kew_core::Timestamp(0),
    );
    assert!(!opened.unwrap().1.created, "the store is a new one");
    assert_eq!(psql("SELECT shards || ' ' || octet_length(secret) FROM kew_store"), "1 32");
    assert_eq!(psql("SELECT count(*) FROM kew_shard"), "1");
}

#[test]
fn node_for_a_store_of_one_shard_takes_none_of_a_store_of_many() {
    let url = store(4);
    let (node, founding) = (kept::node(91), kept::founding(ShardCount::ONE));
    let waited = wait_to_own(&url, FIRST, (&node, founding), &Ending::default(), |_| {});
    assert!(matches!(waited, Err(PgError::ManyShards { shards: 4 })));
    let taken = "SELECT count(*) FROM kew_shard WHERE epoch > 0";
    assert_eq!(kept::server().psql(name_in(&url), taken).unwrap(), "0");
}

#[test]
fn tables_of_a_newer_program_are_used_as_far_as_they_say_that_they_can_be() {
    let url = store(2);
    let psql = |text: &str| kept::server().psql(name_in(&url), text).unwrap();
    let known: i32 = psql("SELECT max(number) FROM kew_migration").parse().unwrap();
    psql(&format!("INSERT INTO kew_migration VALUES ({}, 'newer', now(), {known})", known + 1));
    let disk = node(&url).take(FIRST).unwrap();
    write(&disk, b"new");
    disk.give_up();
    assert_eq!(read(&look(&url, FIRST).unwrap()), b"new");
    // The next but one reads nothing that this program writes.
    psql(&format!("INSERT INTO kew_migration VALUES ({}, 'newest', now(), {})", known + 2, known + 1));
    let refused = join(&url, &kept::node(92), kept::founding(ShardCount::ONE)).map(drop);
    assert!(matches!(refused, Err(PgError::NewerSchema { found, .. }) if found == known + 2));
}

#[test]
fn all_shards_of_a_store_are_taken_at_once_or_none() {
    let url = store(4);
    let (one, other) = (kept::node(93), kept::node(94));
    let founding = (kept::founding(ShardCount::ONE), None);
    let disks = own_all(&url, &one, founding).unwrap();
    assert_eq!(disks.iter().map(PgDisk::shard).collect::<Vec<_>>(), count(4).all().collect::<Vec<_>>());
    assert!(disks.iter().all(|disk| disk.receipts_key() == disks[0].receipts_key()));
    // Longer than a tenure: they are renewed.
    std::thread::sleep(TENURE + Duration::from_millis(500));
    wait_until("all of them are held", || disks.iter().all(|disk| disk.tenure().is_held()));
    assert_eq!(epochs(&url), "1 1 1 1");
    disks[..3].iter().for_each(PgDisk::give_up);
    assert!(is_owned(&own_all(&url, &other, founding)));
    disks[3].give_up();
    let eight = (kept::founding(ShardCount::ONE), Some(count(8)));
    assert!(matches!(own_all(&url, &other, eight), Err(PgError::StoreExists { shards: 4 })));
    assert_eq!(own_all(&url, &other, founding).unwrap().len(), 4);
}

#[test]
fn names_are_claimed_together_as_far_as_no_other_shard_has_them() {
    let url = store(2);
    let node = node(&url);
    let (first, second) = (node.take(FIRST).unwrap(), node.take(SECOND).unwrap());
    assert_eq!(first.claim_names(vec![key("a"), key("b")]).unwrap(), None);
    assert_eq!(first.claim_names(vec![key("a"), key("b")]).unwrap(), None, "a second time");
    assert_eq!(second.claim_names(vec![key("b"), key("c")]).unwrap(), Some(FIRST));
    assert_eq!(block_on(node.names_of(SECOND, None)).unwrap(), [key("c")]);
    first.give_up();
    assert!(first.claim_names(vec![key("d")]).is_err());
}

#[test]
fn look_at_a_store_ends_with_an_error_when_a_node_took_a_shard_meanwhile() {
    let url = store(2);
    let looked = Look::open(&url).unwrap();
    assert_eq!(looked.shards(), count(2));
    looked.disk(FIRST).unwrap();
    assert!(looked.end().is_ok());
    let looked = Look::open(&url).unwrap();
    let disk = node(&url).take(SECOND).unwrap();
    assert!(is_owned(&looked.disk(SECOND)));
    disk.give_up();
    assert!(matches!(looked.end(), Err(PgError::TakenMeanwhile { shard: SECOND })));
}

#[test]
fn shard_that_was_dropped_while_its_row_is_locked_leaves_no_statement_that_waits() {
    let url = store(2);
    let (one, other) = (node(&url), node(&url));
    let disk = one.take(FIRST).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let done =
        kept::server().while_held(name_in(&url), "SELECT FROM kew_shard WHERE id = 0 FOR SHARE", || {
            drop(disk);
            let dropped = Instant::now();
            while dropped.elapsed() < Duration::from_secs(3) {
                let waits = kept::server().psql(name_in(&url), waiting).unwrap();
                assert_eq!(waits, "0", "a statement waits for the lock");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    done.unwrap();
    wait_until("the other node takes it", || other.take(FIRST).is_ok());
}

#[test]
fn nodes_that_take_shards_of_each_other_never_wait_for_each_other() {
    let url = store(2);
    let (one, other) = (node(&url), node(&url));
    let psql = |text: &str| kept::server().psql(name_in(&url), text).unwrap();
    for _ in 0..20 {
        // Each shard is the other node's, which the database takes for gone.
        psql(&format!(
            "UPDATE kew_shard SET node = CASE id WHEN 0 THEN '{}' ELSE '{}' END;
            UPDATE kew_node SET until = now() - interval '1 second'",
            other.node().id,
            one.node().id
        ));
        std::thread::scope(|scope| {
            for (node, shard) in [(&one, FIRST), (&other, SECOND)] {
                scope.spawn(move || match node.take(shard) {
                    Ok(disk) => disk.give_up(),
                    Err(error) => assert!(is_owned::<()>(&Err(error)), "the two took it at once"),
                });
            }
        });
    }
    assert_eq!(psql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
}

#[test]
fn node_that_has_left_is_not_brought_back_by_a_renewal_under_way() {
    let url = store(2);
    let psql = |text: &str| kept::server().psql(name_in(&url), text).unwrap();
    for round in 0..10 {
        let leaving = node(&url);
        // Renewals are every half second.
        std::thread::sleep(Duration::from_millis(470 + 6 * round));
        leaving.leave();
        std::thread::sleep(Duration::from_millis(100));
        let id = &leaving.node().id;
        assert_eq!(psql(&format!("SELECT count(*) FROM kew_node WHERE id = '{id}'")), "0", "round {round}");
    }
}
