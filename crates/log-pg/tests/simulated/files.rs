//! Files on a simulated database: the laws of every disk, and what upkeep writes and removes while connections are cut.

use std::sync::Arc;
use std::time::Duration;

use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{Rates, World};
use kew_log_pg::{PgDisk, TENURE};
use kew_store_log::{BatchMark, Disk, DiskFile};

use crate::laws::Place;

/// A world that lives as long as the test program, with its clock on the thread of one test.
struct InWorld(&'static World);

impl InWorld {
    fn new() -> Self {
        let world: &'static World = Box::leak(Box::new(World::new(1, Rates::default())));
        // The thread of the test keeps it to its end.
        let _for_ever = Box::leak(Box::new(world.enter()));
        Self(world)
    }
}

impl Place for InWorld {
    fn open(&self) -> Arc<dyn Disk> {
        Arc::new(self.0.own("owner").unwrap().0)
    }
}

crate::laws::disk_law_tests!(InWorld::new());

/// An owner with a slice of many rows that wait behind one of another slice, over connections that were just cut.
fn with_a_slice_on_its_way(world: &World) -> (PgDisk, Arc<dyn DiskFile>) {
    let (disk, _power) = world.own("owner").unwrap();
    let (other, file) =
        (disk.create("checkpoints/other").unwrap(), disk.create("checkpoints/slice").unwrap());
    world.database().restart(Duration::ZERO);
    other.write_at(0, b"sent first").unwrap();
    for row in 0..30 {
        file.write_at(row * 4, b"rows").unwrap();
    }
    (disk, file)
}

/// Whether an owner loses its shard when it removes a file whose rows are just being inserted again.
fn removal_during_mending_ends_the_owner() -> bool {
    (0..40).any(|tens| {
        let world = World::new(1, Rates { latency_ms: 20, ..Rates::default() });
        let _inside = world.enter();
        let (disk, file) = with_a_slice_on_its_way(&world);
        world.pass(Duration::from_millis(tens * 10));
        drop(file);
        disk.remove("checkpoints/slice").unwrap();
        world.pass(Duration::from_secs(3));
        disk.tenure().over().is_some()
    })
}

/// Whether it is noticed that the database has lost a slice that was durable, while nothing is written.
fn loss_of_a_slice_is_noticed() -> bool {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    let file = disk.create("checkpoints/slice").unwrap();
    // It has renewed, and so has a connection that can be cut.
    world.pass(Duration::from_secs(1));
    let standby = world.database().photograph();
    file.write_at(0, b"bytes of a slice").unwrap();
    file.sync_data().unwrap();
    world.database().fail_over_to(standby);
    world.pass(TENURE);
    disk.tenure().over().is_some_and(|why| why.contains("has lost row"))
}

#[test]
fn file_that_is_removed_while_its_rows_are_inserted_again_ends_no_owner() {
    assert!(!removal_during_mending_ends_the_owner());
    let _planted = Planted::ForgetsWhileMending.plant();
    assert!(removal_during_mending_ends_the_owner(), "the planted fault shows nothing");
}

/// Seeds for what happens between a row and the next one.
const SEEDS: u64 = 200;

/// Seeds in which a file was synced that does not hold what was written to it: one row, and as many as `work` writes.
/// Behind a pooler in transaction mode no connection shows that the server was started anew, or failed over.
fn lost_behind_a_pooler(work: impl Fn(&World, &dyn DiskFile, u64) -> usize) -> Vec<u64> {
    let loses = |seed: &u64| {
        let world = World::new(*seed, Rates { latency_ms: 20, ..Rates::default() });
        let _inside = world.enter();
        world.database().pool_connections();
        let (disk, _power) = world.own("owner").unwrap();
        let file = disk.create("segments/file").unwrap();
        world.pass(Duration::from_secs(1));
        file.append(0, b"old", BatchMark { number: 1, must_sync: false }).unwrap();
        let written = work(&world, &*file, *seed);
        let synced = file.sync_data();
        let rows = world.database().rows_of(disk.tenure().epoch());
        synced.is_ok() && disk.tenure().over().is_none() && rows < 1 + written
    };
    (1..=SEEDS).filter(loses).collect()
}

fn append_a_second_row(file: &dyn DiskFile) {
    file.append(3, b"new", BatchMark { number: 2, must_sync: true }).unwrap();
}

/// The server is started anew between two rows.
fn starts_anew(world: &World, file: &dyn DiskFile, seed: u64) -> usize {
    world.pass(Duration::from_millis(seed));
    world.database().restart(Duration::ZERO);
    append_a_second_row(file);
    1
}

/// The same before several rows, of which the last is synced.
fn starts_anew_before_several(world: &World, file: &dyn DiskFile, seed: u64) -> usize {
    world.pass(Duration::from_millis(seed));
    world.database().restart(Duration::ZERO);
    for row in 1..5 {
        let mark = BatchMark { number: row + 1, must_sync: row == 4 };
        file.append(row * 3, b"new", mark).unwrap();
        world.pass(Duration::from_millis(seed % 100));
    }
    4
}

/// The same behind two rows that were under way beside each other: the one that ended first may have been committed
/// last, and so be the one that is lost.
fn starts_anew_behind_two_rows(world: &World, file: &dyn DiskFile, _seed: u64) -> usize {
    let append =
        |row: u64, must_sync| file.append(row * 3, b"new", BatchMark { number: row + 1, must_sync }).unwrap();
    append(1, false);
    append(2, false);
    world.pass(Duration::from_millis(100));
    world.database().restart(Duration::ZERO);
    append(3, true);
    3
}

/// The same with what upkeep writes, of which nothing is synced before the end.
fn starts_anew_while_upkeep_writes(world: &World, file: &dyn DiskFile, seed: u64) -> usize {
    world.pass(Duration::from_millis(seed));
    for row in 1..7 {
        if row == 3 {
            world.database().restart(Duration::ZERO);
        }
        file.write_at(row * 3, b"new").unwrap();
        world.pass(Duration::from_millis(seed % 100));
    }
    6
}

/// The server is failed over while the lane mends, as a statement was under way when the server was started anew.
fn fails_over_while_mending(world: &World, file: &dyn DiskFile, seed: u64) -> usize {
    append_a_second_row(file);
    world.pass(Duration::from_millis(seed % 50));
    world.database().restart(Duration::ZERO);
    world.pass(Duration::from_millis(2 * seed));
    world.database().fail_over(Duration::ZERO);
    1
}

#[test]
fn row_that_a_server_behind_a_pooler_lost_is_missed_by_the_next_one() {
    for work in [starts_anew, starts_anew_before_several, starts_anew_while_upkeep_writes] {
        assert_eq!(lost_behind_a_pooler(work), Vec::<u64>::new());
        let _planted = Planted::RestsOnNothing.plant();
        assert_ne!(lost_behind_a_pooler(work), Vec::<u64>::new(), "the planted fault shows nothing");
    }
}

#[test]
fn row_beside_the_newest_that_a_server_behind_a_pooler_lost_is_missed_by_the_next_one() {
    assert_eq!(lost_behind_a_pooler(starts_anew_behind_two_rows), Vec::<u64>::new());
    let _planted = Planted::RestsOnTheNewest.plant();
    assert_ne!(
        lost_behind_a_pooler(starts_anew_behind_two_rows),
        Vec::<u64>::new(),
        "the planted fault shows nothing"
    );
}

#[test]
fn rows_that_a_server_behind_a_pooler_lost_while_they_were_mended_are_inserted_again() {
    assert_eq!(lost_behind_a_pooler(fails_over_while_mending), Vec::<u64>::new());
    let _planted = Planted::MendsUnseen.plant();
    let lost = lost_behind_a_pooler(fails_over_while_mending);
    assert_ne!(lost, Vec::<u64>::new(), "the planted fault shows nothing");
}

#[test]
fn many_rows_are_mended_where_a_quarter_of_all_statements_fail() {
    const ROWS: u64 = 100;
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    let file = disk.create("checkpoints/slice").unwrap();
    let epoch = disk.tenure().epoch();
    assert_eq!(world.database().rows_of(epoch), 0);
    // A quarter of all faults are cut connections, and the others are switched off.
    world.database().set_rates(Rates { per_mille: 1_000, ..Rates::default() });
    world.database().restart(Duration::ZERO);
    for row in 0..ROWS {
        file.write_at(row * 4, b"rows").unwrap();
    }
    world.pass(Duration::from_secs(60));
    assert_eq!(disk.tenure().over(), None);
    assert_eq!(world.database().rows_of(epoch) as u64, ROWS, "each mending begins anew");
    file.sync_data().unwrap();
}

#[test]
fn slice_that_the_database_lost_is_noticed_without_a_write() {
    assert!(loss_of_a_slice_is_noticed());
    let _planted = Planted::SlicesNotLookedAt.plant();
    assert!(!loss_of_a_slice_is_noticed(), "the planted fault shows nothing");
}

#[test]
fn length_and_bytes_of_a_file_that_the_database_lost_are_not_taken_for_stored() {
    for name in ["FILE", "checkpoints/slice"] {
        let world = World::new(1, Rates::default());
        let _inside = world.enter();
        let (disk, _power) = world.own("owner").unwrap();
        let standby = world.database().photograph();
        let file = disk.create(name).unwrap();
        file.write_at(0, b"bytes").unwrap();
        world.database().fail_over_to(standby);
        assert!(file.sync_data().is_err(), "{name}: it is stored nowhere");
        assert!(file.sync_data().is_err(), "{name}: and still is not");
        assert!(disk.rename(name, "OTHER").is_err(), "{name}");
    }
}

#[test]
fn length_that_could_not_be_stored_is_stored_by_the_next_sync() {
    for (name, length) in [("FILE", 5), ("checkpoints/slice", 9)] {
        let world = World::new(1, Rates::default());
        let _inside = world.enter();
        let (disk, _power) = world.own("owner").unwrap();
        let file = disk.create(name).unwrap();
        file.write_at(0, b"bytes").unwrap();
        if length > 5 {
            file.sync_data().unwrap();
            file.allocate(length).unwrap();
        }
        world.database().restart(Duration::from_secs(300));
        assert!(file.sync_data().is_err(), "{name}: the database is away for longer than that is tried");
        world.pass(Duration::from_secs(300));
        file.sync_data().unwrap();
        drop((file, disk));
        world.pass(TENURE + TENURE);
        let (next, _power) = world.own("next").unwrap();
        assert_eq!(next.open(name).unwrap().len().unwrap(), length, "{name}");
    }
}

#[test]
fn tables_that_somebody_reads_hold_up_neither_removals_nor_a_take_over_and_are_dropped_later() {
    const FILES: usize = 20;
    let world = World::new(1, Rates { latency_ms: 1, ..Rates::default() });
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    let names: Vec<_> = (0..FILES).map(|number| format!("segments/{number}")).collect();
    names.iter().for_each(|name| drop(disk.create(name).unwrap()));
    world.database().set_read(true);
    let begun = tokio::time::Instant::now();
    for name in &names {
        disk.remove(name).unwrap();
        drop(disk.create("segments/new").unwrap());
        disk.rename("segments/new", name).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "removals took {:?}", begun.elapsed());
    world.pass(Duration::from_secs(60));
    assert_eq!(disk.undropped().unwrap().tables, FILES);
    assert!(disk.undropped().unwrap().lasts > Duration::from_secs(50));
    disk.give_up();
    let begun = tokio::time::Instant::now();
    let (next, _power) = world.own("next").unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "the take-over took {:?}", begun.elapsed());
    assert_eq!(world.database().tables(), 2 * FILES);
    world.database().set_read(false);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.database().tables(), FILES);
    assert!(next.undropped().is_none());
}
