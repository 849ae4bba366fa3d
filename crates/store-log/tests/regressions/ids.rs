//! Deduplication ids of a store that is opened again.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{
    Command, DeduplicationId, GroupId, MessageId, NewMessage, Outcome, Policy, QueueId, Text, Timestamp,
};
use kew_store::Store;
use kew_store::contract::model::subject::block_on;
use kew_store_log::{Found, LogOptions, LogStore, SegmentOptions, SimDisk, WatchedDisk, Watcher};

use crate::small_store::{START, entropy, key, options};

fn message(id: &str) -> NewMessage {
    NewMessage {
        group: Some(GroupId(Text::from("g"))),
        deduplication: Some(DeduplicationId(Text::from(id))),
        ..NewMessage::text(MessageId::from_chance(1), id.to_owned())
    }
}

fn send(queue: QueueId, id: &str) -> Command {
    Command::Send(Send { queue, messages: vec![message(id)], receipts: FirstReceipts::Told })
}

/// Sends one message for each number, a hundred at a time. Says for each whether it was sent before.
fn send_numbered(store: &LogStore, queue: QueueId, numbers: Range<u32>) -> Vec<bool> {
    let numbers: Vec<u32> = numbers.collect();
    let some = |some: &[u32]| {
        let messages = some.iter().map(|number| message(&number.to_string())).collect();
        match ask(store, START, &Command::Send(Send { queue, messages, receipts: FirstReceipts::Told })) {
            Outcome::Sent(sent) => sent.into_iter().map(|sent| sent.duplicate).collect::<Vec<bool>>(),
            other => panic!("{other:?}"),
        }
    };
    numbers.chunks(100).flat_map(some).collect()
}

fn fifo_queue(store: &LogStore) -> QueueId {
    let create = CreateQueue { key: key("row.fifo"), policy: Policy::fifo(), documents: Vec::new() };
    match ask(store, START, &Command::CreateQueue(create)) {
        Outcome::Queue(queue) => queue.id,
        other => panic!("{other:?}"),
    }
}

fn ask(store: &LogStore, now: Timestamp, command: &Command) -> Outcome {
    let answer = store.step(now, command);
    store.commit();
    block_on(answer).unwrap()
}

/// Sends once, right after the journal is synced and before the thread that synced it knows.
#[derive(Default)]
struct SendsThen {
    store: OnceLock<(Arc<LogStore>, QueueId)>,
    is_armed: AtomicBool,
}

/// After the windows of the first ids: a send at this time lets them go.
fn late() -> Timestamp {
    START.plus(Duration::from_secs(320))
}

impl Watcher for SendsThen {
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        name.starts_with("segments/")
    }

    fn synced(&self, is_segment: &bool) {
        if let Some((store, queue)) = self.store.get()
            && *is_segment
            && self.is_armed.swap(false, Ordering::Relaxed)
        {
            drop(store.step(late(), &send(*queue, "too late to be synced")));
        }
    }
}

#[test]
fn ids_that_only_a_lost_send_let_go_are_remembered_when_the_clock_is_set_back() {
    let (disk, sends) = (SimDisk::new(), Arc::new(SendsThen::default()));
    let watched = Arc::new(WatchedDisk::new(disk.clone(), sends.clone()));
    let store = Arc::new(LogStore::open(watched, options(), entropy(1), START).unwrap().0);
    let queue = fifo_queue(&store);
    for id in ["a", "b", "c"] {
        ask(&store, START, &send(queue, id));
    }
    ask(&store, START.plus(Duration::from_secs(20)), &send(queue, "d"));
    store.checkpoint().unwrap();
    assert!(sends.store.set((store.clone(), queue)).is_ok());
    sends.is_armed.store(true, Ordering::Relaxed);
    store.checkpoint().unwrap();
    assert!(!sends.is_armed.load(Ordering::Relaxed), "the send came while the checkpoint was made");

    let found = Arc::new(disk.reopen(0, Found::Lost));
    let store = LogStore::open(found, options(), entropy(2), START).unwrap().0;
    let again = ask(&store, START.plus(Duration::from_secs(100)), &send(queue, "a"));
    assert!(matches!(&again, Outcome::Sent(sent) if sent[0].duplicate), "{again:?}");
}

#[test]
fn ids_of_a_checkpoint_and_of_many_sends_behind_it_are_remembered() {
    let disk = SimDisk::new();
    let roomy = LogOptions { segments: SegmentOptions::default(), ..options() };
    let store = LogStore::open(Arc::new(disk.clone()), roomy, entropy(1), START).unwrap().0;
    let queue = fifo_queue(&store);
    send_numbered(&store, queue, 0..2_000);
    store.checkpoint().unwrap();
    // More than are handed on together, and some that are not many.
    send_numbered(&store, queue, 2_000..11_000);

    let found = Arc::new(disk.reopen(0, Found::Lost));
    let store = LogStore::open(found, roomy, entropy(2), START).unwrap().0;
    let were_sent = send_numbered(&store, queue, 0..11_100);
    assert_eq!(were_sent.iter().position(|was_sent| !was_sent), Some(11_000));
    assert_eq!(were_sent.iter().filter(|was_sent| **was_sent).count(), 11_000);
}
