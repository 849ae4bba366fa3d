//! The journal alone: torn tails and damage distinguished, stale bytes that never replay, room on a full disk.
#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use kew_store_log::{
    Address, Appended, BATCH_OVERHEAD_BYTES, BatchNumber, Checksums, Disk, Found, Journal, LogError,
    RealDisk, Recovery, ReplayStart, Room, SEGMENT_HEADER_BYTES, SegmentNumber, SegmentOptions, Segments,
    SimDisk,
};
use std::sync::Arc;

const SUMS: Checksums = Checksums::new(5);
const SMALL: SegmentOptions =
    SegmentOptions { first_bytes: 4096, largest_bytes: 4096, reserve_spares: 1, spares_max: 3, open_max: 4 };
const FIRST_FILE: &str = "segments/0000000000000001.seg";

type Texts = Vec<(u64, String)>;

fn open_with(
    disk: &SimDisk,
    options: SegmentOptions,
    durable_through: u64,
) -> Result<(Journal, Recovery, Texts), LogError> {
    let segments = Segments::open(Arc::new(disk.clone()), options)?;
    let mut texts = Vec::new();
    let (journal, recovery) =
        Journal::open(&segments, SUMS, ReplayStart::FIRST, BatchNumber(durable_through), |view| {
            for (_, _, payload) in view.records() {
                texts.push((view.number().0, String::from_utf8_lossy(payload).into_owned()));
            }
            Ok(())
        })?;
    Ok((journal, recovery, texts))
}

fn open(disk: &SimDisk) -> Result<(Journal, Recovery, Texts), LogError> {
    open_with(disk, SMALL, 0)
}

fn append(journal: &mut Journal, texts: &[&str]) -> Result<Appended, LogError> {
    let mut batch = journal.batch_buffer();
    batch.begin(journal.next_batch(), journal.end());
    for text in texts {
        batch.push(1, &[text.as_bytes()]);
    }
    journal.append(&mut batch)
}

fn texts(pairs: &[(u64, &str)]) -> Texts {
    pairs.iter().map(|(batch, text)| (*batch, (*text).to_owned())).collect()
}

fn zero(disk: &SimDisk, from: u64, len: u64) {
    disk.corrupt(FIRST_FILE, from, |bytes| bytes.fill(0), len as usize).unwrap();
}

#[test]
fn an_empty_directory_becomes_an_empty_journal() {
    let disk = SimDisk::new();
    let (journal, recovery, found) = open(&disk).unwrap();
    assert_eq!((journal.next_batch(), journal.end()), (BatchNumber::FIRST, Address::START));
    assert!(found.is_empty());
    assert_eq!(recovery, Recovery { batches: 0, tail: None, clean: true });
    assert_eq!(journal.segments().spares(), 1, "the reserve is taken at start");
}

#[test]
fn batches_come_back_after_a_clean_stop_and_after_a_kill() {
    for clean in [true, false] {
        let disk = SimDisk::new();
        let (mut journal, ..) = open(&disk).unwrap();
        append(&mut journal, &["a", "b"]).unwrap();
        append(&mut journal, &[]).unwrap();
        append(&mut journal, &["c"]).unwrap();
        if clean {
            journal.close().unwrap();
        }
        let (journal, recovery, found) = open(&disk.reopen_process_crash()).unwrap();
        assert_eq!(found, texts(&[(1, "a"), (1, "b"), (3, "c")]));
        assert_eq!((recovery.clean, recovery.tail), (clean, None));
        assert_eq!(journal.next_batch().0, if clean { 5 } else { 4 });
        assert_eq!(journal.durable_through(), journal.written_through());
    }
}

#[test]
fn a_lost_batch_is_a_torn_tail_and_the_later_ones_go_with_it() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    append(&mut journal, &["kept"]).unwrap();
    journal.sync().unwrap();
    let torn = append(&mut journal, &["torn"]).unwrap();
    append(&mut journal, &["later"]).unwrap();
    append(&mut journal, &["last"]).unwrap();
    let offset = SEGMENT_HEADER_BYTES + torn.address.0;
    zero(&disk, offset, torn.bytes);

    let (mut journal, recovery, found) = open(&disk).unwrap();
    assert_eq!(found, texts(&[(1, "kept")]));
    let tail = recovery.tail.unwrap();
    assert_eq!(
        (tail.file.as_str(), tail.offset, tail.batch.0, tail.batches_dropped),
        (FIRST_FILE, offset, 2, 2)
    );
    assert_eq!(tail.bytes_dropped, 3 * torn.bytes + 1, "the text of the middle one is longer by one");

    // The new batch ends exactly where the dropped one began, which must not replay behind it.
    append(&mut journal, &["new!"]).unwrap();
    let (journal, recovery, found) = open(&disk.reopen_process_crash()).unwrap();
    assert_eq!(found, texts(&[(1, "kept"), (2, "new!")]));
    assert_eq!((recovery.tail, journal.next_batch()), (None, BatchNumber(3)));
}

