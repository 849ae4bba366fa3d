//! Deduplication ids that only an unsynced send had let go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{
    Command, DeduplicationId, GroupId, MessageId, NewMessage, Outcome, Policy, QueueId, Text, Timestamp,
};
use kew_store::Store;
use kew_store::contract::model::subject::block_on;
use kew_store_log::{Found, LogStore, SimDisk, WatchedDisk, Watcher};

use crate::small_store::{START, entropy, key, options};

fn send(queue: QueueId, id: &str) -> Command {
    let message = NewMessage {
        group: Some(GroupId(Text::from("g"))),
        deduplication: Some(DeduplicationId(Text::from(id))),
        ..NewMessage::text(MessageId::from_chance(1), id.to_owned())
    };
    Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told })
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
    let create = CreateQueue { key: key("row.fifo"), policy: Policy::fifo(), documents: Vec::new() };
    let Outcome::Queue(queue) = ask(&store, START, &Command::CreateQueue(create)) else { panic!("no queue") };
    for id in ["a", "b", "c"] {
        ask(&store, START, &send(queue.id, id));
    }
    ask(&store, START.plus(Duration::from_secs(20)), &send(queue.id, "d"));
    store.checkpoint().unwrap();
    assert!(sends.store.set((store.clone(), queue.id)).is_ok());
    sends.is_armed.store(true, Ordering::Relaxed);
    store.checkpoint().unwrap();
    assert!(!sends.is_armed.load(Ordering::Relaxed), "the send came while the checkpoint was made");

    let found = Arc::new(disk.reopen(0, Found::Lost));
    let store = LogStore::open(found, options(), entropy(2), START).unwrap().0;
    let again = ask(&store, START.plus(Duration::from_secs(100)), &send(queue.id, "a"));
    assert!(matches!(&again, Outcome::Sent(sent) if sent[0].duplicate), "{again:?}");
}
