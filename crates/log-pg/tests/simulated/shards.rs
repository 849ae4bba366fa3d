//! Many shards of one store on several nodes: who owns which, and what the nodes know of each other.

use std::time::Duration;

use kew_core::{AccountId, QueueKey, ShardCount, ShardId};
use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{Power, Rates, World};
use kew_log_pg::{PgDisk, PgError, PgNode, TENURE};
use kew_store_log::{BatchMark, Disk};

const FIRST: ShardId = ShardId(0);
const SECOND: ShardId = ShardId(1);
const THIRD: ShardId = ShardId(2);
/// Longer than a renewal and the pause before it.
const RENEWED: Duration = Duration::from_millis(700);
/// Other nodes may take what a node that has gone owned.
const GONE: Duration = Duration::from_millis(2_700);

fn world() -> World {
    World::of_shards(1, Rates { latency_ms: 1, ..Rates::default() }, ShardCount::new(4).unwrap())
}

/// Two nodes of a store of four shards.
struct Two {
    one: PgNode,
    one_power: Power,
    other: PgNode,
}

fn two(world: &World) -> Two {
    let (one, one_power) = world.join("one").unwrap();
    let (other, _) = world.join("other").unwrap();
    Two { one, one_power, other }
}

fn take_when_free(world: &World, node: &PgNode, shard: ShardId, most: Duration) -> (PgDisk, Duration) {
    let begun = tokio::time::Instant::now();
    loop {
        match node.take(shard) {
            Ok(disk) => return (disk, begun.elapsed()),
            Err(error) => assert!(begun.elapsed() < most, "{error}"),
        }
        world.pass(Duration::from_millis(10));
    }
}

fn is_owned<T>(taken: &Result<T, PgError>) -> bool {
    matches!(taken, Err(PgError::Owned { .. }))
}

fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(1), "here", name)
}

#[test]
fn nodes_read_who_owns_which_shard_and_how_to_reach_each_other() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let _first = one.take(FIRST).unwrap();
    let _second = other.take(SECOND).unwrap();
    let _third = other.take(THIRD).unwrap();
    world.pass(RENEWED);
    for node in [&one, &other] {
        let map = node.map(0).unwrap();
        let owners: Vec<Option<&str>> =
            (0..4).map(|shard| map.owner(ShardId(shard)).map(|owner| owner.id.as_str())).collect();
        assert_eq!(owners, [Some("one"), Some("other"), Some("other"), None]);
        assert_eq!(map.node("one").unwrap().peer.as_deref(), Some("one:9400"));
        let free: Vec<ShardId> = map.without_owner().map(|row| row.shard).collect();
        assert_eq!(free, [ShardId(3)]);
        let behind = world.database().clock() - map.clock_ms;
        assert!((0..=600).contains(&behind), "the map is {behind} ms old");
    }
}

#[test]
fn shards_of_one_node_have_epochs_and_files_of_their_own() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let first = one.take(FIRST).unwrap();
    let second = one.take(SECOND).unwrap();
    for (disk, bytes) in [(&first, b"one"), (&second, b"two")] {
        let file = disk.create("segments/1").unwrap();
        file.append(0, bytes, BatchMark { number: 1, must_sync: true }).unwrap();
        file.sync_data().unwrap();
    }
    second.give_up();
    let second = other.take(SECOND).unwrap();
    assert_eq!((world.database().epoch_of(FIRST), world.database().epoch_of(SECOND)), (1, 2));
    world.pass(RENEWED);
    assert!(first.tenure().is_held() && second.tenure().is_held());
    for (disk, expected) in [(&first, b"one"), (&second, b"two")] {
        let mut bytes = [0; 3];
        disk.open("segments/1").unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, expected);
        assert_eq!(disk.list("segments").unwrap(), ["1"]);
    }
    // An id that both had would be one row of the table of files.
    second.create("segments/2").unwrap();
    first.create("segments/2").unwrap();
    assert_eq!(world.database().tables(), 4);
}