#[test]
fn a_lost_batch_that_a_later_one_knew_durable_is_damage() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    append(&mut journal, &["kept"]).unwrap();
    let lost = append(&mut journal, &["lost"]).unwrap();
    journal.sync().unwrap();
    append(&mut journal, &["later"]).unwrap();
    let offset = SEGMENT_HEADER_BYTES + lost.address.0;
    zero(&disk, offset, 20);
    let Err(LogError::Damage { file, offset: at, what }) = open(&disk) else { panic!("opened") };
    assert_eq!((file.as_str(), at), (FIRST_FILE, offset));
    assert!(what.contains("batch 2"), "{what}");
}

#[test]
fn a_lost_batch_that_the_checkpoint_knew_durable_is_damage() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    let lost = append(&mut journal, &["lost"]).unwrap();
    zero(&disk, SEGMENT_HEADER_BYTES, lost.bytes);
    assert!(matches!(open_with(&disk, SMALL, 1), Err(LogError::Damage { .. })));
    let (_, recovery, found) = open_with(&disk, SMALL, 0).unwrap();
    assert_eq!((found.len(), recovery.tail), (0, None), "nothing is left that differs from unused space");
}

#[test]
fn a_bad_byte_below_the_closing_mark_is_damage() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    append(&mut journal, &["a"]).unwrap();
    journal.close().unwrap();
    disk.corrupt(FIRST_FILE, SEGMENT_HEADER_BYTES + 60, |bytes| bytes[0] ^= 1, 1).unwrap();
    assert!(matches!(open(&disk), Err(LogError::Damage { .. })));
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    while journal.active().number().0 < 4 {
        append(&mut journal, &[&"x".repeat(1000)]).unwrap();
    }
    journal.sync().unwrap();
    for gone in 1..4 {
        let disk = disk.reopen(0, Found::Lost);
        disk.remove(&format!("segments/{gone:016x}.seg")).unwrap();
        assert!(matches!(open(&disk), Err(LogError::Damage { .. })), "without segment {gone}");
    }
}

#[test]
fn a_segment_cut_short_is_damage() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    append(&mut journal, &["a"]).unwrap();
    journal.sync().unwrap();
    for len in [0, 10, 64, 100, 4095] {
        let disk = disk.reopen(0, Found::Lost);
        disk.shorten(FIRST_FILE, len).unwrap();
        let Err(LogError::Damage { offset, .. }) = open(&disk) else { panic!("opened at {len}") };
        assert_eq!(offset, len);
    }
}

/// Every single flipped bit of a small store: it opens with everything, or reports a cut of what no witness knew
/// to be durable, or refuses.
#[test]
fn no_flipped_bit_loses_a_durable_batch_silently() {
    for clean in [true, false] {
        let disk = SimDisk::new();
        let options = SegmentOptions { first_bytes: 4096, largest_bytes: 4096, ..SMALL };
        let (mut journal, ..) = open_with(&disk, options, 0).unwrap();
        for text in ["one", "two", "three"] {
            append(&mut journal, &[text, &text.repeat(300), ""]).unwrap();
            journal.sync().unwrap();
        }
        if clean {
            journal.close().unwrap();
        }
        let whole = open_with(&disk.snapshot(), options, 0).unwrap().2;
        let (mut refused, mut cut) = (0, 0);
        for name in disk.list("segments").unwrap().iter().filter(|name| name.ends_with("seg")) {
            for at in 0..4096 {
                let flipped = disk.snapshot();
                flipped
                    .corrupt(&format!("segments/{name}"), at, |bytes| bytes[0] ^= 1 << (at % 8), 1)
                    .unwrap();
                match open_with(&flipped, options, 0) {
                    Err(LogError::Damage { .. }) => refused += 1,
                    Err(error) => panic!("byte {at}: {error}"),
                    Ok((_, recovery, found)) if found == whole => {
                        cut += u32::from(recovery.tail.is_some());
                    }
                    Ok((_, recovery, found)) => {
                        cut += 1;
                        assert!(whole.starts_with(&found), "byte {at}");
                        assert!(recovery.tail.is_some(), "byte {at}: a silent loss");
                        assert!(!clean, "byte {at}: lost below a closing mark");
                        assert!(found.len() >= 3, "byte {at}: batches below a durable_through were cut");
                    }
                }
            }
        }
        assert!(refused > 500 && cut > 50, "{refused} refused, {cut} cut");
    }
}

