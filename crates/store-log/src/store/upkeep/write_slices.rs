//! The slices of a checkpoint, written with the writer's lock held only for moments.
//!
//! Of a queue an image is taken under the lock, in a few looks however many messages it has, and written without it.
//! What is read directly, deduplication ids and documents, is read some at a time. Every hold is counted by what was
//! looked at in it.

use std::time::{Duration, Instant};

use kew_store::ledger::{IdsRead, Ledger, META_KEY, QueueImage, dedup};

use super::put_away;
use crate::checkpoint::CheckpointWriter;
use crate::error::LogError;
use crate::journal::{Address, BatchNumber};
use crate::planted::Planted;
use crate::store::inner::Inner;
use crate::store::shelf::LogShelf;
use crate::turns::has_passed;

/// How long the writer's lock is held for images before others get a turn.
const HOLD_TIME: Duration = Duration::from_micros(200);
/// Pieces of images that are shared under one hold, if they are not all of one queue.
const HOLD_PIECES: usize = 2_000;
/// Queues, deduplication ids or segments that are looked at under one hold.
pub(crate) const HOLD_LOOKS: usize = 1_000;
/// Documents that are looked at under one hold.
const HOLD_DOCUMENTS: usize = 256;

/// How many ids each generation of deduplication ids had when it was written, by the generation's key.
pub(crate) type Generations = hashbrown::HashMap<u64, usize>;

/// The moment that a slice shows: replay leaves out what was recorded before it.
struct Moment {
    reach: Address,
    batch: BatchNumber,
}

impl Moment {
    fn of(ledger: &Ledger<LogShelf>) -> Self {
        let batch = &ledger.shelf.batch;
        Self { reach: batch.next_record(), batch: batch.number() }
    }
}

/// Writes every slice: what changed anew, the rest by reference to where it lies.
/// Answers how many ids each generation has in it.
pub(crate) fn put_slices(
    inner: &Inner,
    writer: &mut CheckpointWriter,
    changed: &[u64],
    known: &Generations,
) -> Result<Generations, LogError> {
    let anew = queues_to_write(inner, writer, changed);
    let too_early =
        Planted::GenerationsFirst.is_there().then(|| inner.writer.lock_beside().generation_keys());
    put_queues(inner, writer, &anew)?;
    // Asked after the queues were written: a send that a slice reflects is in its generation's slice too.
    let generations = too_early.unwrap_or_else(|| inner.writer.lock_beside().generation_keys());
    for (key, ids) in &generations {
        if known.get(key) != Some(ids) || !writer.keep(*key, BatchNumber::BEFORE_FIRST) {
            put_generation(inner, writer, *key, *ids)?;
        }
    }
    put_meta(inner, writer)?;
    Ok(generations.into_iter().collect())
}

/// The queues whose slices are written anew. Every queue there is has a slice in the last checkpoint or has changed.
fn queues_to_write(inner: &Inner, writer: &mut CheckpointWriter, changed: &[u64]) -> Vec<u64> {
    let mut keys: Vec<u64> =
        writer.previous_keys().filter(|key| *key != META_KEY && !IdsRead::has_key(*key)).collect();
    keys.extend_from_slice(changed);
    keys.sort_unstable();
    keys.dedup();
    let mut anew = Vec::new();
    for some in keys.chunks(HOLD_LOOKS) {
        let there: Vec<u64> = {
            let ledger = inner.writer.lock_beside();
            some.iter().copied().filter(|key| ledger.has_queue(*key)).collect()
        };
        inner.done.note_hold(some.len());
        let must_write =
            |key: &u64| changed.binary_search(key).is_ok() || !writer.keep(*key, BatchNumber::BEFORE_FIRST);
        anew.extend(there.into_iter().filter(must_write));
    }
    anew
}

fn put_queues(inner: &Inner, writer: &mut CheckpointWriter, keys: &[u64]) -> Result<(), LogError> {
    let mut keys = keys.iter().copied().peekable();
    let mut images: Vec<(u64, QueueImage)> = Vec::new();
    while keys.peek().is_some() {
        let begun = Instant::now();
        let mut ledger = inner.writer.lock_beside();
        let moment = Moment::of(&ledger);
        let mut pieces = 0;
        for key in keys.by_ref() {
            let image = ledger.image(key);
            pieces += image.as_ref().map_or(1, QueueImage::pieces);
            images.extend(image.map(|image| (key, image)));
            if pieces > HOLD_PIECES || has_passed(begun, HOLD_TIME) {
                break;
            }
        }
        drop(ledger);
        inner.done.note_hold(pieces);
        for (key, image) in images.drain(..) {
            put_pieces(writer, key, &moment, |give| image.write(give))?;
        }
    }
    Ok(())
}

