//! A message that cannot be read does not keep the others in a damaged store.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::{Command, Outcome, QueueId};
use kew_store::StoreError;
use kew_store_log::{LogError, LogStore, SimDisk, Unreadable, check, export, export_readable, import};

use crate::small_store::{Asked, START, a_bit_of_everything, entropy, open, options, places_of};

/// The disk of a store that ended in order.
fn a_store() -> SimDisk {
    let disk = SimDisk::new();
    let asked = a_bit_of_everything(Arc::new(disk.clone()));
    asked.store.close().unwrap();
    drop(asked);
    disk.snapshot()
}

/// The lines of everything that can be read, and what was left out.
fn rescued(store: &LogStore) -> (String, Vec<Unreadable>) {
    let (mut lines, mut left_out) = (Vec::new(), Vec::new());
    let report = export_readable(store, &mut lines, &mut |message| {
        left_out.push(message);
        Ok(())
    })
    .unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(report.left_out, left_out.len() as u64);
    assert_eq!(report.lines, lines.lines().count() as u64);
    assert_eq!(report.messages, lines.lines().filter(|line| line.starts_with("{\"message\"")).count() as u64);
    (lines, left_out)
}

/// The lines without the last, which counts them, and without those that hold one of the texts.
fn without(lines: &str, texts: &[&str]) -> Vec<String> {
    let is_kept =
        |line: &&str| !line.starts_with("{\"end\"") && !texts.iter().any(|text| line.contains(text));
    lines.lines().filter(is_kept).map(str::to_owned).collect()
}

/// The bodies that a store made of the lines offers.
fn offered_after_import(lines: &str, queues: &[&str]) -> Vec<String> {
    let disk = SimDisk::new();
    import(&mut lines.as_bytes(), Arc::new(disk.clone()), options(), entropy(5), START).unwrap();
    let report = check(Arc::new(disk.clone())).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let asked = Asked::of(open(&disk).unwrap().0);
    let mut bodies = Vec::new();
    for queue in queues.iter().map(|name| asked.find(name)) {
        loop {
            let leased = asked.lease(queue, 10);
            if leased.is_empty() {
                break;
            }
            let body = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap();
            bodies.extend(leased.iter().map(|leased| body(&leased.message.content.body)));
            asked.ack(queue, &leased);
        }
    }
    bodies
}

/// Flips a byte of a body wherever it lies, and answers the place of its newest copy.
fn damage(disk: &SimDisk, text: &str) -> (String, u64) {
    let places = places_of(disk, text);
    for (file, at) in &places {
        disk.corrupt(file, at + 3, |bytes| bytes[0] ^= 0x10, 1).unwrap();
    }
    places.last().unwrap().clone()
}

#[test]
fn everything_but_the_damaged_messages_is_exported_and_imported_again() {
    let disk = a_store();
    let (whole, none) = rescued(&open(&disk.snapshot()).unwrap().0);
    assert_eq!(none, []);
    // Of old segments and of survivors, on a standard and on a FIFO queue.
    let texts = ["the oldest message", "old message 1", "old message 9", "in row 2"];
    let places = texts.map(|text| damage(&disk, text));
    let (store, _) = open(&disk).unwrap();
    let (lines, left_out) = rescued(&store);
    assert_eq!(without(&lines, &[]), without(&whole, &texts));
    assert_eq!(left_out.len(), texts.len());
    for (text, (file, at)) in texts.iter().zip(&places) {
        let is_named = |message: &&Unreadable| {
            matches!(&message.cause, LogError::Damage { file: named, offset, .. }
                if named == file && (at.saturating_sub(100)..*at).contains(offset))
        };
        let found = left_out.iter().filter(is_named).count();
        assert!(found > 0, "{text} in {file} at {at}: {left_out:?}");
    }
    let reported = left_out.iter().map(Unreadable::to_string).collect::<Vec<_>>().join("\n");
    assert!(
        reported.contains("message 3 of queue 000000000000/here/row.fifo: damage in segments/"),
        "{reported}"
    );

    let queues = ["plain", "row.fifo", "dead"];
    let all = offered_after_import(&whole, &queues);
    let is_sound = |body: &&String| !texts.iter().any(|text| body.contains(text));
    let sound: Vec<String> = all.iter().filter(is_sound).cloned().collect();
    assert_eq!(sound.len() + texts.len(), all.len());
    assert_eq!(offered_after_import(&lines, &queues), sound);
}

#[test]
fn an_export_of_everything_stops_at_a_damaged_message() {
    let disk = a_store();
    let (file, _) = damage(&disk, "old message 1");
    let (store, _) = open(&disk).unwrap();
    let error = export(&store, &mut Vec::new()).unwrap_err();
    assert!(matches!(&error, LogError::Damage { file: named, .. } if *named == file), "{error}");
}