#[test]
fn shard_that_is_owned_is_taken_neither_by_another_node_nor_twice_by_its_own() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let first = one.take(FIRST).unwrap();
    assert!(is_owned(&other.take(FIRST)));
    assert!(is_owned(&one.take(FIRST)));
    assert!(matches!(one.take(ShardId(4)), Err(PgError::NoShard { shards: 4, .. })));
    world.pass(4 * TENURE);
    assert!(is_owned(&other.take(FIRST)));
    assert!(first.tenure().is_held());
    assert_eq!(world.database().epoch_of(FIRST), 1);
}

#[test]
fn shards_of_a_node_that_stands_still_are_taken_by_the_others_and_it_answers_for_none() {
    let world = world();
    let _inside = world.enter();
    let Two { one, one_power, other } = two(&world);
    let disks = [one.take(FIRST).unwrap(), one.take(SECOND).unwrap()];
    world.pass(RENEWED);
    one_power.stop();
    let (_first, took) = take_when_free(&world, &other, FIRST, Duration::from_secs(5));
    assert!(took > Duration::from_secs(1), "the tenure counted for nothing: {took:?}");
    assert!(disks.iter().all(|disk| !disk.tenure().is_held()), "a node that may not answer does");
    one_power.go_on();
    world.pass(RENEWED);
    // It has lost one of them, and goes on with the other.
    assert!(disks[0].tenure().over().is_some());
    assert!(disks[1].tenure().is_held());
    assert!(is_owned(&other.take(SECOND)));
    assert_eq!(one.map(0).unwrap().owner(FIRST).unwrap().id, "other");
}

#[test]
fn shard_that_is_handed_over_is_for_its_node_alone() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let (thief, _power) = world.join("thief").unwrap();
    let disk = one.take(FIRST).unwrap();
    disk.hand_over("other").unwrap();
    assert!(!disk.tenure().is_held(), "it answers for a shard that it has given away");
    assert!(is_owned(&thief.take(FIRST)));
    world.pass(RENEWED);
    assert_eq!(thief.map(0).unwrap().shard(FIRST).unwrap().wanted.as_deref(), Some("other"));
    assert!(is_owned(&thief.take(FIRST)));
    let taken = other.take(FIRST).unwrap();
    world.pass(RENEWED);
    let map = thief.map(0).unwrap();
    assert_eq!(map.owner(FIRST).unwrap().id, "other");
    assert_eq!(map.shard(FIRST).unwrap().wanted, None);
    assert!(taken.tenure().is_held());
    // What came too late is no hand-over.
    assert!(matches!(disk.hand_over("thief"), Err(PgError::Fenced { .. })));
    assert!(taken.tenure().is_held());
}

#[test]
fn shard_that_was_handed_over_may_be_taken_by_any_node_after_two_seconds() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let disk = one.take(FIRST).unwrap();
    disk.hand_over("other").unwrap();
    // Done twice it is done once: the two seconds do not begin again.
    world.pass(Duration::from_millis(500));
    disk.hand_over("other").unwrap();
    let (_taken, took) = take_when_free(&world, &one, FIRST, Duration::from_secs(3));
    assert!((1_300..1_700).contains(&took.as_millis()), "{took:?}");
    assert!(is_owned(&other.take(FIRST)));
}

#[test]
fn shard_that_was_handed_over_to_a_node_that_has_gone_may_be_taken_at_once() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let (gone, _power) = world.join("gone").unwrap();
    gone.leave();
    let disk = one.take(FIRST).unwrap();
    disk.hand_over("gone").unwrap();
    other.take(FIRST).unwrap();
}

#[test]
fn shard_whose_disk_was_dropped_is_given_up_while_its_node_lives() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let first = one.take(FIRST).unwrap();
    let second = one.take(SECOND).unwrap();
    drop(first);
    let (_first, took) = take_when_free(&world, &other, FIRST, Duration::from_secs(5));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(second.tenure().is_held());
    // Its own node may take one again at once.
    drop(second);
    let second = one.take(SECOND).unwrap();
    world.pass(2 * TENURE);
    assert!(second.tenure().is_held());
}

