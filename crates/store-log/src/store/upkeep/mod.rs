//! Upkeep beside the writer: checkpoints, and giving back the space of dead messages.
//!
//! A checkpoint is made of slices, each of one moment, for which the writer's lock is held a fraction of a millisecond
//! ([`write_slices`]). It is installed once every batch that a slice reflects is durable. Segments that nothing needed
//! when it was begun are free from then on.

pub(super) mod put_away;
mod reclaim;
pub(super) mod reporting;
pub(super) mod scrub;
mod write_slices;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kew_core::{QueueId, Work};

use crate::checkpoint::{CheckpointWriter, Manifest, ManifestFields, room};
use crate::error::LogError;
use crate::journal::{
    Address, Checksums, ReplayStart, Room, Segment, SegmentKind, SegmentNumber, SegmentUse, Segments,
};
use crate::planted::Planted;
use crate::store::inner::Inner;
use reclaim::Forwarding;
use write_slices::{Generations, HOLD_LOOKS};

/// The state of checkpoints and reclaim.
pub struct Upkeep {
    manifest: Option<Manifest>,
    forwarding: Forwarding,
    /// Where the journal ended when the last checkpoint was begun, and how large that one was.
    last_end: Address,
    last_bytes: u64,
    /// How many ids each generation of deduplication ids has in the last checkpoint.
    generations: Generations,
    /// Something was copied forward, and no checkpoint knows of it yet.
    owes_checkpoint: bool,
}

/// What upkeep has done since the store was opened, to be read while a round runs: one may wait long for its disk.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub checkpoints: AtomicU64,
    pub copied_bytes: AtomicU64,
    /// The most that was looked at under one hold of the writer's lock.
    pub hold_max: AtomicU64,
}

impl Done {
    /// The writer's lock was held to look at this many things.
    pub fn note_hold(&self, looks: usize) {
        self.hold_max.fetch_max(looks as u64, Ordering::Relaxed);
    }
}

/// What a checkpoint stands on, taken in one moment.
struct Ground {
    replay: ReplayStart,
    changed: Vec<u64>,
    /// Numbers and bases of segments. A handle would keep their files from being used again.
    unneeded: Vec<(SegmentNumber, Address)>,
}

impl Upkeep {
    pub(crate) fn new(manifest: Option<Manifest>, segments: Segments, sums: Checksums) -> Self {
        let last_end = manifest.as_ref().map_or(Address::START, |manifest| manifest.fields.replay.address);
        let last_bytes = manifest
            .as_ref()
            .map_or(0, |manifest| manifest.slices().map(|(_, slice)| u64::from(slice.bytes)).sum());
        Self {
            manifest,
            forwarding: Forwarding::new(segments, sums),
            last_end,
            last_bytes,
            generations: Generations::new(),
            owes_checkpoint: false,
        }
    }

    /// Number of the survivor segment that is still being filled.
    pub(crate) fn open_survivor(&self) -> Option<SegmentNumber> {
        self.forwarding.open_segment()
    }

