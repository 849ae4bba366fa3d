//! A backup is a store as it was at one moment, whatever becomes of the one it was made from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kew_core::{Command, Policy};
use kew_store::Store;
use kew_store_log::{
    BACKUP_LIST, BackupPlan, BackupProgress, DAMAGED_FOLDER, Disk, Drive, LogOptions, LogStore, RealDisk,
    SegmentNumber, Sharing, SimDisk, WatchedDisk, Watcher, backup, backup_watched, check, stats,
    verify_backup,
};
use parking_lot::Mutex;

use crate::open_files::{OpenFile, OpenFiles};
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
    assert!(again.newest_instant() >= now.minus(Duration::from_secs(60)));
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

/// A plan that copies everything.
fn copied() -> BackupPlan {
    BackupPlan::of(Sharing::Nothing)
}

/// Lets something happen whenever a piece of a segment is read for a backup.
#[derive(Default)]
struct Between {
    act: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Watcher for Between {
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        name.starts_with("segments/")
    }

    fn reads(&self, is_segment: &bool) {
        // What it does reads too; the lock is held by then.
        if *is_segment
            && let Some(mut act) = self.act.try_lock()
            && let Some(act) = &mut *act
        {
            act();
        }
    }
}

/// A store with a bit of everything on a disk that lets things happen in between.
fn watched() -> (Arc<Between>, Arc<Asked>) {
    let between = Arc::<Between>::default();
    let disk = WatchedDisk::new(SimDisk::new(), Arc::clone(&between));
    (between, Arc::new(a_bit_of_everything(Arc::new(disk))))
}

#[test]
fn while_files_are_copied_upkeep_goes_on_and_the_backup_is_still_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("backup");
    let (between, asked) = watched();
    let (held, before) = (text_of(&asked.store).unwrap(), numbers(&asked));
    let checkpoints = stats(&asked.store).log.checkpoints;
    let (mut is_done, other) = (false, Arc::clone(&asked));
    *between.act.lock() = Some(Box::new(move || {
        if !std::mem::replace(&mut is_done, true) {
            churn_through(&other);
        }
    }));
    let progress = BackupProgress::default();
    backup_watched(&asked.store, &target, copied(), &progress).unwrap();
    *between.act.lock() = None;
    assert!(stats(&asked.store).log.checkpoints > checkpoints + 2, "checkpoints were made meanwhile");
    assert!(before.is_disjoint(&numbers(&asked)), "every segment was given up meanwhile");
    assert!(progress.of() > 0 && progress.bytes() == progress.of(), "{progress:?}");
    verify_backup(&target).unwrap();
    assert_eq!(text_of(&opened(&target)).unwrap(), held);
}

#[test]
fn a_backup_made_under_load_is_equal_to_one_moment_of_the_run() {
    for sharing in [Sharing::Nothing, Sharing::Links] {
        let folder = tempfile::tempdir().unwrap();
        let options = LogOptions { drive: Drive::Threads, ..options() };
        let disk = Arc::new(RealDisk::open(folder.path().join("home")).unwrap());
        let asked = Asked::of(LogStore::open(disk, options, entropy(1), START).unwrap().0);
        let queue = asked.queue("busy", Policy::standard());
        // What an export says after each step.
        let run = Mutex::new(vec![text_of(&asked.store).unwrap()]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let note = || run.lock().push(text_of(&asked.store).unwrap());
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..3 {
                        asked.send(queue, &"busy ".repeat(50));
                        note();
                    }
                    let leased = asked.lease(queue, 2);
                    note();
                    asked.ack(queue, &leased);
                    note();
                }
            });
            for round in 0..4 {
                let target = folder.path().join(round.to_string());
                let begun = run.lock().len();
                backup(&asked.store, &target, sharing).unwrap();
                let held = text_of(&opened(&target)).unwrap();
                // The run goes on: its moment is noted by now, or soon.
                let is_noted = || run.lock().iter().skip(begun - 1).any(|text| *text == held);
                let deadline = Instant::now() + Duration::from_secs(30);
                while !is_noted() {
                    assert!(Instant::now() < deadline, "the backup equals no moment of the run:\n{held}");
                    std::thread::yield_now();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_backup_that_fails_names_the_cause_and_removes_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("backup");
    let (between, asked) = watched();
    let segments = target.join("segments");
    *between.act.lock() = Some(Box::new(move || {
        // As a disk that is taken out: what comes next cannot be written.
        let _gone = std::fs::remove_dir_all(&segments);
    }));
    let progress = BackupProgress::default();
    let failed = backup_watched(&asked.store, &target, copied(), &progress).unwrap_err();
    assert!(failed.to_string().starts_with("making segments/"), "{failed}");
    assert_eq!((failed.left_in, target.exists()), (None, false));

    // Where something else lies by now the directory stays, and is named.
    let alien = target.join("segments/alien");
    let progress = Arc::new(BackupProgress::default());
    let stopping = Arc::clone(&progress);
    *between.act.lock() = Some(Box::new(move || {
        std::fs::write(&alien, "x").unwrap();
        stopping.stop();
    }));
    let failed = backup_watched(&asked.store, &target, copied(), &progress).unwrap_err();
    assert_eq!(failed.left_in.as_deref(), Some(target.as_path()));
    assert!(failed.to_string().contains("stopped before its end; files of the"), "{failed}");
    let left: Vec<_> = std::fs::read_dir(target.join("segments")).unwrap().collect();
    assert_eq!(left.len(), 1, "only what is not of the backup: {left:?}");
    *between.act.lock() = None;
    churn_through(&asked);
}

#[test]
fn a_backup_that_finds_too_little_room_copies_nothing_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/backup");
    let (between, asked) = watched();
    let is_read = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_read);
    *between.act.lock() = Some(Box::new(move || noted.store(true, Ordering::Relaxed)));
    let plan = BackupPlan { free_kept: u64::MAX, ..copied() };
    let progress = BackupProgress::default();
    let failed = backup_watched(&asked.store, &target, plan, &progress).unwrap_err();
    assert!(failed.to_string().starts_with("no space left for the backup: it takes "), "{failed}");
    assert_eq!((failed.left_in, target.exists(), progress.bytes()), (None, false, 0));
    assert!(!is_read.load(Ordering::Relaxed), "no byte of a segment was read");
    *between.act.lock() = None;
    backup_watched(&asked.store, &target, copied(), &progress).unwrap();
    verify_backup(&target).unwrap();
}

