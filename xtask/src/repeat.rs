//! Every test program many times over, to find the tests that fail by chance.
//!
//! Each repetition has random tests begin at another seed, which is printed with what failed. Several programs run side
//! by side, so that threads are held up at other places each time.

use crate::Done;
use crate::output::Output;
use crate::programs::{self, Program};
use crate::run::shown;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one run of a program may take.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// Where the output of a failed run is kept.
const FOLDER: &str = "target/repeat";

/// `cargo xtask repeat N [PART…]`: every test program N times, or those with one of the parts in their names.
pub fn command(words: &[&str]) -> Done {
    let usage = || "how many times? cargo xtask repeat N [PART OF A PROGRAM'S NAME…]".to_owned();
    let (times, parts) = words.split_first().ok_or_else(usage)?;
    let times: usize = times.parse().map_err(|_not_a_number| usage())?;
    let mut all = programs::build()?;
    all.retain(|program| parts.is_empty() || parts.iter().any(|part| program.name.contains(part)));
    if all.is_empty() {
        return Err(format!("no test program has {} in its name", parts.join(" or ")));
    }
    repeat(&all, times)
}

/// Runs every program this number of times. A run that fails does not end it.
fn repeat(all: &[Program], times: usize) -> Done {
    let lanes = std::thread::available_parallelism().map_or(2, |cores| cores.get() * 2);
    println!("\n== {} test programs, {times} times each, {lanes} at once", all.len());
    let (begun, failures) = (Instant::now(), Mutex::new(Vec::new()));
    let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let runs: Vec<usize> = (0..times * all.len()).collect();
    programs::side_by_side(lanes, &runs, |number| {
        let (round, program) = (number / all.len(), &all[number % all.len()]);
        // Far enough apart that no two rounds share a seed.
        let seeds_after = start * 1_000_000 + round as u64 * 10_000;
        if let Err(reason) = once(program, round, seeds_after) {
            println!("  FAILED  {reason}");
            failures.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        }
        if number % all.len() == all.len() - 1 {
            println!("  round {} of {times}, {}", round + 1, shown(begun.elapsed()));
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("repeat: {} runs, {} failed", all.len() * times, failures.len());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn once(program: &Program, round: usize, seeds_after: u64) -> Done {
    let path = Path::new(FOLDER).join(format!("{}-{}.log", program.file_name(), round + 1));
    let variables = BTreeMap::from([("KEW_SEEDS_AFTER".to_owned(), seeds_after.to_string())]);
    let result = program.run(&variables, LIMIT, Output::kept(&path)?);
    match result {
        Ok(()) => {
            fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))
        }
        Err(reason) => Err(format!("{reason}\n    (KEW_SEEDS_AFTER={seeds_after}, {})", path.display())),
    }
}
