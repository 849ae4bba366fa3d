//! The scrub: damage is found without anybody asking for the message, at the pace that was set, and a restart goes on.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use kew_core::command::Purge;
use kew_core::{Clock, Command, Policy, QueueId, Reports, Timestamp, Work};
use kew_store_log::{LogStore, SCRUB_FILE, Scrub, ScrubPace, SimDisk};

use crate::small_store::{Asked, START, entropy, open, options, places_of};

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const PACE: ScrubPace = ScrubPace { cycle: WEEK, bytes_per_second_max: 1 << 20 };
const MESSAGES: usize = 60;

/// What a scrub reports.
#[derive(Default)]
struct Heard {
    bytes: AtomicU64,
    ended: Mutex<Vec<Timestamp>>,
    damaged: Mutex<Vec<(String, u64)>>,
    sender: Mutex<Option<Sender<()>>>,
}

impl Reports for Heard {
    fn succeeded(&self, _: Work) {}

    fn failed(&self, work: Work, cause: &str) {
        panic!("{work:?}: {cause}");
    }

    fn damaged(&self, file: &str, offset: u64, _: &str) {
        self.damaged.lock().unwrap().push((file.to_owned(), offset));
        if let Some(sender) = &*self.sender.lock().unwrap() {
            sender.send(()).unwrap();
        }
    }

    fn scrubbed(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn scrub_ended(&self, at: Timestamp) {
        self.ended.lock().unwrap().push(at);
    }
}

impl Heard {
    fn cycles(&self) -> usize {
        self.ended.lock().unwrap().len()
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A store with messages in many segments, all of them needed.
fn a_store(disk: &SimDisk) -> (Asked, QueueId) {
    let asked = Asked::of(LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap().0);
    let queue = asked.queue("plain", Policy::standard());
    for number in 0..MESSAGES {
        asked.send(queue, &format!("message {number} {}", "x".repeat(700)));
    }
    (asked, queue)
}

fn listened(asked: &Asked) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    asked.store.report_to(Arc::clone(&heard) as _);
    heard
}

fn sealed_bytes(asked: &Asked) -> u64 {
    let segments = asked.store.segments().list();
    segments.split_last().unwrap().1.iter().map(|segment| segment.used()).sum()
}

/// Lets time pass until `is_over`; answers how much.
fn until(scrub: &mut Scrub, is_over: impl Fn() -> bool) -> Duration {
    let (mut passed, mut pause) = (Duration::ZERO, Duration::ZERO);
    while !is_over() {
        assert!(passed < 10 * WEEK, "it is never over");
        passed += pause;
        pause = scrub.turn(pause, START.plus(passed));
        assert!((Duration::from_millis(1)..=Duration::from_secs(60)).contains(&pause), "{pause:?}");
    }
    passed
}

/// Flips a byte of the only place where a text is; answers the file and where its record may begin.
fn damage(disk: &SimDisk, text: &str) -> (String, u64) {
    let places = places_of(disk, text);
    assert_eq!(places.len(), 1, "{places:?}");
    let (file, at) = places[0].clone();
    disk.corrupt(&file, at + 2, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    (file, at)
}

#[test]
fn damage_is_found_and_reported_once_without_any_receive() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    let (file, at) = damage(&disk, "message 20 ");
    let heard = listened(&asked);
    until(&mut asked.store.scrub(PACE), || heard.cycles() == 2);
    let damaged = heard.damaged.lock().unwrap().clone();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!(damaged[0].0, file);
    assert!((at - 200..at).contains(&damaged[0].1), "the record begins before its body: {damaged:?}, {at}");
    assert_eq!(asked.store.stats().damaged_records, 1);
}

#[test]
fn damage_in_dead_bytes_is_passed_over_and_does_not_hide_what_is_behind_it() {
    let disk = SimDisk::new();
    let (asked, queue) = a_store(&disk);
    let leased = asked.lease(queue, 1);
    asked.ack(queue, &leased);
    let (dead_in, _) = damage(&disk, "message 0 ");
    let (needed_in, _) = damage(&disk, "message 2 ");
    assert_eq!(dead_in, needed_in, "one is behind the other");
    let heard = listened(&asked);
    until(&mut asked.store.scrub(PACE), || heard.cycles() == 1);
    let damaged = heard.damaged.lock().unwrap().clone();
    let (_, at) = places_of(&disk, "message 3 ").remove(0);
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert!(damaged[0].1 < at && damaged[0].1 + 1_000 > at, "{damaged:?}: the one before {at}");
}

#[test]
fn length_that_makes_no_sense_hides_nothing_that_is_behind_it() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    let heard = listened(&asked);
    damage(&disk, "message 1 ");
    let mut scrub = asked.store.scrub(PACE);
    until(&mut scrub, || heard.cycles() == 1);
    let (file, offset) = heard.damaged.lock().unwrap()[0].clone();
    // Now its length is beyond all sense too; and another one behind it is damaged.
    disk.corrupt(&file, offset + 4, |bytes| bytes.fill(0xFF), 4).unwrap();
    damage(&disk, "message 2 ");
    until(&mut scrub, || heard.cycles() == 2);
    assert_eq!(heard.damaged.lock().unwrap().len(), 2);
}

#[test]
fn pass_takes_as_long_as_it_is_to_and_reads_everything_once() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    let (heard, total) = (listened(&asked), sealed_bytes(&asked));
    let mut scrub = asked.store.scrub(PACE);
    until(&mut scrub, || heard.cycles() == 1);
    let before = heard.bytes();
    let took = until(&mut scrub, || heard.cycles() == 2);
    let share = took.as_secs_f64() / WEEK.as_secs_f64();
    // Frames at the end of a piece that does not hold them whole are read again with the next one.
    assert!((0.99..1.4).contains(&share), "{share} of a week");
    let read = heard.bytes() - before;
    assert!((total..total + total / 3).contains(&read), "{read} of {total} bytes");
}

