//! Checkpoints of large queues: what they look at while everybody waits, and what they show when everything goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kew_core::command::{Ack, FirstReceipts, Lease, Purge, Send};
use kew_core::outcome::Leased;
use kew_core::{Command, NewMessage, Outcome, Policy, QueueId, ReceiptRule, Text};
use kew_store::Store as _;
use kew_store_log::{Drive, Found, LogOptions, LogStore, SimDisk, WatchedDisk, Watcher};

use crate::opened;
use crate::small_store::{Asked, START, entropy, text_of};

/// The most that may be looked at under one hold of the writer's lock: a fraction of a millisecond.
const LOOKS_MAX: u64 = 3_000;

fn by_hand() -> LogOptions {
    LogOptions { drive: Drive::Manual, ..LogOptions::default() }
}

fn send_all(asked: &Asked, queue: QueueId, messages: impl Iterator<Item = NewMessage>) {
    let mut messages = messages.peekable();
    while messages.peek().is_some() {
        let messages: Vec<NewMessage> = messages.by_ref().take(1_000).collect();
        asked.ask(Command::Send(Send { queue, messages, receipts: FirstReceipts::Untold }));
    }
}

/// Messages of a row with some groups, each with a deduplication id.
fn rows(asked: &Asked, count: u32, groups: u32) -> impl Iterator<Item = NewMessage> {
    (0..count).map(move |n| asked.row("x", &format!("group {}", n % groups), &format!("{}-{n}", asked.now.0)))
}

fn delayed(asked: &Asked, count: u64) -> impl Iterator<Item = NewMessage> {
    (0..count).map(|n| NewMessage { delay: Some(Duration::from_secs(1 + n % 800)), ..asked.message("d") })
}

fn lease(asked: &Asked, queue: QueueId, max: u32, attempt: &str) -> Vec<Leased> {
    let lease = Lease {
        attempt: (!attempt.is_empty()).then(|| Text::from(attempt)),
        ..Lease::of(queue, max, asked.now)
    };
    match asked.ask(Command::Lease(lease)) {
        Outcome::Leased(leased) => leased,
        other => panic!("{other:?}"),
    }
}

fn ack(asked: &Asked, queue: QueueId, leased: &[Leased]) {
    let tokens = leased.iter().map(|leased| leased.token).collect();
    asked.ask(Command::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens }));
}

/// A FIFO queue and a standard one, each with tens of thousands of messages, thousands of leases and delays.
fn with_large_queues(store: LogStore) -> (Asked, QueueId, QueueId) {
    let asked = Asked::of(store);
    let row = asked.queue("row.fifo", Policy::fifo());
    let plain = asked.queue("plain", Policy::standard());
    send_all(&asked, row, rows(&asked, 40_000, 4_000));
    send_all(&asked, plain, (0..60_000).map(|_| asked.message("p")));
    send_all(&asked, plain, delayed(&asked, 6_000));
    for number in 0..400 {
        lease(&asked, row, 10, &format!("attempt {number}"));
        lease(&asked, plain, 10, "");
    }
    (asked, row, plain)
}

#[test]
fn a_checkpoint_looks_at_little_of_a_large_queue_while_others_wait() {
    let disk = SimDisk::new();
    let store = LogStore::open(Arc::new(disk.clone()), by_hand(), entropy(1), START).unwrap().0;
    let (asked, ..) = with_large_queues(store);
    for number in 0..3_000 {
        asked.queue(&format!("q{number}"), Policy::standard());
    }
    asked.store.checkpoint().unwrap();
    let looks = asked.store.stats().checkpoint_hold_max;
    assert!((1..=LOOKS_MAX).contains(&looks), "{looks} looks under one hold");
    let held = text_of(&asked.store).unwrap();
    drop(asked);
    let again = opened(&disk.reopen_process_crash(), by_hand());
    assert!(text_of(&again.store).unwrap() == held, "the store came back as another");
}

type Then = Box<dyn FnMut(u64) + std::marker::Send>;

/// Lets something happen before each write to a file of slices.
#[derive(Default)]
struct BetweenPieces {
    then: Mutex<Option<Then>>,
    writes: AtomicU64,
}

impl Watcher for BetweenPieces {
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        name.ends_with(".ckp")
    }

    fn writes(&self, is_slices: &bool, _bytes: usize) {
        if *is_slices && let Some(then) = &mut *self.then.lock().unwrap() {
            then(self.writes.fetch_add(1, Ordering::Relaxed));
        }
    }
}

