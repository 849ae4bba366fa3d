//! A check finds nothing in a sound store, and each planted damage by file and offset.

use std::sync::Arc;

use kew_store_log::{Disk, Identity, Manifest, Problem, Segments, SimDisk, check, scan_frames};

use crate::small_store::{a_bit_of_everything, bytes_of, open, options, places_of, text_of};

/// The disk of a store that was killed, or ended in order.
fn a_store(is_closed: bool) -> SimDisk {
    let disk = SimDisk::new();
    let asked = a_bit_of_everything(Arc::new(disk.clone()));
    if is_closed {
        asked.store.close().unwrap();
    }
    drop(asked);
    disk.snapshot()
}

fn problems(disk: &SimDisk) -> Vec<Problem> {
    check(Arc::new(disk.clone())).unwrap().problems
}

/// The check names the file and a place near the damage; the store does not open, or a message cannot be read.
fn is_found(disk: &SimDisk, file: &str, offset: u64, within: u64) {
    let found = problems(disk);
    let near = |problem: &&Problem| {
        problem.file == file && (offset.saturating_sub(within)..=offset).contains(&problem.offset)
    };
    assert!(found.iter().any(|problem| near(&problem)), "{file} at {offset}: {found:?}");
    if let Ok((store, report)) = open(disk) {
        text_of(&store).expect_err("the damage is met");
        assert_eq!(report.tail, None);
    }
}

fn flip(disk: &SimDisk, file: &str, offset: u64) {
    disk.corrupt(file, offset, |bytes| bytes[0] ^= 0x10, 1).unwrap();
}

fn manifest(disk: &SimDisk) -> Manifest {
    Manifest::load(disk).unwrap().unwrap()
}

#[test]
fn a_sound_store_has_no_problems_and_nothing_is_changed() {
    for is_closed in [false, true] {
        let disk = a_store(is_closed);
        let points = disk.points();
        let report = check(Arc::new(disk.clone())).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!((report.queues, report.messages, &report.tail), (4, 22, &None));
        assert!(report.segments > 2 && report.slices > 4 && report.records > 8, "{report:?}");
        assert_eq!(report.batches > 1, !is_closed, "{report:?}");
        assert_eq!(disk.points(), points, "a check writes nothing");
    }
}

#[test]
fn a_store_in_use_is_not_checked() {
    let disk = SimDisk::new();
    let _asked = a_bit_of_everything(Arc::new(disk.clone()));
    check(Arc::new(disk)).unwrap_err();
}

#[test]
fn a_flipped_byte_of_the_identity_is_found() {
    let disk = a_store(true);
    flip(&disk, "STORE", 40);
    is_found(&disk, "STORE", 40, 40);
}

#[test]
fn a_missing_identity_is_found() {
    let disk = a_store(true);
    disk.remove("STORE").unwrap();
    is_found(&disk, "STORE", 0, 0);
    disk.remove("MANIFEST").unwrap();
    assert!(open(&disk).is_err(), "a journal alone is no new store");
}

#[test]
fn a_flipped_byte_of_the_manifest_is_found() {
    let disk = a_store(true);
    flip(&disk, "MANIFEST", 100);
    is_found(&disk, "MANIFEST", 100, 100);
}

#[test]
fn a_flipped_byte_of_a_checkpoint_slice_is_found() {
    let disk = a_store(true);
    let (_, slice) = manifest(&disk).slices().max_by_key(|(_, slice)| slice.bytes).unwrap();
    let file = format!("checkpoints/{:016x}.ckp", slice.generation.0);
    flip(&disk, &file, slice.offset + 30);
    is_found(&disk, &file, slice.offset + 30, 30);
}

#[test]
fn a_missing_checkpoint_file_is_found() {
    let disk = a_store(true);
    let file = manifest(&disk).files().remove(0);
    disk.remove(&file).unwrap();
    is_found(&disk, &file, 0, 0);
}

#[test]
fn a_flipped_byte_of_ids_that_were_put_away_is_found() {
    let disk = a_store(true);
    let file = manifest(&disk).fields.sidecars[0].name.clone();
    flip(&disk, &file, 20);
    is_found(&disk, &file, 20, 20);
}

