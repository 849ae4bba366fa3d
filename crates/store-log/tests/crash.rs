//! A small store is cut, torn and failed at every single point of its history, and opened again: everything that was
//! acknowledged as synced is there, nothing that was dropped comes back, and it goes on.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod common;

use common::{SMALL, Tiny};
use kew_store_log::{BatchNumber, Fault, FaultPlan, Found, LogError, SimDisk};

/// What had been acknowledged when a point was passed.
#[derive(Clone, Copy, Default, Debug)]
struct Acked {
    point: u64,
    durable: u64,
    written: u64,
}

const BATCHES: u64 = 75;

/// Runs the history until it is through or the journal stops.
fn live(disk: &SimDisk, acked: &mut Vec<Acked>) -> Result<(), LogError> {
    let mut tiny = Tiny::open(disk, 1, SMALL)?;
    for step in 1..=BATCHES {
        // A failed allocation or checkpoint is no reason to stop.
        goes_on(tiny.append().map(|_| ()))?;
        note(disk, &tiny, acked);
        if step % 3 != 1 {
            tiny.journal.sync()?;
            note(disk, &tiny, acked);
        }
        if step % 17 == 0 {
            let done = tiny.checkpoint();
            note(disk, &tiny, acked);
            // After an error while a manifest is installed, only a restart is safe in this little store.
            done?;
        }
        if step % 10 == 0 {
            goes_on(tiny.segments.prepare_spare())?;
        }
    }
    tiny.journal.close()?;
    note(disk, &tiny, acked);
    Ok(())
}

fn goes_on(result: Result<(), LogError>) -> Result<(), LogError> {
    match result {
        Err(LogError::NoSpace { .. } | LogError::Io { .. }) => Ok(()),
        result => result,
    }
}

fn note(disk: &SimDisk, tiny: &Tiny, acked: &mut Vec<Acked>) {
    let (durable, written) = (tiny.journal.durable_through().0, tiny.journal.written_through().0);
    acked.push(Acked { point: disk.points(), durable, written });
}

/// Opens a found disk, checks it, goes on for a while, cuts the power again and checks that too.
fn check(disk: &SimDisk, acked: Acked, what: &str) {
    let mut tiny = Tiny::open(disk, 2, SMALL).unwrap_or_else(|error| panic!("{what}: {error}"));
    let last = tiny.journal.written_through().0;
    assert!(
        last >= acked.durable,
        "{what}: batch {} was synced, the journal ends with {last}",
        acked.durable
    );
    tiny.check_alive();
    // A cut right after opening and one more synced batch, before anything else makes names durable.
    for found in [Found::Lost, Found::Torn] {
        let disk = disk.snapshot();
        let mut short = Tiny::open(&disk, 4, SMALL).unwrap();
        assert!(short.append().unwrap());
        short.journal.sync().unwrap();
        let at_once = Tiny::open(&disk.reopen(acked.point, found), 3, SMALL)
            .unwrap_or_else(|error| panic!("{what}, {found:?} right after opening: {error}"));
        assert!(at_once.journal.written_through().0 > last, "{what}, {found:?} right after opening");
        at_once.check_alive();
    }
    for _ in 0..7 {
        assert!(tiny.append().unwrap_or_else(|error| panic!("{what}: {error}")));
    }
    tiny.journal.sync().unwrap();
    tiny.checkpoint().unwrap();
    assert!(tiny.append().unwrap());
    let (runs, durable) = (tiny.runs, tiny.journal.durable_through());
    let again = Tiny::open(&disk.reopen(acked.point, Found::Torn), 3, SMALL)
        .unwrap_or_else(|error| panic!("{what}, second cut: {error}"));
    assert!(again.journal.written_through() >= durable, "{what}, second cut");
    for (batch, run) in &again.runs {
        assert_eq!(runs.get(batch), Some(run), "{what}, second cut: batch {batch} is of another run");
    }
    again.check_alive();
}

