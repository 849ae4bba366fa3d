//! A disk that hands everything on to another and calls a watcher first: it counts what is done, takes time over it, or
//! lets something else happen in between.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Appends, BatchMark, Disk, DiskFile, DiskLock};

/// Learns what is about to be done to a disk.
pub trait Watcher: Send + Sync + 'static {
    /// What it goes on knowing of a file that was opened, so that its name is looked at once.
    type File: Send + Sync + 'static;

    /// A file of this name was made or opened.
    fn opened(&self, name: &str) -> Self::File;
    /// Bytes are written into a file.
    fn writes(&self, _file: &Self::File, _bytes: usize) {}
    /// Bytes of a file are read.
    fn reads(&self, _file: &Self::File) {}
    /// A file's data is synced.
    fn syncs(&self, _file: &Self::File) {}
    /// A file's data was synced, or that failed; the caller does not know yet.
    fn synced(&self, _file: &Self::File) {}
    /// A folder's names are listed.
    fn lists(&self, _folder: &str) {}
}

/// A disk beside which a [`Watcher`] stands.
pub struct WatchedDisk<W> {
    disk: Arc<dyn Disk>,
    watcher: Arc<W>,
}

impl<W: Watcher> WatchedDisk<W> {
    /// The disk, watched.
    pub fn new(disk: impl Disk, watcher: Arc<W>) -> Self {
        Self { disk: Arc::new(disk), watcher }
    }

    fn watched(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile { file, known: self.watcher.opened(name), watcher: Arc::clone(&self.watcher) })
    }
}

impl<W: Watcher> Disk for WatchedDisk<W> {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watched(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.watched(name, self.disk.open(name)?))
    }

    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.disk.create_dir(folder)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.watcher.lists(folder);
        self.disk.list(folder)
    }

    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.disk.hard_link_out(from, to)
    }

    fn clone_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.disk.clone_out(from, to)
    }

    fn link_count(&self, name: &str) -> io::Result<u64> {
        self.disk.link_count(name)
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.disk.sync_dir(folder)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }

    fn lock(&self) -> io::Result<DiskLock> {
        self.disk.lock()
    }

    fn is_copy_on_write(&self) -> bool {
        self.disk.is_copy_on_write()
    }

    fn recycles(&self) -> bool {
        self.disk.recycles()
    }

    fn appends(&self) -> Option<Arc<dyn Appends>> {
        self.disk.appends()
    }
}

struct WatchedFile<W: Watcher> {
    file: Arc<dyn DiskFile>,
    known: W::File,
    watcher: Arc<W>,
}

impl<W: Watcher> DiskFile for WatchedFile<W> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.watcher.writes(&self.known, bytes.len());
        self.file.write_at(offset, bytes)
    }

    fn append(&self, offset: u64, bytes: &[u8], batch: BatchMark) -> io::Result<()> {
        self.watcher.writes(&self.known, bytes.len());
        self.file.append(offset, bytes, batch)
    }

    fn cut(&self, from: u64) -> io::Result<bool> {
        self.file.cut(from)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.watcher.reads(&self.known);
        self.file.read_at(offset, buffer)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.watcher.syncs(&self.known);
        let synced = self.file.sync_data();
        self.watcher.synced(&self.known);
        synced
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}
