//! The histories are tested: with a fault planted in the log they complain.

use std::fmt::Debug;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_core::command::PutDocuments;
use kew_core::{AccountId, Command, DocumentKey, Timestamp};
use kew_log_pg::planted::Planted;
use kew_log_pg::simulated::{AtAppends, Fault, Rates, World};
use kew_log_pg::{PgDisk, TENURE};
use kew_store::Store;
use kew_store_log::planted::Planted as OfStore;

use crate::history::History;
use crate::node::Node;
use crate::play::{Plan, play};

/// A planted fault is found by then.
const HISTORIES_TO_FIND: u64 = 2_000;

/// Plays histories with a planted fault until one complains. They begin with `near`, the one that found the fault when
/// this line was written; those before it come last. With `KEW_LONG=1` they begin with the first.
fn finds<P: Copy + Debug, W>(planted: P, plant: impl FnOnce(P) -> W, near: u64) {
    let begun = Instant::now();
    let planting = plant(planted);
    let mut found = None;
    let first = if super::is_long() { 1 } else { near };
    for seed in (first..=HISTORIES_TO_FIND).chain(1..first) {
        if let Err(complaint) = play(Plan::random(seed, super::COMMANDS)) {
            found = Some((seed, complaint));
            break;
        }
    }
    drop(planting);
    let seconds = begun.elapsed().as_secs_f64();
    let (seed, complaint) = found.unwrap_or_else(|| panic!("{planted:?} was not found in {seconds:.1} s"));
    let first: String = complaint.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(200).collect();
    println!("{planted:?} found by seed {seed} in {seconds:.1} s: {first}");
}

/// An owner that has made its queues.
pub fn owner(world: &World) -> (Node, History) {
    let owned = world.own("owner").unwrap();
    let mut node = Node::open(world, 0, owned).unwrap();
    let mut history = History::new(1, Timestamp(1_000_000));
    for command in history.beginning(true) {
        node.step(world, &mut history, command);
        node.store.commit();
        world.pass(Duration::from_millis(50));
    }
    assert!(node.answered.lock().promised > 0);
    (node, history)
}

/// A change that is on its way to the database.
pub fn put_a_document(world: &World, node: &mut Node, history: &mut History) {
    let documents = vec![(DocumentKey::new("sqs", "tags"), Some(Bytes::from_static(b"late")))];
    node.step(
        world,
        history,
        Command::PutDocuments(PutDocuments { account: AccountId(0), if_is: None, documents }),
    );
    node.store.commit();
    world.settle();
}

/// Whether a row lands that an owner, stopped while it was about to mend, inserts after another has taken over.
fn late_row_lands() -> bool {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let next = world.database().counts().0 + 1;
    let at_appends = Some(AtAppends { first: next, one_in: 1, fault: Fault::CutBefore });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, next, "the append was sent");
    node.power.stop();
    world.database().set_rates(Rates::default());
    world.pass(TENURE + TENURE);
    let next = world.own("next").unwrap();
    let rows = world.database().rows_of(node.tenure.epoch());
    node.power.go_on();
    world.pass(TENURE);
    drop(next);
    world.database().rows_of(node.tenure.epoch()) > rows
}

/// Whether an answer still waits whose append ended while the tenure had, and that was renewed.
fn answer_is_forgotten() -> bool {
    let world = World::new(1, Rates { latency_ms: 5, ..Rates::default() });
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(node.answered.lock().waiting, 1);
    node.power.stop();
    world.pass(TENURE + TENURE);
    node.power.go_on();
    world.pass(TENURE);
    assert!(node.tenure.is_held(), "no other node has taken the shard");
    node.answered.lock().waiting > 0
}

/// Number of answers that wait while the first of two appends takes seconds and the second has ended.
fn answers_behind_a_slow_append() -> u64 {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let next = world.database().counts().0 + 1;
    let at_appends = Some(AtAppends { first: next, one_in: 1_000, fault: Fault::Slow });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, next + 1, "both appends are under way");
    world.pass(Duration::from_millis(100));
    node.answered.lock().waiting
}

/// Number of answers that wait for an append that their event loop was to hand over, before and after that has ended.
fn answers_when_the_event_loop_ends() -> (u64, u64) {
    let world = World::new(1, Rates { latency_ms: 5, ..Rates::default() }).with_large_rows_from(1 << 20);
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    node.begin_event_loop();
    put_a_document(&world, &mut node, &mut history);
    put_a_document(&world, &mut node, &mut history);
    // The first append ends and rings; the event loop takes no turn any more.
    world.pass(Duration::from_millis(100));
    let before = node.answered.lock().waiting;
    node.end_event_loop();
    world.pass(Duration::from_millis(100));
    let waiting = node.answered.lock().waiting;
    (before, waiting)
}

