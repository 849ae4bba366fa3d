//! The machine's disk, through the standard library and rustix.
//!
//! Data syncs are the standard library's `sync_data`: `fdatasync`, and a full flush on macOS.

use super::names::LOCK_FILE;
use super::{Disk, DiskFile, DiskLock, SYNC_BYTES, check_name, check_rename, private};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kew_timed::wait;

/// So much of a new file is written at a time. The system keeps a file in memory in pieces as large as it was written
/// in, and looks through the whole piece at each sync of a part of it, and counts it as written.
static ZEROS: [u8; 4 * 1024] = [0; 4 * 1024];

/// A directory of the machine's file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    access: Access,
}

/// What may be done to the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    All,
    /// Nothing is written, made, renamed or removed: the system is not even asked for the right to.
    Look,
}

impl RealDisk {
    /// Opens the directory, making it and its parents when they are missing. What is made is readable by its owner
    /// alone.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            if root.exists() {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
            }
            // The directory's own name must survive too, and the names of those above it that were made.
            for holder in private::make_directories(&root)? {
                File::open(holder)?.sync_all()?;
            }
        }
        Ok(Self { root, access: Access::All })
    }

    /// Opens a directory that exists to read from it. Whatever would change it fails.
    pub fn look(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such directory"));
        }
        Ok(Self { root, access: Access::Look })
    }

    /// Fails where only looking is allowed.
    fn changes(&self) -> io::Result<()> {
        match self.access {
            Access::All => Ok(()),
            Access::Look => Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                "the directory is open to be looked at only",
            )),
        }
    }

    /// Keeps servers out while somebody looks; others may look too. Without a file to lock there is no server.
    fn lock_to_look(&self) -> io::Result<DiskLock> {
        let path = self.root.join(LOCK_FILE);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DiskLock::holding(())),
            file => file.map_err(named)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(DiskLock::holding(file)),
            Err(TryLockError::WouldBlock) => Err(held_by_another(&mut file)),
            Err(TryLockError::Error(error)) => Err(named(error)),
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    fn folder(&self, folder: &str) -> io::Result<PathBuf> {
        if folder.is_empty() { Ok(self.root.clone()) } else { self.path(folder) }
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.changes()?;
        Ok(Arc::new(RealFile(private::make_file(&self.path(name)?)?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let write = self.access == Access::All;
        let file = OpenOptions::new().read(true).write(write).open(self.path(name)?)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.changes()?;
        match private::make_directory(&self.path(folder)?) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.changes()?;
        check_rename(from, to)?;
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.changes()?;
        fs::remove_file(self.path(name)?)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.folder(folder)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.changes()?;
        fs::hard_link(self.path(from)?, self.path(to)?)
    }

    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.changes()?;
        fs::hard_link(self.path(from)?, to)
    }

    #[cfg(target_os = "linux")]
    fn clone_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.changes()?;
        let from = File::open(self.path(from)?)?;
        let made = private::make_file(to)?;
        rustix::fs::ioctl_ficlone(&made, &from).map_err(|error| {
            // The name is wanted for a copy.
            let _removed = fs::remove_file(to);
            io::Error::from(error)
        })
    }

    fn link_count(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path(name)?)?.nlink())
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        let folder = File::open(self.folder(folder)?)?;
        wait("a sync of a folder", || folder.sync_all())
    }

    fn free_space(&self) -> io::Result<u64> {
        let found = rustix::fs::statvfs(&self.root)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn lock(&self) -> io::Result<DiskLock> {
        if self.access == Access::Look {
            return self.lock_to_look();
        }
        let path = self.root.join(LOCK_FILE);
        // The first thing anybody does with a directory, so that this is where a wrong one shows.
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut options = private::options();
        let opened = options.create(true).truncate(false).open(&path);
        let mut file = opened.map_err(named)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by_another(&mut file)),
            Err(TryLockError::Error(error)) => return Err(named(error)),
        }
        // For people to read: no program decides by the number, so a full disk does not matter here.
        let _best_effort = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DiskLock::holding(file))
    }

    #[cfg(target_os = "linux")]
    fn is_copy_on_write(&self) -> bool {
        const BTRFS: u32 = 0x9123_683E;
        const ZFS: u32 = 0x2FC1_2FC1;
        const BCACHEFS: u32 = 0xCA45_1A4E;
        // The field's width and sign differ between machines; the magic numbers are 32 bits everywhere.
        #[allow(clippy::cast_possible_truncation, reason = "the low 32 bits are the whole number")]
        rustix::fs::statfs(&self.root)
            .is_ok_and(|found| [BTRFS, ZFS, BCACHEFS].contains(&(found.f_type as u32)))
    }

    #[cfg(not(target_os = "linux"))]
    fn is_copy_on_write(&self) -> bool {
        cfg!(target_vendor = "apple")
    }
}