#[test]
fn a_missing_file_of_ids_that_were_put_away_is_found() {
    let disk = a_store(true);
    let file = manifest(&disk).fields.sidecars[0].name.clone();
    disk.remove(&file).unwrap();
    is_found(&disk, &file, 0, 0);
}

#[test]
fn a_flipped_byte_of_a_segment_header_is_found() {
    let disk = a_store(true);
    let (file, _) = places_of(&disk, "old message 0").remove(0);
    flip(&disk, &file, 24);
    is_found(&disk, &file, 24, 24);
}

#[test]
fn a_missing_segment_is_found() {
    let disk = a_store(true);
    let (file, _) = places_of(&disk, "old message 0").remove(0);
    disk.remove(&file).unwrap();
    is_found(&disk, &file, 0, 0);
}

#[test]
fn a_segment_cut_short_is_found() {
    let disk = a_store(true);
    let (file, _) = places_of(&disk, "old message 0").remove(0);
    disk.shorten(&file, 1_000).unwrap();
    is_found(&disk, &file, 1_000, 0);
}

#[test]
fn a_flipped_byte_of_an_old_message_is_found() {
    let disk = a_store(true);
    let (file, offset) = places_of(&disk, "old message 1").remove(0);
    flip(&disk, &file, offset + 300);
    is_found(&disk, &file, offset + 300, 400);
}

#[test]
fn a_flipped_byte_of_a_batch_after_the_checkpoint_is_found() {
    let disk = a_store(true);
    let (file, offset) = places_of(&disk, "new message 7").remove(0);
    flip(&disk, &file, offset + 5);
    is_found(&disk, &file, offset + 5, 150);
}

#[test]
fn a_flipped_byte_of_a_survivor_is_found() {
    let disk = a_store(true);
    let survivors: Vec<_> =
        manifest(&disk).fields.segments.into_iter().filter(|each| each.base.is_survivor()).collect();
    let segments = Segments::open(Arc::new(disk.clone()), options().segments).unwrap();
    let segment = segments.numbered(survivors[0].number).unwrap();
    let sums = Identity::load(&disk).unwrap().unwrap().checksums();
    let mut place = None;
    let range = segment.base()..segment.base() + survivors[0].used;
    scan_frames(&segment, sums, range, |frame| {
        place = Some(segment.offset_of(frame.address));
        Ok(())
    })
    .unwrap();
    let offset = place.unwrap();
    flip(&disk, segment.name(), offset + 12);
    is_found(&disk, segment.name(), offset + 12, 12);
}

#[test]
fn bytes_written_to_the_wrong_place_are_found() {
    let disk = a_store(true);
    let places = [places_of(&disk, "old message 2").remove(0), places_of(&disk, "old message 4").remove(0)];
    let [(from, at), (to, there)] = places;
    // Whole frames of the same length, each valid at its own place.
    let frame = bytes_of(&disk, &from)[at as usize - 60..at as usize + 700].to_vec();
    disk.corrupt(&to, there - 60, |bytes| bytes.copy_from_slice(&frame), frame.len()).unwrap();
    is_found(&disk, &to, there, 200);
}

#[test]
fn everything_that_is_wrong_is_listed_at_once() {
    let disk = a_store(true);
    let (old, at) = places_of(&disk, "old message 1").remove(0);
    let (new, there) = places_of(&disk, "new message 8").remove(0);
    flip(&disk, &old, at);
    flip(&disk, &new, there);
    let ids = manifest(&disk).fields.sidecars[0].name.clone();
    flip(&disk, &ids, 3);
    let found = problems(&disk);
    for file in [old, new, ids] {
        assert!(found.iter().any(|problem| problem.file == file), "{file}: {found:?}");
    }
}

#[test]
fn what_a_crash_left_half_written_is_reported_and_no_problem() {
    let disk = a_store(false);
    let (file, offset) = places_of(&disk, "new message 8").remove(0);
    // The newest batches are not known durable by anything behind them: what follows is a lease and nothing else.
    let bytes = bytes_of(&disk, &file);
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    assert!(end > offset);
    flip(&disk, &file, end - 3);
    let report = check(Arc::new(disk)).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.tail.unwrap().file, file);
}
