//! What a new owner knows of the database's clock. A lease of the owner before it ends early by as much as its clock is
//! ahead.

use std::time::Duration;

use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{Rates, SimDatabase, World};
use kew_log_pg::{PgDisk, TENURE};

/// A new owner's clock is ahead by at most this many milliseconds.
const AHEAD_MAX: i64 = 10;

/// From now on a part of a statement takes at most this many milliseconds.
fn takes_up_to(database: &SimDatabase, latency_ms: u64) {
    database.set_rates(Rates { latency_ms, ..Rates::default() });
}

/// Milliseconds that the clock of an owner is ahead of the database's.
fn ahead(world: &World, disk: &PgDisk) -> i64 {
    i64::try_from(disk.tenure().now_ms()).unwrap() - world.database().clock()
}

/// Milliseconds by which the clock of a new owner is ahead at most, where the first looks at the database's are slow.
fn most_ahead_after_slow_looks() -> i64 {
    let ahead_of = |seed| {
        let world = World::new(seed, Rates::default());
        let _inside = world.enter();
        takes_up_to(world.database(), 200);
        let database = world.database().clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            takes_up_to(&database, 2);
        });
        let (disk, _power) = world.own("next").unwrap();
        let ahead = ahead(&world, &disk);
        assert!(ahead >= 0, "seed {seed}: the owner's clock is behind, so leases of its own would end early");
        ahead
    };
    (1..=20).map(ahead_of).max().unwrap()
}

#[test]
fn new_owner_whose_first_looks_are_slow_looks_until_it_knows_the_clock() {
    let ahead = most_ahead_after_slow_looks();
    assert!(ahead <= AHEAD_MAX, "a new owner's clock is {ahead} ms ahead");
    let _planted = Planted::SlowLooksDo.plant();
    assert!(most_ahead_after_slow_looks() > AHEAD_MAX, "the planted fault shows nothing");
}

#[test]
fn time_that_the_test_itself_takes_is_none_in_the_world() {
    let world = World::new(1, Rates::default());
    let (disk, _power) = {
        let _inside = world.enter();
        world.own("owner").unwrap()
    };
    let before = disk.tenure().now_ms();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(disk.tenure().now_ms(), before);
}

#[test]
fn look_at_the_clock_that_fails_costs_a_new_owner_neither_the_shard_nor_time() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    takes_up_to(world.database(), 4);
    world.database().cut_looks_at_clock(3);
    let begun = tokio::time::Instant::now();
    let (disk, _power) = world.own("owner").unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    assert_eq!(disk.tenure().epoch(), 1);
}

#[test]
fn database_that_answers_no_connection_holds_a_new_owner_up_no_longer_than_its_looks_at_the_clock_may_take() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    takes_up_to(world.database(), 50);
    world.database().cut_looks_at_clock(1_000);
    let database = world.database().clone();
    tokio::spawn(async move {
        // The shard is being taken by then.
        tokio::time::sleep(Duration::from_millis(2)).await;
        database.set_silent(true);
    });
    let begun = tokio::time::Instant::now();
    let _owned = world.own("owner");
    assert_eq!(world.database().epoch(), 1, "the shard was taken");
    assert!(begun.elapsed() < TENURE, "{:?}", begun.elapsed());
}

#[test]
fn machine_that_was_suspended_for_longer_than_its_tenure_answers_nothing_when_it_wakes_up() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (disk, power) = world.own("owner").unwrap();
    world.pass(TENURE);
    assert!(disk.tenure().is_held());
    let before = disk.tenure().now_ms();
    world.database().set_clock_by(3_000);
    power.suspend(Duration::from_secs(3));
    assert!(!disk.tenure().is_held(), "another node may own the shard by now");
    assert!(disk.tenure().now_ms() >= before + 3_000, "the time it was suspended has passed");
    world.pass(TENURE);
    assert!(disk.tenure().is_held(), "no other node has taken the shard");
}

#[test]
fn node_that_took_the_shard_and_did_not_hear_of_it_takes_it_again_at_once() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    // None of the looks in the time there is for them.
    world.database().cut_looks_at_clock(1_000);
    takes_up_to(world.database(), 1_500);
    assert!(world.own("owner").is_err(), "the clock is not known well enough to serve");
    world.database().cut_looks_at_clock(0);
    takes_up_to(world.database(), 1);
    let (disk, _power) = world.own("owner").unwrap();
    assert!(disk.tenure().is_held());
    assert!(world.own("another").is_err(), "for others the shard is owned");
}

#[test]
fn clock_of_an_owner_follows_a_database_whose_clock_is_another_one() {
    let world = World::new(1, Rates { latency_ms: 1, ..Rates::default() });
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    for leap in [100, -100, 60_000, -60_000] {
        world.database().set_clock_by(leap);
        world.pass(TENURE);
        let ahead = ahead(&world, &disk);
        assert!(ahead.abs() <= AHEAD_MAX, "after a leap of {leap} ms the owner's clock is {ahead} ms ahead");
        assert!(disk.tenure().is_held(), "a leap of {leap} ms ended the tenure");
    }
}

/// How long a node that has gone may keep its shards, where the database's clock was set back.
const TAKEN_WITHIN: Duration = Duration::from_secs(4);

/// A world whose owner has gone, with the database's clock set back by five minutes.
fn owner_gone_and_clock_set_back(world: &World) -> PgDisk {
    let (disk, power) = world.own("owner").unwrap();
    world.pass(TENURE);
    power.stop();
    world.database().set_clock_by(-300_000);
    disk
}

#[test]
fn node_that_tries_to_take_a_shard_gets_it_in_time_where_the_databases_clock_was_set_back() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let gone = owner_gone_and_clock_set_back(&world);
    let begun = tokio::time::Instant::now();
    while world.own("successor").is_err() {
        assert!(begun.elapsed() < TAKEN_WITHIN, "{:?}", begun.elapsed());
        world.pass(Duration::from_millis(100));
    }
    assert!(!gone.tenure().is_held(), "two nodes answer for the shard");
}

#[test]
fn members_see_that_a_node_has_gone_where_the_databases_clock_was_set_back() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (member, _power) = world.join("member").unwrap();
    let _gone = owner_gone_and_clock_set_back(&world);
    world.pass(TAKEN_WITHIN);
    let map = member.map(0).unwrap();
    assert_eq!(map.nodes.len(), 1, "the one that has gone is listed");
    assert_eq!(map.without_owner().count(), 1);
}

#[test]
fn owner_that_lives_keeps_its_shard_where_the_databases_clock_was_set_back_before_others_that_want_it() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (_member, _power) = world.join("member").unwrap();
    let (disk, _power) = world.own("owner").unwrap();
    for _ in 0..3 {
        world.database().set_clock_by(-60_000);
        for _ in 0..40 {
            assert!(world.own("another").is_err(), "the shard was taken from an owner that lives");
            assert!(disk.tenure().is_held());
            world.pass(Duration::from_millis(100));
        }
    }
}
