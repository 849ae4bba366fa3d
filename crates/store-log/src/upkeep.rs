//! Upkeep beside the writer: checkpoints, and giving back the space of dead messages.
//!
//! A checkpoint is made of slices, each written under the writer's lock for a fraction of a millisecond. It is
//! installed once every batch that a slice reflects is durable. Segments that nothing needed when it was begun are
//! free from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use kew_store::ledger::{Ledger, META_KEY, dedup};

use crate::checkpoint::CheckpointWriter;
use crate::error::LogError;
use crate::frame::Checksums;
use crate::manifest::{Manifest, ManifestFields, SegmentUse};
use crate::put_away;
use crate::reclaim::Forwarding;
use crate::room;
use crate::scan::ReplayStart;
use crate::segment::{Segment, SegmentKind};
use crate::segments::{Room, Segments};
use crate::shelf::LogShelf;
use crate::store::Inner;

/// How long the writer's lock is held for slices before others get a turn.
const SLICE_TIME: Duration = Duration::from_micros(200);
/// Bytes of slices gathered under one hold of the lock.
const SLICE_BYTES: usize = 256 << 10;

/// The state of checkpoints and reclaim.
pub struct Upkeep {
    manifest: Option<Manifest>,
    forwarding: Forwarding,
    /// Where the journal ended when the last checkpoint was begun, and how large that one was.
    last_end: u64,
    last_bytes: u64,
    /// How many ids each generation of deduplication ids has in the last checkpoint.
    generations: Generations,
}

/// What upkeep has done since the store was opened, to be read while a round runs: one may wait long for its disk.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub checkpoints: AtomicU64,
    pub copied_bytes: AtomicU64,
}

/// Ids in each generation, by the generation's key.
type Generations = HashMap<u64, usize>;

/// What a checkpoint stands on, taken in one moment.
struct Ground {
    replay: ReplayStart,
    changed: Vec<u64>,
    /// Numbers and bases of segments. A handle would keep their files from being used again.
    unneeded: Vec<(u64, u64)>,
}

impl Upkeep {
    pub(crate) fn new(manifest: Option<Manifest>, segments: Segments, sums: Checksums) -> Self {
        let last_end = manifest.as_ref().map_or(0, |manifest| manifest.fields.replay.address);
        let last_bytes = manifest
            .as_ref()
            .map_or(0, |manifest| manifest.slices().map(|(_, slice)| u64::from(slice.bytes)).sum());
        Self {
            manifest,
            forwarding: Forwarding::new(segments, sums),
            last_end,
            last_bytes,
            generations: Generations::new(),
        }
    }

    /// Number of the survivor segment that is still being filled.
    pub(crate) fn open_survivor(&self) -> Option<u64> {
        self.forwarding.open_segment()
    }

    /// The checkpoint that counts.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// One round: a checkpoint if it is time for one, and survivors copied forward if too much is dead.
    pub(crate) fn round(&mut self, inner: &Inner, is_starved: bool) -> Result<(), LogError> {
        let (end, short) = {
            let ledger = inner.writer.lock();
            let end = ledger.shelf.batch.start();
            // A disk that stays full is not tried again until something has changed.
            let is_starved = is_starved && end > self.last_end;
            (end, is_starved || ledger.shelf.room_for(0) != Room::Enough)
        };
        // On a small disk what is dead must not crowd out what is to come.
        let free = inner
            .disk
            .free_space()
            .map_or(u64::MAX, |free| free.saturating_add(inner.segments.spare_bytes()));
        let due = inner.options.checkpoint_bytes.min(free / 4).max(self.last_bytes.saturating_mul(2));
        let is_due = end - self.last_end >= due;
        let frees = short && self.frees_something(inner);
        let checkpoint = if is_due || frees { self.checkpoint(inner) } else { Ok(()) };
        match &checkpoint {
            Err(LogError::NoSpace { .. }) if short => {}
            Err(_) => return checkpoint,
            Ok(()) if is_due || short => {}
            Ok(()) => return Ok(()),
        }
        if self.forwarding.copy(inner, short, self.spares_to_keep(inner, short))? {
            // What was copied from is free once a checkpoint knows the new places.
            return self.checkpoint(inner);
        }
        checkpoint
    }

    /// Whether a checkpoint would give space back.
    fn frees_something(&self, inner: &Inner) -> bool {
        let ledger = inner.writer.lock();
        let put_away = ledger.generations_put_away().len();
        let listed = self.manifest.as_ref().map_or(0, |last| last.fields.sidecars.len());
        put_away < listed || !self.unneeded(&ledger, &inner.segments).is_empty()
    }

