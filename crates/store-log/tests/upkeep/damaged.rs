//! One damaged record keeps neither its segment nor any other message.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{ContinueMove, Lease, Purge, StartMove};
use kew_core::{Command, Outcome, Policy, QueueId, TaskState};
use kew_store::StoreError;
use kew_store_log::{DAMAGED_FOLDER, Disk, LogStore, SimDisk};

use crate::small_store::{Asked, START, bytes_of, entropy, key, open, options, places_of};

const OLD: u32 = 6;

/// Old messages, each in a segment that is otherwise dead; upkeep has not looked at them yet.
fn a_store(disk: &SimDisk) -> (Asked, QueueId, QueueId) {
    let asked = Asked::of(LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap().0);
    let (plain, busy) = (asked.queue("plain", Policy::standard()), asked.queue("busy", Policy::standard()));
    for number in 0..OLD {
        asked.send(plain, &format!("old message {number} zq"));
        pass_through(&asked, busy, 20);
    }
    (asked, plain, busy)
}

fn pass_through(asked: &Asked, queue: QueueId, messages: u32) {
    for _ in 0..messages {
        asked.send(queue, &"churn ".repeat(40));
        let leased = asked.lease(queue, 1);
        asked.ack(queue, &leased);
    }
}

/// Flips a byte of a body, and answers the file it lies in.
fn damage(disk: &SimDisk, text: &str) -> String {
    let places = places_of(disk, text);
    assert_eq!(places.len(), 1, "it was not copied yet: {places:?}");
    let (file, at) = places[0].clone();
    disk.corrupt(&file, at + 4, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    file
}

fn stored(asked: &Asked, queue: QueueId) -> u64 {
    let Outcome::Counts(counts) = asked.ask(Command::Counts(queue)) else { panic!("no counts") };
    counts.stored()
}

/// The bodies that leases give until none is left, and how many leases were refused for damage.
fn drained(asked: &Asked, queue: QueueId) -> (Vec<String>, u32) {
    let (mut bodies, mut refused) = (Vec::new(), 0);
    loop {
        match asked.try_ask(Command::Lease(Lease::of(queue, 10, asked.now))) {
            Ok(Outcome::Leased(leased)) if leased.is_empty() => return (bodies, refused),
            Ok(Outcome::Leased(leased)) => {
                let body = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap();
                bodies.extend(leased.iter().map(|leased| body(&leased.message.content.body)));
                asked.ack(queue, &leased);
            }
            Err(StoreError::Damaged { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn damaged_record_goes_aside_by_itself_and_everything_else_is_reclaimed() {
    let disk = SimDisk::new();
    let (asked, plain, busy) = a_store(&disk);
    let file = damage(&disk, "old message 2 zq");
    for _ in 0..20 {
        pass_through(&asked, busy, 20);
        asked.store.keep_up().unwrap();
    }
    let names: Vec<String> =
        asked.store.segments().list().iter().map(|segment| segment.name().to_owned()).collect();
    assert!(!names.contains(&file), "{file} is given back: {names:?}");
    assert_eq!(asked.store.failing(), []);
    assert_eq!(asked.store.stats().damaged_records, 1);
    let kept = disk.list(DAMAGED_FOLDER).unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let kept = bytes_of(&disk, &format!("{DAMAGED_FOLDER}/{}", kept[0]));
    assert!(kept.windows(14).any(|window| window == b"old }essage 2 "), "the bytes are kept as found");
    assert_eq!(stored(&asked, plain), u64::from(OLD), "the message is known");

    asked.store.close().unwrap();
    drop(asked);
    let mut asked = Asked::of(open(&disk).unwrap().0);
    let sound = [0, 1, 3, 4, 5].map(|number| format!("old message {number} zq"));
    assert_eq!(drained(&asked, plain), (sound.to_vec(), 0), "it is left out of an answer that has others");
    asked.later(Duration::from_secs(3_600));
    assert_eq!(drained(&asked, plain), (vec![], 0), "no receive is refused again and again");
    assert_eq!(stored(&asked, plain), 1);
    asked.ask(Command::Purge(Purge { queue: plain }));
    assert_eq!(stored(&asked, plain), 0);
}

#[test]
fn record_whose_bytes_can_be_kept_nowhere_stays_and_keeps_its_own_segment_only() {
    let disk = SimDisk::new();
    let (asked, plain, busy) = a_store(&disk);
    let file = damage(&disk, "old message 2 zq");
    // The folder is full.
    disk.create_dir(DAMAGED_FOLDER).unwrap();
    for number in 0..1_000 {
        disk.create(&format!("{DAMAGED_FOLDER}/{number}")).unwrap();
    }
    for _ in 0..20 {
        pass_through(&asked, busy, 20);
        asked.store.keep_up().unwrap();
    }
    let segments = asked.store.segments().list();
    assert!(segments.iter().any(|segment| segment.name() == file), "what was found is not given away");
    let dead: u64 = asked.store.stats().dead_bytes;
    assert!(dead < 20 << 10, "only its own segment waits: {dead} bytes are dead");
    assert_eq!(stored(&asked, plain), u64::from(OLD));
}

#[test]
fn move_task_passes_over_a_damaged_message_and_moves_the_others() {
    let disk = SimDisk::new();
    let (asked, plain, _) = a_store(&disk);
    asked.store.close().unwrap();
    drop(asked);
    damage(&disk, "old message 0 zq");
    let asked = Asked::of(open(&disk).unwrap().0);
    let target = asked.queue("target", Policy::standard());
    let start =
        StartMove { source: plain, destination: Some(key("target")), rate_max: None, running_max: 10 };
    let Outcome::Move(task) = asked.ask(Command::StartMove(start)) else { panic!("no task") };
    let Outcome::Move(task) = asked.ask(Command::ContinueMove(ContinueMove { task: task.id, max: 100 }))
    else {
        panic!("no task")
    };
    assert_eq!((task.moved, task.state), (u64::from(OLD) - 1, TaskState::Completed));
    assert_eq!((stored(&asked, plain), stored(&asked, target)), (1, u64::from(OLD) - 1));
    assert_eq!(asked.store.stats().damaged_records, 1, "the damage is counted");
}
