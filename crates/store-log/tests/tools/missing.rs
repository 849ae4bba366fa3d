//! A file that is missing is refused by its name, whichever it is, and never read as a store with less in it.

use std::sync::Arc;

use kew_core::Policy;
use kew_store_log::{Disk, LogError, LogStore, Manifest, SegmentNumber, SimDisk, check};

use crate::small_store::{Asked, START, a_bit_of_everything, entropy, files_of, open, options, text_of};

/// The disk of a store that was killed, or ended in order, and what it held.
fn a_store(is_closed: bool) -> (SimDisk, String) {
    let disk = SimDisk::new();
    let asked = a_bit_of_everything(Arc::new(disk.clone()));
    let held = text_of(&asked.store).unwrap();
    if is_closed {
        asked.store.close().unwrap();
    }
    drop(asked);
    (disk.snapshot(), held)
}

fn look(disk: &SimDisk) -> Result<LogStore, LogError> {
    LogStore::look(Arc::new(disk.clone()), options(), entropy(5)).map(|(store, _)| store)
}

/// Opening, looking and checking all name the file.
fn assert_refused_by_name(disk: &SimDisk, file: &str) {
    let points = disk.points();
    let names = |error: LogError| matches!(error, LogError::Damage { file: named, .. } if named == file);
    assert!(look(disk).is_err_and(names), "looking without {file}");
    let problems = check(Arc::new(disk.clone())).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.file == file), "a check without {file}: {problems:?}");
    assert!(open(disk).is_err_and(names), "a start without {file}");
    assert_eq!(disk.points(), points, "what is refused is left as it is");
}

#[test]
fn each_file_that_is_missing_is_refused_by_its_name() {
    for is_closed in [false, true] {
        let (disk, held) = a_store(is_closed);
        let manifest = Manifest::load(&disk).unwrap().unwrap();
        let mut refused = 0;
        for file in files_of(&disk) {
            let is_part = ["STORE", "MANIFEST"].contains(&file.as_str())
                || [".seg", ".ckp", ".ids"].iter().any(|suffix| file.ends_with(suffix));
            if !is_part {
                continue;
            }
            let without = disk.snapshot();
            without.remove(&file).unwrap();
            let number = file.strip_prefix("segments/").and_then(|name| name.strip_suffix(".seg"));
            let number = number.map(|number| SegmentNumber(u64::from_str_radix(number, 16).unwrap()));
            let is_freed = number.is_some_and(|number| {
                number < manifest.fields.next_segment
                    && !manifest.fields.segments.iter().any(|listed| listed.number == number)
            });
            if is_freed {
                // Nothing needs it; its file was about to be used again.
                let (store, _) = open(&without).unwrap();
                assert_eq!(text_of(&store).unwrap(), held, "{file}");
            } else {
                assert_refused_by_name(&without, &file);
                refused += 1;
            }
        }
        assert!(refused > 8, "{refused} files");
    }
}

#[test]
fn a_store_without_any_segment_is_no_empty_one() {
    for is_closed in [false, true] {
        let (disk, _) = a_store(is_closed);
        let segments = disk.list("segments").unwrap();
        segments.iter().for_each(|name| disk.remove(&format!("segments/{name}")).unwrap());
        let problems = check(Arc::new(disk.clone())).unwrap().problems;
        let named = |problem: &kew_store_log::Problem| problem.file.ends_with(".seg");
        assert!(problems.iter().any(named), "{problems:?}");
        assert!(look(&disk).is_err() && open(&disk).is_err());
        // The same when the checkpoint is gone with them.
        disk.remove("MANIFEST").unwrap();
        assert_refused_by_name(&disk, "MANIFEST");
    }
}

#[test]
fn without_its_identity_nothing_that_is_left_of_a_store_is_taken_for_a_new_one() {
    let (disk, _) = a_store(true);
    disk.remove("STORE").unwrap();
    disk.remove("MANIFEST").unwrap();
    let segments = disk.list("segments").unwrap();
    segments.iter().for_each(|name| disk.remove(&format!("segments/{name}")).unwrap());
    let error = open(&disk).err().expect("checkpoints and ids are left");
    assert!(error.to_string().contains("STORE"), "{error}");
}

/// Numbers of the journal's files.
fn newest(disk: &SimDisk) -> String {
    let segments = disk.list("segments").unwrap().into_iter().filter(|name| name.ends_with(".seg"));
    format!("segments/{}", segments.max().unwrap())
}

#[test]
fn after_a_kill_at_any_acknowledgement_the_newest_segment_is_missed() {
    let disk = SimDisk::new();
    let (store, _) = LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap();
    let asked = Asked::of(store);
    let queue = asked.queue("orders", Policy::standard());
    let mut names = std::collections::BTreeSet::new();
    for number in 0..60 {
        asked.send(queue, &format!("message {number} {}", "x".repeat(300)));
        let killed = disk.reopen_process_crash();
        let newest = newest(&killed);
        let sound = killed.snapshot();
        assert_eq!(text_of(&look(&sound).unwrap()).unwrap().matches("\"message\":").count(), number + 1);
        killed.remove(&newest).unwrap();
        assert_refused_by_name(&killed, &newest);
        names.insert(newest);
        if number == 40 {
            asked.store.checkpoint().unwrap();
        }
    }
    assert!(names.len() >= 4, "segments were left behind: {names:?}");
}

#[test]
fn looking_replays_what_a_kill_left_and_writes_nothing() {
    for is_closed in [false, true] {
        let (disk, _) = a_store(is_closed);
        let held = text_of(&open(&disk.snapshot()).unwrap().0).unwrap();
        let points = disk.points();
        let store = look(&disk).unwrap();
        assert!(text_of(&store).unwrap() == held, "a start finds something else");
        let counted = kew_store_log::stats(&store);
        assert_eq!(counted.messages.stored(), 22);
        drop(store);
        assert_eq!(disk.points(), points, "something was written");
    }
}

#[test]
fn a_store_that_is_looked_at_takes_no_commands() {
    let (disk, held) = a_store(false);
    let asked = Asked::of(look(&disk).unwrap());
    let points = disk.points();
    let plain = asked.find("plain");
    asked.try_send(plain, asked.message("too late")).unwrap_err();
    assert_eq!(text_of(&asked.store).unwrap().lines().skip(1).count(), held.lines().skip(1).count());
    assert_eq!(disk.points(), points);
}
