//! Frames of a segment one by one, whatever batches they lie in: for segments that are written no more, and for single
//! reads.

use super::frame::{Checksums, Frame, HEADER_BYTES, KINDS_OF_CALLER, frame_bytes};
use super::numbers::Address;
use super::segment::Segment;
use crate::error::LogError;
use bytes::Bytes;

/// Bytes read at a time.
const WINDOW: u64 = 1 << 20;

/// Walks the frames of a segment one by one and shows the caller's own (records, not the marks around batches).
/// Meant for reclaim and checks of segments that are sealed; a frame that does not verify is damage.
pub fn scan_frames(
    segment: &Segment,
    sums: Checksums,
    range: std::ops::Range<Address>,
    mut visit: impl FnMut(Frame) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut walk = FrameWalk::new(segment, sums, range.start..range.end.min(segment.end()));
    while walk.at < walk.end {
        let at = walk.at;
        let frame = walk
            .next()?
            .ok_or_else(|| LogError::damage(segment.name(), segment.offset_of(at), "a frame's checksum"))?;
        if frame.kind < KINDS_OF_CALLER {
            visit(frame)?;
        }
    }
    Ok(())
}

/// The address behind the last whole frame of a segment that holds plain frames.
pub(crate) fn frames_end(segment: &Segment, from: Address, sums: Checksums) -> Result<Address, LogError> {
    let end = segment.base() + segment.capacity();
    let mut walk = FrameWalk::new(segment, sums, from..end);
    while walk.at < walk.end && walk.next()?.is_some() {}
    Ok(walk.at)
}

/// Frames one after the other, of which some are read at a time.
struct FrameWalk<'a> {
    segment: &'a Segment,
    sums: Checksums,
    /// Where the next one is.
    at: Address,
    end: Address,
    chunk: Bytes,
    chunk_start: Address,
}

impl<'a> FrameWalk<'a> {
    fn new(segment: &'a Segment, sums: Checksums, range: std::ops::Range<Address>) -> Self {
        let (at, end) = (range.start, range.end);
        Self { segment, sums, at, end, chunk: Bytes::new(), chunk_start: at }
    }

    /// The next frame; `None` where the bytes are none.
    fn next(&mut self) -> Result<Option<Frame>, LogError> {
        let within = (self.at - self.chunk_start) as usize;
        let frame = self.chunk.get(within..).and_then(frame_bytes);
        if frame.is_none_or(|len| within + len > self.chunk.len()) {
            self.chunk = read_chunk(self.segment, self.at, self.end, WINDOW)?;
            self.chunk_start = self.at;
        }
        let within = (self.at - self.chunk_start) as usize;
        let frame = self.sums.verify_shared(&self.chunk, within, self.at);
        if let Some(frame) = &frame {
            self.at += (HEADER_BYTES + frame.payload.len()) as u64;
        }
        Ok(frame)
    }
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
