//! The seam between the log and where its files lie (a directory, tables of a database), and what each sync promises.
//!
//! Everything the log does to the disk goes through [`Disk`] and [`DiskFile`], so tests can tear, lose, delay and
//! fail any of it ([`SimDisk`]), and measurements can count it or slow it down ([`WatchedDisk`]). Names are relative to
//! the directory, with at most one level of folders (`segments/…`); a rename stays within its folder. What is promised
//! after a crash is only what POSIX promises: a file's bytes after `sync_data`, a name after `sync_dir` of its folder,
//! a rename wholly or not at all.
//!
//! The lowest layer. It knows the names of a store's files, but not what any of them holds.

mod handles;
mod names;
mod private;
mod real;
mod sim;
mod watched;

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kew_store::BatchNumber;

use crate::error::LogError;

pub(crate) use handles::{Handle, Handles};
pub(crate) use names::KEPT_FILE;
pub use names::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DAMAGED_FOLDER, DEDUPLICATION_FOLDER, IDENTITY_FILE, IMPORT_FILE,
    MANIFEST_FILE, SCRUB_FILE, SEGMENTS_FOLDER,
};
pub use private::make_private;
pub use real::RealDisk;
#[cfg(feature = "planted")]
pub(crate) use sim::SeededChance as Chance;
pub use sim::{Beside, Fault, FaultPlan, Found, Operation, SimDisk, SimStats};
pub use watched::{WatchedDisk, Watcher};

/// Bytes that work beside requests writes to a file before it syncs them. If all were left for the end, one sync would
/// keep the disk busy for long, and the journal's syncs would wait behind it.
pub(crate) const SYNC_BYTES: u64 = 1 << 20;

/// A directory that holds a store, or what stands for one. The empty folder name means the directory itself.
///
/// Errors: `NotFound`, `AlreadyExists`, `StorageFull` (sends are refused), `NotConnected` (passes by itself). Of an
/// append to the journal or a sync of it any error stops the store.
///
/// `hard_link` and `hard_link_out` may be `Unsupported`. A file of `segments/` is written from its begin to its end
/// (where `cut` answers false, the repair at a start overwrites its end); where [`Disk::recycles`] is true it may be
/// used again. Each disk passes `tests/disk_laws/laws.rs`.
pub trait Disk: Send + Sync + 'static {
    /// Makes a new file, open for reading and writing; fails when the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that is there, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes a folder; content with one that is already there.
    fn create_dir(&self, folder: &str) -> io::Result<()>;
    /// Renames a file within its folder, replacing what had the new name, in one step.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name; open handles go on reading the file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Names of the files in a folder, without the folder's name, sorted; a missing folder has none.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Gives a file a second name.
    fn hard_link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives a file a second name outside the directory (for backups).
    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()>;
    /// Makes a file outside the directory that has the same bytes and shares none of them for good, without reading
    /// them: only file systems that copy on write can (for backups).
    fn clone_out(&self, _from: &str, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// How many names the file has.
    fn link_count(&self, name: &str) -> io::Result<u64>;
    /// Makes creations, renames and removals in a folder durable.
    fn sync_dir(&self, folder: &str) -> io::Result<()>;
    /// Bytes that may still be allocated.
    fn free_space(&self) -> io::Result<u64>;
    /// Takes the directory for this process until the lock is dropped.
    /// A second holder gets `WouldBlock` with the first one's process id in the text.
    fn lock(&self) -> io::Result<DiskLock>;
    /// True when overwriting allocates (btrfs, zfs, bcachefs): a full disk can then fail a journal write.
    fn is_copy_on_write(&self) -> bool;
    /// Whether a file that is not needed any more may be overwritten and used again. Where it may not it is removed.
    fn recycles(&self) -> bool {
        true
    }
    /// The appends of the journal, where they end later and elsewhere. `None` where [`DiskFile::append`] has written
    /// when it returns.
    fn appends(&self) -> Option<Arc<dyn Appends>> {
        None
    }
}

