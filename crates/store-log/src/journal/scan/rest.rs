//! What is left behind the last valid batch of a segment: the parts of batches that a crash left incomplete.
//!
//! The search knows neither where they begin nor how long they are. It looks for the magic that batches begin and end
//! with, and believes a part only if its checksum fits its address.

use crate::error::LogError;
use crate::journal::batch::{BATCH_END_BYTES, BATCH_HEADER_BYTES, BatchEnd, BatchHeader, COMMON_MAGIC};
use crate::journal::frame::{Checksums, HEADER_BYTES};
use crate::journal::numbers::{Address, BatchNumber};
use crate::journal::segment::Segment;

/// Bytes read at a time.
const WINDOW: u64 = 1 << 20;

/// What lies behind the last valid batch of a segment.
#[derive(Default)]
pub(super) struct Rest {
    /// File offset up to which something of lost batches was found.
    pub until: u64,
    /// What their headers say was synced.
    pub durable_through: BatchNumber,
    /// Later batches with a valid header.
    pub batches: u64,
}

impl Rest {
    /// Searches a segment from an address on for what is left of batch `next` and later ones.
    pub fn search(
        segment: &Segment,
        cut: Address,
        next: BatchNumber,
        sums: Checksums,
    ) -> Result<Self, LogError> {
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