#[test]
fn power_may_go_at_every_point() {
    let disk = SimDisk::new();
    disk.record_snapshots();
    let mut acked = vec![Acked::default()];
    live(&disk, &mut acked).unwrap();
    let end = (disk.points(), disk.snapshot());
    let mut torn = 0;
    for (point, before) in disk.take_snapshots().into_iter().chain([end]) {
        let known = *acked.iter().rfind(|acked| acked.point <= point).unwrap();
        check(&before.reopen(0, Found::Lost), known, &format!("lost at {point}"));
        check(&before.reopen(0, Found::Kept), known, &format!("kept at {point}"));
        for seed in 0..6 {
            let found = before.reopen(seed * 1000 + point, Found::Torn);
            torn += u32::from(Tiny::open(&found.snapshot(), 2, SMALL).unwrap().recovery.tail.is_some());
            check(&found, known, &format!("torn at {point}, seed {seed}"));
        }
        let written = Acked { durable: known.written, ..known };
        check(&before.reopen_process_crash(), written, &format!("process killed at {point}"));
    }
    assert!(torn > 20, "only {torn} torn tails were met");
}

#[test]
fn power_may_go_at_every_point_of_a_recovery() {
    let disk = SimDisk::new();
    disk.record_snapshots();
    let mut acked = vec![Acked::default()];
    live(&disk, &mut acked).unwrap();
    for (point, before) in disk.take_snapshots().into_iter().step_by(3) {
        let known = *acked.iter().rfind(|acked| acked.point <= point).unwrap();
        for (recovering, known) in [
            (before.reopen(point, Found::Torn), known),
            (before.reopen_process_crash(), Acked { durable: known.written, ..known }),
        ] {
            recovering.record_snapshots();
            let last = Tiny::open(&recovering, 2, SMALL).unwrap().journal.written_through().0;
            for (at, during) in recovering.take_snapshots() {
                let what = format!("cut at {point}, recovery cut at {at}");
                let found = Tiny::open(&during.reopen(at, Found::Torn), 2, SMALL)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                // What only the page cache showed may be lost until recovery is through.
                let synced = acked.iter().rfind(|acked| acked.point <= point).unwrap().durable;
                assert!(found.journal.written_through().0 >= synced, "{what}");
                found.check_alive();
            }
            assert!(last >= known.durable);
        }
    }
}

#[test]
fn every_operation_may_fail() {
    let healthy = SimDisk::new();
    live(&healthy, &mut Vec::new()).unwrap();
    let mut stopped = 0;
    for point in 1..=healthy.points() {
        for fault in [Fault::Error, Fault::NoSpace, Fault::ErrorsFromHere] {
            let disk = SimDisk::new();
            disk.set_fault(Some(FaultPlan { at: point, fault }));
            let mut acked = vec![Acked::default()];
            let result = live(&disk, &mut acked);
            stopped += u32::from(matches!(result, Err(LogError::FailStopped { .. })));
            let known = *acked.last().unwrap();
            let what = format!("{fault:?} at {point} ({result:?})");
            check(&disk.reopen_process_crash(), known, &what);
            check(&disk.reopen(point, Found::Torn), known, &format!("{what}, then torn"));
        }
    }
    assert!(stopped > 100, "the journal was stopped only {stopped} times");
}

#[test]
fn nothing_is_written_after_a_failed_sync() {
    let disk = SimDisk::new();
    let mut tiny = Tiny::open(&disk, 1, SMALL).unwrap();
    tiny.append().unwrap();
    disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::Error }));
    assert!(matches!(tiny.journal.sync(), Err(LogError::FailStopped { .. })));
    let writes = disk.stats().writes;
    assert!(matches!(tiny.append(), Err(LogError::FailStopped { .. })));
    assert!(matches!(tiny.journal.sync(), Err(LogError::FailStopped { .. })));
    assert!(matches!(tiny.journal.close(), Err(LogError::FailStopped { .. })));
    assert_eq!(disk.stats().writes, writes);
    assert_eq!(tiny.journal.durable_through(), BatchNumber::BEFORE_FIRST);
}
