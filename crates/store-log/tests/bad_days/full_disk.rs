//! A full disk refuses sends and nothing else, gives space back, and can be started on.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Peek;
use kew_core::command::View;
use kew_core::{Carries, Command, DeadLetterAction, DeadLetterRule, Outcome, Policy, QueueId};
use kew_store::StoreError;
use kew_store_log::{Drive, Found, LogOptions, LogStore, SegmentOptions, SimDisk};

use crate::small_store::{Asked, START, entropy, key, options, text_of};

const BODY: usize = 1_000;

/// Segments in which a batch of acks always has room.
fn roomy() -> LogOptions {
    let segments = SegmentOptions { first_bytes: 16 << 10, largest_bytes: 16 << 10, ..options().segments };
    LogOptions { segments, ..options() }
}

fn opened(disk: &SimDisk) -> (LogStore, kew_store_log::OpenReport) {
    LogStore::open(Arc::new(disk.clone()), roomy(), entropy(1), START).unwrap()
}

fn full() -> (SimDisk, Asked, QueueId, u32) {
    full_in(Policy::standard())
}

/// A full disk, and a queue of this policy that filled it.
fn full_in(policy: Policy) -> (SimDisk, Asked, QueueId, u32) {
    let disk = SimDisk::new();
    disk.set_capacity(Some(256 << 10));
    let (store, _) = opened(&disk);
    let asked = Asked::of(store);
    asked.queue("dead", Policy::standard());
    let queue = asked.queue("plain", policy);
    let body = "x".repeat(BODY);
    for sent in 0..1_000 {
        match asked.try_send(queue, asked.message(&body)) {
            Ok(_) => {}
            Err(StoreError::NoSpace) => return (disk, asked, queue, sent),
            Err(error) => panic!("{error}"),
        }
        // Without space for a checkpoint it fails, and is tried again.
        let _kept_up = asked.store.keep_up();
    }
    panic!("the disk never was full");
}

#[test]
fn sends_are_refused_while_leases_acks_and_looks_go_on() {
    let (_disk, asked, queue, sent) = full();
    assert!(sent > 40, "{sent}");
    assert_eq!(asked.try_send(queue, asked.message(&"x".repeat(BODY))), Err(StoreError::NoSpace));
    let look = Peek { queue, view: View::Ready, skip: 0, max: 3, body_bytes_max: 1 << 20 };
    assert!(matches!(asked.ask(Command::Peek(look)), Outcome::Peeked(seen) if seen.len() == 3));
    let leased = asked.lease(queue, 10);
    assert_eq!(leased.len(), 10);
    asked.ack(queue, &leased);
    let Outcome::Counts(counts) = asked.ask(Command::Counts(queue)) else { panic!("no counts") };
    assert_eq!(counts.stored(), u64::from(sent) - 10);
}

/// Messages that were tried too often have no room to leave: they stay, nothing is written of that, and they leave when
/// the store is opened with room for them. Then they are as new as what came last.
#[test]
fn dead_letters_wait_for_room_and_take_none_of_the_rest() {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::Nothing,
        written_by: "sqs".into(),
    };
    let policy = Policy { dead_letters: Some(rule.into()), ..Policy::standard() };
    let (disk, mut asked, queue, sent) = full_in(policy);
    let mut leased = 0;
    while leased < sent {
        leased += asked.lease(queue, 10).len() as u32;
        asked.later(Duration::from_millis(10));
    }
    asked.later(Duration::from_secs(31));
    let before = asked.store.stats().written_through;
    let visible = |asked: &Asked, queue| match asked.ask(Command::Counts(queue)) {
        Outcome::Counts(counts) => counts.visible,
        other => panic!("counts are expected: {other:?}"),
    };
    assert_eq!(visible(&asked, queue), u64::from(sent));
    assert_eq!(asked.store.stats().written_through, before, "looking at them wrote something");
    let leased = asked.lease(queue, 10);
    assert_eq!(leased.len(), 10, "receives go on, also of these");
    asked.ack(queue, &leased);
    let newest = asked.now;
    drop(asked);
    let disk = disk.reopen_process_crash();
    disk.set_capacity(None);
    let asked = Asked::of(opened(&disk).0);
    assert_eq!(visible(&asked, queue), 0);
    let dead = asked.find("dead");
    assert_eq!(visible(&asked, dead), u64::from(sent) - 10);
    let mut left = sent - 10;
    while left > 0 {
        let leased = asked.lease(dead, 10);
        assert!(leased.iter().all(|leased| leased.message.sent_at >= newest), "one is older than {newest:?}");
        left -= leased.len() as u32;
    }
}