/// Whether a change is acknowledged and then not found, after a fail-over to a standby that had not received a change
/// before it. A pooler does not show that a connection came to another server.
fn acknowledged_behind_a_loss_is_lost(is_pooled: bool) -> bool {
    let world = World::new(1, Rates { latency_ms: 1, ..Rates::default() });
    let _inside = world.enter();
    if is_pooled {
        world.database().pool_connections();
    }
    let (mut node, mut history) = owner(&world);
    let standby = world.database().photograph();
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_millis(100));
    let before = node.answered.lock().successes;
    world.database().fail_over_to(standby);
    for _ in 0..20 {
        put_a_document(&world, &mut node, &mut history);
        world.pass(Duration::from_millis(100));
    }
    let acknowledged = node.answered.lock().successes > before;
    let newest = node.newest_batch();
    drop(node);
    world.pass(TENURE + TENURE);
    let next = Node::open(&world, 1, world.own("next").unwrap());
    // With a gap in its journal it may not open at all.
    let found = next.map_or(0, |next| next.store.log().stats().written_through.0);
    acknowledged && found < newest
}

/// Whether an owner may still answer when another node has taken the shard, where the database's clock goes fastest.
fn owner_answers_beside_its_successor() -> bool {
    (1..=40).any(|seed| {
        let world = World::new(seed, Rates { drift: 20, ..Rates::default() });
        let _inside = world.enter();
        let (node, _) = owner(&world);
        node.power.stop();
        loop {
            world.pass(Duration::from_millis(1));
            if let Ok(_taken) = world.own("next") {
                return node.tenure.is_held();
            }
        }
    })
}

/// Whether an answer that was ready before the node was stopped is given out when it goes on beside its successor.
fn ready_answer_outlives_the_tenure(command: &Command) -> bool {
    let world = World::new(1, Rates { latency_ms: 1, ..Rates::default() });
    let _inside = world.enter();
    let (node, history) = owner(&world);
    let mut answer = std::pin::pin!(node.store.step(history.now, command));
    node.store.commit();
    let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "it waits for its batch");
    world.pass(Duration::from_millis(100));
    node.power.stop();
    world.pass(TENURE + TENURE);
    let _next = world.own("next").unwrap();
    node.power.go_on();
    matches!(poll(), Poll::Ready(Ok(_)))
}

/// Whether a row of the owner before lands behind a take-over: its insert was under way.
fn row_lands_behind_a_take_over() -> bool {
    (1..=40).any(|seed| {
        let world = World::new(seed, Rates::default());
        let _inside = world.enter();
        let (mut node, mut history) = owner(&world);
        let next = world.database().counts().0 + 1;
        // Each seed is slow at another place: before the insert, within it, or behind it.
        let at_appends = Some(AtAppends { first: next, one_in: 1_000, fault: Fault::Slow });
        world.database().set_rates(Rates { at_appends, ..Rates::default() });
        put_a_document(&world, &mut node, &mut history);
        node.power.stop();
        let _next = taken_when_free(&world);
        let rows = world.database().rows_of(node.tenure.epoch());
        world.pass(Duration::from_secs(8));
        world.database().rows_of(node.tenure.epoch()) > rows
    })
}

fn taken_when_free(world: &World) -> PgDisk {
    for _ in 0..10_000 {
        if let Ok((disk, _power)) = world.own("next") {
            return disk;
        }
        world.pass(Duration::from_millis(1));
    }
    panic!("the shard was not taken within ten seconds");
}

/// Whether two nodes may answer at once, of which the older one renews while the other takes its shard over.
fn two_nodes_own_the_shard() -> bool {
    (1..=100).any(|seed| {
        let world = World::new(seed, Rates::default());
        let _inside = world.enter();
        let (node, _) = owner(&world);
        node.power.stop();
        world.pass(TENURE + Duration::from_millis(200));
        world.database().set_rates(Rates { latency_ms: 12, ..Rates::default() });
        let power = node.power.clone();
        tokio::spawn(async move {
            // While the other one takes the shard.
            tokio::time::sleep(Duration::from_millis(seed % 50)).await;
            power.go_on();
        });
        let Ok((next, _power)) = world.own("next") else { return false };
        next.tenure().is_held() && node.tenure.is_held()
    })
}

/// Whether a shard is owned that was given up while a renewal was under way.
fn renewal_brings_back_what_was_given_up() -> bool {
    (1..=40).any(|seed| {
        let world = World::new(seed, Rates::default());
        let _inside = world.enter();
        let (disk, _power) = world.own("owner").unwrap();
        world.database().set_rates(Rates { latency_ms: 400, ..Rates::default() });
        // A renewal is on its way.
        world.pass(Duration::from_millis(510 + seed));
        disk.give_up();
        world.database().set_rates(Rates::default());
        world.pass(Duration::from_millis(500));
        matches!(world.own("next"), Err(kew_log_pg::PgError::Owned { .. }))
    })
}

#[test]
fn giving_up_that_a_late_renewal_undoes_is_found() {
    assert!(!renewal_brings_back_what_was_given_up());
    let _planted = Planted::GivingUpUndone.plant();
    assert!(renewal_brings_back_what_was_given_up(), "the planted fault shows nothing");
}

