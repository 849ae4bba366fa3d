//! Kew's embedded store: a purpose-made segmented log, where the log is the database.
//!
//! Five layers; each may know those below it, which `cargo xtask layers` checks.
//!
//! - `disk`: the seam to the machine ([`Disk`]), and the names of a store's files.
//! - `journal`: framed batches ([`Journal`]) in segment files ([`Segments`]), survivors copied out of nearly dead
//!   segments ([`SurvivorWriter`]), single reads ([`Reader`]). It knows no queue.
//! - `checkpoint`: slices and the manifest ([`CheckpointWriter`], [`Manifest`]), the store's identity ([`Identity`]).
//!   It knows no queue either.
//! - `store`: [`LogStore`] keeps the ledger of `kew-store` and journals its changes: commands of many callers share one
//!   batch and one sync. Upkeep (checkpoints, copying survivors forward, recycling) runs beside it.
//! - `tools`: for people who keep a store: [`check`], [`stats`], [`backup`], [`export`], [`export_readable`],
//!   [`import`],
//!   and the same over the shards of one store: [`Export`], [`import_into_shards`].
//!
//! `shards` keeps several stores in one directory, as the shards of one ([`ShardFolders`]).
//!
//! Beside them stand what every layer uses: the one error ([`LogError`]), fields of records
//! in files (`fields`), the store's locks (`turns`), and faults that
//! tests plant (`planted`). Every byte that is written is described in `docs/storage-format.md`.

mod checkpoint;
mod disk;
mod error;
mod fields;
mod journal;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(feature = "planted"))]
mod planted;
mod shards;
mod store;
mod tools;
mod turns;

pub use checkpoint::{
    CheckpointWriter, Generation, Identity, Manifest, ManifestFields, STORE_VERSION, SealedCheckpoint,
    Sidecar, SliceRef,
};
pub use disk::{
    AppendListener, Appends, BACKUP_LIST, BatchMark, Beside, CHECKPOINTS_FOLDER, DAMAGED_FOLDER,
    DEDUPLICATION_FOLDER, Disk, DiskFile, DiskLock, Fault, FaultPlan, Found, IDENTITY_FILE, IMPORT_FILE,
    MANIFEST_FILE, Operation, Reached, RealDisk, SCRUB_FILE, SEGMENTS_FOLDER, SimDisk, SimStats, WatchedDisk,
    Watcher, lock_store, make_private,
};
pub use error::LogError;
pub use journal::{
    Address, Appended, BATCH_OVERHEAD_BYTES, BATCH_RECORDS_MAX, BatchBuffer, BatchNumber, BatchView,
    Checksums, FORMAT_VERSION, FRAME_HEADER_BYTES, FRAME_PAYLOAD_MAX, Frame, Journal, KINDS_OF_CALLER,
    KnownSegments, Reader, Recovery, ReplayStart, Room, SEGMENT_HEADER_BYTES, ScanEnd, Segment, SegmentKind,
    SegmentNumber, SegmentOptions, SegmentUse, Segments, SurvivorWriter, SyncTarget, TailReport, scan_frames,
    scan_journal,
};
pub use shards::{Laid, ShardFolders, laid_out, shard_folder};
pub use store::{Drive, Durability, LogOptions, LogStats, LogStore, OpenReport, Scrub, ScrubPace, Upkeep};
pub use tools::{
    BackedUp, BackupFailed, BackupPlan, BackupProgress, BackupReport, CheckReport, Export, ExportHead,
    ExportReport, ImportReport, Problem, Sharing, StoreStats, Unreadable, backup, backup_watched, check,
    export, export_readable, import, import_into_shards, is_untouched, stats, verify_backup,
};
#[cfg(feature = "planted")]
pub use turns::schedule;
