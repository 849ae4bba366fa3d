//! Messages that are not in memory: they are read away from the event loop and from the store's lock, and no step waits
//! for the reads of another.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "small_store/mod.rs"]
mod small_store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_core::command::{
    ContinueMove, Extend, Extension, Identify, Lease, Peek, Purge, StartMove, View, Withdraw,
};
use kew_core::outcome::Leased;
use kew_core::{Command, Content, NewMessage, Outcome, Policy, QueueId, ReceiptRule, TaskState, WhenFree};
use kew_store::contract::model::subject::block_on;
use kew_store::{Store, StoreError, Submission};
use kew_store_log::{Disk, Drive, LogOptions, LogStore, SimDisk, WatchedDisk, Watcher};
use parking_lot::{Condvar, Mutex};
use small_store::{Asked, START, entropy, key, options, places_of};

/// Messages of a queue that lies in several segments.
const MESSAGES: u32 = 40;
/// How long a test waits for the store's threads before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts reads of segments on the thread that counts as the event loop, and holds those of the others while a test
/// says so.
struct Reads {
    event_loop: std::thread::ThreadId,
    here: Mutex<u64>,
    /// Guards whether reads wait, and how many do.
    held: Mutex<(bool, u64)>,
    changed: Condvar,
    /// Reads of the store's threads so far, and whether those to come panic.
    others: AtomicU64,
    is_broken: AtomicBool,
}

impl Reads {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            event_loop: std::thread::current().id(),
            here: Mutex::new(0),
            held: Mutex::new((false, 0)),
            changed: Condvar::new(),
            others: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Holds every read of the store's threads until the answer is dropped.
    fn hold(&self) -> HeldReads<'_> {
        self.held.lock().0 = true;
        HeldReads(self)
    }
}

/// Reads that wait. A test that fails lets them go on its way out: the store's threads end with the store.
struct HeldReads<'a>(&'a Reads);

impl HeldReads<'_> {
    /// Waits until this number of reads is held.
    fn wait_for(&self, waiting: u64) {
        let deadline = Instant::now() + PATIENCE;
        let mut held = self.0.held.lock();
        while held.1 < waiting {
            let timeout = self.0.changed.wait_until(&mut held, deadline);
            assert!(!timeout.timed_out(), "{} of {waiting} reads wait after {PATIENCE:?}", held.1);
        }
    }

    fn let_go(self) {}
}

impl Drop for HeldReads<'_> {
    fn drop(&mut self) {
        self.0.held.lock().0 = false;
        self.0.changed.notify_all();
    }
}

impl Watcher for Reads {
    /// Whether it is a segment.
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        name.starts_with("segments/")
    }

    fn reads(&self, is_segment: &bool) {
        if !is_segment {
            return;
        }
        if std::thread::current().id() == self.event_loop {
            *self.here.lock() += 1;
        } else if std::thread::current().name() == Some("kew-read") {
            self.others.fetch_add(1, Ordering::Relaxed);
            assert!(!self.is_broken.load(Ordering::Relaxed), "a planted panic of a thread that reads");
            let mut held = self.held.lock();
            held.1 += 1;
            self.changed.notify_all();
            while held.0 {
                self.changed.wait(&mut held);
            }
            held.1 -= 1;
        }
    }
}

/// A store that this thread drives as an event loop does, with nothing in memory but what is not written yet.
fn looped(disk: &SimDisk) -> (Asked, Arc<Reads>) {
    opened(disk, options(), Drive::Loop)
}

fn opened(disk: &SimDisk, options: LogOptions, drive: Drive) -> (Asked, Arc<Reads>) {
    let reads = Reads::new();
    let watched = WatchedDisk::new(disk.clone(), Arc::clone(&reads));
    // Nothing is reclaimed: what is read is read for a step.
    let options = LogOptions { drive, slack_bytes: 1 << 40, ..options };
    let (store, _) = LogStore::open(Arc::new(watched), options, entropy(1), START).unwrap();
    let asked = Asked::of(store);
    *reads.here.lock() = 0;
    (asked, reads)
}