#[test]
fn however_large_the_store_is_nothing_is_read_faster_than_the_bound() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    let heard = listened(&asked);
    let pace = ScrubPace { cycle: Duration::from_millis(1), bytes_per_second_max: 100 };
    let mut scrub = asked.store.scrub(pace);
    // What is read at the start, and what a long sleep may leave to be done, are one piece of 4 KiB and two.
    let most = |seconds: u64| 100 * seconds + 3 * (4 << 10) + (4 << 10);
    scrub.turn(Duration::from_secs(1_000_000), START);
    assert!(heard.bytes() <= most(0), "{} bytes after a long sleep", heard.bytes());
    for second in 1..600 {
        scrub.turn(Duration::from_secs(1), START);
        assert!(heard.bytes() <= most(second), "{} bytes in {second} s", heard.bytes());
    }
}

#[test]
fn empty_store_and_one_with_a_single_segment_have_nothing_to_look_at() {
    let disk = SimDisk::new();
    let asked = Asked::of(open(&disk).unwrap().0);
    let heard = listened(&asked);
    let mut scrub = asked.store.scrub(PACE);
    for _ in 0..3 {
        assert_eq!(scrub.turn(WEEK, START), Duration::from_secs(60));
    }
    let queue = asked.queue("plain", Policy::standard());
    asked.send(queue, "in the segment that is being written");
    assert_eq!(scrub.turn(WEEK, START), Duration::from_secs(60));
    assert_eq!((heard.bytes(), heard.cycles()), (0, 0));
}

#[test]
fn segments_that_are_given_back_between_two_pieces_are_left_out() {
    let disk = SimDisk::new();
    let (asked, queue) = a_store(&disk);
    let heard = listened(&asked);
    let mut scrub = asked.store.scrub(PACE);
    let total = sealed_bytes(&asked);
    until(&mut scrub, || heard.bytes() > total / 3);
    let old = asked.store.segments().list()[3].number();
    asked.ask(Command::Purge(Purge { queue }));
    for number in 0..20 {
        asked.send(queue, &format!("later message {number} {}", "y".repeat(700)));
        asked.store.keep_up().unwrap();
    }
    asked.store.checkpoint().unwrap();
    let read = asked.store.segments().numbered(old);
    assert!(read.is_none(), "the segment after the one that was read last was given back");
    damage(&disk, "later message 3 ");
    until(&mut scrub, || heard.cycles() == 2);
    assert_eq!(heard.damaged.lock().unwrap().len(), 1);
}

#[test]
fn restart_in_the_middle_goes_on_behind_what_was_read() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    let (heard, total) = (listened(&asked), sealed_bytes(&asked));
    let mut scrub = asked.store.scrub(PACE);
    until(&mut scrub, || heard.bytes() > total * 3 / 4);
    drop(scrub);
    drop(asked);
    // A kill: what was read since it was written down last, at most ten minutes before, is read again.
    let asked = Asked::of(open(&disk).unwrap().0);
    let heard = listened(&asked);
    until(&mut asked.store.scrub(PACE), || heard.cycles() == 1);
    assert!(heard.bytes() < total * 2 / 3, "{} of {total} bytes", heard.bytes());

    // The end of the last cycle is known after a restart; without its file the scrub begins anew.
    let ended = heard.ended.lock().unwrap()[0];
    drop(asked);
    let asked = Asked::of(open(&disk).unwrap().0);
    let heard = listened(&asked);
    drop(asked.store.scrub(PACE));
    assert_eq!(*heard.ended.lock().unwrap(), [ended]);
    disk.corrupt(SCRUB_FILE, 17, |bytes| bytes[0] ^= 1, 1).unwrap();
    until(&mut asked.store.scrub(PACE), || heard.cycles() == 2);
    assert!(heard.bytes() >= total, "{} of {total} bytes", heard.bytes());
}

/// A clock that stands.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        START
    }
}

#[test]
fn thread_of_its_own_finds_damage_and_ends_with_the_store() {
    let disk = SimDisk::new();
    let (asked, _) = a_store(&disk);
    damage(&disk, "message 20 ");
    let heard = listened(&asked);
    let (sender, ended) = channel();
    *heard.sender.lock().unwrap() = Some(sender);
    let pace = ScrubPace { cycle: Duration::from_millis(50), bytes_per_second_max: 16 << 20 };
    asked.store.scrub_beside(pace, Arc::new(Standing)).unwrap();
    ended.recv_timeout(Duration::from_secs(60)).unwrap();
    asked.store.close().unwrap();
    assert_eq!(heard.damaged.lock().unwrap().len(), 1);
}