/// Appends that are on their way. What a disk that has them owes the store:
///
/// 1. [`DiskFile::append`] hands the batch over and returns at once: it is called with the store's lock held, on the
///    event loop.
/// 2. Progress has no gaps: a batch counts as written or durable when every batch before it is.
/// 3. The listener is never called from within `append`: it takes the lock that the caller holds. A thread of its own
///    calls it.
/// 4. The listener is called when an append ends, also without new progress: `takes_more` may have changed, and what
///    filled meanwhile waits for that call.
/// 5. A read shows what was handed over, whether it has ended or not.
/// 6. [`DiskFile::sync_data`] returns when everything handed over before it is durable.
pub trait Appends: Send + Sync + 'static {
    /// Reports progress to `listener` from now on. Fails when the system gives no thread for that.
    fn report_to(&self, listener: Arc<dyn AppendListener>) -> io::Result<()>;
    /// Whether another append, of this many bytes, may be handed over now.
    fn takes_more(&self, bytes: u64) -> bool;
    /// How long ago the newest one was handed over, if any was.
    fn since_newest(&self) -> Option<Duration>;
}

/// Learns how far appends have come. It may take the store's lock, and does not wait for an append.
pub trait AppendListener: Send + Sync + 'static {
    /// Appends have come this far.
    fn reached(&self, through: Reached);
    /// Answers that wait are refused with this text from now on, until `None`.
    fn suspended(&self, why: Option<String>);
    /// Files cannot be made: steps that wait for room are refused with this text from now on, until `None`.
    fn room_suspended(&self, why: Option<String>);
    /// The log belongs to another owner now, or has lost what was durable: nothing is written any more.
    fn lost(&self, why: String);
}

/// How far appends have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Every batch up to this one survives the end of this process.
    pub written: BatchNumber,
    /// Every batch up to this one survives a power cut.
    pub durable: BatchNumber,
}

/// A batch on its way into a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchMark {
    /// The batch's number.
    pub number: u64,
    /// Whether its answers wait until it survives a power cut.
    pub must_sync: bool,
}

/// An open file. All methods take `&self`: positions are given, never kept.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes all the bytes at an offset, or fails; the file grows when they end past its length.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes a batch of the journal at an offset. Where the disk has [`Disk::appends`] it is only handed over.
    fn append(&self, offset: u64, bytes: &[u8], _batch: BatchMark) -> io::Result<()> {
        self.write_at(offset, bytes)
    }
    /// Drops all bytes from an offset on; they read as zeros. False where that is done by overwriting them.
    fn cut(&self, _from: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes written bytes durable, with the length needed to read them.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes bytes and all of the file's own metadata durable.
    fn sync_all(&self) -> io::Result<()>;
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// True for a file without bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills the file with real zeros from its present length up to `len`, so that overwriting them later
    /// allocates nothing.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// Keeps the directory locked until it is dropped.
pub struct DiskLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl DiskLock {
    /// A lock that is held until `held` is dropped.
    pub fn holding(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl std::fmt::Debug for DiskLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskLock")
    }
}

/// Takes the directory for this process until the answer is dropped.
pub fn lock_store(disk: &dyn Disk) -> Result<DiskLock, LogError> {
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => LogError::Locked { holder: error.to_string() },
        _ => LogError::from_io("locking the store's directory", &error),
    })
}

/// Reads exactly `len` bytes, or says that the file ends before them.
pub(crate) fn read_exact_at(file: &dyn DiskFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = file.read_at(offset, &mut bytes)?;
    if read < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early"));
    }
    Ok(bytes)
}

/// Reads a whole small file, refusing one larger than `most`.
pub(crate) fn read_whole(file: &dyn DiskFile, most: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{len} bytes, at most {most} expected"),
        ));
    }
    read_exact_at(file, 0, usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?)
}

/// Replaces a small file in one step: a temporary name, synced, renamed, its folder synced.
pub(crate) fn replace_whole(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    remove_if_there(disk, &temporary)?;
    let file = disk.create(&temporary)?;
    file.write_at(0, bytes)?;
    file.sync_all()?;
    disk.rename(&temporary, name)?;
    disk.sync_dir(folder_of(name))
}

/// Removes a name; content when there is none.
pub(crate) fn remove_if_there(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The folder part of a name, empty for a name in the directory itself.
pub(crate) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Refuses names that would leave the directory or nest deeper than one folder.
fn check_name(name: &str) -> io::Result<()> {
    let mut parts = name.split('/');
    let legal =
        parts.clone().count() <= 2 && parts.all(|part| !part.is_empty() && part != "." && part != "..");
    if legal {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("bad name {name:?}")))
    }
}

/// Refuses a rename from one folder to another.
fn check_rename(from: &str, to: &str) -> io::Result<()> {
    check_name(from)?;
    check_name(to)?;
    if folder_of(from) == folder_of(to) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{from} and {to} are in different folders")))
}
