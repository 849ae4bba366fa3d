//! A backup is a store as it was at one moment, whatever becomes of the one it was made from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::{Command, Policy};
use kew_store::Store;
use kew_store_log::{
    BACKUP_LIST, Disk, Drive, LogOptions, LogStore, RealDisk, SegmentNumber, Sharing, SimDisk, backup, check,
    verify_backup,
};

use crate::small_store::{Asked, START, a_bit_of_everything, entropy, options, text_of};

fn opened(folder: &std::path::Path) -> LogStore {
    let disk = Arc::new(RealDisk::open(folder).unwrap());
    let report = check(disk.clone()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    LogStore::open(disk, options(), entropy(9), START).unwrap().0
}

fn numbers(asked: &Asked) -> BTreeSet<SegmentNumber> {
    asked.store.segments().list().iter().map(|segment| segment.number()).collect()
}

/// Goes on until no segment is left of those that were there.
fn churn_through(asked: &Asked) {
    let before = numbers(asked);
    let busy = asked.find("busy");
    for name in ["plain", "dead", "row.fifo"] {
        let queue = asked.find(name);
        loop {
            let leased = asked.lease(queue, 10);
            if leased.is_empty() {
                break;
            }
            asked.ack(queue, &leased);
        }
        asked.ask(Command::Purge(kew_core::command::Purge { queue }));
    }
    for _ in 0..200 {
        asked.churn(busy, 10);
        if numbers(asked).is_disjoint(&before) {
            return;
        }
    }
    panic!("{before:?} is still there: {:?}", numbers(asked));
}

#[test]
fn a_backup_is_equal_to_its_moment_after_every_segment_was_reused() {
    let folder = tempfile::tempdir().unwrap();
    let (home, target) = (folder.path().join("home"), folder.path().join("backup"));
    let asked = a_bit_of_everything(Arc::new(RealDisk::open(&home).unwrap()));
    let held = text_of(&asked.store).unwrap();
    let report = backup(&asked.store, &target, Sharing::Links).unwrap();
    assert!(report.linked > 2, "{report:?}");
    churn_through(&asked);
    assert_ne!(text_of(&asked.store).unwrap(), held);
    assert_eq!(verify_backup(&target).unwrap(), report.files);
    let restored = opened(&target);
    assert_eq!(text_of(&restored).unwrap(), held);

    // It lives on by itself, and the two never touch each other's bytes.
    let restored = Asked::of(restored);
    churn_through(&restored);
    let after = text_of(&asked.store).unwrap();
    let busy = asked.find("busy");
    asked.churn(busy, 20);
    restored.store.close().unwrap();
    drop(restored);
    assert!(check(Arc::new(RealDisk::open(&target).unwrap())).unwrap().is_sound());
    let now = asked.now;
    asked.store.close().unwrap();
    drop(asked);
    let again = opened(&home);
    assert!(again.newest_instant() >= now.minus(std::time::Duration::from_secs(60)));
    assert_eq!(text_of(&again).unwrap().lines().count(), after.lines().count());
}

#[test]
fn a_disk_that_cannot_link_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let asked = a_bit_of_everything(Arc::new(SimDisk::new()));
    let held = text_of(&asked.store).unwrap();
    let report = backup(&asked.store, folder.path(), Sharing::Nothing).unwrap();
    assert_eq!(report.linked, 0);
    churn_through(&asked);
    assert_eq!(text_of(&opened(folder.path())).unwrap(), held);
}

#[test]
fn a_backup_of_a_store_at_work_holds_all_that_was_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let (home, target) = (folder.path().join("home"), folder.path().join("backup"));
    let options = LogOptions { drive: Drive::Threads, ..options() };
    let disk = Arc::new(RealDisk::open(&home).unwrap());
    let (store, _) = LogStore::open(disk, options, entropy(1), START).unwrap();
    let asked = Asked::of(store);
    let (kept, busy) = (asked.queue("kept", Policy::standard()), asked.queue("busy", Policy::standard()));
    for number in 0..50 {
        asked.send(kept, &format!("kept {number}"));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                asked.send(busy, &"busy ".repeat(50));
                let leased = asked.lease(busy, 2);
                asked.ack(busy, &leased);
            }
        });
        for round in 0..5 {
            let target = target.join(round.to_string());
            backup(&asked.store, &target, Sharing::Links).unwrap();
            verify_backup(&target).unwrap();
            let restored = Asked::of(opened(&target));
            assert_eq!(restored.lease(kept, 100).len(), 50);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_backup_needs_an_empty_directory_and_a_damaged_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let asked = a_bit_of_everything(Arc::new(SimDisk::new()));
    let report = backup(&asked.store, folder.path(), Sharing::Nothing).unwrap();
    backup(&asked.store, folder.path(), Sharing::Nothing).unwrap_err();
    let name = &report.files[0].name;
    let disk = RealDisk::open(folder.path()).unwrap();
    let file = disk.open(name).unwrap();
    file.write_at(30, b"damage").unwrap();
    let error = verify_backup(folder.path()).unwrap_err().to_string();
    assert!(error.contains(name), "{error}");
    disk.remove(BACKUP_LIST).unwrap();
    let error = verify_backup(folder.path()).unwrap_err().to_string();
    assert!(error.contains(BACKUP_LIST), "{error}");
}