fn filled(asked: &Asked, name: &str) -> QueueId {
    let queue = asked.queue(name, Policy::standard());
    for number in 0..MESSAGES {
        asked.send(queue, &body(number));
    }
    queue
}

fn body(number: u32) -> String {
    format!("{number} of those that lie on the disk {}", "x".repeat(600))
}

fn lease(asked: &Asked, queue: QueueId, max: u32) -> Submission {
    step(asked, &Command::Lease(Lease::of(queue, max, asked.now)))
}

/// A step. One that finds no room in the journal is taken again when there is some, after a commit.
fn step(asked: &Asked, command: &Command) -> Submission {
    loop {
        let taken = asked.store.step(asked.now, command);
        if !taken.is_put_off() {
            return taken;
        }
        asked.store.commit();
        let _room = block_on(taken);
    }
}

fn answer(asked: &Asked, submission: Submission) -> Result<Vec<Leased>, StoreError> {
    asked.store.commit();
    match block_on(submission)? {
        Outcome::Leased(leased) => Ok(leased),
        other => panic!("{other:?}"),
    }
}

fn bodies(leased: &[Leased]) -> Vec<String> {
    let body = |leased: &Leased| String::from_utf8(leased.message.content.body.to_vec()).unwrap();
    leased.iter().map(body).collect()
}

fn is_pending(submission: &mut Submission) -> bool {
    std::pin::Pin::new(submission).poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending
}

#[test]
fn neighbours_are_served_while_cold_receives_wait_for_the_disk() {
    let options = LogOptions { recent_bytes: 4 << 10, ..options() };
    let (asked, reads) = opened(&SimDisk::new(), options, Drive::Loop);
    let (far, near) = (filled(&asked, "far"), asked.queue("near", Policy::standard()));
    // What memory holds of written messages is filled with others: of the far queue nothing is left there.
    let between = asked.queue("between", Policy::standard());
    for _ in 0..20 {
        asked.send(between, &"b".repeat(600));
    }
    let held = reads.hold();
    let mut cold: Vec<Submission> = (0..4).map(|_| lease(&asked, far, 10)).collect();
    assert!(cold.iter().all(|submission| submission.bytes_on_their_way() >= 6_000));
    asked.store.commit();
    for number in 0..20 {
        let message = asked.message(&format!("near {number}"));
        let send = kew_core::command::Send {
            queue: near,
            messages: vec![message],
            receipts: kew_core::command::FirstReceipts::Told,
        };
        let sent = step(&asked, &Command::Send(send));
        // What was sent just now is in memory, also when it was written meanwhile.
        let found = lease(&asked, near, 1);
        assert_eq!(found.bytes_on_their_way(), 0);
        let found = answer(&asked, found).unwrap();
        assert_eq!(bodies(&found), [format!("near {number}")]);
        assert!(matches!(block_on(sent), Ok(Outcome::Sent(_))));
    }
    assert!(cold.iter_mut().all(is_pending), "their reads are held");
    held.wait_for(4);
    held.let_go();
    let found: Vec<String> =
        cold.into_iter().flat_map(|lease| bodies(&answer(&asked, lease).unwrap())).collect();
    assert_eq!(found, (0..MESSAGES).map(body).collect::<Vec<_>>());
    assert_eq!(*reads.here.lock(), 0, "nothing is read on the event loop");
}

