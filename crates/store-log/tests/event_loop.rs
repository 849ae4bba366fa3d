//! What a store does for an event loop: the loop's thread makes no file, rolls no segment and waits for no other
//! thread.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "small_store/mod.rs"]
mod small_store;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;

use kew_core::command::{ContinueMove, FirstReceipts, Lease, Send, StartMove};
use kew_core::{Command, Outcome, Policy, QueueId, TaskState};
use kew_store::contract::model::subject::block_on;
use kew_store::{Store, StoreError};
use kew_store_log::{Drive, LogOptions, LogStore, SegmentOptions, SimDisk, WatchedDisk, Watcher};
use parking_lot::Mutex;

use small_store::{START, entropy, key, options};

const MIB: u64 = 1 << 20;

/// Remembers which thread made or opened which file, and holds the next sync of data until it is let go.
#[derive(Default)]
struct Threads {
    opened: Mutex<Vec<(ThreadId, String)>>,
    hold: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Threads {
    /// What tells that a sync is held, and what lets it go.
    fn hold_next(&self) -> (Receiver<()>, Sender<()>) {
        let ((tell, held), (go, let_go)) = (channel(), channel());
        *self.hold.lock() = Some((tell, let_go));
        (held, go)
    }
}

impl Watcher for Threads {
    type File = ();

    fn opened(&self, name: &str) {
        self.opened.lock().push((std::thread::current().id(), name.to_owned()));
    }

    fn synced(&self, _file: &()) {
        let held = self.hold.lock().take();
        if let Some((tell, let_go)) = held {
            tell.send(()).unwrap();
            let_go.recv().unwrap();
        }
    }
}

/// A store that an event loop drives: this thread.
struct Looped {
    store: Arc<LogStore>,
    threads: Arc<Threads>,
}

impl Looped {
    fn open(disk: &SimDisk, options: LogOptions) -> Self {
        let threads = Arc::new(Threads::default());
        let watched = WatchedDisk::new(disk.clone(), threads.clone());
        let options = LogOptions { drive: Drive::Loop, ..options };
        let (store, _) = LogStore::open(Arc::new(watched), options, entropy(1), START).unwrap();
        threads.opened.lock().clear();
        Self { store: Arc::new(store), threads }
    }

    /// Commits as an event loop does: what takes longer happens on another thread.
    fn commit(&self) {
        if !self.store.commit_at_once(true) {
            let store = self.store.clone();
            std::thread::spawn(move || store.commit()).join().unwrap();
        }
    }

    /// Takes a step, and again whenever it was put off.
    fn ask(&self, command: &Command) -> Result<Outcome, StoreError> {
        loop {
            let submission = self.store.step(START, command);
            let is_put_off = submission.is_put_off();
            self.commit();
            let answer = block_on(submission);
            if !(is_put_off && matches!(answer, Err(StoreError::Overloaded { .. }))) {
                return answer;
            }
        }
    }

    fn queue(&self, name: &str) -> QueueId {
        let create = kew_core::command::CreateQueue {
            key: key(name),
            policy: Policy::standard(),
            documents: Vec::new(),
        };
        match self.ask(&Command::CreateQueue(create)) {
            Ok(Outcome::Queue(queue)) => queue.id,
            other => panic!("{other:?}"),
        }
    }

    fn send(&self, queue: QueueId, body: String, number: u128) -> Result<Outcome, StoreError> {
        let message = kew_core::NewMessage::text(kew_core::MessageId::from_chance(number << 64), body);
        self.ask(&Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told }))
    }

    /// Names of the files that this thread made or opened.
    fn opened_here(&self) -> Vec<String> {
        let here = std::thread::current().id();
        self.threads
            .opened
            .lock()
            .iter()
            .filter(|(thread, _)| *thread == here)
            .map(|(_, name)| name.clone())
            .collect()
    }
}

fn bytes_of(disk: &SimDisk) -> u64 {
    use kew_store_log::Disk as _;
    ["segments", "checkpoints"]
        .iter()
        .flat_map(|folder| disk.list(folder).unwrap().into_iter().map(move |name| format!("{folder}/{name}")))
        .filter_map(|name| disk.open(&name).ok()?.len().ok())
        .sum()
}

fn large() -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 64 << 10,
        largest_bytes: 4 * MIB,
        reserve_spares: 2,
        spares_max: 4,
        open_max: 4,
    };
    LogOptions { segments, checkpoint_bytes: 3 * MIB, slack_bytes: 4 * MIB, ..options() }
}

