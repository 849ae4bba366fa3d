//! Histories of a store whose loop, sync thread, upkeep and tools take turns by seed at every disk call and lock, on a
//! disk that lies, fails and loses its power; then the store is opened again and must be what it was after some batch:
//! none older than what it had answered, none newer than what it was asked.
//!
//! `KEW_INTERLEAVED` says how many histories run, `KEW_INTERLEAVED_SEED` runs one. The tests are tested: with a fault
//! planted in the store (`kew_store_log::planted`) the same histories must find it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../after_crash/mod.rs"]
mod after_crash;
mod history;
mod judge;
mod life;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kew_store_log::planted::Planted;

use judge::{Lived, history};

/// Histories when nothing says how many.
const HISTORIES: u64 = 60;
/// A planted fault is found by then. Each takes less than a minute of the processor.
const HISTORIES_TO_FIND: u64 = 1_500;
const THREADS: u64 = 2;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number is expected")))
}

#[test]
fn threads_that_take_turns_and_crash_keep_what_was_answered() {
    let begun = Instant::now();
    let seeds = match number("KEW_INTERLEAVED_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("KEW_SEEDS_AFTER").unwrap_or(0) + 1;
            first..first + number("KEW_INTERLEAVED").unwrap_or(HISTORIES)
        }
    };
    let next = AtomicU64::new(seeds.start);
    let mut all = Lived::default();
    std::thread::scope(|scope| {
        let worker = || {
            let mut lived = Lived::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return lived.with_own_time();
                }
                if let Err(complaint) = history(seed, &mut lived) {
                    next.store(seeds.end, Ordering::Relaxed);
                    panic!("{complaint}\nKEW_INTERLEAVED_SEED={seed} runs it again");
                }
            }
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            all.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{} histories: {all:?} in {:.1} s", seeds.end - seeds.start, begun.elapsed().as_secs_f64());
    let is_one = seeds.end - seeds.start == 1;
    assert!(is_one || (all.checkpoints > 0 && all.crashes > 0), "upkeep and crashes take part");
}

#[test]
fn a_seed_repeats_its_history_turn_by_turn() {
    for seed in 1..=4 {
        let traced = || {
            let mut lived = Lived::default();
            history(seed, &mut lived).unwrap();
            lived.trace
        };
        assert_eq!(traced(), traced(), "seed {seed}");
    }
}

/// Runs histories with a planted fault until one tells of it.
fn finds(planted: Planted) {
    let begun = Instant::now();
    let planting = planted.plant();
    let mut lived = Lived::default();
    let found = (1..=HISTORIES_TO_FIND).find_map(|seed| Some((seed, history(seed, &mut lived).err()?)));
    drop(planting);
    let lived = lived.with_own_time();
    let (seed, complaint) = found.unwrap_or_else(|| panic!("{planted:?} was not found: {lived:?}"));
    println!(
        "{planted:?} found by seed {seed} after {:.1} s of the processor, {:.1} s in all: {}",
        lived.cpu_seconds,
        begun.elapsed().as_secs_f64(),
        complaint.lines().next().unwrap_or_default(),
    );
}

#[test]
fn a_gate_that_a_sync_opens_too_far_is_found() {
    finds(Planted::GateOpensTooFar);
}

#[test]
fn a_checkpoint_that_counts_before_its_journal_is_synced_is_found() {
    finds(Planted::ManifestBeforeSync);
}

#[test]
fn generations_of_ids_that_are_listed_before_the_queues_are_found() {
    finds(Planted::GenerationsFirst);
}

#[test]
fn old_checkpoints_that_are_removed_before_their_folder_is_synced_are_found() {
    finds(Planted::SweepBeforeFolderSync);
}

#[test]
fn an_error_of_a_sync_that_is_reported_to_another_is_found() {
    finds(Planted::ErrorReportedOnce);
}