#[test]
fn looks_and_moves_and_new_contents_read_nothing_on_the_event_loop() {
    let (asked, reads) = looped(&SimDisk::new());
    let (far, to) = (filled(&asked, "far"), asked.queue("to", Policy::standard()));
    let look = Peek { queue: far, view: View::Ready, skip: 3, max: 30, body_bytes_max: u64::MAX };
    let Outcome::Peeked(seen) = asked.ask(Command::Peek(look)) else { panic!("no look") };
    let seen: Vec<Bytes> = seen.into_iter().map(|(message, _)| message.content.body).collect();
    assert_eq!(seen, (3..33).map(|number| Bytes::from(body(number))).collect::<Vec<_>>());

    let leased = asked.lease(far, 2);
    let identify = Identify { queue: far, token: leased[1].token };
    assert_eq!(asked.ask(Command::Identify(identify)), Outcome::Identified(leased[1].message.id));
    let content = Content { body: Bytes::from_static(b"another"), ..Content::default() };
    let extension = Extension { token: leased[0].token, length: Duration::ZERO, content: Some(content) };
    let extend = Extend {
        queue: far,
        receipt: ReceiptRule::Current,
        when_free: WhenFree::Ignore,
        renew: true,
        entries: vec![extension],
    };
    let Outcome::Extended(extended) = asked.ask(Command::Extend(extend)) else { panic!("no extension") };
    assert!(extended[0].is_ok(), "{extended:?}");

    let start = StartMove { source: far, destination: Some(key("to")), rate_max: None, running_max: 1 };
    let Outcome::Move(mut task) = asked.ask(Command::StartMove(start)) else { panic!("no task") };
    while task.state == TaskState::Running {
        let next = Command::ContinueMove(ContinueMove { task: task.id, max: 10 });
        let Outcome::Move(after) = asked.ask(next) else { panic!("no task") };
        task = after;
    }
    assert_eq!(task.moved, u64::from(MESSAGES) - 1);
    let moved = bodies(&asked.lease(to, 100));
    assert_eq!(moved.len(), MESSAGES as usize - 1);
    assert!(moved.contains(&"another".to_owned()) && moved.contains(&body(MESSAGES - 1)));
    assert_eq!(*reads.here.lock(), 0, "nothing is read on the event loop");
}

