//! Checkpoints alone: whole or not at all, slices shared between generations, damage refused.
#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use bytes::Bytes;
use kew_store_log::{
    Address, BatchNumber, CheckpointWriter, Disk, Fault, FaultPlan, Found, LogError, Manifest,
    ManifestFields, ReplayStart, SegmentKind, SegmentNumber, SegmentUse, Sidecar, SimDisk, WatchedDisk,
    Watcher,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn fields(batch: u64) -> ManifestFields {
    ManifestFields {
        replay: ReplayStart { address: Address(batch * 100), batch: BatchNumber(batch + 1) },
        durable_through: BatchNumber(batch),
        segments: vec![SegmentUse {
            number: SegmentNumber(4),
            kind: SegmentKind::Survivor,
            base: Address::SURVIVORS,
            used: 9,
        }],
        next_segment: SegmentNumber(5),
        survivor_end: Address::SURVIVORS + 100,
        sidecars: Vec::new(),
        meta: Bytes::from_static(b"anything"),
    }
}

fn writer(disk: &SimDisk, previous: Option<&Manifest>) -> CheckpointWriter {
    CheckpointWriter::start(Arc::new(disk.clone()), previous).unwrap()
}

fn slices(disk: &SimDisk, manifest: &Manifest) -> BTreeMap<u64, (u64, Bytes)> {
    let mut slices = BTreeMap::new();
    manifest
        .read_slices(
            disk,
            |_| true,
            |key, reflects, bytes| {
                slices.insert(key, (reflects.0, bytes));
                Ok(())
            },
        )
        .unwrap();
    slices
}

/// Writes one checkpoint with these keys put, and all others kept unless they must be put.
fn checkpoint(
    disk: &SimDisk,
    previous: Option<&Manifest>,
    batch: u64,
    put: &[u64],
) -> Result<Manifest, LogError> {
    let mut writer = CheckpointWriter::start(Arc::new(disk.clone()), previous)?;
    let keys: Vec<u64> =
        previous.map(|manifest| manifest.slices().map(|(key, _)| key).collect()).unwrap_or_default();
    for key in keys.into_iter().filter(|key| !put.contains(key)) {
        if !writer.keep(key, BatchNumber(batch)) {
            assert!(writer.must_put(key));
            writer.put(key, BatchNumber(batch), &[key as u8; 200])?;
        }
    }
    for key in put {
        writer.put(*key, BatchNumber(batch), &[*key as u8; 200])?;
    }
    let manifest = writer.seal()?.install(fields(batch))?;
    manifest.sweep(disk)?;
    Ok(manifest)
}

#[test]
fn slices_come_back_with_what_they_reflect() {
    let disk = SimDisk::new();
    assert_eq!(Manifest::load(&disk).unwrap(), None);
    let mut first = writer(&disk, None);
    first.put(7, BatchNumber(3), b"seven").unwrap();
    first.put(8, BatchNumber(3), b"").unwrap();
    first.put(9, BatchNumber(4), &vec![9; 700_000]).unwrap();
    first.put(7, BatchNumber(5), b"seven again").unwrap();
    let first = first.seal().unwrap().install(fields(5)).unwrap();

    let mut second = writer(&disk, Some(&first));
    assert!(second.keep(7, BatchNumber(8)) && second.keep(9, BatchNumber(8)));
    assert!(!second.keep(77, BatchNumber(8)));
    second.put(10, BatchNumber(8), b"ten").unwrap();
    let second = second.seal().unwrap().install(fields(8)).unwrap();

    let loaded = Manifest::load(&disk.reopen(0, Found::Lost)).unwrap().unwrap();
    assert_eq!(loaded, second);
    assert_eq!(loaded.fields, fields(8));
    let found = slices(&disk, &loaded);
    let expected: BTreeMap<_, _> = [
        (7, (8, Bytes::from_static(b"seven again"))),
        (9, (8, vec![9; 700_000].into())),
        (10, (8, Bytes::from_static(b"ten"))),
    ]
    .into();
    assert_eq!(found, expected);
    let ten = (BatchNumber(8), Bytes::from_static(b"ten"));
    assert_eq!(loaded.read_slice(&disk, 10).unwrap(), Some(ten));
    assert_eq!(loaded.read_slice(&disk, 8).unwrap(), None);
    assert_eq!(loaded.files().len(), 2);
}

#[test]
fn a_checkpoint_of_nothing_new_writes_no_file() {
    let disk = SimDisk::new();
    let first = checkpoint(&disk, None, 1, &[1, 2]).unwrap();
    let second = checkpoint(&disk, Some(&first), 2, &[]).unwrap();
    assert_eq!(disk.list("checkpoints").unwrap().len(), 1);
    assert_eq!(slices(&disk, &second)[&1].0, 2);
    assert!(second.generation() > first.generation());
}

#[test]
fn mostly_dead_files_and_too_many_files_are_written_again() {
    let disk = SimDisk::new();
    let mut manifest = checkpoint(&disk, None, 1, &[1, 2, 3, 4, 5]).unwrap();
    manifest = checkpoint(&disk, Some(&manifest), 2, &[1, 2, 3]).unwrap();
    let third = writer(&disk, Some(&manifest));
    assert!(third.must_put(4) && third.must_put(5) && !third.must_put(1));
    drop(third);
    for batch in 3..100 {
        manifest = checkpoint(&disk, Some(&manifest), batch, &[100 + batch]).unwrap();
        let files = disk.list("checkpoints").unwrap().len();
        assert!(files <= 17, "{files} files");
    }
    assert_eq!(slices(&disk, &manifest).len(), 5 + 97);
}

#[test]
fn power_may_go_at_every_step_of_a_checkpoint() {
    let disk = SimDisk::new();
    let first = checkpoint(&disk, None, 1, &[1, 2, 3]).unwrap();
    disk.record_snapshots();
    let second = checkpoint(&disk, Some(&first), 2, &[2, 4]).unwrap();
    let third = checkpoint(&disk, Some(&second), 3, &[1, 2, 3, 4, 5]).unwrap();
    let all = [first, second, third].map(|manifest| (manifest.generation(), manifest));
    let snapshots = disk.take_snapshots();
    assert!(snapshots.len() > 15);
    for (point, before) in snapshots {
        for seed in 0..50 {
            let found = before.reopen(seed, Found::Torn);
            let loaded = Manifest::load(&found).unwrap().unwrap();
            let (_, known) = all.iter().find(|(generation, _)| *generation == loaded.generation()).unwrap();
            assert_eq!(&loaded, known, "point {point} seed {seed}");
            assert_eq!(slices(&found, &loaded).len(), loaded.slices().count());
            checkpoint(&found, Some(&loaded), 9, &[6]).unwrap();
        }
    }
}

#[test]
fn a_checkpoint_that_fails_anywhere_leaves_the_last_one_and_the_next_succeeds() {
    let disk = SimDisk::new();
    let first = checkpoint(&disk, None, 1, &[1, 2, 3]).unwrap();
    let points = {
        let disk = disk.snapshot();
        checkpoint(&disk, Some(&first), 2, &[2, 4]).unwrap();
        disk.points()
    };
    for point in 1..=points {
        for fault in [Fault::Error, Fault::NoSpace] {
            let disk = disk.snapshot();
            disk.set_fault(Some(FaultPlan { at: point, fault }));
            let error = checkpoint(&disk, Some(&first), 2, &[2, 4]).unwrap_err();
            let no_space = matches!(error, LogError::NoSpace { .. });
            assert_eq!(no_space, fault == Fault::NoSpace, "{error}");
            let found = Manifest::load(&disk.reopen(point, Found::Torn)).unwrap().unwrap();
            assert!(found.generation() >= first.generation());
            let next = checkpoint(&disk, Some(&first), 3, &[5]).unwrap();
            let found = disk.reopen(point, Found::Lost);
            assert_eq!(Manifest::load(&found).unwrap().unwrap(), next);
            assert_eq!(slices(&found, &next).len(), 4);
        }
    }
}

#[test]
fn an_abandoned_checkpoint_frees_its_space() {
    let disk = SimDisk::new();
    let mut given_up = writer(&disk, None);
    given_up.put(1, BatchNumber(1), &[1; 300_000]).unwrap();
    given_up.abandon().unwrap();
    writer(&disk, None).abandon().unwrap();
    assert!(disk.list("checkpoints").unwrap().is_empty());
}

#[test]
fn every_flipped_bit_and_every_shorter_file_is_refused_with_its_place() {
    let disk = SimDisk::new();
    let first = checkpoint(&disk, None, 1, &[1, 2]).unwrap();
    let second = checkpoint(&disk, Some(&first), 2, &[3]).unwrap();
    let read = |disk: &SimDisk| {
        let manifest = Manifest::load(disk)?.expect("still there");
        manifest.read_slices(disk, |_| true, |_, _, _| Ok(()))
    };
    read(&disk).unwrap();
    for name in second.files().into_iter().chain(["MANIFEST".to_owned()]) {
        let len = disk.open(&name).unwrap().len().unwrap();
        for at in 0..len {
            let bad = disk.snapshot();
            bad.corrupt(&name, at, |bytes| bytes[0] ^= 1 << (at % 8), 1).unwrap();
            let Err(LogError::Damage { file, .. }) = read(&bad) else { panic!("{name} byte {at}") };
            assert_eq!(file, name);
            let bad = disk.snapshot();
            bad.shorten(&name, at).unwrap();
            assert!(matches!(read(&bad), Err(LogError::Damage { .. })), "{name} cut at {at}");
        }
        let bad = disk.snapshot();
        bad.remove(&name).unwrap();
        let missing = Manifest::load(&bad);
        assert!(if name == "MANIFEST" {
            missing == Ok(None)
        } else {
            matches!(missing, Err(LogError::Damage { .. }))
        });
    }
}

#[test]
fn a_missing_sidecar_is_damage() {
    let disk = SimDisk::new();
    let mut said = fields(1);
    said.sidecars.push(Sidecar { name: "checkpoints/dedup.1".to_owned(), bytes: 10, sum: 3 });
    let installed = writer(&disk, None).seal().unwrap().install(said).unwrap();
    assert!(matches!(Manifest::load(&disk), Err(LogError::Damage { .. })));
    let file = disk.create("checkpoints/dedup.1").unwrap();
    file.write_at(0, &[0; 9]).unwrap();
    assert!(matches!(Manifest::load(&disk), Err(LogError::Damage { offset: 9, .. })));
    file.write_at(9, &[0]).unwrap();
    assert_eq!(Manifest::load(&disk).unwrap(), Some(installed));
}

/// The most bytes that were written to the checkpoint's file and not synced yet.
#[derive(Default)]
struct Unsynced {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Watcher for Unsynced {
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        name.ends_with(".ckp")
    }

    fn writes(&self, is_checkpoint: &bool, bytes: usize) {
        if *is_checkpoint {
            let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.most.fetch_max(now, Ordering::Relaxed);
        }
    }

    fn syncs(&self, is_checkpoint: &bool) {
        if *is_checkpoint {
            self.now.store(0, Ordering::Relaxed);
        }
    }
}

#[test]
fn large_checkpoint_is_synced_while_it_is_written() {
    let unsynced = Arc::new(Unsynced::default());
    let disk = WatchedDisk::new(SimDisk::new(), Arc::clone(&unsynced));
    let mut writer = CheckpointWriter::start(Arc::new(disk), None).unwrap();
    for key in 1..=200 {
        writer.put(key, BatchNumber(1), &[key as u8; 50_000]).unwrap();
    }
    writer.seal().unwrap();
    let most = unsynced.most.load(Ordering::Relaxed);
    assert!(most <= 2 << 20, "one sync of {most} bytes keeps the journal's syncs waiting");
}