#[test]
fn a_length_that_is_damaged_hides_no_message_behind_it() {
    let disk = a_store();
    let (whole, _) = rescued(&open(&disk.snapshot()).unwrap().0);
    let (file, at) = places_of(&disk, "old message 1").remove(0);
    // The frame that the body lies in begins with its checksum and its length.
    let (store, _) = open(&disk.snapshot()).unwrap();
    let frames = store.segments().list();
    let segment = frames.iter().find(|segment| segment.name() == file).unwrap();
    let sums = kew_store_log::Identity::load(&disk).unwrap().unwrap().checksums();
    let mut starts = Vec::new();
    kew_store_log::scan_frames(segment, sums, segment.base()..segment.end(), |frame| {
        starts.push(segment.offset_of(frame.address));
        Ok(())
    })
    .unwrap();
    let start = starts.into_iter().filter(|start| *start < at).max().unwrap();
    for byte in start + 4..start + 8 {
        let disk = disk.snapshot();
        disk.corrupt(&file, byte, |bytes| bytes[0] ^= 0x01, 1).unwrap();
        let (lines, left_out) = rescued(&open(&disk).unwrap().0);
        assert_eq!(left_out.len(), 1, "byte {byte}: {left_out:?}");
        assert_eq!(without(&lines, &[]), without(&whole, &["old message 1"]), "byte {byte}");
    }
}

#[test]
fn what_cannot_be_read_from_the_disk_keeps_nothing_back_before_it() {
    let disk = a_store();
    let (store, _) = open(&disk).unwrap();
    let (whole, _) = rescued(&store);
    let file = places_of(&disk, "old message 3").remove(0).0;
    let together: Vec<String> = (0..10)
        .map(|number| format!("old message {number}"))
        .filter(|text| places_of(&disk, text).iter().any(|place| place.0 == file))
        .collect();
    let (first, last) = (together.first().unwrap(), together.last().unwrap());
    assert_ne!(first, last, "they lie in one segment and are read together");
    // The file ends within the last of them from now on.
    let at = places_of(&disk, last).remove(0).1;
    disk.shorten(&file, at).unwrap();
    let (lines, left_out) = rescued(&store);
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(without(&lines, &[]), without(&whole, &[last]));
}

fn refused_by_damage(asked: &Asked, queue: QueueId, file: &str) {
    let refused = asked.try_ask(Command::Lease(Lease::of(queue, 100, asked.now)));
    assert!(matches!(&refused, Err(StoreError::Damaged { what }) if what.contains(file)), "{refused:?}");
}

fn reopened(asked: Asked, disk: &SimDisk) -> Asked {
    let now = asked.now;
    asked.store.close().unwrap();
    drop(asked);
    let mut again = Asked::of(open(disk).unwrap().0);
    again.now = now;
    again
}

#[test]
fn receive_that_comes_to_damage_sets_it_aside_and_answers_the_others() {
    let disk = a_store();
    let (file, _) = damage(&disk, "old message 1");
    let mut asked = Asked::of(open(&disk).unwrap().0);
    let (plain, dead) = (asked.find("plain"), asked.find("dead"));
    let sound = asked.lease(plain, 100);
    let bodies: Vec<&[u8]> = sound.iter().map(|leased| &leased.message.content.body[..13]).collect();
    assert_eq!(
        bodies[..3],
        [b"the oldest me", b"old message 0", b"old message 2"],
        "it stands before no other message"
    );
    assert_eq!(bodies.len(), 13);
    asked.ack(plain, &sound);
    // It is hidden as by a lease, tried again, and leaves by its queue's rule.
    for _ in 0..2 {
        asked = reopened(asked, &disk);
        assert!(asked.lease(plain, 100).is_empty());
        asked.later(Duration::from_secs(31));
        // One that would find nothing else is refused.
        refused_by_damage(&asked, plain, &file);
    }
    let Outcome::Counts(counts) = asked.ask(Command::Counts(dead)) else { panic!("no counts") };
    asked.later(Duration::from_secs(31));
    assert!(asked.lease(plain, 100).is_empty());
    let Outcome::Counts(after) = asked.ask(Command::Counts(dead)) else { panic!("no counts") };
    assert_eq!(after.stored(), counts.stored() + 1);
}

#[test]
fn damage_in_one_group_locks_no_other() {
    let disk = a_store();
    let (file, _) = damage(&disk, "in row 2");
    let mut asked = Asked::of(open(&disk).unwrap().0);
    let row = asked.find("row.fifo");
    // Of the group that is damaged, what is behind the damage waits.
    // It is hidden for long: the second round meets it no more.
    let rounds = [(&["in row 0", "in row 1", "in row 3", "in row 5"][..], 1), (&["in row 6"][..], 0)];
    for (expected, refusals) in rounds {
        let (mut bodies, mut refused) = (Vec::new(), 0);
        loop {
            match asked.try_ask(Command::Lease(Lease::of(row, 100, asked.now))) {
                Ok(Outcome::Leased(leased)) if leased.is_empty() => break,
                Ok(Outcome::Leased(leased)) => {
                    asked.ack(row, &leased);
                    bodies.extend(leased.into_iter().map(|leased| leased.message.content.body));
                }
                Err(StoreError::Damaged { what }) if what.contains(&file) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((bodies, refused), (expected.iter().map(|body| (*body).into()).collect(), refusals));
        asked.try_send(row, asked.row("in row 6", "g1", "d6")).unwrap();
        asked.later(Duration::from_secs(31));
    }
}

#[test]
fn an_export_ends_when_its_caller_refuses_to_leave_a_message_out() {
    let disk = a_store();
    for text in ["old message 1", "old message 2"] {
        damage(&disk, text);
    }
    let (store, _) = open(&disk).unwrap();
    let mut reported = 0;
    let ended = export_readable(&store, &mut Vec::new(), &mut |message| {
        reported += 1;
        Err(message.cause)
    });
    assert!(matches!(ended, Err(LogError::Damage { .. })));
    assert_eq!(reported, 1);
}
