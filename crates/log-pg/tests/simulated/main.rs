//! Histories of nodes that own a shard one after the other, on a simulated database: cut connections, slow statements,
//! restarts, fail-overs, owners that stop and go on later. Nothing acknowledged is lost, nothing comes back, no old
//! owner answers, and after each opening the store is what it was after some batch.
//!
//! `KEW_INTERLEAVED` says how many histories run, `KEW_INTERLEAVED_SEED` runs one. The tests are tested: with a fault
//! planted in the log (`kew_log_pg::planted`) the same histories must find it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../store-log/tests/interleaved/history.rs"]
mod history;
mod node;
mod play;
mod reference;
#[allow(dead_code, reason = "the crash tests of the embedded store use the rest")]
#[path = "../../../store-log/tests/after_crash/things.rs"]
mod things;

use std::time::Instant;

use play::{Lived, Plan, play};

/// Histories when nothing says how many.
const HISTORIES: u64 = 40;
/// Commands of each.
const COMMANDS: u64 = 150;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number is expected")))
}

#[test]
fn nothing_is_lost_resurrected_or_answered_by_an_old_owner() {
    let begun = Instant::now();
    let seeds = match number("KEW_INTERLEAVED_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("KEW_SEEDS_AFTER").unwrap_or(0) + 1;
            first..first + number("KEW_INTERLEAVED").unwrap_or(HISTORIES)
        }
    };
    let mut all = Lived::default();
    for seed in seeds.clone() {
        match play(Plan::random(seed, COMMANDS)) {
            Ok(lived) => all.add(lived),
            Err(complaint) => panic!("{complaint}\nKEW_INTERLEAVED_SEED={seed} runs it again"),
        }
    }
    println!("{} histories: {all:?} in {:.1} s", seeds.end - seeds.start, begun.elapsed().as_secs_f64());
}
