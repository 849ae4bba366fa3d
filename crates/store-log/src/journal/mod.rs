//! The journal: frames, batches of them, the segments they lie in, and how they are read back after a crash.
//!
//! Decides where bytes lie, when they are safe, and where the journal ends. The journal knows no queue: what a record
//! means is its caller's business. It knows no checkpoint either; what one remembers of the journal is handed in
//! ([`ReplayStart`], [`KnownSegments`]). First to read: `frame.rs`, then `batch.rs`, `append.rs` and `scan/mod.rs`.

mod append;
mod batch;
mod frame;
mod kept_room;
mod numbers;
mod plain_frames;
mod reader;
mod scan;
mod segment;
mod segments;
mod survivor;

pub use append::{Appended, Journal, Recovery, SyncTarget};
pub use batch::{BATCH_OVERHEAD_BYTES, BATCH_RECORDS_MAX, BatchBuffer, BatchView};
pub use frame::{Checksums, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, Frame, KINDS_OF_CALLER};
pub(crate) use frame::{frame_bytes, trusted};
pub use numbers::{Address, BatchNumber, SegmentNumber};
pub(crate) use plain_frames::read_chunk;
pub use plain_frames::scan_frames;
pub use reader::Reader;
pub use scan::{ReplayStart, ScanEnd, TailReport, scan_journal};
pub use segment::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, Segment, SegmentKind, SegmentUse};
pub(crate) use segment::{HeldSegment, parse_name, segment_name};
pub use segments::{KnownSegments, Room, SegmentOptions, Segments};
pub use survivor::SurvivorWriter;
