//! Every row of the table of tails and decisions, on files that were damaged for it.

use super::*;
use crate::disk::{Disk, SimDisk};
use crate::journal::{Appended, Journal, SEGMENT_HEADER_BYTES, SegmentOptions};

const SUMS: Checksums = Checksums::new(5);
const OPTIONS: SegmentOptions =
    SegmentOptions { first_bytes: 4096, largest_bytes: 4096, reserve_spares: 1, spares_max: 3, open_max: 4 };
/// Three of them fill a segment.
const TEXT: [u8; 1200] = [b'x'; 1200];

/// A disk with a journal of this many batches, and where each of them lies. Some are synced after they are written.
fn written(batches: u64, is_synced: impl Fn(u64) -> bool) -> (SimDisk, Vec<Appended>) {
    let disk = SimDisk::new();
    let segments = Segments::open(Arc::new(disk.clone()), OPTIONS).expect("the simulated disk works");
    let opened = Journal::open(&segments, SUMS, ReplayStart::FIRST, BatchNumber::BEFORE_FIRST, |_| Ok(()));
    let (mut journal, _) = opened.expect("an empty journal opens");
    let mut appended = Vec::new();
    for number in 1..=batches {
        let mut batch = journal.batch_buffer();
        batch.begin(journal.next_batch(), journal.end());
        batch.push(1, &[&TEXT]);
        appended.push(journal.append(&mut batch).expect("the simulated disk has space"));
        if is_synced(number) {
            journal.sync().expect("the simulated disk works");
        }
    }
    (disk, appended)
}

/// Overwrites bytes of the first segment with zeros.
fn wipe(disk: &SimDisk, from: Address, bytes: u64) {
    let (name, at) = (segment_name(SegmentNumber::FIRST), SEGMENT_HEADER_BYTES + from.0);
    disk.corrupt(&name, at, |bytes| bytes.fill(0), bytes as usize).expect("the segment has these bytes");
}

/// Scans the whole journal; the checkpoint knows batches up to `known` to be durable.
fn scan(disk: &SimDisk, known: BatchNumber) -> Result<ScanEnd, LogError> {
    let segments = Segments::open(Arc::new(disk.clone()), OPTIONS).expect("every segment has its header");
    scan_journal(&segments, SUMS, ReplayStart::FIRST, known, |_| Ok(()))
}

/// The file of the damage that a scan ends with, and its description.
fn damage(disk: &SimDisk, known: BatchNumber) -> (String, String) {
    match scan(disk, known) {
        Err(LogError::Damage { file, what, .. }) => (file, what),
        other => panic!("no damage, but {other:?}"),
    }
}

fn never(_: u64) -> bool {
    false
}

/// Row 1.
#[test]
fn walk_goes_on_in_the_segment_that_begins_where_the_last_one_ends() {
    let (disk, appended) = written(5, never);
    assert!(appended[3].segment_opened, "the fourth batch lies in the second segment");
    let end = scan(&disk, BatchNumber::BEFORE_FIRST).expect("the journal is whole");
    assert_eq!((end.batches, end.next_batch, end.tail), (5, BatchNumber(6), None));
    assert_eq!(decide(Tail::Continued, false), Decision::GoOn);
    assert_eq!(decide(Tail::Continued, true), Decision::GoOn);
}

/// Row 2.
#[test]
fn file_between_two_segments_is_named_when_it_is_missing() {
    let (disk, _) = written(9, never);
    disk.remove(&segment_name(SegmentNumber(2))).expect("the second segment exists");
    let (file, what) = damage(&disk, BatchNumber::BEFORE_FIRST);
    assert_eq!(file, segment_name(SegmentNumber(2)));
    assert!(what.contains("batch 4 was in it"), "{what}");
}

/// Row 3.
#[test]
fn bad_batch_before_a_later_segment_is_damage_although_no_batch_knew_it_durable() {
    let (disk, appended) = written(4, never);
    wipe(&disk, appended[2].address, appended[2].bytes);
    let (file, what) = damage(&disk, BatchNumber::BEFORE_FIRST);
    assert_eq!(file, segment_name(SegmentNumber(1)));
    assert!(what.contains("batch 3 is bad") && what.contains("was made after it was synced"), "{what}");
}