#[test]
fn node_whose_renewals_fail_says_so_and_has_gone_for_the_others() {
    let world = world();
    let _inside = world.enter();
    let Two { one, one_power, other } = two(&world);
    let _first = one.take(FIRST).unwrap();
    let seen = one.subscribe(0);
    world.pass(RENEWED);
    assert_eq!(seen.borrow().failing, None);
    world.database().restart(Duration::from_secs(2));
    world.pass(Duration::from_millis(1_500));
    assert!(seen.borrow().failing.is_some());
    world.pass(Duration::from_secs(2));
    assert_eq!(seen.borrow().failing, None);
    one_power.stop();
    world.pass(GONE);
    let map = other.map(0).unwrap();
    assert!(map.node("one").is_none(), "{map:?}");
    assert_eq!(map.owner(FIRST), None);
    assert_eq!(map.shard(FIRST).unwrap().node.as_deref(), Some("one"));
}

#[test]
fn rows_of_nodes_that_are_long_past_are_deleted() {
    let world = world();
    let _inside = world.enter();
    let (one, _power) = world.join("one").unwrap();
    for number in 0..5 {
        let (gone, power) = world.join(&format!("gone {number}")).unwrap();
        power.stop();
        drop(gone);
    }
    world.pass(Duration::from_secs(3_000));
    assert_eq!(world.database().node_rows(), 6);
    world.pass(Duration::from_secs(1_300));
    assert_eq!(world.database().node_rows(), 1);
    assert!(one.map(0).unwrap().node("one").is_some());
}

/// Whether a node may answer for a shard that another one has taken meanwhile, of two that it holds.
fn two_nodes_own_one_of_two_shards() -> bool {
    (1..=100).any(|seed| {
        let world = World::of_shards(seed, Rates::default(), ShardCount::new(2).unwrap());
        let _inside = world.enter();
        let Two { one, one_power, other } = two(&world);
        let disks = [one.take(FIRST).unwrap(), one.take(SECOND).unwrap()];
        world.pass(RENEWED);
        one_power.stop();
        world.pass(TENURE + Duration::from_millis(200));
        world.database().set_rates(Rates { latency_ms: 12, ..Rates::default() });
        tokio::spawn(async move {
            // While the other one takes a shard.
            tokio::time::sleep(Duration::from_millis(seed % 50)).await;
            one_power.go_on();
        });
        let taken = other.take(SECOND);
        world.pass(Duration::from_millis(30));
        taken.is_ok_and(|taken| taken.tenure().is_held() && disks[1].tenure().is_held())
    })
}

#[test]
fn renewal_of_two_shards_beside_the_take_over_of_one_is_safe_and_would_not_be_without_its_locks() {
    assert!(!two_nodes_own_one_of_two_shards());
    let _planted = Planted::RenewalUnlocked.plant();
    assert!(two_nodes_own_one_of_two_shards(), "the planted fault shows nothing");
}

#[test]
fn name_belongs_to_the_shard_that_claimed_it_first() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let (first, second) = (one.take(FIRST).unwrap(), other.take(SECOND).unwrap());
    let orders = key("orders");
    let both = world
        .wait(async { tokio::join!(first.claim_name(orders.clone()), second.claim_name(orders.clone())) });
    let has = both.0.unwrap();
    assert_eq!(has, both.1.unwrap(), "both say which shard has it");
    assert_eq!(world.wait(other.shard_of_name(orders.clone())).unwrap(), Some(has));
    let (owner, stranger) = if has == FIRST { (&first, &second) } else { (&second, &first) };
    assert_eq!(
        world.wait(owner.claim_name(orders.clone())).unwrap(),
        has,
        "claimed twice it is claimed once"
    );
    world.wait(stranger.release_name(orders.clone())).unwrap();
    assert_eq!(
        world.wait(one.shard_of_name(orders.clone())).unwrap(),
        Some(has),
        "it is not another's to release"
    );
    world.wait(owner.release_name(orders.clone())).unwrap();
    world.wait(owner.release_name(orders.clone())).unwrap();
    assert_eq!(world.wait(stranger.claim_name(orders)).unwrap(), stranger.shard());
}

