//! Copying records out of nearly dead segments, into segments and addresses of their own.
//!
//! Survivor segments never mix with the journal: what lived long enough to be copied stays where it is. They hold
//! plain frames, no batches; what of them is in use is in the manifest. A place given out may be used only after
//! [`SurvivorWriter::sync`], and the victim freed only after a checkpoint with the new places is durable.

use super::frame::{Checksums, FRAME_HEADER_BYTES, HEADER_BYTES, KINDS_OF_CALLER};
use super::numbers::{Address, BatchNumber, SegmentNumber};
use super::segment::{Segment, SegmentKind};
use super::segments::Segments;
use crate::disk::SYNC_BYTES;
use crate::error::LogError;
use std::sync::Arc;

const BUFFER: usize = 256 << 10;

/// Writes survivors. One for a store; it goes on in its segment from one copy-forward to the next.
pub struct SurvivorWriter {
    segments: Segments,
    sums: Checksums,
    segment: Option<Arc<Segment>>,
    buffer: Vec<u8>,
    unsynced: Vec<Arc<Segment>>,
    unsynced_bytes: u64,
    failed: Option<LogError>,
}

impl SurvivorWriter {
    /// A writer that starts a new segment with its first record.
    pub fn new(segments: Segments, sums: Checksums) -> Self {
        let (buffer, unsynced) = (Vec::new(), Vec::new());
        Self { segments, sums, segment: None, buffer, unsynced, unsynced_bytes: 0, failed: None }
    }

    /// Copies one record; answers its new place. `keep_spares` spares are left alone: the reserve, unless this very
    /// copying is what frees space. `NoSpace` changes nothing; any other error is the writer's last.
    pub fn push(&mut self, kind: u8, payload: &[u8], keep_spares: usize) -> Result<Address, LogError> {
        assert!(kind < KINDS_OF_CALLER, "kind {kind} is the journal's own");
        self.check()?;
        let bytes = FRAME_HEADER_BYTES + payload.len() as u64;
        let segment = match self.segment.clone().filter(|s| s.remaining() >= self.buffer.len() as u64 + bytes)
        {
            Some(segment) => segment,
            None => self.next_segment(bytes, keep_spares)?,
        };
        let at = self.buffer.len();
        let address = segment.end() + at as u64;
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        self.buffer.extend_from_slice(payload);
        self.sums.seal(&mut self.buffer, at, kind, address);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(address)
    }

    /// Makes everything copied so far durable. Until then none of it may be referred to.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check()?;
        self.flush()?;
        self.sync_files()
    }

    fn sync_files(&mut self) -> Result<(), LogError> {
        self.unsynced_bytes = 0;
        while let Some(segment) = self.unsynced.pop() {
            if let Err(error) = segment.sync() {
                return Err(self.fail(LogError::from_io(format!("syncing {}", segment.name()), &error)));
            }
        }
        Ok(())
    }

    /// Number of the segment being written, which must not be freed meanwhile.
    pub fn open_segment(&self) -> Option<SegmentNumber> {
        self.segment.as_ref().map(|segment| segment.number())
    }

    /// Leaves the present segment, so that it may be copied from and freed like any other. Call after a sync.
    pub fn seal(&mut self) {
        assert!(self.is_synced(), "sealed before a sync");
        self.segment = None;
    }

    /// Whether everything pushed so far was synced.
    pub fn is_synced(&self) -> bool {
        self.buffer.is_empty() && self.unsynced.is_empty()
    }

    fn next_segment(&mut self, bytes: u64, keep_spares: usize) -> Result<Arc<Segment>, LogError> {
        self.flush()?;
        let base = self.segments.survivor_end();
        match self.segments.take(SegmentKind::Survivor, bytes, base, BatchNumber::BEFORE_FIRST, keep_spares) {
            Ok(segment) => {
                self.segment = Some(segment.clone());
                Ok(segment)
            }
            Err(error @ LogError::NoSpace { .. }) => Err(error),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let Some(segment) = self.segment.clone().filter(|_| !self.buffer.is_empty()) else { return Ok(()) };
        if let Err(error) = segment.append(&self.buffer) {
            return Err(self.fail(LogError::from_io(format!("writing {}", segment.name()), &error)));
        }
        self.unsynced_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if !self.unsynced.iter().any(|other| other.number() == segment.number()) {
            self.unsynced.push(segment);
        }
        if self.unsynced_bytes >= SYNC_BYTES { self.sync_files() } else { Ok(()) }
    }

    fn check(&self) -> Result<(), LogError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: LogError) -> LogError {
        self.failed = Some(error.clone());
        error
    }
}