#[test]
fn records_in_quarantine_are_part_of_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("backup");
    let disk = SimDisk::new();
    let asked = a_bit_of_everything(Arc::new(disk.clone()));
    disk.create_dir(DAMAGED_FOLDER).unwrap();
    let name = format!("{DAMAGED_FOLDER}/00000000000000ff.record");
    let record = vec![7; (1 << 20) + 5];
    disk.create(&name).unwrap().write_at(0, &record).unwrap();
    let report = backup(&asked.store, &target, Sharing::Nothing).unwrap();
    assert!(report.files.iter().any(|file| file.name == name && file.bytes == record.len() as u64));
    assert_eq!(std::fs::read(target.join(&name)).unwrap(), record);
    verify_backup(&target).unwrap();
    std::fs::write(target.join(DAMAGED_FOLDER).join("other.record"), "x").unwrap();
    let error = verify_backup(&target).unwrap_err().to_string();
    assert!(error.contains("damaged/other.record") && error.contains("not backed up"), "{error}");
}

#[test]
fn the_list_of_a_backup_says_what_the_store_held_whatever_its_disk_makes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("backup");
    let (between, asked) = watched();
    let segments = target.join("segments");
    let is_flipped = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_flipped);
    *between.act.lock() = Some(Box::new(move || {
        // The first file is whole by the time another one is read.
        let mut names: Vec<_> =
            std::fs::read_dir(&segments).unwrap().map(|one| one.unwrap().path()).collect();
        names.sort_unstable();
        if names.len() > 1 && !noted.swap(true, Ordering::Relaxed) {
            let mut bytes = std::fs::read(&names[0]).unwrap();
            bytes[70] ^= 1;
            std::fs::write(&names[0], bytes).unwrap();
        }
    }));
    backup_watched(&asked.store, &target, copied(), &BackupProgress::default()).unwrap();
    *between.act.lock() = None;
    assert!(is_flipped.load(Ordering::Relaxed), "the store has more than one segment");
    let error = verify_backup(&target).unwrap_err().to_string();
    assert!(error.contains("segments/"), "{error}");
}

/// Counts the files of segments that are open, and lets something happen when one is read.
#[derive(Default)]
struct Counted {
    files: OpenFiles,
    act: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Watcher for Counted {
    type File = OpenFile;

    fn opened(&self, name: &str) -> OpenFile {
        self.files.opened(name)
    }

    fn reads(&self, file: &OpenFile) {
        // What it does reads too; the lock is held by then.
        if file.is_segment()
            && let Some(mut act) = self.act.try_lock()
            && let Some(act) = &mut *act
        {
            act();
        }
    }
}

#[test]
fn a_backup_of_many_segments_holds_few_files_open_also_where_all_are_freed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let counted = Arc::<Counted>::default();
    let disk = SimDisk::new();
    let watched = WatchedDisk::new(disk.clone(), Arc::clone(&counted));
    let mut asked = Asked::of(LogStore::open(Arc::new(watched), options(), entropy(1), START).unwrap().0);
    let queue = asked.queue("plain", Policy::standard());
    for number in 0..600 {
        asked.send(queue, &format!("message {number} {}", "x".repeat(700)));
    }
    let segments = options().segments;
    // Those of the bound, spares, the one that is written and the next one, one that is being read or looked at.
    let bound = i64::try_from(segments.open_max + segments.spares_max + 4).unwrap();
    let before = numbers(&asked);
    assert!(before.len() as i64 > 5 * bound, "{} segments say nothing about {bound}", before.len());
    let held = text_of(&asked.store).unwrap();
    asked.later(Duration::from_secs(1));
    let (asked, mut is_done) = (Arc::new(asked), false);
    let other = Arc::clone(&asked);
    *counted.act.lock() = Some(Box::new(move || {
        if !std::mem::replace(&mut is_done, true) {
            other.ask(Command::Purge(kew_core::command::Purge { queue }));
            for _ in 0..10 {
                other.churn(queue, 30);
                other.store.keep_up().unwrap();
            }
        }
    }));
    backup_watched(&asked.store, folder.path(), copied(), &BackupProgress::default()).unwrap();
    *counted.act.lock() = None;
    assert!(
        before.intersection(&numbers(&asked)).count() < before.len() / 2,
        "segments were freed meanwhile"
    );
    let most = counted.files.most();
    assert!(most <= bound, "{most} files open at a time, at most {bound}");
    assert_eq!(text_of(&opened(folder.path())).unwrap(), held);
    let files = || disk.list("segments").unwrap().len();
    let kept = files();
    asked.store.keep_up().unwrap();
    asked.churn(queue, 30);
    asked.store.keep_up().unwrap();
    assert!(files() < kept / 2, "freed files go when the backup is done: {} of {kept}", files());
}
