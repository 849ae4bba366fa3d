//! Kew's embedded store: a purpose-made segmented log, where the log is the database.
//!
//! The lower half of this crate is a byte layer that knows nothing of queues: a disk ([`Disk`]), segment files
//! ([`Segments`]), a journal of framed batches ([`Journal`]), survivors copied out of nearly dead segments
//! ([`SurvivorWriter`]), single reads ([`Reader`]), checkpoints ([`CheckpointWriter`], [`Manifest`]) and the store's
//! identity ([`Identity`]). Every byte it writes is described in `docs/storage-format.md`.
//!
//! Above it, [`LogStore`] keeps the ledger of `kew-store` and journals its changes: commands of many callers share one
//! batch and one sync. Upkeep (checkpoints, copying survivors forward, recycling) runs beside it.
//!
//! Tools for people who keep a store: [`check`], [`stats`], [`backup`], [`export`], [`export_readable`], [`import`].

mod ahead;
mod arrivals;
mod backup;
mod batch;
mod check;
mod checkpoint;
mod cold;
mod damaged;
mod disk;
mod error;
mod expected;
mod export;
mod fetched;
mod frame;
mod gate;
mod handles;
mod identity;
mod import;
mod journal;
mod lines;
mod live;
mod manifest;
mod options;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(feature = "planted"))]
mod planted;
mod put_away;
mod reader;
mod reads;
mod recent;
mod reclaim;
mod recover;
mod reporting;
mod room;
mod scan;
mod scrub;
mod segment;
mod segments;
mod shelf;
mod slices;
mod stats;
mod store;
mod survivor;
mod turns;
mod upkeep;
mod write_slices;
mod writer;

pub use backup::{BACKUP_LIST, BackedUp, BackupReport, Sharing, backup, verify_backup};
pub use batch::{BATCH_OVERHEAD_BYTES, BATCH_RECORDS_MAX, BatchBuffer, BatchView};
pub use check::{CheckReport, Problem, check};
pub use checkpoint::{CHECKPOINTS_FOLDER, CheckpointWriter, SealedCheckpoint};
pub use damaged::DAMAGED_FOLDER;
pub use disk::{
    Beside, Disk, DiskFile, DiskLock, Fault, FaultPlan, Found, Operation, RealDisk, SimDisk, SimStats,
    WatchedDisk, Watcher, make_private,
};
pub use error::LogError;
pub use export::{ExportReport, Unreadable, export, export_readable};
pub use frame::{
    Address, Checksums, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, Frame, KINDS_OF_CALLER, SURVIVOR_SPACE,
};
pub use identity::{IDENTITY_FILE, Identity, STORE_VERSION, lock_store};
pub use import::{ImportReport, import};
pub use journal::{Appended, Journal, Recovery, SyncTarget};
pub use manifest::{MANIFEST_FILE, Manifest, ManifestFields, SegmentUse, Sidecar};
pub use options::{Drive, Durability, LogOptions};
pub use put_away::DEDUPLICATION_FOLDER;
pub use reader::Reader;
pub use recover::OpenReport;
pub use scan::{ReplayStart, ScanEnd, TailReport, is_survivor, scan_frames, scan_journal};
pub use scrub::{SCRUB_FILE, Scrub, ScrubPace};
pub use segment::{FORMAT_VERSION, SEGMENT_HEADER_BYTES, SEGMENTS_FOLDER, Segment, SegmentKind};
pub use segments::{Room, SegmentOptions, Segments};
pub use slices::SliceRef;
pub use stats::{StoreStats, stats};
pub use store::{LogStats, LogStore};
pub use survivor::SurvivorWriter;
#[cfg(feature = "planted")]
pub use turns::schedule;
pub use upkeep::Upkeep;
