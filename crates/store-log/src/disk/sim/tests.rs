//! What a disk may do, the simulated one does; what no disk does, it never does.

use std::io;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Beside, Fault, FaultPlan, Found, SimDisk};
use crate::disk::{Disk, DiskFile};

fn contents(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(name).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

#[test]
fn unsynced_writes_may_be_lost_kept_or_torn_and_synced_ones_never() {
    let disk = SimDisk::new();
    let file = disk.create("a").unwrap();
    file.allocate(4096).unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[2; 2048]).unwrap();
    file.write_at(512, &[3; 512]).unwrap();

    let lost = contents(&disk.reopen(1, Found::Lost), "a").unwrap();
    assert_eq!((lost[0], lost[512], lost[1024]), (1, 1, 0));
    let kept = contents(&disk.reopen(1, Found::Kept), "a").unwrap();
    assert_eq!((kept[0], kept[512], kept[1024]), (2, 3, 2));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let torn = contents(&disk.reopen(seed, Found::Torn), "a").unwrap();
        assert!(torn[..512].iter().all(|b| *b == torn[0]), "a sector is never torn within");
        seen.insert((torn[0], torn[512], torn[1024], torn[1536]));
    }
    assert!(seen.contains(&(1, 3, 0, 2)) && seen.contains(&(2, 1, 2, 0)) && seen.contains(&(2, 2, 0, 0)));
    assert_eq!(seen.len(), 2 * 3 * 2 * 2);
}

#[test]
fn the_same_seed_finds_the_same_disk() {
    let disk = SimDisk::new();
    for name in ["a", "b", "c", "d"] {
        disk.create(name).unwrap().write_at(100, &[7; 5000]).unwrap();
    }
    let found = |seed| ["a", "b", "c", "d"].map(|name| contents(&disk.reopen(seed, Found::Torn), name));
    assert_eq!(found(5), found(5));
    assert!((0..20).any(|seed| found(seed) != found(5)));
}

#[test]
fn names_are_durable_only_after_their_folder_is_synced() {
    let disk = SimDisk::new();
    let file = disk.create("a").unwrap();
    file.write_at(0, b"x").unwrap();
    file.sync_all().unwrap();
    assert_eq!(contents(&disk.reopen(0, Found::Lost), "a"), None);
    disk.sync_dir("").unwrap();
    disk.rename("a", "b").unwrap();
    let lost = disk.reopen(0, Found::Lost);
    assert_eq!((contents(&lost, "a").is_some(), contents(&lost, "b").is_some()), (true, false));
    let kept = disk.reopen(0, Found::Kept);
    assert_eq!((contents(&kept, "a").is_some(), contents(&kept, "b").is_some()), (false, true));
}

#[test]
fn lengths_are_shorn_before_a_sync() {
    let disk = SimDisk::new();
    let file = disk.create("a").unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[9; 3000]).unwrap();
    let lengths: std::collections::BTreeSet<usize> =
        (0..100).map(|seed| contents(&disk.reopen(seed, Found::Torn), "a").unwrap().len()).collect();
    assert!(lengths.contains(&0) && lengths.contains(&3000) && lengths.len() > 5);
}

#[test]
fn a_process_crash_keeps_writes_readable_but_not_durable() {
    let disk = SimDisk::new();
    disk.create("a").unwrap().write_at(0, b"x").unwrap();
    let after = disk.reopen_process_crash();
    assert_eq!(contents(&after, "a").unwrap(), b"x");
    assert_eq!(contents(&after.reopen(0, Found::Lost), "a"), None);
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next() {
    let lost = (0..40).any(|extra| {
        let disk = SimDisk::new();
        let file = disk.create("a").unwrap();
        disk.sync_dir("").unwrap();
        for _ in 0..extra {
            file.sync_data().unwrap();
        }
        file.write_at(0, b"x").unwrap();
        disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::Error }));
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(contents(&disk, "a").unwrap(), b"x");
        contents(&disk.reopen(0, Found::Kept), "a").unwrap() != b"x"
    });
    assert!(lost);
}

#[test]
fn faults_strike_at_their_point_and_a_cut_ends_everything() {
    let disk = SimDisk::new();
    disk.set_fault(Some(FaultPlan { at: 2, fault: Fault::PowerCut }));
    let file = disk.create("a").unwrap();
    file.write_at(0, b"x").unwrap_err();
    file.sync_data().unwrap_err();
    disk.open("a").map(|_| ()).unwrap_err();
    assert_eq!(contents(&disk.reopen(0, Found::Kept), "a").unwrap(), b"x");
    disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::Error }));
    file.write_at(0, b"y").unwrap_err();
    file.write_at(0, b"y").unwrap();
}

