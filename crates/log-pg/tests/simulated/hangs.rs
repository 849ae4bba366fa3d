//! Statements that hang while the server lives: for ever, unless a test says for how long. So each bound is shown by
//! itself, and by nothing else that would end the statement.

use std::sync::Arc;
use std::time::Duration;

use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{AtAppends, Fault, Hanging, Rates, World};
use kew_log_pg::{PgDisk, TENURE};
use kew_store_log::{AppendListener, BatchMark, Disk, DiskFile, Reached};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::found::{owner, put_a_document};

#[test]
fn append_that_hangs_holds_a_lane_up_that_was_cut_no_longer_than_a_tenure() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let next = world.database().counts().0 + 1;
    let fault_at = |first, fault| {
        let at_appends = Some(AtAppends { first, one_in: 1_000, fault });
        world.database().set_rates(Rates { at_appends, ..Rates::default() });
    };
    // The answer of the first append never comes; the connection of the second one is cut.
    fault_at(next, Fault::Hangs);
    put_a_document(&world, &mut node, &mut history);
    fault_at(next + 1, Fault::CutDuring);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, next + 1, "both appends are under way");
    world.database().set_rates(Rates::default());
    world.pass(TENURE + Duration::from_secs(1));
    assert_eq!(node.answered.lock().waiting, 0, "both are found and answered, or refused");
    let before = node.answered.lock().successes;
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_millis(500));
    assert!(node.answered.lock().successes > before, "the lane does not go on");
}

#[test]
fn append_that_hangs_is_given_up_while_other_connections_are_answered() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let first = world.database().counts().0 + 1;
    let at_appends = Some(AtAppends { first, one_in: 1_000, fault: Fault::Hangs });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, first, "the append is under way");
    world.pass(2 * TENURE + Duration::from_millis(1_500));
    let before = node.answered.lock().successes;
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_millis(500));
    assert!(node.answered.lock().successes > before, "the lane does not go on");
    assert!(node.tenure.is_held());
}

/// What a listener heard of new files: whether steps that wait for one are refused.
#[derive(Default)]
struct Heard(Mutex<Vec<bool>>);

impl AppendListener for Heard {
    fn reached(&self, _through: Reached) {}

    fn suspended(&self, _why: Option<String>) {}

    fn room_suspended(&self, why: Option<String>) {
        self.0.lock().push(why.is_some());
    }

    fn lost(&self, why: String) {
        panic!("the shard was lost: {why}");
    }
}

/// What a listener hears of new files while something is done that waits for statements that hang.
fn heard_while(hanging: Hanging, work: impl FnOnce(&PgDisk, &dyn DiskFile)) -> Vec<bool> {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    let file = disk.create("segments/file").unwrap();
    file.append(0, b"row", BatchMark { number: 1, must_sync: true }).unwrap();
    file.sync_data().unwrap();
    let heard = Arc::new(Heard::default());
    disk.appends().unwrap().report_to(Arc::clone(&heard) as _).unwrap();
    world.database().let_hang(hanging);
    work(&disk, &*file);
    world.settle();
    let heard = heard.0.lock();
    heard.clone()
}

#[test]
fn read_that_hangs_refuses_no_step_that_waits_for_a_new_file() {
    let heard = heard_while(Hanging::Reads, |_, file| {
        let begun = Instant::now();
        assert!(file.read_at(0, &mut [0; 3]).is_err(), "it hangs for ever");
        assert!(
            begun.elapsed() > TENURE + TENURE / 2,
            "it was given up before anyone looked: {:?}",
            begun.elapsed()
        );
    });
    assert!(!heard.contains(&true), "{heard:?}");
}

#[test]
fn file_that_cannot_be_made_refuses_steps_that_wait_for_it() {
    let heard = heard_while(Hanging::Changes, |disk, _| {
        assert!(disk.create("segments/next").is_err(), "it hangs for ever");
    });
    assert!(heard.contains(&true), "{heard:?}");
}

