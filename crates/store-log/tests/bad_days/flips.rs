//! Each byte of each file of a small store is flipped in turn. The store then holds what it held; or it says that the
//! journal's end was cut, and only what nothing knew to be durable is gone; or it refuses, naming file and offset, when
//! it is opened or when the message is read, and then all other messages can be. Nothing is lost in silence, nothing
//! panics.
//!
//! Every seventh byte, unless `KEW_CRASH=every`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kew_store_log::{LogError, LogStore, SimDisk, export_readable};

use crate::small_store::{a_bit_of_everything, bytes_of, files_of, open, text_of};

const THREADS: usize = 2;

#[derive(Default)]
struct Tally {
    harmless: AtomicUsize,
    cut: AtomicUsize,
    refused: AtomicUsize,
    unreadable: AtomicUsize,
}

fn flipped(
    disk: &SimDisk,
    held: &str,
    file: &str,
    at: u64,
    is_closed: bool,
    tally: &Tally,
) -> Result<(), String> {
    let disk = disk.snapshot();
    disk.corrupt(file, at, |bytes| bytes[0] ^= 1 << (at % 8), 1).unwrap();
    let count = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::Relaxed);
    let (store, report) = match open(&disk) {
        Err(LogError::Damage { file: named, .. }) if !named.is_empty() => {
            count(&tally.refused);
            return Ok(());
        }
        Err(error) => return Err(format!("refused with {error}")),
        Ok(opened) => opened,
    };
    let text = match text_of(&store) {
        Err(LogError::Damage { .. }) => {
            count(&tally.unreadable);
            return rescued(&store, held);
        }
        Err(error) => return Err(format!("cannot be read: {error}")),
        Ok(text) => text,
    };
    match report.tail {
        None if text == held => count(&tally.harmless),
        None => return Err("a silent loss".into()),
        // The mark itself may be what is cut.
        Some(_) if is_closed && text != held => return Err("a loss below the mark of a clean stop".into()),
        Some(_) => count(&tally.cut),
    };
    Ok(())
}

/// Whatever can be read is as it was, and exactly one message is reported as left out.
fn rescued(store: &LogStore, held: &str) -> Result<(), String> {
    let (mut lines, mut left_out) = (Vec::new(), 0);
    export_readable(store, &mut lines, &mut |_| {
        left_out += 1;
        Ok(())
    })
    .map_err(|error| format!("cannot be rescued: {error}"))?;
    let text = String::from_utf8(lines).map_err(|error| error.to_string())?;
    let held: HashSet<&str> = held.lines().collect();
    let changed = text.lines().filter(|line| !line.starts_with("{\"end\"") && !held.contains(line)).count();
    match (left_out, changed, held.len() - text.lines().count()) {
        (1, 0, 1) => Ok(()),
        found => Err(format!("left out, changed and missing: {found:?}")),
    }
}

#[test]
fn no_flipped_byte_loses_anything_in_silence() {
    let stride = if std::env::var("KEW_CRASH").is_ok_and(|value| value == "every") { 1 } else { 7 };
    for is_closed in [false, true] {
        let disk = SimDisk::new();
        let asked = a_bit_of_everything(Arc::new(disk.clone()));
        if is_closed {
            asked.store.close().unwrap();
        }
        drop(asked);
        let disk = disk.snapshot();
        let held = text_of(&open(&disk.snapshot()).unwrap().0).unwrap();
        let places: Vec<(String, u64)> = files_of(&disk)
            .into_iter()
            .flat_map(|file| (0..bytes_of(&disk, &file).len() as u64).map(move |at| (file.clone(), at)))
            .step_by(stride)
            .collect();
        let (next, tally) = (AtomicUsize::new(0), Tally::default());
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some((file, at)) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let flip = flipped(&disk, &held, file, *at, is_closed, &tally);
                        flip.unwrap_or_else(|what| panic!("{file} byte {at}: {what}"));
                    }
                });
            }
        });
        let count_of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        println!(
            "{} bytes flipped, closed {is_closed}: {} harmless, {} cut with a report, {} refused, {} refused when read",
            places.len(),
            count_of(&tally.harmless),
            count_of(&tally.cut),
            count_of(&tally.refused),
            count_of(&tally.unreadable)
        );
        assert!(count_of(&tally.refused) > 100 && count_of(&tally.unreadable) > 100);
        assert!(count_of(&tally.cut) > 0);
    }
}
