//! Reading the journal back, and telling a torn tail from damage. Changes nothing on disk.
//!
//! Batches are walked in number order. Where no valid batch is found, the question is whether the missing one was
//! durable. Witnesses are: the checkpoint, the `durable_through` of every valid batch (also of later ones, found by
//! searching the rest of the segment), and every segment header, because a segment is made only after everything
//! before it was synced. If a witness says that it was durable, it is damage; otherwise the tail is torn, and the
//! journal ends there.

use super::batch::{
    BATCH_END_BYTES, BATCH_HEADER_BYTES, BadBatch, BatchEnd, BatchHeader, BatchView, COMMON_MAGIC,
};
use super::frame::{Checksums, Frame, HEADER_BYTES, frame_bytes};
use super::numbers::{Address, BatchNumber, SegmentNumber};
use super::segment::{Segment, SegmentKind, segment_name};
use super::segments::Segments;
use crate::disk::SEGMENTS_FOLDER;
use crate::error::LogError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

const WINDOW: u64 = 1 << 20;

/// Where replay starts: the first batch that the checkpoint does not reflect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayStart {
    /// Its address.
    pub address: Address,
    /// Its number.
    pub batch: BatchNumber,
}

impl ReplayStart {
    /// The start of an empty store.
    pub const FIRST: Self = Self { address: Address::START, batch: BatchNumber::FIRST };
}

/// A torn tail that was cut, for the log and the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailReport {
    /// The segment's file.
    pub file: String,
    /// Where in it the journal now ends.
    pub offset: u64,
    /// Number of the batch that is incomplete.
    pub batch: BatchNumber,
    /// Bytes dropped behind that place.
    pub bytes_dropped: u64,
    /// Whole later batches among them; none was ever acknowledged as durable.
    pub batches_dropped: u64,
    /// What is wrong with the batch.
    pub why: String,
}

impl std::fmt::Display for TailReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, offset, batch, bytes_dropped, batches_dropped, why } = self;
        write!(
            f,
            "torn tail in {file} at offset {offset}: batch {batch} is incomplete ({why}); it was never known \
             durable; dropped {bytes_dropped} bytes and {batches_dropped} later batches"
        )
    }
}

/// Where a walk through the journal ended.
#[derive(Debug)]
pub struct ScanEnd {
    /// Address after the last valid batch.
    pub end: Address,
    /// Number of the next batch.
    pub next_batch: BatchNumber,
    /// Batches walked.
    pub batches: u64,
    /// The newest batch that some witness says was synced.
    pub durable_through: BatchNumber,
    /// True when the last batch is the mark of a clean stop, or the journal was never written.
    pub clean: bool,
    /// What was found torn, if anything.
    pub tail: Option<TailReport>,
    /// The segment the journal ends in.
    pub(crate) last: Option<Arc<Segment>>,
    /// Address of the first batch not known synced.
    pub(crate) unsynced_from: Option<Address>,
    /// File offset in `last` up to which bytes behind the end must be wiped.
    pub(crate) wipe_until: u64,
}

