//! The journal: batches appended in order, each with one positioned write, made durable by syncs.
//!
//! Who writes and who syncs may be two threads: [`Journal::sync_target`] says what to sync, and
//! [`SyncTarget::sync`] needs nothing of the journal. A write or sync that fails stops the journal for good: what the
//! disk then holds is unknown, and only a restart finds out.

use super::batch::{BatchBuffer, BatchView};
use super::frame::Checksums;
use super::numbers::{Address, BatchNumber, SegmentNumber};
use super::scan::{ReplayStart, ScanEnd, TailReport, scan_journal};
use super::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentKind};
use super::segments::{Room, Segments, Spare};
use crate::disk::BatchMark;
use crate::error::{Doing, LogError};
use crate::planted::Planted;
use std::sync::{Arc, OnceLock};

const REWRITE: u64 = 1 << 20;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The journal of an open store. One writer owns it.
pub struct Journal {
    segments: Segments,
    sums: Checksums,
    active: Arc<Segment>,
    next_batch: BatchNumber,
    end: Address,
    durable_through: BatchNumber,
    /// Data bytes of the segment that is being made, while the batch being filled waits for it.
    rolling: Option<u64>,
    stop: FailStop,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The batch's number.
    pub batch: BatchNumber,
    /// Its address.
    pub address: Address,
    /// Bytes written.
    pub bytes: u64,
    /// True when it opened a new segment: a good moment to prepare the next spare.
    pub segment_opened: bool,
}

/// What opening the journal found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Batches replayed.
    pub batches: u64,
    /// The tail that was cut, if it was torn.
    pub tail: Option<TailReport>,
    /// True when the last run stopped cleanly.
    pub clean: bool,
}

impl Journal {
    /// Opens the journal: shows every batch from `start` on, cuts a torn tail, and makes durable what is left.
    /// `durable_through` is what the checkpoint knows to be synced. An empty store gets its first segment.
    pub fn open(
        segments: &Segments,
        sums: Checksums,
        start: ReplayStart,
        durable_through: BatchNumber,
        visit: impl FnMut(&BatchView<'_>) -> Result<(), LogError>,
    ) -> Result<(Self, Recovery), LogError> {
        let found = scan_journal(segments, sums, start, durable_through, visit)?;
        segments.tidy()?;
        let active = match &found.last {
            Some(last) => {
                repair(last, &found)?;
                last.clone()
            }
            None => segments.take(SegmentKind::Journal, 0, Address::START, found.next_batch, 0)?,
        };
        segments.begin_reserve();
        let journal = Self {
            segments: segments.clone(),
            sums,
            active,
            next_batch: found.next_batch,
            end: found.end,
            durable_through: found.next_batch.previous(),
            rolling: None,
            stop: FailStop::default(),
        };
        Ok((journal, Recovery { batches: found.batches, tail: found.tail, clean: found.clean }))
    }

    /// Number of the next batch to append.
    pub fn next_batch(&self) -> BatchNumber {
        self.next_batch
    }

    /// Address of the next batch to append.
    pub fn end(&self) -> Address {
        self.end
    }

    /// The newest batch written: it survives a crash of the process.
    pub fn written_through(&self) -> BatchNumber {
        self.next_batch.previous()
    }

    /// The newest batch synced: it survives a power cut.
    pub fn durable_through(&self) -> BatchNumber {
        self.durable_through
    }

    /// The segment being written.
    pub fn active(&self) -> &Arc<Segment> {
        &self.active
    }

    /// All segments.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Makes a buffer for this journal's batches.
    pub fn batch_buffer(&self) -> BatchBuffer {
        BatchBuffer::new(self.sums)
    }

    /// Whether a batch of this many bytes ([`BatchBuffer::bytes`]) can be written. After `Enough` or `ReserveOnly`,
    /// appending one of at most that size does not run out of space. Cheap unless a segment has to be made.
    #[inline]
    pub fn room(&self, bytes: u64) -> Room {
        if self.has_room(bytes) { Room::Enough } else { self.segments.room(&self.active, bytes) }
    }

    /// The same as things are: nothing is made for it, so that nothing is waited for.
    pub(crate) fn room_now(&self, bytes: u64) -> Room {
        match self.rolling {
            Some(capacity) if capacity < bytes => Room::Nothing,
            Some(_) => self.segments.room_that_fits(),
            None => self.segments.room_now(&self.active, bytes),
        }
    }

    /// Whether the batch being filled waits for a new segment.
    pub(crate) fn is_rolling(&self) -> bool {
        self.rolling.is_some()
    }

    /// Whether there is room for such a batch without looking any further.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.active.remaining() >= bytes && self.segments.reserve_is_there()
    }

