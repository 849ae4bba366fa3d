//! What the store must be: another one, alone on a sound disk, that takes the steps that were kept.

use std::sync::Arc;

use kew_core::{Command, Timestamp};
use kew_store::Store;
use kew_store_log::{LogOptions, LogStore, SegmentOptions, SimDisk, planted};

use crate::node::{Node, Step};
use crate::things::{Chance, difference, options, text_of};

/// The other store.
pub struct Reference {
    disk: SimDisk,
    store: Option<LogStore>,
}

impl Reference {
    pub fn new() -> Result<Self, String> {
        let disk = SimDisk::new();
        let store = open(&disk, 0)?;
        Ok(Self { disk, store: Some(store) })
    }

    /// Takes the steps of a node that were found by the next one, and is opened anew with that one's chance.
    pub fn keep(&mut self, steps: &[Step], batch: u64, life: u64) -> Result<(), String> {
        let Some(store) = self.store.take() else { return Err("the reference is gone".to_owned()) };
        let kept = steps.iter().take_while(|step| step.batch <= batch).count();
        take_again(&store, &steps[..kept]);
        store.close().map_err(|error| format!("closing the reference: {error}"))?;
        drop(store);
        self.disk = self.disk.snapshot();
        self.store = Some(open(&self.disk, life)?);
        Ok(())
    }

    /// Compares a store that was opened just now. Both do what is due; for the store that is its first step.
    pub fn compare(&self, node: &mut Node, life: u64) -> Result<Timestamp, String> {
        let other = open(&self.disk.snapshot(), life)?;
        let now = other.newest_instant().max(node.store.newest_instant()).max(Timestamp(1_000_000));
        let _before = planted::take_departed();
        drop(node.store.step(now, &Command::Due));
        let (batch, departed) = (planted::take_newest_batch().unwrap_or(0), planted::take_departed());
        node.steps.push(Step { now, command: Command::Due, batch, departed });
        // Also those of a comparison before, whose reads were cut.
        take_again(&other, &node.steps);
        let (expected, found) =
            (without_nonces(&text_of(&other)?), without_nonces(&text_of(node.store.log())?));
        if expected == found {
            return Ok(now);
        }
        Err(difference(&expected, &found))
    }
}

/// Takes the steps of a node. As many dead letters find room in each as did there.
fn take_again(store: &LogStore, steps: &[Step]) {
    for step in steps {
        let _while_it_lasts = planted::let_depart(step.departed);
        drop(store.step(step.now, &step.command));
    }
}

/// A store with files so large that nothing ever has to be made room for.
fn open(disk: &SimDisk, life: u64) -> Result<LogStore, String> {
    let segments = SegmentOptions { first_bytes: 1 << 20, largest_bytes: 1 << 20, ..options().segments };
    let options = LogOptions { segments, ..options() };
    let opened = LogStore::open(Arc::new(disk.clone()), options, Chance::at(life << 40), Timestamp(0));
    opened.map(|(store, _)| store).map_err(|error| format!("the reference does not open: {error}"))
}

/// A text without the random numbers of leases: a step that is taken again, because a body had to be read for it, draws
/// them twice.
fn without_nonces(text: &str) -> String {
    const NONCE: &str = "\"nonce\":";
    let mut parts = text.split(NONCE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + NONCE + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
    })
}