#[test]
fn any_bytes_at_all_open_or_are_refused_without_a_panic() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    for step in 0..12u8 {
        append(&mut journal, &[&"y".repeat(usize::from(step) * 90)]).unwrap();
    }
    let mut seed = 1u64;
    let mut chance = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 33
    };
    let names = disk.list("segments").unwrap();
    for _ in 0..3000 {
        let bad = disk.snapshot();
        for _ in 0..1 + chance() % 4 {
            let name = format!("segments/{}", names[chance() as usize % names.len()]);
            let (at, len) = (chance() % 4096, 1 + chance() % 64);
            bad.corrupt(&name, at, |bytes| bytes.fill_with(|| chance() as u8), len as usize).unwrap();
        }
        match open(&bad) {
            Ok(_) | Err(LogError::Damage { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn stale_bytes_of_a_recycled_segment_never_replay() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    let text = "z".repeat(700);
    for _ in 0..100 {
        append(&mut journal, &[&text]).unwrap();
        for segment in journal.segments().list() {
            if segment.number().next() < journal.active().number() {
                journal.segments().free(segment.number());
            }
        }
        journal.segments().prepare_spare().unwrap();
    }
    assert!(disk.stats().bytes_allocated <= 6 * 4096, "files were recycled: {:?}", disk.stats());
    // The newest segment is full of old batches behind the first new one.
    let active = journal.active().clone();
    let start = ReplayStart { address: active.base(), batch: active.created_batch() };
    let segments = Segments::open(Arc::new(disk.clone()), SMALL).unwrap();
    let mut last = 0;
    let (_, recovery) = Journal::open(&segments, SUMS, start, BatchNumber::BEFORE_FIRST, |view| {
        last = view.number().0;
        Ok(())
    })
    .unwrap();
    assert_eq!((last, recovery.tail), (100, None));
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own_size() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    let large = "L".repeat(20_000);
    // The very first segment is still empty: it is put aside.
    assert!(append(&mut journal, &[&large]).unwrap().segment_opened);
    append(&mut journal, &["small"]).unwrap();
    append(&mut journal, &[&large]).unwrap();
    let (_, recovery, found) = open(&disk.reopen_process_crash()).unwrap();
    assert_eq!(found, texts(&[(1, &large), (2, "small"), (3, &large)]));
    assert_eq!(recovery.tail, None);
}

#[test]
fn segments_grow_by_doubling_but_never_beyond_an_eighth_of_the_free_space() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(24 << 20));
    let one_spare = SegmentOptions { reserve_spares: 1, ..SegmentOptions::default() };
    let (mut journal, ..) = open_with(&disk, one_spare, 0).unwrap();
    let mut sizes = vec![journal.active().size()];
    let text = "t".repeat(100_000);
    while sizes.len() < 6 {
        if append(&mut journal, &[&text]).unwrap().segment_opened {
            sizes.push(journal.active().size());
            journal.segments().prepare_spare().unwrap();
        }
    }
    assert_eq!(sizes[..2], [1 << 20, 2 << 20]);
    assert!(sizes.iter().all(|size| (1 << 20..=3 << 20).contains(size)), "{sizes:?}");
}

#[test]
fn a_full_disk_refuses_sends_keeps_the_reserve_for_acks_and_recovers() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(4 * 4096));
    let (mut journal, ..) = open(&disk).unwrap();
    let text = "s".repeat(1000);
    let bytes = 1000 + 9 + BATCH_OVERHEAD_BYTES;
    let mut sends = 0;
    while journal.room(bytes) == Room::Enough {
        append(&mut journal, &[&text]).unwrap();
        sends += 1;
    }
    assert!(sends >= 6, "{sends}");
    assert!(journal.segments().prepare_spare().is_err_and(|error| matches!(error, LogError::NoSpace { .. })));
    assert_eq!(journal.room(bytes), Room::ReserveOnly);
    let mut acks = 0;
    while journal.room(bytes) != Room::Nothing {
        append(&mut journal, &[&text]).unwrap();
        acks += 1;
    }
    assert!(acks >= 3, "{acks}");
    assert!(matches!(append(&mut journal, &[&text]), Err(LogError::NoSpace { .. })));
    journal.check().expect("a full disk stops nothing");

    // Recovery needs no space.
    let (mut journal, ..) = open(&disk.reopen_process_crash()).unwrap();
    assert_eq!(journal.next_batch().0, sends + acks + 1);
    assert_eq!(journal.room(bytes), Room::Nothing);
    // Freed segments make room again, without allocating.
    assert!(journal.segments().free(SegmentNumber(1)) && journal.segments().free(SegmentNumber(2)));
    assert_eq!(journal.room(bytes), Room::Enough);
    append(&mut journal, &[&text]).unwrap();
}

