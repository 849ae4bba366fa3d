//! Reading the journal back, and deciding whether it ends in a torn tail or in damage. Changes nothing on disk.
//!
//! Batches are walked in the order of their numbers, segment by segment. Where a segment holds no valid batch *n*, the
//! question is whether *n* was durable. It was if a witness knows a durable batch that is *n* or later. Witnesses are
//!
//! - the checkpoint: what it knows to be synced, and its replay start;
//! - the header of every valid batch before *n*, which names the newest batch that was synced when it was written;
//! - such headers of later batches, found by searching the rest of the segment;
//! - every segment, because one is made only after everything before it was synced.
//!
//! [`Tail`] says what lies where batch *n* should be, [`decide`] is this table:
//!
//! | row | what lies there | was *n* durable? | decision |
//! |---|---|---|---|
//! | 1 | the next segment begins at this address | not asked | the walk goes on there |
//! | 2 | as in 3, but nothing of *n* or later, and a segment's number is missing | yes | damage: that file |
//! | 3 | the next segment begins elsewhere, and so proves that *n* was durable | yes | damage at *n* |
//! | 4 | no segment follows; something of *n* or later | a witness knows it | damage at *n* |
//! | 5 | no segment follows; nothing of *n* or later | a witness knows it | damage at *n* |
//! | 6 | no segment follows; something of *n* or later | no witness | end; a torn tail is cut off |
//! | 7 | no segment follows; nothing of *n* or later | no witness | end |
//!
//! Before a segment is walked it must fit to the one before: its header names the batch that it was made for. A store
//! without segments is empty if no checkpoint knows better; a replay start that lies in no segment is damage.

mod rest;
#[cfg(test)]
mod tests;

use self::rest::Rest;
use super::batch::{BATCH_HEADER_BYTES, BadBatch, BatchHeader, BatchView};
use super::frame::Checksums;
use super::numbers::{Address, BatchNumber, SegmentNumber};
use super::segment::{Segment, SegmentKind, segment_name};
use super::segments::Segments;
use crate::disk::SEGMENTS_FOLDER;
use crate::error::LogError;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes read at a time.
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
    let first = segment_of(&journal, start)?;
    let mut walk = Walk::from(start, durable_through, sums);
    for (index, segment) in journal.iter().enumerate().skip(first) {
        let successor = journal.get(index + 1);
        walk.enter(segment)?;
        let bad = walk.through(segment, successor, &mut visit)?;
        let (tail, rest) = walk.tail(segments, segment, successor)?;
        match decide(tail, walk.witnessed >= walk.next) {
            Decision::GoOn => {}
            Decision::FileMissing(number) => return Err(walk.file_missing(segment, number)),
            Decision::Damage => return Err(walk.damage(segment, successor, &bad)),
            Decision::CutTail => {
                let report = walk.report(segment, &rest, &bad);
                return Ok(walk.end(segment, rest.until, Some(report)));
            }
            Decision::End => return Ok(walk.end(segment, rest.until, None)),
        }
    }
    unreachable!("no segment follows the last one, so the walk ended in it")
}

/// The place of the segment that a replay starts in.
fn segment_of(journal: &[Arc<Segment>], start: ReplayStart) -> Result<usize, LogError> {
    let holds = |segment: &Segment| {
        let within = start.address.checked_since(segment.base());
        within.is_some_and(|within| within <= segment.capacity())
    };
    let newest = journal.iter().rposition(|segment| segment.base() <= start.address);
    newest.filter(|place| holds(&journal[*place])).ok_or_else(|| {
        let what =
            format!("no segment holds the replay start, batch {} at {:#x}", start.batch, start.address);
        LogError::damage(SEGMENTS_FOLDER, 0, what)
    })
}

/// What lies where the next batch should be, when a segment holds no more valid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// The next segment begins at this very address.
    Continued,
    /// The next segment begins elsewhere. Nothing of the batch or later ones is left, and this number between the two
    /// segments has no file.
    Gap(SegmentNumber),
    /// The next segment begins elsewhere.
    Overtaken,
    /// No segment follows. Something of the batch or later ones is left.
    Torn,
    /// No segment follows. Nothing of the batch or later ones is left.
    Blank,
}

