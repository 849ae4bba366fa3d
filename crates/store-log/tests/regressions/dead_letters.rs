//! Dead letters between a copy and its checkpoint, and dead letters for which there is no room.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use kew_core::outcome::Sent;
use kew_core::{Command, Outcome, Policy, QueueId};
use kew_store::{Store, StoreError};
use kew_store_log::{Disk, Drive, Fault, FaultPlan, Found, LogOptions, SegmentOptions, SimDisk, check};

use crate::small_store::{Asked, options};
use crate::{acking, leased, leased_once, opened, send_many, stored};

const LETTER: &str = "the letter that was leased as often as allowed";

/// A message that will be a dead letter, in a segment that is otherwise dead.
fn about_to_be_copied() -> (SimDisk, Asked, QueueId) {
    let disk = SimDisk::new();
    let asked = opened(&disk, options());
    let dead = asked.queue("dead", Policy::standard());
    let plain = asked.queue("plain", leased_once());
    let busy = asked.queue("busy", Policy::standard());
    asked.send(plain, LETTER);
    assert_eq!(leased(&asked, plain, 1), 1);
    for _ in 0..40 {
        crate::pass_through(&asked, busy, ["x".repeat(600)]);
    }
    (disk, asked, dead)
}

#[test]
fn dead_letter_that_left_after_it_was_copied_and_before_a_checkpoint_survives_a_kill() {
    let points = {
        let (disk, asked, _) = about_to_be_copied();
        let before = disk.points();
        asked.store.keep_up().unwrap();
        assert!(asked.store.stats().copied_bytes > 0);
        disk.points() - before
    };
    let mut between = 0;
    for at in 1..=points {
        let (disk, mut asked, dead) = about_to_be_copied();
        disk.set_fault(Some(FaultPlan { at: disk.points() + at, fault: Fault::NoSpace }));
        let kept_up = asked.store.keep_up();
        disk.set_fault(None);
        let copied = asked.store.stats().copied_bytes > 0;
        asked.later(Duration::from_secs(31));
        match asked.try_ask(Command::Counts(dead)) {
            Ok(Outcome::Counts(counts)) if counts.stored() == 1 => {}
            // There is no room for it to leave, or the journal's own sync failed: it has not departed.
            Ok(_) | Err(StoreError::FailStopped { .. }) => continue,
            Err(error) => panic!("no space at point {at}: {error}"),
        }
        drop(asked);
        for found in [disk.reopen_process_crash(), disk.reopen(at, Found::Lost)] {
            let report = check(Arc::new(found.clone())).unwrap();
            assert!(report.is_sound(), "no space at point {at}: {:?}", report.problems);
            let again = opened(&found, options());
            let letters = again.lease(dead, 2);
            let bodies: Vec<&[u8]> = letters.iter().map(|letter| &*letter.message.content.body).collect();
            assert_eq!(bodies, [LETTER.as_bytes()], "no space at point {at}: {kept_up:?}");
        }
        between += u32::from(copied && kept_up.is_err());
    }
    assert!(between > 0, "no fault fell between the copy and its checkpoint");
}

const LETTERS: u64 = 4_000;

fn roomy(drive: Drive) -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 64 << 10,
        largest_bytes: 64 << 10,
        reserve_spares: 1,
        spares_max: 3,
        open_max: 4,
    };
    LogOptions { segments, checkpoint_bytes: 64 << 10, slack_bytes: 1 << 20, drive, ..options() }
}

