//! The journal: batches appended in order, each with one positioned write, made durable by syncs.
//!
//! Who writes and who syncs may be two threads: [`Journal::sync_target`] says what to sync, and
//! [`SyncTarget::sync`] needs nothing of the journal. A write or sync that fails stops the journal for good: what the
//! disk then holds is unknown, and only a restart finds out.

use crate::batch::{BatchBuffer, BatchView};
use crate::error::{Doing, LogError};
use crate::frame::{Address, Checksums, SURVIVOR_SPACE};
use crate::scan::{ReplayStart, ScanEnd, TailReport, scan_journal};
use crate::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentKind};
use crate::segments::{Room, Segments};
use std::sync::{Arc, OnceLock};

const REWRITE: u64 = 1 << 20;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The journal of an open store. One writer owns it.
pub struct Journal {
    segments: Segments,
    sums: Checksums,
    active: Arc<Segment>,
    next_batch: u64,
    end: Address,
    durable_through: u64,
    stop: FailStop,
}

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The batch's number.
    pub batch: u64,
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
        durable_through: u64,
        visit: impl FnMut(&BatchView<'_>) -> Result<(), LogError>,
    ) -> Result<(Self, Recovery), LogError> {
        let found = scan_journal(segments, sums, start, durable_through, visit)?;
        segments.tidy()?;
        let active = match &found.last {
            Some(last) => {
                repair(last, &found)?;
                last.clone()
            }
            None => segments.take(SegmentKind::Journal, 0, 0, found.next_batch, 0)?,
        };
        segments.begin_reserve();
        let journal = Self {
            segments: segments.clone(),
            sums,
            active,
            next_batch: found.next_batch,
            end: found.end,
            durable_through: found.next_batch - 1,
            stop: FailStop::default(),
        };
        Ok((journal, Recovery { batches: found.batches, tail: found.tail, clean: found.clean }))
    }

    /// Number of the next batch to append.
    pub fn next_batch(&self) -> u64 {
        self.next_batch
    }

    /// Address of the next batch to append.
    pub fn end(&self) -> Address {
        self.end
    }

    /// The newest batch written: it survives a crash of the process.
    pub fn written_through(&self) -> u64 {
        self.next_batch - 1
    }

    /// The newest batch synced: it survives a power cut.
    pub fn durable_through(&self) -> u64 {
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

    /// Whether a batch of so many bytes ([`BatchBuffer::bytes`]) can be written. After `Enough` or `ReserveOnly`,
    /// appending one of at most that size does not run out of space. Cheap unless a segment has to be made.
    #[inline]
    pub fn room(&self, bytes: u64) -> Room {
        if self.has_room(bytes) { Room::Enough } else { self.segments.room(self.active.remaining(), bytes) }
    }

    /// Whether there is room for such a batch without looking any further.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.active.remaining() >= bytes && self.segments.reserve_is_there()
    }

    /// Writes the next batch, unsynced. `NoSpace` leaves the journal and the batch as they were; any other error
    /// stops the journal.
    pub fn append(&mut self, batch: &mut BatchBuffer) -> Result<Appended, LogError> {
        self.append_as(batch, false)
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
        let mut mark = self.batch_buffer();
        mark.begin(self.next_batch, self.end);
        match self.append_as(&mut mark, true) {
            Err(LogError::NoSpace { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.sync(),
        }
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

    fn append_as(&mut self, batch: &mut BatchBuffer, closing: bool) -> Result<Appended, LogError> {
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
        let sealed = batch.seal(self.durable_through, self.active.number(), closing)?;
        if let Err(error) = self.active.append(sealed) {
            return Err(self.stop.fail(format!("writing {}: {error}", self.active.name())));
        }
        let appended = Appended { batch: self.next_batch, address: self.end, bytes, segment_opened };
        self.end += bytes;
        self.next_batch += 1;
        Ok(appended)
    }

    /// Goes on in a new segment. The old one is synced first: that a segment exists proves all before it durable.
    fn next_segment(&mut self, bytes: u64) -> Result<(), LogError> {
        if self.end + bytes >= SURVIVOR_SPACE {
            return Err(LogError::NoSpace { what: "addresses: export and import the store".to_owned() });
        }
        self.sync()?;
        let taken = self.segments.take(SegmentKind::Journal, bytes, self.end, self.next_batch, 0);
        let next = taken.map_err(|error| match error {
            LogError::NoSpace { .. } => error,
            _ => self.stop.fail(error.to_string()),
        })?;
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

/// A segment file to sync, and what that makes durable. Synced on any thread.
pub struct SyncTarget {
    segment: Arc<Segment>,
    batch: u64,
    stop: FailStop,
}

impl SyncTarget {
    /// Syncs; a failure stops the journal for good. Report success with [`Journal::synced`].
    pub fn sync(&self) -> Result<(), LogError> {
        self.stop.check()?;
        self.segment
            .sync()
            .map_err(|error| self.stop.fail(format!("syncing {}: {error}", self.segment.name())))
    }

    /// The newest batch that becomes durable.
    pub fn batch(&self) -> u64 {
        self.batch
    }
}

/// The first failure, shared by everyone who must stop for it.
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