fn held_by_another(file: &mut File) -> io::Error {
    let mut holder = String::new();
    let _unreadable_is_unknown = file.take(32).read_to_string(&mut holder);
    let holder = match holder.trim() {
        "" => "another process".to_owned(),
        id => format!("process {id}"),
    };
    io::Error::new(io::ErrorKind::WouldBlock, holder)
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        wait("a write", || self.0.write_all_at(bytes, offset))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match wait("a read", || self.0.read_at(&mut buffer[done..], offset + done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn sync_data(&self) -> io::Result<()> {
        wait("a sync", || self.0.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        wait("a sync", || self.0.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut at = self.len()?;
        let mut synced = at;
        wait("an allocation", || reserve_blocks(&self.0, at, len))?;
        while at < len {
            let step = (len - at).min(ZEROS.len() as u64);
            self.write_at(at, &ZEROS[..step as usize])?;
            at += step;
            if at - synced >= SYNC_BYTES {
                self.sync_data()?;
                synced = at;
            }
        }
        Ok(())
    }
}

/// Claims the blocks in one go, so a full disk says so before anything is written and the file lies in one piece.
/// A file system that cannot is no loss: the zeros that follow allocate.
#[cfg(target_os = "linux")]
fn reserve_blocks(file: &File, at: u64, len: u64) -> io::Result<()> {
    if at >= len {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, at, len - at) {
        Err(error @ (rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve_blocks(_file: &File, _at: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, RealDisk) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let disk = RealDisk::open(folder.path().join("store")).expect("a directory can be made");
        (folder, disk)
    }

    #[test]
    fn a_second_lock_is_refused_and_names_the_holder() {
        let (_folder, disk) = disk();
        let held = disk.lock().expect("the first lock is free");
        let error = disk.lock().expect_err("a second lock is refused");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(held);
        disk.lock().expect("the lock is free once its holder is dropped");
    }

    #[test]
    fn a_directory_that_cannot_be_locked_is_named() {
        let (folder, disk) = disk();
        fs::create_dir(folder.path().join("store").join(LOCK_FILE)).expect("the test owns its folder");
        let error = crate::disk::lock_store(&disk)
            .expect_err("a folder in place of LOCK cannot be locked")
            .to_string();
        let named = format!("locking the store's directory: {}", folder.path().join("store").display());
        assert!(error.starts_with(&named), "{error}");
    }

    #[test]
    fn allocated_files_are_zeros_and_count_their_names() {
        let (_folder, disk) = disk();
        disk.create_dir("segments").unwrap();
        let file = disk.create("segments/a").unwrap();
        file.allocate(300_000).unwrap();
        file.write_at(5, b"hello").unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 300_000);
        let mut bytes = [1; 12];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 12);
        assert_eq!(&bytes, b"\0\0\0\0\0hello\0\0");
        assert_eq!(file.read_at(299_999, &mut bytes).unwrap(), 1);
        disk.hard_link("segments/a", "segments/b").unwrap();
        assert_eq!(disk.link_count("segments/a").unwrap(), 2);
        assert_eq!(disk.list("segments").unwrap(), ["a", "b"]);
        disk.sync_dir("segments").unwrap();
        assert!(disk.free_space().unwrap() > 0);
    }

    #[test]
    fn names_never_leave_the_directory() {
        let (_folder, disk) = disk();
        for name in ["../x", "/x", "a/b/c", "", ".", "a/.."] {
            assert_eq!(
                disk.create(name).err().map(|e| e.kind()),
                Some(io::ErrorKind::InvalidInput),
                "{name}"
            );
        }
    }
}
