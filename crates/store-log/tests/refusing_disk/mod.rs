//! A disk that refuses what a test tells it to, by operation and name.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kew_store_log::{Disk, DiskFile, DiskLock, SimDisk};

/// An operation that can be refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    Create,
    Open,
    Rename,
    Read,
}

type Refuses = dyn Fn(Doing, &str) -> Option<io::Error> + Send + Sync;

/// A simulated disk, and what it refuses now.
#[derive(Clone)]
pub struct RefusingDisk {
    pub disk: SimDisk,
    refuses: Arc<Mutex<Option<Box<Refuses>>>>,
}

impl RefusingDisk {
    pub fn of(disk: &SimDisk) -> Self {
        Self { disk: disk.clone(), refuses: Arc::default() }
    }

    /// From now on refuses what `refuses` names an error for.
    pub fn refuse(&self, refuses: impl Fn(Doing, &str) -> Option<io::Error> + Send + Sync + 'static) {
        *self.refuses.lock().expect("no test panics while it holds this") = Some(Box::new(refuses));
    }

    /// Refuses nothing any more.
    pub fn heal(&self) {
        *self.refuses.lock().expect("no test panics while it holds this") = None;
    }

    fn ask(&self, doing: Doing, name: &str) -> io::Result<()> {
        let refuses = self.refuses.lock().expect("no test panics while it holds this");
        refuses.as_ref().and_then(|refuses| refuses(doing, name)).map_or(Ok(()), Err)
    }

    fn file(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(RefusingFile { disk: self.clone(), name: name.to_owned(), file })
    }
}

impl Disk for RefusingDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.ask(Doing::Create, name)?;
        Ok(self.file(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.ask(Doing::Open, name)?;
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.disk.create_dir(folder)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.ask(Doing::Rename, to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }

    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.disk.hard_link_out(from, to)
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
}

struct RefusingFile {
    disk: RefusingDisk,
    /// The name it was opened by; one that was renamed since keeps it here.
    name: String,
    file: Arc<dyn DiskFile>,
}

impl DiskFile for RefusingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.ask(Doing::Read, &self.name)?;
        self.file.read_at(offset, buffer)
    }

    fn sync_data(&self) -> io::Result<()> {
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