#[test]
fn a_redrive_of_large_messages_makes_no_file_on_the_loop_and_needs_little_more_than_they_do() {
    const MESSAGES: u64 = 48;
    let disk = SimDisk::new();
    let looped = Looped::open(&disk, large());
    let (from, to) = (looped.queue("from"), looped.queue("to"));
    for number in 0..MESSAGES {
        let body = "x".repeat(MIB as usize / 2);
        looped.send(from, body, u128::from(number) + 1).unwrap();
    }
    let before = bytes_of(&disk);
    let start = StartMove { source: from, destination: Some(key("to")), rate_max: None, running_max: 1 };
    let Ok(Outcome::Move(task)) = looped.ask(&Command::StartMove(start)) else { panic!("it starts") };
    let (mut moved, mut steps, mut most) = (0, 0, before);
    loop {
        let step = Command::ContinueMove(ContinueMove { task: task.id, max: 100 });
        let Ok(Outcome::Move(task)) = looped.ask(&step) else { panic!("it goes on") };
        assert!(task.moved - moved <= 2, "{} messages of half a mebibyte in one step", task.moved - moved);
        (moved, steps, most) = (task.moved, steps + 1, most.max(bytes_of(&disk)));
        if task.state == TaskState::Completed {
            break;
        }
    }
    assert_eq!((moved, looped.opened_here()), (MESSAGES, Vec::<String>::new()), "in {steps} steps");
    let Ok(Outcome::Counts(counts)) = looped.ask(&Command::Counts(to)) else { panic!("it counts") };
    assert_eq!(counts.visible, MESSAGES);
    // Those moved are written once more; beside them spares, segments that wait for a checkpoint, and the checkpoint.
    let bound = before + MESSAGES * MIB / 2 + 8 * 4 * MIB;
    assert!(most <= bound, "{most} bytes, at most {bound} expected, {before} before");
}

#[test]
fn a_message_larger_than_any_spare_is_taken_once_a_spare_was_made_for_it_elsewhere() {
    let disk = SimDisk::new();
    let looped = Looped::open(&disk, options());
    let queue = looped.queue("q");
    for number in 1..=20 {
        looped.send(queue, "y".repeat(40 << 10), number).unwrap();
    }
    assert_eq!(looped.opened_here(), Vec::<String>::new());
}

#[test]
fn without_space_a_message_is_refused_and_not_put_off_for_ever() {
    let disk = SimDisk::new();
    let looped = Looped::open(&disk, options());
    let queue = looped.queue("q");
    disk.set_capacity(Some(bytes_of(&disk) + (16 << 10)));
    let refused = (1..200).find_map(|number| looped.send(queue, "z".repeat(2 << 10), number).err());
    assert_eq!(refused, Some(StoreError::NoSpace));
}

#[test]
fn while_a_segment_is_made_elsewhere_steps_go_on_and_the_loop_waits_for_nothing() {
    let disk = SimDisk::new();
    // No checkpoint, whose sync could be the one that is held.
    let looped =
        Looped::open(&disk, LogOptions { checkpoint_bytes: 1 << 40, slack_bytes: 1 << 40, ..options() });
    let queue = looped.queue("q");
    // As much as is left, and a message more.
    let active = |store: &LogStore| store.segments().list().last().unwrap().remaining();
    for number in 1..200 {
        if active(&looped.store) < 600 {
            break;
        }
        looped.send(queue, "w".repeat(100), number).unwrap();
    }
    let body = "v".repeat(700);
    let message = kew_core::NewMessage::text(kew_core::MessageId::from_chance(1 << 100), body);
    let send = Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told });
    let submission = loop {
        let submission = looped.store.step(START, &send);
        if !submission.is_put_off() {
            break submission;
        }
        drop(block_on(submission));
    };
    assert!(!looped.store.commit_at_once(true), "it needs a new segment");
    let (held, go) = looped.threads.hold_next();
    let store = looped.store.clone();
    let thread = std::thread::spawn(move || store.commit());
    held.recv().unwrap();
    // The old segment's sync hangs.
    let lease = looped.store.step(START, &Command::Lease(Lease::of(queue, 1, START)));
    assert!(matches!(lease.peek(), Some(Outcome::Leased(leased)) if leased.len() == 1));
    looped.store.write();
    assert!(!looped.store.commit_at_once(true), "another thread is at it");
    go.send(()).unwrap();
    assert!(thread.join().unwrap());
    assert!(matches!(block_on(submission), Ok(Outcome::Sent(_))));
    assert!(matches!(block_on(lease), Ok(Outcome::Leased(_))));
    assert_eq!(looped.opened_here(), Vec::<String>::new());
}