    /// Whether a batch of this many bytes goes into the segment that is being written. One that does not waits for
    /// syncs: that a segment exists proves everything before it durable.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.active.remaining() >= bytes
    }

    /// Writes the next batch, unsynced. `NoSpace` leaves the journal and the batch as they were; any other error
    /// stops the journal.
    pub fn append(&mut self, batch: &mut BatchBuffer) -> Result<Appended, LogError> {
        self.append_as(batch, true, false)
    }

    /// The same for a batch whose answers may not all have to survive a power cut.
    pub(crate) fn append_for(
        &mut self,
        batch: &mut BatchBuffer,
        must_sync: bool,
    ) -> Result<Appended, LogError> {
        self.append_as(batch, must_sync, false)
    }

    /// What has to be synced to make everything written so far durable.
    pub fn sync_target(&self) -> SyncTarget {
        SyncTarget { segment: self.active.clone(), batch: self.written_through(), stop: self.stop.clone() }
    }

    /// Takes note of a target that was synced.
    pub fn synced(&mut self, target: &SyncTarget) {
        self.durable_through = self.durable_through.max(target.batch);
    }

    /// Makes everything written so far durable, here and now.
    pub fn sync(&mut self) -> Result<(), LogError> {
        let target = self.sync_target();
        target.sync()?;
        self.synced(&target);
        Ok(())
    }

    /// Ends a run cleanly: syncs, and leaves the mark below which any bad byte is damage. On a full disk the mark is
    /// left out.
    pub fn close(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.mark_closed()?;
        self.sync()
    }

    /// Writes the mark of a clean end, if there is space for it.
    pub(crate) fn mark_closed(&mut self) -> Result<(), LogError> {
        let mut mark = self.batch_buffer();
        mark.begin(self.next_batch, self.end);
        match self.append_as(&mut mark, true, true) {
            Err(LogError::NoSpace { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every batch up to this one is durable.
    pub(crate) fn durable_to(&mut self, batch: BatchNumber) {
        self.durable_through = self.durable_through.max(batch);
    }

    /// Stops the journal: it refuses everything from now on.
    pub fn fail(&self, cause: impl Into<String>) -> LogError {
        self.stop.fail(cause.into())
    }

    /// Whether it takes batches: nothing has stopped it.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.stop.0.get().is_none()
    }

    /// Fails if the journal was stopped.
    pub fn check(&self) -> Result<(), LogError> {
        self.stop.check()
    }

    fn append_as(
        &mut self,
        batch: &mut BatchBuffer,
        must_sync: bool,
        closing: bool,
    ) -> Result<Appended, LogError> {
        self.stop.check()?;
        assert!(
            (batch.number(), batch.start()) == (self.next_batch, self.end),
            "batch {} at {:#x} offered, {} at {:#x} is next",
            batch.number(),
            batch.start(),
            self.next_batch,
            self.end
        );
        let bytes = batch.bytes();
        let segment_opened = self.active.remaining() < bytes;
        if segment_opened {
            self.next_segment(bytes)?;
        }
        if self.active.end() != self.end {
            // What is written at another place than its records say is lost.
            let (name, at) = (self.active.name(), self.active.end());
            let what = format!("{name} is written up to {at:#x}, but the journal ends at {:#x}", self.end);
            return Err(self.stop.fail(what));
        }
        let sealed = batch.seal(self.durable_through, self.active.number(), closing)?;
        let mark = BatchMark { number: self.next_batch.0, must_sync };
        if let Err(error) = self.active.append_batch(sealed, mark) {
            return Err(self.stop.fail(format!("writing {}: {error}", self.active.name())));
        }
        let appended = Appended { batch: self.next_batch, address: self.end, bytes, segment_opened };
        self.end += bytes;
        self.next_batch = self.next_batch.next();
        Ok(appended)
    }

    /// Goes on in a new segment, here and now.
    fn next_segment(&mut self, bytes: u64) -> Result<(), LogError> {
        let mut roll = self.begin_roll(bytes)?;
        let made = roll.run();
        self.end_roll(&roll, made)
    }

    /// Begins a new segment for a batch of this many bytes, which does not fit into this one. Nothing is written until
    /// [`Journal::end_roll`].
    pub(crate) fn begin_roll(&mut self, bytes: u64) -> Result<Roll, LogError> {
        self.stop.check()?;
        if (self.end + bytes).is_survivor() {
            return Err(LogError::NoSpace { what: "addresses: export and import the store".to_owned() });
        }
        let spare = self.segments.take_spare(bytes, 0);
        self.rolling = Some(spare.as_ref().map_or(bytes, Spare::capacity));
        Ok(Roll {
            left: self.sync_target(),
            segments: self.segments.clone(),
            spare,
            bytes,
            base: self.end,
            next_batch: self.next_batch,
        })
    }

    /// Goes on in the segment that was made, if it was. `NoSpace` leaves the journal as it was.
    pub(crate) fn end_roll(
        &mut self,
        roll: &Roll,
        made: Result<Arc<Segment>, LogError>,
    ) -> Result<(), LogError> {
        self.rolling = None;
        let next = made?;
        self.synced(&roll.left);
        assert!(
            (roll.base, roll.next_batch) == (self.end, self.next_batch),
            "batch {} was written to a segment whose successor was being made",
            self.next_batch
        );
        // Only now: until it is the one being written, an empty segment looks like one that nothing needs.
        self.segments.add(next.clone());
        let left = std::mem::replace(&mut self.active, next);
        if left.used() == 0 {
            // Both begin at the same address; only the newer one is ever used.
            let number = left.number();
            drop(left);
            self.segments.retire(number);
        }
        Ok(())
    }
}

/// A new segment on its way: the one before it synced, then the new one named. It needs nothing of the journal, so that
/// steps go on meanwhile.
pub(crate) struct Roll {
    left: SyncTarget,
    segments: Segments,
    spare: Option<Spare>,
    bytes: u64,
    base: Address,
    next_batch: BatchNumber,
}

impl Roll {
    /// Makes the segment. The old one is synced first: that a segment exists proves all before it durable. Any failure
    /// but `NoSpace` stops the journal.
    pub(crate) fn run(&mut self) -> Result<Arc<Segment>, LogError> {
        self.left.sync()?;
        let made = match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self.segments.obtain(self.bytes, 0),
        };
        let named = made.and_then(|spare| {
            // The last moment: what is proved by a name cannot be taken back.
            self.left.stop.check()?;
            self.segments.name(spare, SegmentKind::Journal, self.base, self.next_batch)
        });
        named.map_err(|error| match error {
            LogError::NoSpace { .. } => error,
            _ => self.left.stop.fail(error.to_string()),
        })
    }
}

/// A segment file to sync, and what that makes durable. Synced on any thread.
pub struct SyncTarget {
    segment: Arc<Segment>,
    batch: BatchNumber,
    stop: FailStop,
}

impl SyncTarget {
    /// Syncs; a failure stops the journal for good. Report success with [`Journal::synced`].
    pub fn sync(&self) -> Result<(), LogError> {
        self.stop.check()?;
        self.segment
            .sync()
            .map_err(|error| self.stop.fail(format!("syncing {}: {error}", self.segment.name())))?;
        if Planted::ErrorReportedOnce.is_there() {
            return Ok(());
        }
        // Another thread may have failed meanwhile: nothing counts as durable after that.
        self.stop.check()
    }

    /// Number of the segment.
    pub(crate) fn segment(&self) -> SegmentNumber {
        self.segment.number()
    }

    /// The newest batch that becomes durable.
    pub fn batch(&self) -> BatchNumber {
        self.batch
    }
}

/// The first failure, shared by all parts that must stop for it.
#[derive(Clone, Default)]
struct FailStop(Arc<OnceLock<String>>);

impl FailStop {
    #[inline]
    fn check(&self) -> Result<(), LogError> {
        match self.0.get() {
            None => Ok(()),
            Some(cause) => Err(LogError::FailStopped { cause: cause.clone() }),
        }
    }

    fn fail(&self, cause: String) -> LogError {
        LogError::FailStopped { cause: self.0.get_or_init(|| cause).clone() }
    }
}

/// Makes the end of the journal what the scan found it to be. What is not known durable is written again, because
/// the page cache may show bytes that never reached the disk, and would not be written by a sync alone; what was
/// dropped is wiped, so that it never replays.
fn repair(last: &Segment, found: &ScanEnd) -> Result<(), LogError> {
    last.set_used(found.end - last.base());
    let end = last.offset_of(found.end);
    if last.cut(end)? {
        return last.sync().doing("syncing", last.name());
    }
    let mut at = last.offset_of(found.unsynced_from.unwrap_or(found.end)).max(SEGMENT_HEADER_BYTES);
    while at < end {
        let bytes = last.read(at, (end - at).min(REWRITE) as usize)?;
        last.overwrite(at, &bytes)?;
        at += bytes.len() as u64;
    }
    while at < found.wipe_until {
        let step = (found.wipe_until - at).min(ZEROS.len() as u64);
        last.overwrite(at, &ZEROS[..step as usize])?;
        at += step;
    }
    last.sync().doing("syncing", last.name())
}
