//! The names of everything that lies in a store's directory, so that each is written down once. What the files hold is
//! the business of those who write them.

/// The file that names a store.
pub const IDENTITY_FILE: &str = "STORE";
/// The manifest's file.
pub const MANIFEST_FILE: &str = "MANIFEST";
/// The list of a backup's files.
pub const BACKUP_LIST: &str = "BACKUP";
/// The file that says how far the scrub has come.
pub const SCRUB_FILE: &str = "SCRUB";
/// The file that is there while an import fills a shard of a store of several: their checkpoints are made one after
/// another, so one that is cut short leaves some shards full and others empty.
pub const IMPORT_FILE: &str = "IMPORT";
/// The file that the process which has the store holds locked.
pub(super) const LOCK_FILE: &str = "LOCK";

/// The folder of all segments.
pub const SEGMENTS_FOLDER: &str = "segments";
/// The folder of all generation files.
pub const CHECKPOINTS_FOLDER: &str = "checkpoints";
/// The file that holds the place of the next checkpoint. It is no checkpoint, so nothing else looks at it.
pub(crate) const KEPT_FILE: &str = "checkpoints/kept";
/// The folder of generations of deduplication ids that were put away.
pub const DEDUPLICATION_FOLDER: &str = "dedup";
/// The folder of damaged records' bytes.
pub const DAMAGED_FOLDER: &str = "damaged";