/// Writes a slice that is handed over in pieces.
fn put_pieces(
    writer: &mut CheckpointWriter,
    key: u64,
    moment: &Moment,
    write: impl FnOnce(&mut dyn FnMut(&[u8])),
) -> Result<(), LogError> {
    writer.begin(key)?;
    writer.append(&moment.reach.0.to_le_bytes())?;
    let mut result = Ok(());
    write(&mut |piece| {
        if result.is_ok() {
            result = writer.append(piece);
        }
    });
    result?;
    writer.end(moment.batch)
}

/// Writes the first `ids` ids of a generation. Those that come meanwhile are in the journal behind the checkpoint.
fn put_generation(
    inner: &Inner,
    writer: &mut CheckpointWriter,
    key: u64,
    ids: usize,
) -> Result<(), LogError> {
    let (mut from, mut batch) = (0, BatchNumber::BEFORE_FIRST);
    let mut bytes = Vec::new();
    while from < ids {
        let to = ids.min(from + HOLD_LOOKS);
        bytes.clear();
        let ledger = inner.writer.lock_beside();
        let moment = Moment::of(&ledger);
        if from == 0 {
            bytes.extend_from_slice(&moment.reach.0.to_le_bytes());
        }
        let is_there = ledger.write_ids(key, from..to, &mut bytes);
        drop(ledger);
        inner.done.note_hold(to - from);
        if !is_there {
            // Its last window has closed: nothing asks for its ids any more.
            break;
        }
        if from == 0 {
            writer.begin(key)?;
        }
        writer.append(&bytes)?;
        (from, batch) = (to, moment.batch);
    }
    writer.end(batch)
}

/// Writes what belongs to no queue.
fn put_meta(inner: &Inner, writer: &mut CheckpointWriter) -> Result<(), LogError> {
    let (moment, mut meta) = {
        let ledger = inner.writer.lock_beside();
        (Moment::of(&ledger), ledger.meta())
    };
    loop {
        let documents = inner.writer.lock_beside().documents_behind(meta.last(), HOLD_DOCUMENTS);
        inner.done.note_hold(documents.len());
        let are_all = documents.len() < HOLD_DOCUMENTS;
        meta.add(documents);
        if are_all {
            break;
        }
    }
    // Documents that were read late are in a batch that the checkpoint waits for, as it does for every one.
    put_pieces(writer, META_KEY, &moment, |give| meta.write(give))
}

/// Says of queues that were to be written, and were not, that they have changed.
pub(crate) fn mark_changed(inner: &Inner, keys: &[u64]) {
    for some in keys.chunks(HOLD_LOOKS) {
        inner.writer.lock_beside().mark_changed(some);
        inner.done.note_hold(some.len());
    }
}

/// Puts the oldest deduplication ids away while too many are in memory.
pub(crate) fn put_away_ids(inner: &Inner) -> Result<(), LogError> {
    loop {
        let_ids_go(inner);
        let Some((start, ids)) = inner.writer.lock_beside().generation_to_put_away() else { return Ok(()) };
        let mut entries = Vec::with_capacity(ids);
        for from in (0..ids).step_by(HOLD_LOOKS) {
            let some = inner.writer.lock_beside().ids_to_put_away(start, from..from + HOLD_LOOKS);
            inner.done.note_hold(HOLD_LOOKS);
            entries.extend(some.into_iter().flatten());
        }
        let bytes = dedup::sorted(entries);
        let heads = dedup::heads(&bytes)
            .ok_or_else(|| LogError::damage("memory", 0, "a generation that is not sorted"))?;
        let written = put_away::NewGeneration::new(&*inner.disk, start, &bytes)?;
        let mut ledger = inner.writer.lock_beside();
        ledger.shelf.put_away.add(written);
        ledger.set_put_away(start, heads);
    }
}

fn let_ids_go(inner: &Inner) {
    while inner.writer.lock_beside().let_ids_go(HOLD_LOOKS) {
        inner.done.note_hold(HOLD_LOOKS);
    }
}