#[test]
fn a_full_disk_refuses_growth_only() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(10_000));
    let file = disk.create("a").unwrap();
    file.allocate(8_000).unwrap();
    assert_eq!(disk.free_space().unwrap(), 2_000);
    let other = disk.create("b").unwrap();
    assert_eq!(other.allocate(2_001).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_at(7_990, &[1; 10]).unwrap();
    file.write_at(7_990, &[1; 3_000]).unwrap_err();
    disk.remove("a").unwrap();
    other.allocate(9_000).unwrap();
}

#[test]
fn recorded_snapshots_show_every_state_a_cut_can_meet() {
    let disk = SimDisk::new();
    disk.record_snapshots();
    let file = disk.create("a").unwrap();
    file.write_at(0, b"x").unwrap();
    file.write_at(0, b"y").unwrap();
    let seen: Vec<_> = disk.take_snapshots().iter().map(|(at, disk)| (*at, contents(disk, "a"))).collect();
    assert_eq!(seen, [(0, None), (1, Some(vec![])), (2, Some(b"x".to_vec()))]);
}

/// Does something once while the next sync is under way.
struct Meanwhile<F> {
    act: F,
    is_done: AtomicBool,
}

impl<F: Fn() + Send + Sync + 'static> Meanwhile<F> {
    fn beside(disk: &SimDisk, act: F) {
        disk.set_beside(Some(Arc::new(Self { act, is_done: AtomicBool::new(false) })));
    }
}

impl<F: Fn() + Send + Sync> Beside for Meanwhile<F> {
    fn during_sync(&self) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            (self.act)();
        }
    }
}

fn file_with_x(disk: &SimDisk) -> Arc<dyn DiskFile> {
    let file = disk.create("a").unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, b"x").unwrap();
    file
}

#[test]
fn what_is_written_while_a_sync_runs_is_not_in_it() {
    let disk = SimDisk::new();
    let file = file_with_x(&disk);
    let other = file.clone();
    Meanwhile::beside(&disk, move || other.write_at(1, b"y").unwrap());
    file.sync_data().unwrap();
    assert_eq!(contents(&disk.reopen(0, Found::Lost), "a").unwrap(), b"x");
    file.sync_data().unwrap();
    assert_eq!(contents(&disk.reopen(0, Found::Lost), "a").unwrap(), b"xy");
}

#[test]
fn an_error_of_writing_back_is_reported_to_the_sync_that_ends_first_and_once_to_each_handle() {
    let disk = SimDisk::new();
    let file = file_with_x(&disk);
    let second = disk.open("a").unwrap();
    disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::SyncError }));
    let other = file.clone();
    Meanwhile::beside(&disk, move || {
        other.sync_data().unwrap_err();
    });
    file.sync_data().unwrap();
    second.sync_data().unwrap_err();
    second.sync_data().unwrap();
    disk.open("a").unwrap().sync_data().unwrap();
}

#[test]
fn a_folder_is_lost_with_everything_in_it_until_the_folder_around_it_is_synced() {
    let disk = SimDisk::new();
    disk.create_dir("inner").unwrap();
    disk.create("inner/a").unwrap().sync_all().unwrap();
    disk.sync_dir("inner").unwrap();
    assert_eq!(contents(&disk.reopen(0, Found::Lost), "inner/a"), None);
    disk.sync_dir("").unwrap();
    assert_eq!(contents(&disk.reopen(0, Found::Lost), "inner/a").unwrap(), b"");
}

#[test]
fn a_lost_write_is_read_until_the_power_goes_and_a_misdirected_one_harms_another_place() {
    for (fault, harmed) in [(Fault::LostWrite, 0), (Fault::MisdirectedWrite, 1)] {
        let disk = SimDisk::new();
        let file = disk.create("a").unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, &[1; 8192]).unwrap();
        file.sync_data().unwrap();
        disk.set_fault(Some(FaultPlan { at: 0, fault }));
        file.sync_data().unwrap();
        file.write_at(4096, &[2; 512]).unwrap();
        file.sync_data().unwrap();
        assert_eq!(contents(&disk, "a").unwrap()[4096], 2);
        let found = contents(&disk.reopen(0, Found::Lost), "a").unwrap();
        assert_eq!(found[4096], 1, "{fault:?}");
        assert_eq!(found.chunks(512).filter(|sector| sector[0] == 2).count(), harmed, "{fault:?}");
    }
}

#[test]
fn garbage_is_found_only_where_bytes_were_on_their_way() {
    let disk = SimDisk::new();
    let file = disk.create("a").unwrap();
    disk.sync_dir("").unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    file.sync_data().unwrap();
    file.write_at(500, &[2; 200]).unwrap();
    let mut is_seen = false;
    for seed in 0..200 {
        let found = contents(&disk.reopen(seed, Found::Garbage), "a").unwrap();
        assert!(found[..500].iter().chain(&found[700..]).all(|byte| *byte == 1), "seed {seed}");
        is_seen |= found[500..700].iter().any(|byte| *byte > 2);
    }
    assert!(is_seen);
}