#[test]
fn space_comes_back_after_acks_and_upkeep() {
    let (_disk, asked, queue, sent) = full();
    let mut acked = 0;
    while acked < sent {
        let leased = asked.lease(queue, 10);
        assert!(!leased.is_empty(), "{acked} of {sent}");
        asked.ack(queue, &leased);
        acked += leased.len() as u32;
        let _kept_up = asked.store.keep_up();
    }
    asked.store.keep_up().unwrap();
    let mut again = 0;
    while asked.try_send(queue, asked.message(&"y".repeat(BODY))).is_ok() {
        again += 1;
        let _kept_up = asked.store.keep_up();
        assert!(again < 1_000);
    }
    assert!(again * 10 >= sent * 8, "{again} after {sent}");
}

#[test]
fn a_full_store_is_opened_again_with_everything_and_goes_on() {
    let (disk, asked, queue, sent) = full();
    let held = text_of(&asked.store).unwrap();
    drop(asked);
    for disk in [disk.reopen_process_crash(), disk.reopen(1, Found::Lost), disk.reopen(2, Found::Torn)] {
        let (store, report) = opened(&disk);
        assert_eq!(report.tail, None);
        assert_eq!(text_of(&store).unwrap(), held);
        let asked = Asked::of(store);
        let mut acked = 0;
        while acked < sent {
            let leased = asked.lease(queue, 10);
            asked.ack(queue, &leased);
            acked += leased.len() as u32;
            let _kept_up = asked.store.keep_up();
        }
        asked.send(queue, "there is room again");
    }
}

#[test]
fn a_full_store_can_be_stopped() {
    let (disk, asked, queue, sent) = full();
    asked.store.close().unwrap();
    drop(asked);
    let asked = Asked::of(opened(&disk.snapshot()).0);
    let Outcome::Counts(counts) = asked.ask(Command::Counts(queue)) else { panic!("no counts") };
    assert_eq!(counts.stored(), u64::from(sent));
}

#[test]
fn a_first_start_on_a_small_file_system_works() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(24 << 20));
    let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
    let opened = || LogStore::open(Arc::new(disk.clone()), options, entropy(1), START).unwrap().0;
    let asked = Asked::of(opened());
    let queue = asked.queue("plain", Policy::standard());
    let body = "x".repeat(64 << 10);
    for round in 0..40 {
        for sent in 0..20 {
            let message = asked.message(&body);
            asked.try_send(queue, message).unwrap_or_else(|error| panic!("{sent} of round {round}: {error}"));
        }
        let leased = asked.lease(queue, 20);
        asked.ack(queue, &leased);
        asked.store.keep_up().unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    asked.store.close().unwrap();
    drop(asked);
    let asked = Asked::of(opened());
    asked.send(queue, "and again");
}

#[test]
fn a_refusal_for_lack_of_space_says_so() {
    let (_disk, asked, queue, _) = full();
    let error = asked.try_send(queue, asked.message(&"x".repeat(BODY))).unwrap_err();
    assert_eq!(error.to_string(), "no space left for more messages");
    let disk = SimDisk::new();
    // Enough for the identity.
    disk.set_capacity(Some(13_000));
    let error = LogStore::open(Arc::new(disk), options(), entropy(1), START).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "no space left for a segment of 4096 bytes");
}