/// Walks the journal from a start and shows every valid batch in order.
pub fn scan_journal(
    segments: &Segments,
    sums: Checksums,
    start: ReplayStart,
    durable_through: BatchNumber,
    mut visit: impl FnMut(&BatchView<'_>) -> Result<(), LogError>,
) -> Result<ScanEnd, LogError> {
    let journal: Vec<_> = segments.list().into_iter().filter(|s| s.kind() == SegmentKind::Journal).collect();
    if journal.is_empty() && start == ReplayStart::FIRST && durable_through == BatchNumber::BEFORE_FIRST {
        return Ok(ScanEnd::of_nothing());
    }
    let first = journal.iter().rposition(|segment| segment.base() <= start.address);
    let first = first.filter(|&first| start.address - journal[first].base() <= journal[first].capacity());
    let first = first.ok_or_else(|| {
        let what =
            format!("no segment holds the replay start, batch {} at {:#x}", start.batch, start.address);
        LogError::damage(SEGMENTS_FOLDER, 0, what)
    })?;

    let mut walk = Walk {
        sums,
        at: start.address,
        next: start.batch,
        batches: 0,
        witnessed: durable_through.max(start.batch.previous()),
        clean: false,
        unsynced: VecDeque::new(),
    };
    let mut bad = BadBatch { at: 0, what: "no batch" };
    for (index, segment) in journal.iter().enumerate().skip(first) {
        let successor = journal.get(index + 1);
        walk.enter(segment)?;
        bad = walk.through(segment, successor, &mut visit)?;
        if let Some(successor) = successor.filter(|successor| successor.base() != walk.at) {
            walk.witness(successor.created_batch().previous());
            if let Some(missing) = missing_between(segments, segment, successor)
                && Rest::search(segment, walk.at, walk.next, sums)?.until == segment.offset_of(walk.at)
            {
                let what = format!(
                    "the file is missing: batch {} was in it, or {} ends too early",
                    walk.next,
                    segment.name()
                );
                return Err(LogError::damage(segment_name(missing), 0, what));
            }
            let what = format!(
                "batch {} is bad ({}), but {} was made after it was synced",
                walk.next,
                bad.what,
                successor.name()
            );
            return Err(LogError::damage(segment.name(), segment.offset_of(walk.at) + bad.at, what));
        }
    }
    walk.finish(&journal[journal.len() - 1], &bad)
}

/// The first number between two segments of the journal that no segment has. Survivors are numbered with them, and some
/// of those may be gone, so this alone says nothing.
fn missing_between(segments: &Segments, one: &Segment, next: &Segment) -> Option<SegmentNumber> {
    let between = one.number().0 + 1..next.number().0;
    between.map(SegmentNumber).find(|number| segments.numbered(*number).is_none())
}

struct Walk {
    sums: Checksums,
    at: Address,
    next: BatchNumber,
    batches: u64,
    /// The newest batch some witness says was synced.
    witnessed: BatchNumber,
    clean: bool,
    /// Batches after it, with their addresses.
    unsynced: VecDeque<(BatchNumber, Address)>,
}

impl Walk {
    /// Checks that a segment continues where the one before it ended.
    fn enter(&mut self, segment: &Segment) -> Result<(), LogError> {
        let created = segment.created_batch();
        let fits = if self.at == segment.base() { created == self.next } else { created <= self.next };
        if !fits {
            let what = format!("made for batch {created}, but batch {} is next", self.next);
            return Err(LogError::damage(segment.name(), 32, what));
        }
        self.witness(created.previous());
        Ok(())
    }

    fn witness(&mut self, durable_through: BatchNumber) {
        self.witnessed = self.witnessed.max(durable_through);
        while self.unsynced.front().is_some_and(|(number, _)| *number <= self.witnessed) {
            self.unsynced.pop_front();
        }
    }

    /// Walks one segment until its successor begins or no valid batch follows.
    fn through(
        &mut self,
        segment: &Segment,
        successor: Option<&Arc<Segment>>,
        visit: &mut impl FnMut(&BatchView<'_>) -> Result<(), LogError>,
    ) -> Result<BadBatch, LogError> {
        let mut window = Window::default();
        loop {
            if successor.is_some_and(|successor| successor.base() == self.at) {
                return Ok(BadBatch { at: 0, what: "continues in the next segment" });
            }
            let view = match read_batch(segment, &mut window, self.at, self.next, self.sums)? {
                Ok(view) => view,
                Err(bad) => return Ok(bad),
            };
            self.unsynced.push_back((self.next, self.at));
            self.witness(view.durable_through());
            visit(&view)?;
            self.clean = view.is_closing_mark();
            self.at = view.end();
            self.next = self.next.next();
            self.batches += 1;
        }
    }

    /// Decides what the end of the last segment is.
    fn finish(mut self, segment: &Arc<Segment>, bad: &BadBatch) -> Result<ScanEnd, LogError> {
        let rest = Rest::search(segment, self.at, self.next, self.sums)?;
        self.witness(rest.durable_through);
        let offset = segment.offset_of(self.at);
        if self.witnessed >= self.next {
            let what = format!(
                "batch {} is bad or missing ({}), but everything up to batch {} was synced",
                self.next, bad.what, self.witnessed
            );
            return Err(LogError::damage(segment.name(), offset + bad.at, what));
        }
        let tail = (rest.until > offset).then(|| TailReport {
            file: segment.name().to_owned(),
            offset,
            batch: self.next,
            bytes_dropped: rest.until - offset,
            batches_dropped: rest.batches,
            why: format!("{} at offset {}", bad.what, offset + bad.at),
        });
        Ok(ScanEnd {
            end: self.at,
            next_batch: self.next,
            batches: self.batches,
            durable_through: self.witnessed,
            clean: self.clean && tail.is_none(),
            tail,
            last: Some(segment.clone()),
            unsynced_from: self.unsynced.front().map(|(_, address)| *address),
            wipe_until: rest.until,
        })
    }
}

impl ScanEnd {
    fn of_nothing() -> Self {
        Self {
            end: Address::START,
            next_batch: BatchNumber::FIRST,
            batches: 0,
            durable_through: BatchNumber::BEFORE_FIRST,
            clean: true,
            tail: None,
            last: None,
            unsynced_from: None,
            wipe_until: 0,
        }
    }
}

/// Reads and verifies the batch at an address.
fn read_batch<'a>(
    segment: &'a Segment,
    window: &'a mut Window,
    address: Address,
    number: BatchNumber,
    sums: Checksums,
) -> Result<Result<BatchView<'a>, BadBatch>, LogError> {
    let bad = |what| Ok(Err(BadBatch { at: 0, what }));
    let offset = segment.offset_of(address);
    let left = segment.size().saturating_sub(offset);
    if left < BATCH_HEADER_BYTES as u64 {
        return bad("the segment is full");
    }
    let bytes = window.at(segment, offset, BATCH_HEADER_BYTES)?;
    let Some(header) = BatchHeader::read(bytes, address, sums) else { return bad("no batch header") };
    if header.number != number || header.durable_through >= number {
        return bad("the numbers in the batch header");
    }
    if header.batch_bytes() > left {
        return bad("longer than the segment");
    }
    let bytes = window.at(segment, offset, header.batch_bytes() as usize)?;
    Ok(BatchView::verify(header, bytes, address, (segment.name(), offset), segment.number(), sums))
}