/// A store on a disk without a free byte, in which thousands of messages are due to leave.
fn burst(drive: Drive) -> (SimDisk, Asked, [QueueId; 3], Command) {
    let disk = SimDisk::new();
    let asked = opened(&disk, roomy(Drive::Manual));
    let dead = asked.queue("dead", Policy::standard());
    let plain = asked.queue("plain", leased_once());
    let junk = asked.queue("junk", Policy::standard());
    // In batches that fit a segment: a large one would leave large spares.
    let sent: Vec<Sent> =
        (0..3).flat_map(|_| send_many(&asked, junk, (0..50).map(|_| "j".repeat(900)))).collect();
    for _ in 0..LETTERS / 50 {
        send_many(&asked, plain, (0..50).map(|_| "abcdefgh".to_owned()));
        asked.store.keep_up().unwrap();
    }
    for _ in 0..LETTERS / 50 {
        assert_eq!(leased(&asked, plain, 50), 50);
    }
    asked.store.close().unwrap();
    drop(asked);
    let disk = disk.reopen_process_crash();
    let mut asked = opened(&disk, roomy(drive));
    let much = 1 << 40;
    disk.set_capacity(Some(much));
    let used = much - disk.free_space().unwrap();
    disk.set_capacity(Some(used));
    asked.later(Duration::from_secs(31));
    let tokens = sent.iter().filter_map(|sent| sent.token).collect();
    (disk, asked, [dead, plain, junk], acking(junk, tokens))
}

/// Runs it on a thread of its own; panics when it does not end.
fn ends<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(run()));
    ended.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{what} does not end"))
}

#[test]
fn burst_of_dead_letters_on_a_full_disk_is_answered_and_goes_on_when_there_is_space() {
    for drive in [Drive::Manual, Drive::Threads] {
        let (disk, asked, [dead, plain, junk], ack) = burst(drive);
        let asked = Arc::new(asked);
        let asks = asked.clone();
        ends("a look", move || asks.ask(Command::Counts(dead)));
        let asks = asked.clone();
        match ends("an ack", move || asks.try_ask(ack)) {
            Ok(_) => assert_eq!(stored(&asked, junk), 0, "{drive:?}"),
            // The upkeep's thread may just have given the reserve up for a checkpoint.
            Err(error) => assert_eq!((error, drive), (StoreError::NoSpace, Drive::Threads)),
        }
        assert_eq!(stored(&asked, plain) + stored(&asked, dead), LETTERS, "{drive:?}");
        disk.set_capacity(None);
        // Upkeep by hand: no clock is waited for.
        asked.store.keep_up().unwrap();
        for _ in 0..=LETTERS / 1_000 {
            assert_eq!(leased(&asked, plain, 1), 0, "{drive:?}: an exhausted message is offered");
        }
        assert_eq!((stored(&asked, plain), stored(&asked, dead)), (0, LETTERS), "{drive:?}");
    }
}

#[test]
fn burst_of_dead_letters_on_a_full_disk_does_not_keep_the_store_busy_for_nothing() {
    let (disk, asked, [dead, ..], _) = burst(Drive::Threads);
    let _unheard = asked.store.step(asked.now, &Command::Counts(dead));
    // Silence shows only in real time: between two looks at the disk nothing was tried.
    let is_quiet = (0..100).any(|_| {
        let before = disk.points();
        std::thread::sleep(Duration::from_millis(50));
        disk.points() == before
    });
    // A store so busy may never end.
    ends("a busy store", move || drop(asked));
    assert!(is_quiet, "the disk is tried again and again");
}

#[test]
fn store_with_a_burst_of_dead_letters_on_a_full_disk_can_be_closed() {
    for drive in [Drive::Manual, Drive::Threads] {
        let (disk, asked, [dead, plain, _], _) = burst(drive);
        asked.store.step(asked.now, &Command::Counts(dead));
        let closed = ends("closing", move || asked.store.close());
        assert_eq!(closed, Ok(()), "{drive:?}");
        let disk = disk.reopen_process_crash();
        disk.set_capacity(None);
        let again = opened(&disk, roomy(Drive::Manual));
        // They leave in slices, one a step: two looks on the way would count some of them twice.
        for _ in 0..=LETTERS / 1_000 {
            stored(&again, plain);
        }
        assert_eq!(stored(&again, plain) + stored(&again, dead), LETTERS, "{drive:?}");
    }
}