    /// The checkpoint that counts.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// One round: a checkpoint if it is time for one, and survivors copied forward if too much is dead.
    pub(crate) fn round(&mut self, inner: &Inner, is_starved: bool) -> Result<(), LogError> {
        // What purged queues held would be taken for alive.
        while inner.writer.lock_beside().give_back_slice() {}
        let (end, short) = {
            let ledger = inner.writer.lock_beside();
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
        let is_due = end - self.last_end >= due || self.owes_checkpoint;
        let frees = short && self.frees_something(inner);
        let checkpoint = if is_due || frees { self.checkpoint(inner) } else { Ok(()) };
        match &checkpoint {
            Err(LogError::NoSpace { .. }) if short => {}
            Err(_) => return checkpoint,
            Ok(()) if is_due || short => {}
            Ok(()) => return Ok(()),
        }
        let copied = self.forwarding.copy(inner, short, self.spares_to_keep(inner, short));
        match self.forwarding.left() {
            Some(error) if copied.is_ok() => inner.reports.failed(Work::CopyForward, &error.to_string()),
            _ => inner.reports.report(Work::CopyForward, &copied),
        }
        if copied? {
            // What was copied from is free once a checkpoint knows the new places.
            self.owes_checkpoint = true;
            return self.checkpoint(inner);
        }
        checkpoint
    }

    /// Whether a checkpoint would give space back.
    fn frees_something(&self, inner: &Inner) -> bool {
        let put_away = inner.writer.lock_beside().generations_put_away().len();
        let listed = self.manifest.as_ref().map_or(0, |last| last.fields.sidecars.len());
        put_away < listed || !self.unneeded(inner).is_empty()
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

    /// Makes a checkpoint, and reports whether it could.
    pub(crate) fn checkpoint(&mut self, inner: &Inner) -> Result<(), LogError> {
        let made = self.make_checkpoint(inner);
        inner.reports.report(Work::Checkpoint, &made);
        made
    }

    fn make_checkpoint(&mut self, inner: &Inner) -> Result<(), LogError> {
        inner.commit_from_upkeep()?;
        let away = write_slices::put_away_ids(inner);
        inner.reports.report(Work::PutAway, &away);
        match away {
            // They stay in memory; a checkpoint may make room for them.
            Ok(()) | Err(LogError::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        let ground = self.ground(inner);
        let mut written = self.write(inner, &ground);
        if matches!(written, Err(LogError::NoSpace { .. })) && self.make_room(inner, &ground) {
            // At once: the next round makes a spare again of whatever is free.
            written = self.write(inner, &ground);
        }
        if written.is_err() {
            write_slices::mark_changed(inner, &ground.changed);
        }
        written
    }

    /// A checkpoint found no space: gives spares up for it, if it then fits and frees a segment in their place.
    fn make_room(&self, inner: &Inner, ground: &Ground) -> bool {
        // A batch that waits for a segment needs the spare more.
        if ground.unneeded.is_empty() || inner.commit_from_upkeep().is_err() {
            return false;
        }
        // A failure here changes nothing: the one that led here is reported.
        self.measure(inner, ground)
            .and_then(|needed| inner.segments.kept().make(&inner.segments, needed))
            .unwrap_or(false)
    }

    /// Bytes of disk that the checkpoint takes.
    fn measure(&self, inner: &Inner, ground: &Ground) -> Result<u64, LogError> {
        let mut measured = CheckpointWriter::measuring(inner.disk.clone(), self.manifest.as_ref())?;
        write_slices::put_slices(inner, &mut measured, &ground.changed, &self.generations)?;
        let sidecars = self.manifest.as_ref().map_or(0, |last| last.fields.sidecars.len());
        Ok(room::needed(&measured, inner.segments.list().len() + sidecars))
    }

    fn ground(&self, inner: &Inner) -> Ground {
        // Asked first: what was not needed a moment before is not needed now.
        let unneeded = self.unneeded(inner);
        let mut ledger = inner.writer.lock_beside();
        let batch = &ledger.shelf.batch;
        let replay = ReplayStart { address: batch.start(), batch: batch.number() };
        let changed = ledger.begin_checkpoint();
        drop(ledger);
        // In order, as the set is.
        Ground { replay, changed: changed.into_iter().map(|QueueId(key)| key).collect(), unneeded }
    }

    /// Numbers and bases of segments that nothing but the last checkpoint needs. Messages only leave a segment that is
    /// behind the journal's end, so what holds in one moment holds in all later ones.
    fn unneeded(&self, inner: &Inner) -> Vec<(SegmentNumber, Address)> {
        let open_survivor = self.forwarding.open_segment();
        let mut unneeded = Vec::new();
        for some in inner.segments.list().chunks(HOLD_LOOKS) {
            let ledger = inner.writer.lock_beside();
            let replay = ledger.shelf.batch.start();
            let newest = ledger.shelf.journal.as_ref().map(|journal| journal.active().number());
            let is_unneeded = |segment: &&Arc<Segment>| {
                let rests =
                    ledger.shelf.live.of(segment.base()).is_some_and(|life| life.resting.messages > 0);
                let is_behind = match segment.kind() {
                    SegmentKind::Journal => segment.end() <= replay && Some(segment.number()) != newest,
                    SegmentKind::Survivor => Some(segment.number()) != open_survivor,
                };
                !rests && is_behind
            };
            let some = some.iter().filter(is_unneeded);
            unneeded.extend(some.map(|segment| (segment.number(), segment.base())));
        }
        unneeded
    }

    fn write(&mut self, inner: &Inner, ground: &Ground) -> Result<(), LogError> {
        let mut writer = CheckpointWriter::start(inner.disk.clone(), self.manifest.as_ref())?;
        let written = write_slices::put_slices(inner, &mut writer, &ground.changed, &self.generations);
        let generations = match written {
            Ok(generations) => generations,
            Err(error) => {
                // Its file takes space that is wanted elsewhere now. One that stays is removed after the next
                // checkpoint.
                let _abandoned = writer.abandon();
                return Err(error);
            }
        };
        // Listed before the sync: a send that comes later may let a generation go, and then be lost with its batch.
        let sidecars = {
            let mut ledger = inner.writer.lock_beside();
            let away = ledger.generations_put_away();
            ledger.shelf.put_away.keep(&away)
        };
        let bytes = writer.bytes();
        let sealed = writer.seal()?;
        if !Planted::ManifestBeforeSync.is_there() {
            inner.sync()?;
        }
        let durable_through = inner.writer.lock_beside().shelf.journal_mut()?.durable_through();
        let is_unneeded =
            |number: SegmentNumber| ground.unneeded.iter().any(|(unneeded, _)| *unneeded == number);
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
        inner.expecting.manifest()?;
        inner.done.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.generations = generations;
        (self.last_end, self.last_bytes) = (ground.replay.address, bytes.max(self.last_bytes / 2));
        self.owes_checkpoint = false;
        // Leftovers of older checkpoints take space and do no harm.
        let swept = manifest.sweep(&*inner.disk).and_then(|()| put_away::sweep(&*inner.disk, &sidecars));
        inner.reports.report(Work::Sweep, &swept);
        self.manifest = Some(manifest);
        self.free(inner, &ground.unneeded);
        Ok(())
    }

    fn free(&self, inner: &Inner, unneeded: &[(SegmentNumber, Address)]) {
        let mut ledger = inner.writer.lock_beside();
        for (number, base) in unneeded {
            if inner.segments.free(*number) {
                ledger.shelf.live.drop_segment(*base);
            }
        }
        drop(ledger);
        self.keep_room(inner);
    }

    /// Keeps room for the next checkpoint, then spares. Either may fail for lack of space: sends are refused until it
    /// works, and what was freed stays until it is recycled.
    pub(crate) fn keep_room(&self, inner: &Inner) {
        let segments = &inner.segments;
        let needed = room::taken(self.manifest.as_ref());
        let mut kept = segments.kept().keep(needed);
        inner.reports.report(Work::Spare, &segments.prepare_spare());
        if kept.is_err() && segments.spares() > segments.reserve() && segments.give_up_spare() == Ok(true) {
            kept = segments.kept().keep(needed);
        }
        inner.reports.report(Work::KeptRoom, &kept);
    }
}