/// A stretch of a segment's file in memory.
#[derive(Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes at an offset; the caller knows that the file has them.
    fn at(&mut self, segment: &Segment, offset: u64, len: usize) -> Result<&[u8], LogError> {
        let held = offset >= self.offset && offset + len as u64 <= self.offset + self.bytes.len() as u64;
        if !held {
            let want = WINDOW.max(len as u64).min(segment.size() - offset);
            self.bytes = segment.read(offset, want as usize)?;
            self.offset = offset;
        }
        let from = (offset - self.offset) as usize;
        Ok(&self.bytes[from..from + len])
    }
}

/// What lies behind the last valid batch of a segment.
#[derive(Default)]
struct Rest {
    /// File offset up to which something of lost batches was found.
    until: u64,
    /// What their headers say was synced.
    durable_through: BatchNumber,
    /// Later batches with a valid header.
    batches: u64,
}

impl Rest {
    fn search(segment: &Segment, cut: Address, next: BatchNumber, sums: Checksums) -> Result<Self, LogError> {
        let offset = segment.offset_of(cut);
        let mut rest = Self { until: offset, ..Self::default() };
        let size = segment.size();
        let mut at = offset;
        while at < size {
            // Windows overlap by a header, so that none is missed where they meet.
            let bytes = segment.read(at, (size - at).min(WINDOW) as usize)?;
            if at == offset {
                rest.see_first_record(&bytes, offset, cut, sums);
            }
            rest.see(segment, &bytes, at, next, sums);
            if at + bytes.len() as u64 == size {
                break;
            }
            at += bytes.len() as u64 - (BATCH_HEADER_BYTES as u64 - 1);
        }
        rest.until = rest.until.min(size);
        Ok(rest)
    }

    /// A valid frame where the first record (or the end) of the missing batch would be betrays it, though its header
    /// is bad.
    fn see_first_record(&mut self, bytes: &[u8], offset: u64, cut: Address, sums: Checksums) {
        let address = cut + BATCH_HEADER_BYTES as u64;
        if let Some(frame) = bytes.get(BATCH_HEADER_BYTES..).and_then(|bytes| sums.verify(bytes, address)) {
            self.until = self.until.max(offset + (BATCH_HEADER_BYTES + frame.bytes()) as u64);
        }
    }