#[test]
fn change_of_a_file_that_hangs_is_made_in_another_session() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (disk, _power) = world.own("owner").unwrap();
    world.database().let_hang(Hanging::Changes);
    let database = world.database().clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        database.let_hang(Hanging::Nothing);
    });
    let begun = Instant::now();
    disk.create("segments/file").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(disk.list("segments").unwrap().contains(&"file".to_owned()));
}

#[test]
fn mending_of_a_row_that_takes_long_ends() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    world.database().set_rates(Rates { row_arrives_ms: 75_000, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    let newest = node.newest_batch();
    world.pass(Duration::from_secs(30));
    let why = node.tenure.refusal().unwrap_or_default();
    assert!(why.contains("did not answer within 10s; it has 20s now"), "{why}");
    world.pass(Duration::from_secs(270));
    assert!(node.disk.is_quiet(), "{:?}", node.tenure.refusal());
    assert_eq!(node.tenure.refusal(), None);
    assert!(node.answered.lock().promised >= newest || node.answered.lock().waiting == 0);
}

/// Whether a lane is mended that lost one of its two connections, where the database takes none beyond those there are.
fn is_mended_within_its_connections() -> bool {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let sent = world.database().counts().0;
    world.database().set_rates(Rates { latency_ms: 10, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, sent + 2, "both appends are under way, in two sessions");
    world.pass(Duration::from_secs(1));
    world.database().take_no_more_connections();
    let at_appends = Some(AtAppends { first: sent + 3, one_in: 1_000, fault: Fault::CutBefore });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, sent + 3);
    world.pass(Duration::from_secs(5));
    node.disk.is_quiet()
}

#[test]
fn sender_without_work_keeps_no_connection_that_mending_needs() {
    assert!(is_mended_within_its_connections());
    let _planted = Planted::IdleSessionsKept.plant();
    assert!(!is_mended_within_its_connections(), "the planted fault shows nothing");
}

/// Connections of an owner that has just made a file, before and after an append met a cut connection.
fn connections_around_a_cut() -> (u64, u64) {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    node.disk.create("segments/file").unwrap();
    world.pass(Duration::from_secs(1));
    let before = world.database().connections();
    let first = world.database().counts().0 + 1;
    let at_appends = Some(AtAppends { first, one_in: 1_000, fault: Fault::CutBefore });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_secs(1));
    assert!(node.disk.is_quiet(), "the lane is mended");
    (before, world.database().connections())
}

#[test]
fn connections_that_did_nothing_are_closed_when_another_one_is_cut() {
    let (before, after) = connections_around_a_cut();
    assert!(after < before, "{after} of {before} connections");
    let _planted = Planted::PoolSessionsKept.plant();
    let (before, after) = connections_around_a_cut();
    assert_eq!(after, before, "the planted fault shows nothing");
}

/// Seconds until a lane is mended whose mending waited for a statement that hangs, with a limit that had grown to
/// 160 s, when the database started anew.
fn seconds_until_mended_after_a_fail_over() -> u64 {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    world.database().set_rates(Rates { row_arrives_ms: 600_000, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    // Limits of 10, 20, 40 and 80 s are over.
    world.pass(Duration::from_secs(160));
    let why = node.tenure.refusal().unwrap_or_default();
    assert!(why.contains("it has 160s now"), "{why}");
    world.database().set_rates(Rates::default());
    world.database().restart(Duration::ZERO);
    (1..=200)
        .find(|_| {
            world.pass(Duration::from_secs(1));
            node.disk.is_quiet()
        })
        .unwrap_or(u64::MAX)
}

#[test]
fn mending_with_a_grown_limit_is_cut_short_by_a_connection_that_was_cut() {
    let seconds = seconds_until_mended_after_a_fail_over();
    assert!(seconds <= 5, "{seconds} s");
    let _planted = Planted::MendingGoesOn.plant();
    assert!(seconds_until_mended_after_a_fail_over() > 60, "the planted fault shows nothing");
}
