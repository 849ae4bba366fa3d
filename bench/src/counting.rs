//! A disk that counts what is done to the real one: syncs of journal segments, and bytes by folder.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kew_store_log::{Disk, DiskFile, DiskLock, RealDisk, SEGMENTS_FOLDER};

thread_local! {
    static SYNCS_HERE: Cell<u64> = const { Cell::new(0) };
}

/// Data syncs of segments that this thread has made.
pub fn syncs_of_this_thread() -> u64 {
    SYNCS_HERE.get()
}

/// What was counted.
#[derive(Default)]
pub struct Counts {
    /// Data syncs of segment files, by all threads.
    pub segment_syncs: AtomicU64,
    /// Bytes written into segments, zeros to fill them aside.
    pub segment_bytes: AtomicU64,
    /// Bytes written elsewhere: checkpoints and small files.
    pub other_bytes: AtomicU64,
}

impl Counts {
    /// Bytes written so far, zeros aside.
    pub fn written(&self) -> (u64, u64) {
        (self.segment_bytes.load(Ordering::Relaxed), self.other_bytes.load(Ordering::Relaxed))
    }
}

/// The real disk, counted.
pub struct CountingDisk {
    real: RealDisk,
    pub counts: Arc<Counts>,
}

impl CountingDisk {
    pub fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { real: RealDisk::open(dir)?, counts: Arc::default() })
    }

    fn counted(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let in_segments = name.starts_with(SEGMENTS_FOLDER);
        Arc::new(CountingFile { file, counts: self.counts.clone(), in_segments })
    }
}

impl Disk for CountingDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(name, self.real.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(name, Disk::open(&self.real, name)?))
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.real.create_dir(folder)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.real.list(folder)
    }
    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.hard_link(from, to)
    }
    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.real.hard_link_out(from, to)
    }
    fn link_count(&self, name: &str) -> io::Result<u64> {
        self.real.link_count(name)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.real.sync_dir(folder)
    }
    fn free_space(&self) -> io::Result<u64> {
        self.real.free_space()
    }
    fn lock(&self) -> io::Result<DiskLock> {
        self.real.lock()
    }
    fn is_copy_on_write(&self) -> bool {
        self.real.is_copy_on_write()
    }
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    counts: Arc<Counts>,
    in_segments: bool,
}

impl DiskFile for CountingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let counter = if self.in_segments { &self.counts.segment_bytes } else { &self.counts.other_bytes };
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.in_segments {
            self.counts.segment_syncs.fetch_add(1, Ordering::Relaxed);
            SYNCS_HERE.set(SYNCS_HERE.get() + 1);
        }
        self.file.sync_data()
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
