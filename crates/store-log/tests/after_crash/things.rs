//! What tests of crashes share: a store with small files, chance that can be repeated, and what a store holds as text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kew_core::outcome::Extended;
use kew_core::{Command, Entropy, Outcome, Timestamp};
use kew_store::ledger::Bounds;
use kew_store_log::{LogOptions, LogStore};
use kew_testing::small_log;

pub fn options() -> LogOptions {
    LogOptions {
        checkpoint_bytes: 256,
        bounds: Bounds { deduplication_ids: 2, ..Bounds::default() },
        ..small_log()
    }
}

/// Chance that goes on from any place of its sequence.
pub struct Chance(AtomicU64);

impl Chance {
    pub fn at(place: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(place)))
    }

    pub fn place(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Entropy for Chance {
    fn bits(&self) -> u64 {
        let mixed = (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }
}

/// Everything the store held after a batch, and the instant at which it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub now: Timestamp,
    pub text: Arc<str>,
}

/// What the store held after each batch, at one or more instants.
pub type States = BTreeMap<u64, Vec<State>>;

/// What the store owes at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Debt {
    /// Points of the disk so far.
    pub points: u64,
    /// The newest batch that holds something acknowledged that a power cut may not take.
    pub promised: u64,
    /// The newest batch written: a process that dies may not take it.
    pub written: u64,
}

/// Everything a store holds, or why it cannot be read.
pub fn text_of(store: &LogStore) -> Result<Arc<str>, String> {
    let mut text = Vec::new();
    kew_store_log::export(store, &mut text).map_err(|error| error.to_string())?;
    let text = String::from_utf8(text).expect("an export is text");
    // Ids are written generation by generation, and one may have come into another generation.
    let (ids, rest): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("{\"remembered\""));
    let ids: BTreeSet<&str> = ids.into_iter().collect();
    Ok(rest.into_iter().chain(ids).flat_map(|line| [line, "\n"]).collect::<String>().into())
}

/// Whether an answer promised something that no power cut may take back.
pub fn is_promise(command: &Command, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Queue(_) | Outcome::QueueDeleted(_) | Outcome::Purged(_) => true,
        Outcome::Sent(sent) => sent.iter().any(|sent| !sent.duplicate),
        Outcome::Acked(acked) => acked.iter().any(Result::is_ok),
        Outcome::MovedChosen(moved) => moved.iter().any(Result::is_ok),
        Outcome::Extended(extended) => {
            let Command::Extend(extend) = command else { return false };
            let is_until = |result: &Result<Extended, _>| matches!(result, Ok(Extended::Until { .. }));
            extended
                .iter()
                .zip(&extend.entries)
                .any(|(result, entry)| is_until(result) && entry.content.is_some())
        }
        Outcome::Move(_) => matches!(command, Command::StartMove(_)),
        _ => false,
    }
}

/// The first lines in which two exports differ.
pub fn difference(expected: &str, found: &str) -> String {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let missing = expected.iter().filter(|line| !found.contains(line)).take(3);
    let surplus = found.iter().filter(|line| !expected.contains(line)).take(3);
    let missing: Vec<_> = missing.map(|line| format!("  - {line}")).collect();
    let surplus: Vec<_> = surplus.map(|line| format!("  + {line}")).collect();
    [missing, surplus].concat().join("\n")
}
