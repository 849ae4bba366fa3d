//! Reads sealed segments through, slowly, so that damage is found before a receive asks for the message.
//!
//! Frames are verified one after the other. Behind one that does not verify it goes on at the next message that does;
//! messages between the two are damaged, and reported like any that a receive comes to. Damage in bytes that nothing
//! needs any more is left out. No lock and no segment is held between two pieces. Where it has come to is kept in a
//! small file, so a restart goes on there.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kew_core::{Clock, Timestamp, Work};
use kew_store::ledger;

use crate::disk::{Disk, SCRUB_FILE, read_whole, replace_whole};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};
use crate::journal::{Address, Checksums, Segment, frame_bytes, read_chunk};
use crate::store::inner::Inner;
use crate::store::threads::PanicWatch;

const MAGIC: [u8; 8] = *b"KewScrub";
const VERSION: u32 = 1;
const FILE_BYTES: usize = 36;

/// Bytes read at a time: a 1 024th of the store within these bounds, and any single record whole.
const PIECE_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=256 << 10;
const PIECES: u64 = 1_024;
/// The longest pause: then it is looked again how large the store is.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The shortest.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The time between two notes of how far it has come.
const SAVED_EVERY: Duration = Duration::from_secs(600);
/// After this many failed tries the rest of a segment is left out until the next cycle.
const TRIES_MAX: u32 = 5;

/// How fast a scrub goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubPace {
    /// How long a cycle takes: the whole store is read once.
    pub cycle: Duration,
    /// It never reads faster than this, however large the store is: a cycle then takes longer.
    pub bytes_per_second_max: u64,
}

impl Default for ScrubPace {
    fn default() -> Self {
        Self { cycle: Duration::from_secs(7 * 86_400), bytes_per_second_max: 32 << 20 }
    }
}

/// A scrub of one store.
pub struct Scrub {
    inner: Arc<Inner>,
    sums: Checksums,
    pace: ScrubPace,
    at: Position,
    /// What the time that has passed allows to be read, less what was read: bytes times nanoseconds of a cycle.
    credit: i128,
    /// Nothing was read yet: the first piece is due at once, so that a store that is restarted often gets through too.
    is_new: bool,
    unsaved_for: Duration,
    /// Failed tries at the place where it stands.
    tries: u32,
}

/// How far the scrub has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Position {
    /// Everything below it was read in this cycle.
    cursor: Address,
    /// When the last whole cycle ended, if one has.
    cycle_ended: Option<Timestamp>,
}

impl Scrub {
    pub(crate) fn begin(inner: Arc<Inner>, pace: ScrubPace) -> Self {
        let at = Position::load(&*inner.disk);
        if let Some(ended) = at.cycle_ended {
            inner.reports.scrub_ended(ended);
        }
        let sums = inner.writer.lock_beside().shelf.sums;
        Self { inner, sums, pace, at, credit: 0, is_new: true, unsaved_for: Duration::ZERO, tries: 0 }
    }

    /// Reads what has become due in the time that has passed since the last turn. Answers how long to wait for the
    /// next.
    pub fn turn(&mut self, passed: Duration, now: Timestamp) -> Duration {
        let total = self.inner.segments.sealed_bytes();
        if total == 0 {
            self.credit = 0;
            return PAUSE_MAX;
        }
        let cycle = self.cycle_nanos(total);
        let piece = (total / PIECES).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()).min(total);
        let due = i128::from(piece) * cycle;
        self.credit += i128::try_from(passed.as_nanos()).unwrap_or(i128::MAX >> 64) * i128::from(total);
        if std::mem::take(&mut self.is_new) {
            self.credit += due;
        }
        // Time slept through is not made up for.
        self.credit = self.credit.min(2 * due);
        self.unsaved_for += passed;
        while self.credit >= due {
            match self.read_piece(piece, now) {
                Ok(read) => self.credit -= i128::from(read.max(1)) * cycle,
                Err(error) => {
                    self.failed(&error);
                    self.credit = 0;
                    return PAUSE_MAX;
                }
            }
        }
        if self.unsaved_for >= SAVED_EVERY {
            self.save();
        }
        let pause = (due - self.credit) / i128::from(total);
        Duration::from_nanos(u64::try_from(pause).unwrap_or(u64::MAX)).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Writes down how far it has come.
    pub fn save(&mut self) {
        let saved = replace_whole(&*self.inner.disk, SCRUB_FILE, &self.at.encode());
        self.inner.reports.report(Work::Scrub, &saved.doing("writing", SCRUB_FILE));
        self.unsaved_for = Duration::ZERO;
    }

    fn cycle_nanos(&self, total: u64) -> i128 {
        let least = u128::from(total) * 1_000_000_000 / u128::from(self.pace.bytes_per_second_max.max(1));
        i128::try_from(self.pace.cycle.as_nanos().max(least)).unwrap_or(i128::MAX >> 64).max(1)
    }

    /// Reads one piece, or the single record there. Answers how many bytes it was.
    fn read_piece(&mut self, piece: u64, now: Timestamp) -> Result<u64, LogError> {
        let Some(segment) = self.inner.segments.sealed_from(self.at.cursor) else {
            // What lay behind the cursor was given back.
            self.end_cycle(now);
            return Ok(piece);
        };
        let from = self.at.cursor.max(segment.base());
        let (to, read) = self.verify(&segment, from..segment.end(), piece)?;
        self.at.cursor = to;
        self.tries = 0;
        self.inner.reports.scrubbed(read);
        self.inner.reports.succeeded_again(Work::Scrub);
        if self.inner.segments.sealed_from(to).is_none() {
            self.end_cycle(now);
        }
        Ok(read)
    }