#[test]
fn damaged_message_is_left_out_of_the_answer_and_set_aside() {
    let disk = SimDisk::new();
    let (asked, _) = looped(&disk);
    let far = filled(&asked, "far");
    let (file, at) = places_of(&disk, "3 of those that lie").remove(0);
    disk.corrupt(&file, at + 4, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    let found = answer(&asked, lease(&asked, far, 8)).unwrap();
    assert_eq!(bodies(&found), [0, 1, 2, 4, 5, 6, 7].map(body));
    assert_eq!(asked.store.stats().damaged_records, 1);
    asked.ack(far, &found);
    // It is given back, and hidden for a day.
    let mut asked = asked;
    asked.later(Duration::from_secs(23 * 3_600));
    assert_eq!(asked.lease(far, 100).len(), MESSAGES as usize - 8);
    asked.later(Duration::from_secs(3_601));
    let refused = answer(&asked, lease(&asked, far, 1));
    assert!(matches!(&refused, Err(StoreError::Damaged { what }) if what.contains(&file)), "{refused:?}");
}

#[test]
fn what_stands_behind_a_damaged_message_of_its_group_is_given_back_with_it() {
    let disk = SimDisk::new();
    let (asked, _) = looped(&disk);
    let row = asked.queue("row.fifo", Policy::fifo());
    for number in 0..8 {
        let message: NewMessage =
            asked.row(&format!("in row {number}."), &format!("g{}", number % 2), &format!("d{number}"));
        asked.try_send(row, message).unwrap();
    }
    let (file, at) = places_of(&disk, "in row 2.").remove(0);
    disk.corrupt(&file, at + 4, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    let found = answer(&asked, lease(&asked, row, 8)).unwrap();
    assert_eq!(bodies(&found), [0, 1, 3, 5, 7].map(|number| format!("in row {number}.")));
    let Outcome::Counts(counts) = asked.ask(Command::Counts(row)) else { panic!("no counts") };
    assert_eq!((counts.in_flight, counts.visible), (5, 3), "those of the group behind the first wait for it");
    asked.ack(row, &found);
    // Its turn has come: it is refused once, and its group waits for it.
    let refused = answer(&asked, lease(&asked, row, 8));
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
    assert_eq!(answer(&asked, lease(&asked, row, 8)), Ok(Vec::new()));
}

#[test]
fn receive_that_is_given_up_before_its_messages_are_read_gives_them_back() {
    let (asked, reads) = looped(&SimDisk::new());
    let far = filled(&asked, "far");
    let held = reads.hold();
    let taken = lease(&asked, far, 10);
    let Some(Outcome::Leased(leased)) = taken.peek() else { panic!("it is known what was taken") };
    let tokens = leased.iter().map(|leased| leased.token).collect();
    drop(taken);
    let back = step(&asked, &Command::Withdraw(Withdraw { queue: far, tokens }));
    let again = lease(&asked, far, 10);
    asked.store.commit();
    assert_eq!(block_on(back), Ok(Outcome::Withdrawn(10)));
    held.wait_for(1);
    held.let_go();
    let found = answer(&asked, again).unwrap();
    assert_eq!(bodies(&found), (0..10).map(body).collect::<Vec<_>>());
    assert!(found.iter().all(|leased| leased.message.attempts == 1));
}

#[test]
fn store_that_is_closed_leaves_no_answer_waiting() {
    let (asked, reads) = looped(&SimDisk::new());
    let far = filled(&asked, "far");
    let held = reads.hold();
    let waiting: Vec<Submission> = (0..8).map(|_| lease(&asked, far, 5)).collect();
    asked.store.commit();
    held.wait_for(1);
    std::thread::scope(|scope| {
        let closes = scope.spawn(|| asked.store.close());
        held.let_go();
        closes.join().unwrap().unwrap();
    });
    let is_answered = |lease: Submission| match block_on(lease) {
        // What could not be read any more is left out.
        Ok(Outcome::Leased(leased)) => (1..=5).contains(&leased.len()),
        Err(StoreError::Unavailable { .. }) => true,
        other => panic!("{other:?}"),
    };
    assert!(waiting.into_iter().all(is_answered));
}

#[test]
fn segment_that_is_given_back_meanwhile_can_still_be_read() {
    let disk = SimDisk::new();
    let (asked, reads) = looped(&disk);
    let (far, busy) = (filled(&asked, "far"), asked.queue("busy", Policy::standard()));
    let (file, _) = places_of(&disk, &body(0)).remove(0);
    let held = reads.hold();
    let taken = lease(&asked, far, 10);
    held.wait_for(2);
    asked.ask(Command::Purge(Purge { queue: far }));
    for _ in 0..20 {
        for _ in 0..4 {
            asked.send(busy, &"churn ".repeat(100));
        }
        asked.ask(Command::Purge(Purge { queue: busy }));
        asked.store.keep_up().unwrap();
    }
    let names: Vec<String> =
        asked.store.segments().list().iter().map(|segment| segment.name().to_owned()).collect();
    assert!(!names.contains(&file), "{file} is given back: {names:?}");
    assert!(disk.open(&file).is_err(), "its name is gone");
    held.let_go();
    assert_eq!(bodies(&answer(&asked, taken).unwrap()), (0..10).map(body).collect::<Vec<_>>());
}

#[test]
fn rest_of_a_receive_that_was_given_up_is_not_read() {
    let (asked, reads) = looped(&SimDisk::new());
    let (far, other) = (filled(&asked, "far"), filled(&asked, "other"));
    let held = reads.hold();
    // One message each: as many reads as there are threads.
    let first: Vec<Submission> = (0..4).map(|_| lease(&asked, far, 1)).collect();
    held.wait_for(4);
    let before = reads.others.load(Ordering::Relaxed);
    let gone = lease(&asked, far, 30);
    assert!(gone.bytes_on_their_way() > 0);
    drop(gone);
    let last = lease(&asked, other, 1);
    held.let_go();
    assert_eq!(bodies(&answer(&asked, last).unwrap()), [body(0)]);
    first.into_iter().for_each(|lease| assert_eq!(answer(&asked, lease).unwrap().len(), 1));
    assert_eq!(reads.others.load(Ordering::Relaxed), before + 1, "the others are given up unread");
}

#[test]
fn reads_that_wait_have_a_bound_past_which_a_receive_is_refused_and_takes_nothing() {
    let (asked, reads) = looped(&SimDisk::new());
    let far = asked.queue("far", Policy::standard());
    let messages: u64 = 1_100;
    for number in 0..messages {
        asked.send(far, &format!("{number} of many"));
    }
    let held = reads.hold();
    let mut cold = Vec::new();
    let refused = loop {
        let next = lease(&asked, far, 1);
        asked.store.commit();
        if next.bytes_on_their_way() == 0 {
            break next;
        }
        cold.push(next);
        assert!(cold.len() < messages as usize, "as many wait as there are messages");
    };
    assert!(!refused.is_put_off());
    assert!(matches!(block_on(refused), Err(StoreError::Overloaded { .. })));
    let Outcome::Counts(counts) = asked.ask(Command::Counts(far)) else { panic!("no counts") };
    assert_eq!((counts.in_flight, counts.visible), (cold.len() as u64, messages - cold.len() as u64));
    // Those whose clients are gone make room.
    cold.clear();
    let again = lease(&asked, far, 1);
    assert!(again.bytes_on_their_way() > 0);
    held.let_go();
    let found = answer(&asked, again).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.attempts, 1, "a receive that was refused is not counted");
}

#[test]
fn message_that_is_set_aside_does_not_hold_up_the_next_step() {
    let disk = SimDisk::new();
    let (asked, _) = opened(&disk, options(), Drive::Threads);
    let far = filled(&asked, "far");
    let (file, at) = places_of(&disk, "3 of those that lie").remove(0);
    disk.corrupt(&file, at + 4, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    let asked = Arc::new(asked);
    let (sends, hears) = std::sync::mpsc::channel();
    let asker = Arc::clone(&asked);
    // Nothing here commits: the store's own thread does.
    std::thread::spawn(move || {
        let Ok(Outcome::Leased(leased)) = block_on(lease(&asker, far, 8)) else { panic!("no lease") };
        let tokens = leased.iter().map(|leased| leased.token).collect();
        let next = Command::Withdraw(Withdraw { queue: far, tokens });
        sends.send((leased.len(), block_on(asker.store.step(asker.now, &next)))).unwrap();
    });
    let (found, next) = hears.recv_timeout(Duration::from_secs(20)).expect("a step hangs");
    assert_eq!((found, next), (7, Ok(Outcome::Withdrawn(7))));
}

#[test]
fn store_whose_readers_all_panicked_stops_and_says_so() {
    let (asked, reads) = looped(&SimDisk::new());
    let far = filled(&asked, "far");
    reads.is_broken.store(true, Ordering::Relaxed);
    for _ in 0..4 {
        let refused = answer(&asked, lease(&asked, far, 1));
        assert!(refused.is_err(), "{refused:?}");
    }
    while asked.store.health().is_ok() {
        std::thread::yield_now();
    }
    assert!(asked.store.failing().iter().any(|(_, cause)| cause.contains("panicked")));
    let refused = block_on(lease(&asked, far, 1));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn new_content_reads_the_old_one_once_where_that_is_too_long_to_be_read_ahead() {
    let disk = SimDisk::new();
    let asked = Asked::of(small_store::open(&disk).unwrap().0);
    let queue = asked.queue("far", Policy::standard());
    let mut message = asked.message(&body(0).repeat(1_000));
    message.content.annotations = Bytes::from_static(b"a note");
    let sent = asked.try_send(queue, message).unwrap();
    filled(&asked, "near");
    asked.store.close().unwrap();
    drop(asked);
    let asked = Asked::of(small_store::open(&disk).unwrap().0);
    let content = Some(Content { body: Bytes::from_static(b"another"), ..Content::default() });
    let token = sent.token.expect("a send that asks for a receipt gets one");
    let extend = Extend {
        queue,
        receipt: ReceiptRule::Any,
        when_free: WhenFree::Hide,
        renew: true,
        entries: vec![Extension { token, length: Duration::ZERO, content }],
    };
    let Outcome::Extended(extended) = asked.ask(Command::Extend(extend)) else { panic!("no extension") };
    assert!(extended[0].is_ok(), "{extended:?}");
    let look = Peek { queue, view: View::Ready, skip: 0, max: 1, body_bytes_max: u64::MAX };
    let Outcome::Peeked(seen) = asked.ask(Command::Peek(look)) else { panic!("no look") };
    let content = &seen[0].0.content;
    assert_eq!((&*content.body, content.noted()), (&b"another"[..], (&b"a note"[..], false)));
}
