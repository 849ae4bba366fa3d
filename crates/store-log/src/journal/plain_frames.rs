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
        if frame.kind < KINDS_OF_CALLER {
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