/// What becomes of the journal where it has no valid batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It goes on in the next segment.
    GoOn,
    /// The file of this segment is missing.
    FileMissing(SegmentNumber),
    /// A batch that was durable is bad or missing.
    Damage,
    /// It ends here. What is left behind the end is cut off and reported.
    CutTail,
    /// It ends here.
    End,
}

/// The table of the module's documentation.
fn decide(tail: Tail, was_durable: bool) -> Decision {
    match (tail, was_durable) {
        (Tail::Continued, _) => Decision::GoOn,                  // row 1
        (Tail::Gap(number), _) => Decision::FileMissing(number), // row 2
        (Tail::Overtaken, _) => Decision::Damage,                // row 3
        (Tail::Torn, true) => Decision::Damage,                  // row 4
        (Tail::Blank, true) => Decision::Damage,                 // row 5
        (Tail::Torn, false) => Decision::CutTail,                // row 6
        (Tail::Blank, false) => Decision::End,                   // row 7
    }
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
    fn from(start: ReplayStart, durable_through: BatchNumber, sums: Checksums) -> Self {
        Self {
            sums,
            at: start.address,
            next: start.batch,
            batches: 0,
            witnessed: durable_through.max(start.batch.previous()),
            clean: false,
            unsynced: VecDeque::new(),
        }
    }

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

    /// What lies where the next batch should be, and what is left behind it. Hears the witnesses that are found there.
    fn tail(
        &mut self,
        segments: &Segments,
        segment: &Segment,
        successor: Option<&Arc<Segment>>,
    ) -> Result<(Tail, Rest), LogError> {
        let Some(successor) = successor else {
            let rest = Rest::search(segment, self.at, self.next, self.sums)?;
            self.witness(rest.durable_through);
            let is_blank = rest.until == segment.offset_of(self.at);
            return Ok((if is_blank { Tail::Blank } else { Tail::Torn }, rest));
        };
        if successor.base() == self.at {
            return Ok((Tail::Continued, Rest::default()));
        }
        self.witness(successor.created_batch().previous());
        let Some(missing) = missing_between(segments, segment, successor) else {
            return Ok((Tail::Overtaken, Rest::default()));
        };
        let rest = Rest::search(segment, self.at, self.next, self.sums)?;
        let is_blank = rest.until == segment.offset_of(self.at);
        Ok((if is_blank { Tail::Gap(missing) } else { Tail::Overtaken }, rest))
    }

    fn file_missing(&self, segment: &Segment, missing: SegmentNumber) -> LogError {
        let what = format!(
            "the file is missing: batch {} was in it, or {} ends too early",
            self.next,
            segment.name()
        );
        LogError::damage(segment_name(missing), 0, what)
    }

    fn damage(&self, segment: &Segment, successor: Option<&Arc<Segment>>, bad: &BadBatch) -> LogError {
        let (next, why) = (self.next, bad.what);
        let what = match successor {
            Some(later) => {
                format!("batch {next} is bad ({why}), but {} was made after it was synced", later.name())
            }
            None => format!(
                "batch {next} is bad or missing ({why}), but everything up to batch {} was synced",
                self.witnessed
            ),
        };
        LogError::damage(segment.name(), segment.offset_of(self.at) + bad.at, what)
    }

    fn report(&self, segment: &Segment, rest: &Rest, bad: &BadBatch) -> TailReport {
        let offset = segment.offset_of(self.at);
        TailReport {
            file: segment.name().to_owned(),
            offset,
            batch: self.next,
            bytes_dropped: rest.until - offset,
            batches_dropped: rest.batches,
            why: format!("{} at offset {}", bad.what, offset + bad.at),
        }
    }

    fn end(self, segment: &Arc<Segment>, wipe_until: u64, tail: Option<TailReport>) -> ScanEnd {
        ScanEnd {
            end: self.at,
            next_batch: self.next,
            batches: self.batches,
            durable_through: self.witnessed,
            clean: self.clean && tail.is_none(),
            tail,
            last: Some(segment.clone()),
            unsynced_from: self.unsynced.front().map(|(_, address)| *address),
            wipe_until,
        }
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