/// Row 3.
#[test]
fn file_that_is_missing_is_not_blamed_for_a_batch_of_which_something_is_left() {
    let (disk, appended) = written(9, never);
    disk.remove(&segment_name(SegmentNumber(2))).expect("the second segment exists");
    wipe(&disk, appended[1].address, 20);
    let (file, what) = damage(&disk, BatchNumber::BEFORE_FIRST);
    assert_eq!(file, segment_name(SegmentNumber(1)));
    assert!(what.contains("batch 2 is bad"), "{what}");
}

/// Row 4.
#[test]
fn bad_batch_that_a_later_header_knows_durable_is_damage() {
    let (disk, appended) = written(3, |number| number == 2);
    wipe(&disk, appended[1].address, 20);
    let (_, what) = damage(&disk, BatchNumber::BEFORE_FIRST);
    assert!(what.contains("batch 2 is bad") && what.contains("up to batch 2 was synced"), "{what}");
}

/// Row 5.
#[test]
fn journal_that_ends_before_a_batch_the_checkpoint_knows_durable_is_damage() {
    let (disk, appended) = written(2, never);
    wipe(&disk, appended[1].address, appended[1].bytes);
    let (_, what) = damage(&disk, BatchNumber(2));
    assert!(what.contains("batch 2 is bad or missing"), "{what}");
}

/// Row 6.
#[test]
fn bad_batch_that_no_witness_knows_is_cut_off_with_the_later_ones() {
    let (disk, appended) = written(3, |number| number == 1);
    wipe(&disk, appended[1].address, 20);
    let end = scan(&disk, BatchNumber(1)).expect("a torn tail is no damage");
    let tail = end.tail.expect("the torn tail is reported");
    assert_eq!((tail.batch, tail.batches_dropped), (BatchNumber(2), 1));
    assert_eq!(end.wipe_until, tail.offset + appended[1].bytes + appended[2].bytes);
    assert_eq!((end.end, end.next_batch, end.clean), (appended[1].address, BatchNumber(2), false));
}

/// Row 7.
#[test]
fn journal_ends_where_nothing_is_left() {
    let (disk, appended) = written(2, never);
    wipe(&disk, appended[1].address, appended[1].bytes);
    let end = scan(&disk, BatchNumber(1)).expect("the journal ends with batch 1");
    assert_eq!((end.end, end.next_batch), (appended[1].address, BatchNumber(2)));
    assert!(end.tail.is_none() && end.wipe_until == SEGMENT_HEADER_BYTES + end.end.0);
}

#[test]
fn segment_that_was_made_for_another_batch_is_damage() {
    let mut walk = Walk::from(ReplayStart::FIRST, BatchNumber::BEFORE_FIRST, SUMS);
    let (disk, _) = written(4, never);
    let segments = Segments::open(Arc::new(disk), OPTIONS).expect("every segment has its header");
    let second = segments.numbered(SegmentNumber(2)).expect("the fourth batch lies in a second segment");
    (walk.at, walk.next) = (second.base(), BatchNumber(3));
    assert!(matches!(walk.enter(&second), Err(LogError::Damage { offset: 32, .. })));
    walk.next = BatchNumber(4);
    assert_eq!(walk.enter(&second), Ok(()));
}

#[test]
fn replay_that_starts_in_no_segment_is_damage() {
    let (disk, _) = written(1, never);
    let segments = Segments::open(Arc::new(disk), OPTIONS).expect("every segment has its header");
    let start = ReplayStart { address: Address(1 << 30), batch: BatchNumber(9) };
    let scanned = scan_journal(&segments, SUMS, start, BatchNumber(8), |_| Ok(()));
    assert!(matches!(scanned, Err(LogError::Damage { file, .. }) if file == SEGMENTS_FOLDER));
}