    fn end_cycle(&mut self, now: Timestamp) {
        self.at = Position { cursor: Address::START, cycle_ended: Some(now) };
        self.inner.reports.scrub_ended(now);
        self.save();
    }

    /// Verifies the frames of a piece at the beginning of a range. Answers where to go on, and how many bytes were
    /// read.
    fn verify(
        &self,
        segment: &Segment,
        range: Range<Address>,
        piece: u64,
    ) -> Result<(Address, u64), LogError> {
        if range.is_empty() {
            return Ok((segment.end(), 0));
        }
        let bytes = read_chunk(segment, range.start, range.end, piece)?;
        let mut at = range.start;
        loop {
            let within = (at - range.start) as usize;
            let rest = &bytes[within..];
            let read = bytes.len() as u64;
            let is_whole = frame_bytes(rest).is_some_and(|len| len <= rest.len());
            let is_cut = !is_whole && range.start + read < range.end;
            if rest.is_empty() || (is_cut && within > 0) {
                return Ok((at, read));
            }
            match self.sums.verify(rest, at) {
                Some(frame) => at += frame.bytes() as u64,
                None => {
                    let (to, more) = self.skip_damage(segment, at..range.end)?;
                    return Ok((to, read + more));
                }
            }
        }
    }

    /// The frame at the beginning of a range does not verify. Notes the messages that are damaged from there up to the
    /// first that is not. Answers where that one is, and how many bytes were read.
    fn skip_damage(&self, segment: &Segment, range: Range<Address>) -> Result<(Address, u64), LogError> {
        let mut read = 0;
        for place in self.places(&range) {
            let bytes = read_chunk(segment, place, range.end, *PIECE_BYTES.start())?;
            read += bytes.len() as u64;
            if self.sums.verify(&bytes, place).is_some() {
                return Ok((place, read));
            }
            let what = format!("the record at {place:#x} does not verify");
            let error = LogError::damage(segment.name(), segment.offset_of(place), what);
            self.inner.damaged.note(place, &error);
        }
        Ok((range.end, read))
    }

    /// Where messages rest in a range, in order.
    fn places(&self, range: &Range<Address>) -> Vec<Address> {
        let range = ledger::Address::from(range.start)..range.end.into();
        let queues = self.inner.writer.lock_beside().queue_ids();
        let mut places = Vec::new();
        for queue in queues {
            let found = self.inner.writer.lock_beside().places_in(queue, &range);
            places.extend(found.into_iter().map(Address::from));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// It cannot be read where the scrub stands, which may end.
    fn failed(&mut self, error: &LogError) {
        self.inner.reports.failed(Work::Scrub, &error.to_string());
        self.tries += 1;
        if self.tries >= TRIES_MAX {
            self.tries = 0;
            let segment = self.inner.segments.sealed_from(self.at.cursor);
            self.at.cursor = segment.map_or(self.at.cursor, |segment| segment.end());
        }
    }

    pub(crate) fn run_until_stopped(mut self, clock: &dyn Clock) {
        let inner = Arc::clone(&self.inner);
        let _watch =
            PanicWatch(&inner, Work::Scrub, "the thread panicked; nothing is scrubbed until a restart");
        let mut last = Instant::now();
        let mut pause = Duration::ZERO;
        while inner.work.wait_for(Some(pause), |_| false) {
            let passed = last.elapsed();
            last += passed;
            pause = self.turn(passed, clock.now());
        }
        self.save();
    }
}

impl Position {
    fn encode(self) -> [u8; FILE_BYTES] {
        let mut bytes = [0; FILE_BYTES];
        let mut to = &mut bytes[..];
        MAGIC.put(&mut to);
        VERSION.put(&mut to);
        0_u32.put(&mut to);
        self.cursor.put(&mut to);
        self.cycle_ended.map_or(0, |ended| ended.0).put(&mut to);
        let sum = crc32c::crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::get(bytes).ok().filter(|_| bytes.len() == FILE_BYTES).flatten()
    }

    /// `None` when the bytes are not those of such a file.
    fn get(bytes: &[u8]) -> Result<Option<Self>, BadField> {
        let mut from = Fields::of("the scrub's position", bytes, 0);
        let head: ([u8; 8], u32) = (from.get("the kind")?, from.get("the version")?);
        from.skip(4);
        let cursor = from.get("the address")?;
        let cycle_ended =
            Some(from.get("the end of the last cycle")?).filter(|ended| *ended != 0).map(Timestamp);
        let sum: u32 = from.get("the checksum")?;
        let is_ours =
            head == (MAGIC, VERSION) && bytes.get(..32).is_some_and(|covered| crc32c::crc32c(covered) == sum);
        Ok(is_ours.then_some(Self { cursor, cycle_ended }))
    }

    /// Without a file that can be read the cycle begins anew: no more depends on it.
    fn load(disk: &dyn Disk) -> Self {
        let bytes = disk.open(SCRUB_FILE).and_then(|file| read_whole(&*file, FILE_BYTES as u64));
        bytes.ok().and_then(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_comes_back_and_one_that_was_changed_begins_anew() {
        let position = Position { cursor: Address(77), cycle_ended: Some(Timestamp(99)) };
        let good = position.encode();
        assert_eq!(Position::decode(&good), Some(position));
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 4;
            assert_eq!(Position::decode(&bad), None, "byte {at}");
        }
        assert_eq!(Position::decode(&good[..20]), None);
    }
}