#[test]
fn take_over_that_does_not_wait_is_found() {
    assert!(!row_lands_behind_a_take_over());
    let _planted = Planted::TakeOverDoesNotWait.plant();
    assert!(row_lands_behind_a_take_over(), "the planted fault shows nothing");
}

#[test]
fn renewal_beside_a_take_over_is_found() {
    assert!(!two_nodes_own_the_shard());
    let _planted = Planted::RenewalUnlocked.plant();
    assert!(two_nodes_own_the_shard(), "the planted fault shows nothing");
}

#[test]
fn last_durable_row_that_is_not_looked_at_is_found() {
    assert!(!acknowledged_behind_a_loss_is_lost(false));
    let _planted = Planted::LastDurableNotLookedAt.plant();
    assert!(acknowledged_behind_a_loss_is_lost(false), "the planted fault shows nothing");
}

#[test]
fn row_that_rests_on_nothing_is_found_behind_a_pooler() {
    assert!(!acknowledged_behind_a_loss_is_lost(true));
    let _planted = Planted::RestsOnNothing.plant();
    assert!(acknowledged_behind_a_loss_is_lost(true), "the planted fault shows nothing");
}

#[test]
fn tenure_without_a_margin_is_found() {
    assert!(!owner_answers_beside_its_successor());
    let _planted = Planted::NoMargin.plant();
    assert!(owner_answers_beside_its_successor(), "the planted fault shows nothing");
}

#[test]
fn answer_that_was_ready_before_the_end_of_the_tenure_is_found() {
    let documents = vec![(DocumentKey::new("sqs", "tags"), Some(Bytes::from_static(b"late")))];
    let command = Command::PutDocuments(PutDocuments { account: AccountId(0), if_is: None, documents });
    assert!(!ready_answer_outlives_the_tenure(&command));
    let _planted = Planted::AnswersUnchecked.plant();
    assert!(ready_answer_outlives_the_tenure(&command), "the planted fault shows nothing");
}

#[test]
fn progress_across_a_gap_is_found() {
    assert_eq!(answers_behind_a_slow_append(), 2);
    let _planted = Planted::ProgressAcrossGap.plant();
    assert!(answers_behind_a_slow_append() < 2, "the planted fault shows nothing");
}

#[test]
fn mending_without_the_epoch_is_found() {
    assert!(!late_row_lands());
    let _planted = Planted::MendsUnfenced.plant();
    assert!(late_row_lands(), "the planted fault shows nothing");
}

#[test]
fn progress_that_is_forgotten_is_found() {
    assert!(!answer_is_forgotten());
    let _planted = Planted::ProgressForgotten.plant();
    assert!(answer_is_forgotten(), "the planted fault shows nothing");
}

/// Makes a test of each fault and the history to begin with.
macro_rules! found {
    ($($name:ident: $planted:ident near $near:literal,)+) => {
        $(
            #[test]
            fn $name() {
                finds(Planted::$planted, Planted::plant, $near);
            }
        )+
    };
}

found! {
    mending_without_a_barrier_is_found: NoBarrier near 192,
    tenure_by_a_clock_that_can_be_set_is_found: WallClock near 1,
    answer_before_its_frame_is_durable_is_found: AnswerBeforeFrame near 243,
    read_without_a_tenure_is_found: ReadsWithoutTenure near 1,
    take_over_in_the_same_epoch_is_found: EpochNotRaised near 1,
    tenure_counted_from_the_answer_is_found: TenureFromAnswer near 819,
    progress_after_the_tenure_is_found: ProgressAfterTenure near 7,
    append_that_is_timed_out_is_found: AppendTimesOut near 105,
    take_over_that_is_not_synced_is_found: TenureUnsynced near 445,
    renewal_that_is_undone_by_an_older_one_is_found: RenewalUndone near 323,
    synced_row_that_waits_for_ever_is_found: NoCoveringSync near 975,
}

#[test]
fn event_loop_that_does_not_hear_of_an_end_is_found() {
    finds(OfStore::LoopNotRung, OfStore::plant, 41);
}

#[test]
fn batch_that_is_left_by_an_event_loop_that_ends_is_found() {
    assert_eq!(answers_when_the_event_loop_ends(), (1, 0));
    let _planted = OfStore::LeftByTheLoop.plant();
    assert_eq!(answers_when_the_event_loop_ends(), (1, 1), "the planted fault shows nothing");
}

#[test]
fn answers_that_wait_when_the_shard_is_given_up_are_refused() {
    let world = World::new(1, Rates { latency_ms: 1, ..Rates::default() });
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(node.answered.lock().waiting, 1);
    node.disk.give_up();
    // The store hears of it, and then those who wait.
    world.pass(Duration::from_millis(50));
    world.pass(Duration::from_millis(50));
    let answered = node.answered.lock();
    assert_eq!((answered.waiting, answered.refusals), (0, 1), "nobody else will answer it");
}