#[test]
fn a_segment_that_is_read_or_linked_is_unlinked_instead_of_recycled() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    while journal.active().number().0 < 4 {
        append(&mut journal, &[&"p".repeat(1500)]).unwrap();
    }
    let segments = journal.segments().clone();
    segments.prepare_spare().unwrap();
    let before = segments.spares();
    let pinned = segments.numbered(SegmentNumber(1)).unwrap();
    disk.hard_link("segments/0000000000000002.seg", "backup").unwrap();
    for number in 1..4 {
        assert!(segments.free(SegmentNumber(number)));
    }
    assert!(!segments.free(SegmentNumber(4)), "the newest is never freed");
    segments.prepare_spare().unwrap();
    assert_eq!(segments.spares(), before + 1, "only the third became a spare");
    let mut records = 0;
    kew_store_log::scan_frames(&pinned, SUMS, pinned.base()..pinned.end(), |frame| {
        assert_eq!(frame.payload.len(), 1500);
        records += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(records, 2);
    let names = disk.list("segments").unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".seg")).count(), 1, "{names:?}");
}

#[test]
fn spares_are_bounded() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    while journal.active().number().0 < 9 {
        append(&mut journal, &[&"p".repeat(1500)]).unwrap();
    }
    for number in 1..9 {
        journal.segments().free(SegmentNumber(number));
    }
    journal.segments().prepare_spare().unwrap();
    assert_eq!(journal.segments().spares(), SMALL.spares_max);
    let files = disk.list("segments").unwrap();
    assert_eq!(files.len(), SMALL.spares_max + 1, "{files:?}");
    let (journal, ..) = open_with(&SimDisk::new(), SegmentOptions { spares_max: 2, ..SMALL }, 0).unwrap();
    assert!(journal.segments().spares() <= 2);
}

#[test]
fn single_records_are_read_by_address_with_read_ahead() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open_with(&disk, SegmentOptions { first_bytes: 1 << 20, ..SMALL }, 0).unwrap();
    let mut places = Vec::new();
    for number in 0..200 {
        let mut batch = journal.batch_buffer();
        batch.begin(journal.next_batch(), journal.end());
        for record in 0..5 {
            let text = format!("{number}/{record} ").repeat(if number == 100 { 3000 } else { 20 });
            places.push((batch.push(record, &[text.as_bytes()]), record, text));
        }
        journal.append(&mut batch).unwrap();
    }
    let mut reader = kew_store_log::Reader::new(journal.segments().clone(), SUMS);
    for (address, kind, text) in places.iter().chain(places.iter().rev()) {
        let frame = reader.read(*address).unwrap();
        assert_eq!((frame.kind, &frame.payload[..]), (*kind, text.as_bytes()));
    }
    assert!(matches!(reader.read(journal.end()), Err(LogError::Damage { .. })));
    assert!(matches!(reader.read(places[3].0 + 1), Err(LogError::Damage { .. })));
}

#[test]
fn a_sync_on_another_thread_covers_what_was_written_before_it() {
    let disk = SimDisk::new();
    let (mut journal, ..) = open(&disk).unwrap();
    append(&mut journal, &["a"]).unwrap();
    let target = journal.sync_target();
    append(&mut journal, &["b"]).unwrap();
    let target = std::thread::spawn(move || target.sync().map(|()| target)).join().unwrap().unwrap();
    journal.synced(&target);
    assert_eq!((journal.durable_through(), journal.written_through()), (BatchNumber(1), BatchNumber(2)));
}

#[test]
fn the_same_works_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let open_real = || {
        let segments = Segments::open(Arc::new(RealDisk::open(folder.path()).unwrap()), SMALL).unwrap();
        let mut found = Vec::new();
        let opened = Journal::open(&segments, SUMS, ReplayStart::FIRST, BatchNumber::BEFORE_FIRST, |view| {
            found.extend(view.records().map(|(address, _, payload)| (address, payload.to_vec())));
            Ok(())
        });
        opened.map(|(journal, recovery)| (journal, recovery, found)).unwrap()
    };
    let (mut journal, ..) = open_real();
    for length in 0..60 {
        append(&mut journal, &[&"r".repeat(length * 100)]).unwrap();
        journal.segments().prepare_spare().unwrap();
    }
    drop(journal);
    let (mut journal, recovery, found) = open_real();
    assert_eq!((found.len(), recovery.clean, recovery.tail), (60, false, None));
    let mut reader = kew_store_log::Reader::new(journal.segments().clone(), SUMS);
    for (address, payload) in &found {
        assert_eq!(&reader.read(*address).unwrap().payload[..], payload);
    }
    journal.close().unwrap();
    assert!(open_real().1.clean);
}