    /// Spares that copying leaves alone: the reserve. Short of space copying is what makes some, so it may take
    /// the last one; but not when nothing would be left for the checkpoint that then frees what was copied from.
    fn spares_to_keep(&self, inner: &Inner, short: bool) -> usize {
        let free = inner.disk.free_space().unwrap_or(0).saturating_add(inner.segments.kept().bytes());
        if short && room::taken(self.manifest.as_ref()) <= free {
            0
        } else {
            inner.options.segments.reserve_spares
        }
    }

    /// Makes a checkpoint.
    pub(crate) fn checkpoint(&mut self, inner: &Inner) -> Result<(), LogError> {
        inner.commit_from_upkeep()?;
        match put_away_ids(inner) {
            // They stay in memory; a checkpoint may make room for them.
            Ok(()) | Err(LogError::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        let ground = self.ground(&mut inner.writer.lock(), &inner.segments);
        let mut written = self.write(inner, &ground);
        if matches!(written, Err(LogError::NoSpace { .. })) && self.make_room(inner, &ground) {
            // At once: the next round makes a spare again of whatever is free.
            written = self.write(inner, &ground);
        }
        if written.is_err() {
            inner.writer.lock().mark_changed(&ground.changed);
        }
        written
    }

    /// A checkpoint found no space: gives spares up for it, if it then fits and frees a segment in their place.
    fn make_room(&self, inner: &Inner, ground: &Ground) -> bool {
        // A batch that waits for a segment needs the spare more.
        if ground.unneeded.is_empty() || inner.commit_from_upkeep().is_err() {
            return false;
        }
        // What goes wrong here is told by the failure that led here.
        self.measure(inner, ground)
            .and_then(|needed| inner.segments.kept().make(&inner.segments, needed))
            .unwrap_or(false)
    }

    /// Bytes of disk that the checkpoint takes.
    fn measure(&self, inner: &Inner, ground: &Ground) -> Result<u64, LogError> {
        let mut measured = CheckpointWriter::measuring(inner.disk.clone(), self.manifest.as_ref())?;
        put_slices(inner, &mut measured, ground, &self.generations)?;
        let sidecars = self.manifest.as_ref().map_or(0, |last| last.fields.sidecars.len());
        Ok(room::needed(&measured, inner.segments.list().len() + sidecars))
    }

    fn ground(&self, ledger: &mut Ledger<LogShelf>, segments: &Segments) -> Ground {
        let batch = &ledger.shelf.batch;
        let replay = ReplayStart { address: batch.start(), batch: batch.number() };
        let unneeded = self.unneeded(ledger, segments);
        Ground { replay, changed: ledger.begin_checkpoint(), unneeded }
    }

    /// Numbers and bases of segments that nothing but the last checkpoint needs.
    fn unneeded(&self, ledger: &Ledger<LogShelf>, segments: &Segments) -> Vec<(u64, u64)> {
        let replay = ledger.shelf.batch.start();
        let newest = ledger.shelf.journal.as_ref().map(|journal| journal.active().number());
        let unneeded = |segment: &Arc<Segment>| {
            let rests = ledger.shelf.live.of(segment.base()).is_some_and(|life| life.messages > 0);
            let is_behind = match segment.kind() {
                SegmentKind::Journal => segment.end() <= replay && Some(segment.number()) != newest,
                SegmentKind::Survivor => Some(segment.number()) != self.forwarding.open_segment(),
            };
            !rests && is_behind
        };
        segments
            .list()
            .into_iter()
            .filter(unneeded)
            .map(|segment| (segment.number(), segment.base()))
            .collect()
    }

    fn write(&mut self, inner: &Inner, ground: &Ground) -> Result<(), LogError> {
        let mut writer = CheckpointWriter::start(inner.disk.clone(), self.manifest.as_ref())?;
        let generations = match put_slices(inner, &mut writer, ground, &self.generations) {
            Ok(generations) => generations,
            Err(error) => {
                // Its file takes space that is wanted elsewhere now.
                let _abandoned = writer.abandon();
                return Err(error);
            }
        };
        let bytes = writer.bytes();
        let sealed = writer.seal()?;
        inner.sync()?;
        let (durable_through, sidecars) = {
            let mut ledger = inner.writer.lock();
            let away = ledger.generations_put_away();
            (ledger.shelf.journal_mut()?.durable_through(), ledger.shelf.put_away.keep(&away))
        };
        let is_unneeded = |number: u64| ground.unneeded.iter().any(|(unneeded, _)| *unneeded == number);
        let needed = inner.segments.list().into_iter().filter(|segment| !is_unneeded(segment.number()));
        let fields = ManifestFields {
            replay: ground.replay,
            durable_through,
            segments: needed.map(|segment| SegmentUse::of(&segment)).collect(),
            next_segment: inner.segments.next_number(),
            survivor_end: inner.segments.survivor_end(),
            sidecars: sidecars.clone(),
            meta: Bytes::new(),
        };
        // After a failure here either checkpoint may count: nothing is freed until a later one is installed.
        let manifest = sealed.install(fields)?;
        inner.done.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.generations = generations;
        (self.last_end, self.last_bytes) = (ground.replay.address, bytes.max(self.last_bytes / 2));
        // Leftovers of older checkpoints take space and do no harm.
        let _swept = manifest.sweep(&*inner.disk).and_then(|()| put_away::sweep(&*inner.disk, &sidecars));
        self.manifest = Some(manifest);
        self.free(inner, &ground.unneeded);
        Ok(())
    }

    fn free(&self, inner: &Inner, unneeded: &[(u64, u64)]) {
        let mut ledger = inner.writer.lock();
        for (number, base) in unneeded {
            if inner.segments.free(*number) {
                ledger.shelf.live.drop_segment(*base);
            }
        }
        drop(ledger);
        self.keep_room(&inner.segments);
    }

    /// Keeps room for the next checkpoint, then spares. Either may fail for lack of space: sends are refused until it
    /// works, and what was freed stays until it is recycled.
    pub(crate) fn keep_room(&self, segments: &Segments) {
        let needed = room::taken(self.manifest.as_ref());
        let kept = segments.kept().keep(needed);
        let _prepared = segments.prepare_spare();
        if kept.is_err() && segments.spares() > segments.reserve() && segments.give_up_spare() == Ok(true) {
            let _kept = segments.kept().keep(needed);
        }
    }
}

/// Puts the oldest deduplication ids away while too many are in memory.
fn put_away_ids(inner: &Inner) -> Result<(), LogError> {
    loop {
        let Some((start, bytes)) = inner.writer.lock().generation_to_put_away() else { return Ok(()) };
        let heads = dedup::heads(&bytes)
            .ok_or_else(|| LogError::damage("memory", 0, "a generation that is not sorted"))?;
        let written = put_away::Written::new(&*inner.disk, start, &bytes)?;
        let mut ledger = inner.writer.lock();
        ledger.shelf.put_away.add(written);
        ledger.set_put_away(start, heads);
    }
}

/// Writes every slice: what changed anew, the rest by reference to where it lies.
/// Answers how many ids each generation has in it.
fn put_slices(
    inner: &Inner,
    writer: &mut CheckpointWriter,
    ground: &Ground,
    known: &Generations,
) -> Result<Generations, LogError> {
    let mut queues = inner.writer.lock().queue_keys();
    queues.sort_unstable();
    let mut changed = ground.changed.clone();
    changed.sort_unstable();
    let mut anew: Vec<u64> = Vec::new();
    for key in queues {
        let is_changed = changed.binary_search(&key).is_ok();
        if is_changed || !writer.keep(key, 0) {
            anew.push(key);
        }
    }
    put_keys(inner, writer, &anew)?;
    // Asked after the queues were written: a send that a slice reflects is in its generation's slice too.
    let generations = inner.writer.lock().generation_keys();
    let is_kept = |writer: &mut CheckpointWriter, key: u64, ids: usize| {
        known.get(&key) == Some(&ids) && writer.keep(key, 0)
    };
    let grown: Vec<u64> =
        generations.iter().filter(|(key, ids)| !is_kept(writer, *key, *ids)).map(|(key, _)| *key).collect();
    put_keys(inner, writer, &grown)?;
    put_keys(inner, writer, &[META_KEY])?;
    Ok(generations.into_iter().collect())
}

/// Writes slices in short holds of the writer's lock. Each begins with the address it reaches to.
fn put_keys(inner: &Inner, writer: &mut CheckpointWriter, keys: &[u64]) -> Result<(), LogError> {
    let mut keys = keys.iter().copied().peekable();
    let mut slices: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    while keys.peek().is_some() {
        let begun = Instant::now();
        let ledger = inner.writer.lock();
        let (reach, batch) = (ledger.shelf.batch.next_record(), ledger.shelf.batch.number());
        let mut bytes = 0;
        for key in keys.by_ref() {
            let mut slice = reach.to_le_bytes().to_vec();
            if ledger.write_slice(key, &mut slice) {
                bytes += slice.len();
                slices.push((key, batch, slice));
            }
            if bytes > SLICE_BYTES || begun.elapsed() > SLICE_TIME {
                break;
            }
        }
        drop(ledger);
        for (key, batch, slice) in slices.drain(..) {
            writer.put(key, batch, &slice)?;
        }
    }
    Ok(())
}