fn between_pieces(then: impl FnOnce(&Arc<Asked>, QueueId, QueueId) -> Then) {
    let (disk, between) = (SimDisk::new(), Arc::new(BetweenPieces::default()));
    let watched = WatchedDisk::new(disk.clone(), Arc::clone(&between));
    let store = LogStore::open(Arc::new(watched), by_hand(), entropy(1), START).unwrap().0;
    let (asked, row, plain) = with_large_queues(store);
    let asked = Arc::new(asked);
    *between.then.lock().unwrap() = Some(then(&asked, row, plain));
    asked.store.checkpoint().unwrap();
    *between.then.lock().unwrap() = None;
    assert!(between.writes.load(Ordering::Relaxed) > 3, "the slices were written in one piece");
    let held = text_of(&asked.store).unwrap();
    drop(asked);
    let again = opened(&disk.reopen_process_crash(), by_hand());
    assert!(text_of(&again.store).unwrap() == held, "the store came back as another");
}

#[test]
fn queues_that_go_on_while_their_slices_are_written_come_back_whole() {
    between_pieces(|asked, row, plain| {
        let asked = asked.clone();
        Box::new(move |round| {
            let mut taken = lease(&asked, row, 10, &format!("again {round}"));
            ack(&asked, row, &taken.split_off(5));
            let mut taken = lease(&asked, plain, 10, "");
            ack(&asked, plain, &taken.split_off(5));
            let sent = |n| asked.row("later", &format!("new group {n}"), &format!("{round} {n}"));
            send_all(&asked, row, (0..300).map(sent));
            send_all(&asked, plain, (0..300).map(|_| asked.message("later")));
            send_all(&asked, plain, delayed(&asked, 300));
        })
    });
}

#[test]
fn queues_that_are_purged_while_their_slices_are_written_come_back_empty() {
    between_pieces(|asked, row, plain| {
        let asked = asked.clone();
        Box::new(move |round| {
            let queue = if round % 2 == 0 { row } else { plain };
            asked.ask(Command::Purge(Purge { queue }));
            let message = asked.row("after", "g", &format!("after {round}"));
            let deduplication = message.deduplication.clone().filter(|_| queue == row);
            asked.try_send(queue, NewMessage { deduplication, ..message }).unwrap();
        })
    });
}

/// Lets something happen once, right after the journal was synced for a checkpoint.
#[derive(Default)]
struct AfterTheSync {
    then: Mutex<Option<Box<dyn FnOnce() + std::marker::Send>>>,
    is_checkpoint: AtomicBool,
}

impl Watcher for AfterTheSync {
    type File = String;

    fn opened(&self, name: &str) -> String {
        name.to_owned()
    }

    fn writes(&self, name: &String, _bytes: usize) {
        self.is_checkpoint.fetch_or(name.ends_with(".ckp"), Ordering::Relaxed);
    }

    fn synced(&self, name: &String) {
        let is_journals = name.starts_with("segments/") && self.is_checkpoint.load(Ordering::Relaxed);
        if let Some(then) = is_journals.then(|| self.then.lock().unwrap().take()).flatten() {
            then();
        }
    }
}

#[test]
fn a_batch_that_was_written_beside_a_checkpoint_and_lost_leaves_no_gap() {
    let (disk, after) = (SimDisk::new(), Arc::new(AfterTheSync::default()));
    let watched = WatchedDisk::new(disk.clone(), Arc::clone(&after));
    let store = LogStore::open(Arc::new(watched), by_hand(), entropy(1), START).unwrap().0;
    let asked = Arc::new(Asked::of(store));
    let queue = asked.queue("plain", Policy::standard());
    asked.try_send(queue, asked.message("kept")).unwrap();
    let beside = asked.clone();
    *after.then.lock().unwrap() = Some(Box::new(move || {
        let messages = vec![beside.message("lost")];
        let send = Command::Send(Send { queue, messages, receipts: FirstReceipts::Untold });
        drop(beside.store.step(beside.now, &send));
        // Written, and not synced before the power goes.
        beside.store.write();
    }));
    asked.store.checkpoint().unwrap();
    assert!(after.then.lock().unwrap().is_none(), "nothing was written beside the checkpoint");
    // What is there now is what the disk is asked to keep: nothing was synced since.
    let left = disk.reopen(1, Found::Lost);
    drop(asked);

    for round in 0..2 {
        let again = opened(&left, by_hand());
        let bodies = ["kept", "later 0", "later 1"];
        assert_eq!(all_bodies(&again), bodies[..=round], "opened for the time {round}");
        again.try_send(queue, again.message(bodies[round + 1])).unwrap();
        assert_eq!(all_bodies(&again), bodies[..round + 2]);
    }
}

fn all_bodies(asked: &Asked) -> Vec<String> {
    let text = text_of(&asked.store).unwrap();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| Some(line["message"]["body"]["text"].as_str()?.to_owned()))
        .collect()
}