#[test]
fn name_is_changed_unless_another_shard_has_the_new_one() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let (first, second) = (one.take(FIRST).unwrap(), other.take(SECOND).unwrap());
    world.wait(first.claim_name(key("a"))).unwrap();
    world.wait(second.claim_name(key("b"))).unwrap();
    assert_eq!(world.wait(first.change_name(key("a"), key("b"))).unwrap(), SECOND);
    for _twice in 0..2 {
        assert_eq!(world.wait(first.change_name(key("a"), key("c"))).unwrap(), FIRST);
    }
    assert_eq!(world.wait(first.change_name(key("c"), key("c"))).unwrap(), FIRST);
    let names = |shard| world.wait(one.names_of(shard, None)).unwrap();
    assert_eq!((names(FIRST), names(SECOND)), (vec![key("c")], vec![key("b")]));
    assert_eq!(world.wait(one.names_of(FIRST, Some(key("c")))).unwrap(), []);
}

#[test]
fn old_owner_writes_no_name() {
    let world = world();
    let _inside = world.enter();
    let Two { one, other, .. } = two(&world);
    let old = one.take(FIRST).unwrap();
    world.wait(old.claim_name(key("kept"))).unwrap();
    // For the database a minute has passed, so that the shard may be taken before its owner can know of it.
    world.database().set_clock_by(60_000);
    let new = other.take(FIRST).unwrap();
    assert!(old.tenure().is_held());
    let fenced = |named: Result<(), PgError>| matches!(named, Err(PgError::Fenced { epoch: 1, .. }));
    assert!(fenced(world.wait(old.claim_name(key("late"))).map(drop)));
    assert!(fenced(world.wait(old.release_name(key("kept")))));
    assert!(fenced(world.wait(old.change_name(key("kept"), key("late"))).map(drop)));
    assert_eq!(world.wait(other.names_of(FIRST, None)).unwrap(), [key("kept")]);
    assert_eq!(world.wait(new.claim_name(key("kept"))).unwrap(), FIRST);
}

/// Whether a release that its owner gave up, and that the database carries out late, frees a name that the owner has
/// claimed again meanwhile.
fn late_release_frees_a_newer_claim() -> bool {
    (1..=5).any(|seed| {
        let world = World::of_shards(seed, Rates::default(), ShardCount::new(4).unwrap());
        let _inside = world.enter();
        let (one, _power) = world.join("one").unwrap();
        let disk = one.take(FIRST).unwrap();
        world.pass(RENEWED);
        world.wait(disk.claim_name(key("orders"))).unwrap();
        // The release takes long, and nothing that is sent after it.
        let database = world.database().clone();
        database.set_rates(Rates { latency_ms: 60_000, ..Rates::default() });
        let (released, ()) = world.wait(async {
            tokio::join!(disk.release_name(key("orders")), async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                database.set_rates(Rates::default());
            })
        });
        let claimed = world.wait(disk.claim_name(key("orders")));
        // All four parts of the release have ended by then.
        world.pass(Duration::from_secs(4 * 60));
        let has = world.wait(one.shard_of_name(key("orders"))).unwrap();
        released.is_err() && claimed.is_ok() && has.is_none()
    })
}

#[test]
fn release_that_is_carried_out_late_frees_no_name_that_its_owner_has_claimed_again() {
    assert!(!late_release_frees_a_newer_claim());
    let _planted = Planted::ActsNotCounted.plant();
    assert!(late_release_frees_a_newer_claim(), "the planted fault shows nothing");
}
