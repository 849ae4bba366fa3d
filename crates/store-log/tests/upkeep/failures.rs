//! A failure of upkeep is reported, tried again by itself, and its end is reported.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kew_core::{Policy, Reports, Timestamp, Work};
use kew_store_log::{Drive, LogOptions, LogStore, SimDisk};

use crate::refusing_disk::{Doing, RefusingDisk};
use crate::small_store::{Asked, START, entropy, options};

/// A work, and the cause if it failed.
type News = (Work, Option<String>);

/// Hears how work went.
struct Heard(Mutex<Sender<News>>);

type Reported = Receiver<News>;

fn heard() -> (Arc<Heard>, Reported) {
    let (tells, reports) = channel();
    (Arc::new(Heard(Mutex::new(tells))), reports)
}

impl Heard {
    fn tell(&self, work: Work, cause: Option<&str>) {
        // A test that has heard enough listens no more.
        let _heard = self.0.lock().unwrap().send((work, cause.map(str::to_owned)));
    }
}

impl Reports for Heard {
    fn succeeded(&self, work: Work) {
        self.tell(work, None);
    }

    fn failed(&self, work: Work, cause: &str) {
        self.tell(work, Some(cause));
    }

    fn damaged(&self, _: &str, _: u64, _: &str) {}

    fn scrubbed(&self, _: u64) {}

    fn scrub_ended(&self, _: Timestamp) {}
}

fn opened(disk: &RefusingDisk, options: LogOptions) -> Asked {
    Asked::of(LogStore::open(Arc::new(disk.clone()), options, entropy(1), START).unwrap().0)
}

fn no_manifest(doing: Doing, name: &str) -> Option<io::Error> {
    (doing == Doing::Rename && name == "MANIFEST").then(|| io::Error::other("not allowed"))
}

#[test]
fn checkpoint_that_cannot_be_installed_is_reported_and_so_is_its_recovery() {
    let disk = RefusingDisk::of(&SimDisk::new());
    let asked = opened(&disk, options());
    let queue = asked.queue("plain", Policy::standard());
    disk.refuse(no_manifest);
    let (listener, reports) = heard();
    // Enough for a checkpoint to be due many times over.
    for _ in 0..200 {
        asked.send(queue, &"x".repeat(700));
    }
    assert!(asked.store.keep_up().is_err());
    assert!(asked.store.failing().iter().any(|(work, _)| *work == Work::Checkpoint));
    asked.store.report_to(listener);
    let first = reports.try_recv().unwrap();
    assert_eq!(first.0, Work::Checkpoint, "a listener that comes later learns of it");
    assert!(first.1.unwrap().contains("not allowed"));
    disk.heal();
    asked.store.keep_up().unwrap();
    assert!(reports.try_iter().any(|news| news == (Work::Checkpoint, None)));
    assert_eq!(asked.store.failing(), []);
}

#[test]
fn upkeep_that_failed_is_tried_again_by_itself() {
    let disk = RefusingDisk::of(&SimDisk::new());
    let quickly = LogOptions { drive: Drive::Loop, retry_after: Duration::from_millis(1), ..options() };
    let asked = opened(&disk, quickly);
    let (listener, reports) = heard();
    asked.store.report_to(listener);
    let queue = asked.queue("plain", Policy::standard());
    disk.refuse(no_manifest);
    for _ in 0..200 {
        asked.send(queue, &"x".repeat(700));
    }
    let next = |is_wanted: fn(&News) -> bool| {
        while !is_wanted(&reports.recv_timeout(Duration::from_secs(60)).unwrap()) {}
    };
    let fails: fn(&News) -> bool = |news| news.0 == Work::Checkpoint && news.1.is_some();
    // Nothing new happens in the store, and still it is tried again.
    (0..3).for_each(|_| next(fails));
    disk.heal();
    next(|news| *news == (Work::Checkpoint, None));
    asked.store.close().unwrap();
}

#[test]
fn journal_that_fails_is_reported() {
    let disk = SimDisk::new();
    let asked = Asked::of(LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap().0);
    let (listener, reports) = heard();
    asked.store.report_to(listener);
    let queue = asked.queue("plain", Policy::standard());
    disk.set_fault(Some(kew_store_log::FaultPlan { at: 0, fault: kew_store_log::Fault::ErrorsFromHere }));
    assert!(asked.try_send(queue, asked.message("x")).is_err());
    assert!(reports.try_iter().any(|(work, cause)| work == Work::Commit && cause.is_some()));
}

#[test]
fn places_that_a_failed_checkpoint_left_unknown_are_known_to_the_next_round() {
    let disk = RefusingDisk::of(&SimDisk::new());
    let asked = opened(&disk, LogOptions { slack_bytes: 0, ..options() });
    let (plain, busy) = (asked.queue("plain", Policy::standard()), asked.queue("busy", Policy::standard()));
    for number in 0..4 {
        asked.send(plain, &format!("old message {number}"));
        for _ in 0..60 {
            asked.send(busy, &"churn ".repeat(40));
            let leased = asked.lease(busy, 1);
            asked.ack(busy, &leased);
        }
    }
    asked.store.checkpoint().unwrap();
    let segments = asked.store.segments().list().len();
    // The first checkpoint of the round is made; the one after the copying is not.
    let renamed = Mutex::new(0);
    disk.refuse(move |doing, name| {
        no_manifest(doing, name)?;
        *renamed.lock().unwrap() += 1;
        (*renamed.lock().unwrap() > 1).then(|| io::Error::other("not allowed"))
    });
    for _ in 0..200 {
        asked.send(busy, &"churn ".repeat(40));
        let leased = asked.lease(busy, 1);
        asked.ack(busy, &leased);
    }
    assert!(asked.store.keep_up().is_err(), "{segments} segments");
    disk.heal();
    let before = asked.store.stats().checkpoints;
    asked.store.keep_up().unwrap();
    assert!(asked.store.stats().checkpoints > before, "what was copied from is freed without new messages");
    assert_eq!(asked.store.failing(), []);
}
