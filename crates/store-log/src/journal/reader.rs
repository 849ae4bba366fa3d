//! Reading single records by their address, with read-ahead that adapts to the reader.
//!
//! The first miss reads little; a reader that goes on where it was gets large chunks. A payload is a slice of its
//! chunk and keeps it in memory: copy what is kept for long.

use super::frame::{Checksums, Frame, frame_bytes};
use super::numbers::Address;
use super::plain_frames::read_chunk;
use super::segments::Segments;
use crate::disk::SEGMENTS_FOLDER;
use crate::error::LogError;
use bytes::Bytes;
use std::collections::VecDeque;

const FIRST_READ: u64 = 4 << 10;
const READ_AHEAD: u64 = 128 << 10;
/// A miss this close behind a chunk continues it.
const NEAR: u64 = 64 << 10;
const CHUNKS_MAX: usize = 32;

/// Reads records; each has a small cache of its own (at most 32 chunks of 128 KiB, more only for longer records).
pub struct Reader {
    segments: Segments,
    sums: Checksums,
    chunks: VecDeque<Chunk>,
}

struct Chunk {
    start: Address,
    bytes: Bytes,
}

impl Reader {
    /// A reader with an empty cache.
    pub fn new(segments: Segments, sums: Checksums) -> Self {
        Self { segments, sums, chunks: VecDeque::new() }
    }

    /// Reads and verifies the record at an address that the journal or a survivor writer gave out.
    pub fn read(&mut self, address: Address) -> Result<Frame, LogError> {
        if let Some(chunk) = self.chunks.iter().find(|chunk| chunk.holds_frame(address)) {
            let within = (address - chunk.start) as usize;
            if let Some(frame) = self.sums.verify_shared(&chunk.bytes, within, address) {
                return Ok(frame);
            }
        }
        self.read_miss(address)
    }

    /// Forgets what was read ahead.
    pub fn clear(&mut self) {
        self.chunks.clear();
    }

    fn read_miss(&mut self, address: Address) -> Result<Frame, LogError> {
        let segment = self.segments.find(address).ok_or_else(|| {
            LogError::damage(SEGMENTS_FOLDER, 0, format!("no segment holds the record at {address:#x}"))
        })?;
        let continued = self.chunks.iter().position(|chunk| chunk.leads_to(address));
        let want = if continued.is_some() { READ_AHEAD } else { FIRST_READ };
        let bytes = read_chunk(&segment, address, segment.end(), want)?;
        let frame = self.sums.verify_shared(&bytes, 0, address).ok_or_else(|| {
            let what = format!("the record at {address:#x} does not verify");
            LogError::damage(segment.name(), segment.offset_of(address), what)
        })?;
        // The chunk that led here has been read through.
        if let Some(index) = continued {
            self.chunks.remove(index);
        }
        if self.chunks.len() >= CHUNKS_MAX {
            self.chunks.pop_front();
        }
        self.chunks.push_back(Chunk { start: address, bytes });
        Ok(frame)
    }
}

impl Chunk {
    fn end(&self) -> Address {
        self.start + self.bytes.len() as u64
    }

    fn holds_frame(&self, address: Address) -> bool {
        let Some(within) =
            address.checked_since(self.start).filter(|within| *within < self.bytes.len() as u64)
        else {
            return false;
        };
        let bytes = &self.bytes[within as usize..];
        frame_bytes(bytes).is_some_and(|len| len <= bytes.len())
    }

    fn leads_to(&self, address: Address) -> bool {
        address > self.start && address < self.end() + NEAR
    }
}
