//! What happens beside a sync that takes long or fails: no answer promises more than the disk has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "small_store/mod.rs"]
mod small_store;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use kew_core::{Policy, QueueId};
use kew_store::{Store, StoreError, Submission};
use kew_store_log::{Fault, FaultPlan, Found, LogStore, SimDisk, WatchedDisk, Watcher};
use parking_lot::Mutex;

use small_store::{Asked, START, answer_of, entropy, options};

/// Holds the next sync of data after the disk has done it, and before its caller knows how it ended.
#[derive(Default)]
struct Hold(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Hold {
    /// What tells that a sync is held, and what lets it go.
    fn next(&self) -> (Receiver<()>, Sender<()>) {
        let ((tell, held), (go, let_go)) = (channel(), channel());
        *self.0.lock() = Some((tell, let_go));
        (held, go)
    }
}

impl Watcher for Hold {
    type File = ();

    fn opened(&self, _name: &str) {}

    fn synced(&self, _file: &()) {
        let held = self.0.lock().take();
        if let Some((tell, let_go)) = held {
            tell.send(()).unwrap();
            let_go.recv().unwrap();
        }
    }
}

/// A store on a simulated disk whose syncs can be held.
fn opened(disk: &SimDisk) -> (Arc<Asked>, Arc<Hold>) {
    let hold = Arc::new(Hold::default());
    let watched = WatchedDisk::new(disk.clone(), hold.clone());
    let (store, _) = LogStore::open(Arc::new(watched), options(), entropy(1), START).unwrap();
    (Arc::new(Asked::of(store)), hold)
}

/// Sends and writes more than a segment holds.
fn fill_a_segment(asked: &Asked, queue: QueueId) -> Vec<Submission> {
    let body = "fills a segment ".repeat(20);
    let send = |_| {
        let sent = asked.sending(queue, &body);
        asked.store.write();
        sent
    };
    (0..16).map(send).collect()
}

#[test]
fn a_send_whose_only_sync_failed_on_another_thread_is_not_acknowledged_by_a_new_segment() {
    let disk = SimDisk::new();
    let (asked, hold) = opened(&disk);
    let queue = asked.queue("q", Policy::standard());
    asked.send(queue, "durable");
    let mut sent = asked.sending(queue, "its sync fails");
    let (held, go) = hold.next();
    // The commit's write, then its sync.
    disk.set_fault(Some(FaultPlan { at: disk.points() + 2, fault: Fault::Error }));
    let syncs = asked.clone();
    let thread = std::thread::spawn(move || syncs.store.commit());
    held.recv().unwrap();
    // The pages are dropped, as Linux does, and the error waits for the one caller that gets it.
    let segments = asked.store.segments().list().len();
    let mut later = fill_a_segment(&asked, queue);
    assert!(answer_of(&mut sent).is_none(), "its sync has failed, and no thread knows of it yet");
    assert_eq!(asked.store.segments().list().len(), segments, "a new segment proves all before it durable");
    go.send(()).unwrap();
    assert!(!thread.join().unwrap(), "the commit failed");
    for answer in std::iter::once(&mut sent).chain(&mut later) {
        assert!(
            matches!(answer_of(answer), Some(Err(StoreError::FailStopped { .. }))),
            "an unsynced send is answered"
        );
    }
    for found in [Found::Lost, Found::Torn, Found::Kept] {
        let (again, _) = opened(&disk.reopen(7, found));
        assert_eq!(again.find("q"), queue);
    }
}

#[test]
fn after_a_sync_failed_no_later_sync_of_the_store_succeeds() {
    let disk = SimDisk::new();
    let (asked, _) = opened(&disk);
    let queue = asked.queue("q", Policy::standard());
    let mut sent = asked.sending(queue, "its sync fails");
    disk.set_fault(Some(FaultPlan { at: disk.points() + 2, fault: Fault::Error }));
    assert!(!asked.store.commit());
    // The disk works again, and would say that all is well.
    assert!(asked.store.checkpoint().is_err());
    assert!(asked.store.close().is_err());
    assert!(matches!(answer_of(&mut sent), Some(Err(StoreError::FailStopped { .. }))));
}
