//! Small rows wait for the one under way, and large ones do not: a batch that waits is sent in the end, though the
//! store is not asked again.

use std::time::Duration;

use bytes::Bytes;
use kew_core::command::PutDocuments;
use kew_core::{AccountId, Command, DocumentKey};
use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{AtAppends, Fault, Rates, World};
use kew_store::Store;

use crate::found::{owner, put_a_document};
use crate::history::History;
use crate::node::Node;

/// Bytes of a row that is sent beside another; those of a small document are fewer.
const LARGE_ROW: u64 = 1_000;
/// Beside a row that takes this long any other is sent.
const SLOW_ROW: Duration = Duration::from_millis(20);
/// A part of a statement takes at most this long.
const LATENCY_MS: u64 = 10;
/// A statement takes at most this long: it has four parts, and waits up to 1 ms for a lock.
const STATEMENT_MAX: Duration = Duration::from_millis(4 * LATENCY_MS + 1);

/// A world with an owner that sends rows of [`LARGE_ROW`] beside others.
fn world() -> World {
    World::new(1, Rates::default()).with_large_rows_from(LARGE_ROW)
}

/// From now on statements take a while, and the next append meets a fault, if one is given. Answers the number of
/// appends so far.
fn next_append(world: &World, fault: Option<Fault>) -> u64 {
    let sent = appends(world);
    let at_appends = fault.map(|fault| AtAppends { first: sent + 1, one_in: 1_000, fault });
    world.database().set_rates(Rates { latency_ms: LATENCY_MS, at_appends, ..Rates::default() });
    sent
}

fn appends(world: &World) -> u64 {
    world.database().counts().0
}

fn put_bytes(world: &World, node: &mut Node, history: &mut History, bytes: usize) {
    let documents = vec![(DocumentKey::new("sqs", "tags"), Some(Bytes::from(vec![b'x'; bytes])))];
    node.step(
        world,
        history,
        Command::PutDocuments(PutDocuments { account: AccountId(0), if_is: None, documents }),
    );
    node.store.commit();
    world.settle();
}

#[test]
fn small_row_waits_for_the_one_under_way_and_is_sent_when_that_has_ended() {
    let world = world();
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let before = next_append(&world, None);
    put_a_document(&world, &mut node, &mut history);
    for _ in 0..3 {
        put_a_document(&world, &mut node, &mut history);
    }
    assert_eq!(appends(&world), before + 1, "the others wait for the first one");
    world.pass(STATEMENT_MAX);
    assert_eq!(appends(&world), before + 2, "they are sent together");
    world.pass(STATEMENT_MAX);
    assert_eq!(node.answered.lock().waiting, 0);
}

#[test]
fn small_row_is_sent_beside_one_that_is_slow() {
    let world = world();
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let before = next_append(&world, Some(Fault::Hangs));
    put_a_document(&world, &mut node, &mut history);
    world.pass(SLOW_ROW / 2);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(appends(&world), before + 1, "the first one is not slow yet");
    world.pass(SLOW_ROW / 2);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(appends(&world), before + 2);
}

#[test]
fn large_row_is_sent_beside_another_at_once() {
    let world = world();
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let before = next_append(&world, None);
    put_a_document(&world, &mut node, &mut history);
    let large = usize::try_from(LARGE_ROW).unwrap();
    put_bytes(&world, &mut node, &mut history, large);
    assert_eq!(appends(&world), before + 2);
    put_bytes(&world, &mut node, &mut history, large);
    assert_eq!(appends(&world), before + 2, "there are two sessions");
}

/// Whether a batch is sent that waits for one of two rows under way, when the newer of them has ended: there is no
/// progress then, as the older one hangs.
fn is_sent_without_progress() -> bool {
    let world = world();
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let before = next_append(&world, Some(Fault::Hangs));
    put_a_document(&world, &mut node, &mut history);
    world.pass(SLOW_ROW);
    put_a_document(&world, &mut node, &mut history);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(appends(&world), before + 2, "there are two sessions");
    world.pass(STATEMENT_MAX);
    appends(&world) == before + 3
}

/// Whether a batch is sent that came while the lane was mended, with nothing under way.
fn is_sent_after_a_mending() -> bool {
    let world = world();
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    // It has renewed, and so has a connection for that: when it is cut the lane looks at what the database has.
    world.pass(Duration::from_secs(1));
    let before = next_append(&world, None);
    world.database().restart(Duration::ZERO);
    let mut waited = 0;
    while node.disk.is_quiet() {
        world.pass(Duration::from_millis(1));
        waited += 1;
        assert!(waited < 5_000, "the lane was not asked to look");
    }
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(appends(&world), before, "nothing is sent while the lane is mended");
    world.pass(Duration::from_secs(1));
    appends(&world) == before + 1
}

#[test]
fn batch_that_waits_is_sent_when_an_append_has_ended_also_without_progress() {
    assert!(is_sent_without_progress());
    let _planted = Planted::NoNewsOfAnEnd.plant();
    assert!(!is_sent_without_progress(), "the planted fault shows nothing");
}

#[test]
fn batch_that_waits_is_sent_after_a_mending() {
    assert!(is_sent_after_a_mending());
    let _planted = Planted::NoNewsOfMending.plant();
    assert!(!is_sent_after_a_mending(), "the planted fault shows nothing");
}
