//! A disk whose syncs take longer than the machine's, to measure what a slow one does to those who wait:
//! `KEW_SLOW_SYNC_MS=3 kew serve`. It is no setting, since nobody wants it in earnest, and it is told as a warning.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kew_store_log::{Disk, DiskFile, DiskLock, RealDisk};

/// The variable that asks for it: milliseconds added to each sync.
pub const VARIABLE: &str = "KEW_SLOW_SYNC_MS";

/// What the variable adds to each sync; nothing when it is not set or no number.
pub fn asked() -> Option<Duration> {
    let text = std::env::var(VARIABLE).ok()?;
    text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}

/// A real disk with slower syncs of data.
pub struct SlowDisk {
    real: RealDisk,
    added: Duration,
}

impl SlowDisk {
    /// The disk, slower by so much.
    pub fn new(real: RealDisk, added: Duration) -> Self {
        Self { real, added }
    }

    fn slow(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(SlowFile { file, added: self.added })
    }
}

impl Disk for SlowDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(self.real.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.slow(Disk::open(&self.real, name)?))
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

struct SlowFile {
    file: Arc<dyn DiskFile>,
    added: Duration,
}

impl DiskFile for SlowFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn sync_data(&self) -> io::Result<()> {
        std::thread::sleep(self.added);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn only_syncs_of_data_take_longer_and_bytes_are_there() {
        let directory = tempfile::tempdir().expect("there is room");
        let real = RealDisk::open(directory.path()).expect("it is ours");
        let disk = SlowDisk::new(real, Duration::from_millis(30));
        let file = disk.create("file").expect("the name is free");
        file.write_at(0, b"bytes").expect("there is room");
        let begun = Instant::now();
        file.sync_data().expect("it syncs");
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let mut read = [0; 5];
        assert_eq!(Disk::open(&disk, "file").and_then(|file| file.read_at(0, &mut read)).ok(), Some(5));
        assert_eq!(&read, b"bytes");
    }
}