    fn see(&mut self, segment: &Segment, bytes: &[u8], at: u64, next: BatchNumber, sums: Checksums) {
        for (block, start) in bytes.chunks(4096).zip((0..).step_by(4096)) {
            let Some(last) = block.iter().rposition(|byte| *byte != 0) else { continue };
            if segment.header.fresh {
                // The file was all zeros, so anything else was written since.
                self.until = self.until.max(at + (start + last + 1) as u64);
            }
            // A magic may reach into the next block.
            let search = &bytes[start..(start + block.len() + COMMON_MAGIC.len() - 1).min(bytes.len())];
            for hit in positions(search, COMMON_MAGIC) {
                let Some(frame) = (start + hit).checked_sub(HEADER_BYTES) else { continue };
                self.see_frame(segment, &bytes[frame..], at + frame as u64, next, sums);
            }
        }
    }

    fn see_frame(
        &mut self,
        segment: &Segment,
        bytes: &[u8],
        offset: u64,
        next: BatchNumber,
        sums: Checksums,
    ) {
        let address = segment.base() + (offset - segment.offset_of(segment.base()));
        if let Some(header) = BatchHeader::read(bytes, address, sums).filter(|header| header.number >= next) {
            self.until = self.until.max(offset + header.batch_bytes());
            self.durable_through = self.durable_through.max(header.durable_through);
            self.batches += u64::from(header.number > next);
        } else if BatchEnd::read(bytes, address, sums).is_some_and(|end| end.number >= next) {
            self.until = self.until.max(offset + BATCH_END_BYTES as u64);
        }
    }
}

/// Where a short pattern occurs.
fn positions(bytes: &[u8], pattern: [u8; 4]) -> impl Iterator<Item = usize> + '_ {
    let wanted = u32::from_le_bytes(pattern);
    bytes
        .windows(4)
        .enumerate()
        .filter(move |(_, window)| u32::from_le_bytes([window[0], window[1], window[2], window[3]]) == wanted)
        .map(|(at, _)| at)
}

/// Walks the frames of a segment one by one and shows the caller's own (records, not the marks around batches).
/// Meant for reclaim and checks of segments that are sealed; a frame that does not verify is damage.
pub fn scan_frames(
    segment: &Segment,
    sums: Checksums,
    range: std::ops::Range<Address>,
    mut visit: impl FnMut(Frame) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut chunk = Bytes::new();
    let mut chunk_start = range.start;
    let mut at = range.start;
    let end = range.end.min(segment.end());
    while at < end {
        let within = (at - chunk_start) as usize;
        let held = chunk.get(within..).and_then(frame_bytes).is_some_and(|len| within + len <= chunk.len());
        if !held {
            chunk = read_chunk(segment, at, end, WINDOW)?;
            chunk_start = at;
        }
        let within = (at - chunk_start) as usize;
        let frame = sums
            .verify_shared(&chunk, within, at)
            .ok_or_else(|| LogError::damage(segment.name(), segment.offset_of(at), "a frame's checksum"))?;
        at += (HEADER_BYTES + frame.payload.len()) as u64;
        if frame.kind < super::frame::KINDS_OF_CALLER {
            visit(frame)?;
        }
    }
    Ok(())
}

/// The address behind the last whole frame of a segment that holds plain frames.
pub(crate) fn frames_end(segment: &Segment, sums: Checksums) -> Result<Address, LogError> {
    let end = segment.base() + segment.capacity();
    let mut at = segment.base();
    let (mut chunk, mut chunk_start) = (Bytes::new(), at);
    while at < end {
        let within = (at - chunk_start) as usize;
        let held = chunk.get(within..).and_then(frame_bytes).is_some_and(|len| within + len <= chunk.len());
        if !held {
            chunk = read_chunk(segment, at, end, WINDOW)?;
            chunk_start = at;
        }
        let Some(frame) = sums.verify_shared(&chunk, (at - chunk_start) as usize, at) else { break };
        at += (HEADER_BYTES + frame.payload.len()) as u64;
    }
    Ok(at)
}

/// Reads from an address on: `want` bytes, or the whole frame there if that is longer, but nothing past `end`.
pub(crate) fn read_chunk(segment: &Segment, at: Address, end: Address, want: u64) -> Result<Bytes, LogError> {
    let offset = segment.offset_of(at);
    let most = end.min(segment.base() + segment.capacity()).since(at);
    let bytes = segment.read(offset, want.min(most) as usize)?;
    let whole = frame_bytes(&bytes).map_or(0, |len| len as u64);
    if whole > bytes.len() as u64 && whole <= most {
        return Ok(Bytes::from(segment.read(offset, whole as usize)?));
    }
    Ok(Bytes::from(bytes))
}
