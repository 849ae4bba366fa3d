//! Histories of nodes that own a shard one after the other, on a simulated database: cut connections, slow statements,
//! restarts, fail-overs, owners that stop and go on later. Nothing acknowledged is lost, nothing comes back, no old
//! owner answers, and after each opening the store is what it was after some batch.
//!
//! `KEW_INTERLEAVED` says how many histories run, half as many without `KEW_LONG=1`; `KEW_INTERLEAVED_SEED` runs one.
//! The tests are tested: with a fault planted in the log (`kew_log_pg::planted`) or in the store above it
//! (`kew_store_log::planted`) the same histories must find it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod factory;
mod files;
mod found;
mod hangs;
#[path = "../../../store-log/tests/interleaved/history.rs"]
mod history;
#[path = "../../../store-log/tests/disk_laws/laws.rs"]
mod laws;
mod many;
mod node;
mod play;
mod reference;
mod shards;
mod small_rows;
#[allow(dead_code, reason = "the crash tests of the embedded store use the rest")]
#[path = "../../../store-log/tests/after_crash/things.rs"]
mod things;

use std::time::Instant;

use factory::OnSimulated;
use kew_log_pg::simulated::{AtAppends, Fault, Rates};
use kew_store::contract::model::{StoreSubject, Subject, seeds};
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
            let asked =
                number("KEW_INTERLEAVED").map(|asked| if is_long() { asked } else { asked.div_ceil(2) });
            first..first + asked.unwrap_or(HISTORIES)
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
    assert!(all.let_fill > 0 || seeds.end - seeds.start < HISTORIES, "no batch was let fill");
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in 1..=8 {
        let plan = Plan::random(seed, COMMANDS);
        assert_eq!(play(plan), play(plan), "seed {seed}");
    }
}

/// Of the appends of a long history each meets each fault, in one of these runs: appends that are this far apart meet
/// it in the same one. `KEW_CRASH=every` plays all runs.
const APART: u64 = 19;
const LONG: u64 = 2_000;

#[test]
fn every_append_of_a_long_history_meets_every_fault() {
    let is_every = std::env::var("KEW_CRASH").is_ok_and(|value| value == "every");
    let mut all = Lived::default();
    for (number, fault) in (0..).zip(Fault::ALL) {
        let firsts = if is_every { 1..=APART } else { 1 + number..=1 + number };
        for first in firsts {
            let at_appends = Some(AtAppends { first, one_in: APART, fault });
            let rates = Rates { latency_ms: 1, at_appends, ..Rates::default() };
            let plan =
                Plan { seed: 7, commands: LONG, rates, life_max: LONG, large_row: 0, is_pooled: false };
            let played = play(plan);
            all.add(played.unwrap_or_else(|complaint| panic!("{fault:?} at append {first}: {complaint}")));
        }
    }
    println!("{all:?}");
    assert!(all.faults > 12 * 20, "only {} faults", all.faults);
}

fn is_long() -> bool {
    std::env::var("KEW_LONG").is_ok_and(|value| value == "1")
}

/// Of the histories that `KEW_MODEL_HISTORIES` asks for a part is played; all of them with `KEW_LONG=1`.
const ONE_OF: usize = 4;

#[test]
fn store_on_a_database_that_fails_equals_the_model() {
    let factory = OnSimulated::new(things::options(), 3);
    let make = |seed| {
        factory.begin(seed);
        Box::new(StoreSubject::new(&factory)) as Box<dyn Subject>
    };
    for seed in seeds().step_by(if is_long() { 1 } else { ONE_OF }) {
        if let Err(differs) = kew_store::contract::model::history(seed, &make) {
            panic!("{differs}");
        }
    }
}

mod contract {
    use super::{OnSimulated, things};

    kew_store::contract_tests!(OnSimulated::new(things::options(), 7));
}
