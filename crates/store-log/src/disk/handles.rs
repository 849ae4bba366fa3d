//! Open files of segments: at most a fixed number at a time, however large the store.
//!
//! A segment's file is opened when it is needed and stays open until too many are: then the one that was used
//! longest ago is closed. Never closed is a file that is kept, because it is being written or its name is about to go,
//! and one whose writes are not all synced: the system tells an error of writing back to a file that is open. When the
//! process has no descriptor left, files of segments are closed for the one that is needed now.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{BatchMark, Disk, DiskFile};
use crate::error::lacks_descriptors;

/// The open files of a store's segments.
pub(crate) struct Handles {
    disk: Arc<dyn Disk>,
    /// Files that may be open.
    open_max: usize,
    /// Guards which are open, and whether one is kept. Taken before any file's own lock.
    open: Mutex<Vec<Arc<SegmentFile>>>,
    /// Counts uses, to tell which was the last.
    uses: AtomicU64,
}

/// One segment's file, open or not.
struct SegmentFile {
    name: String,
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    /// The number of its last use.
    used: AtomicU64,
    /// Not to be closed.
    kept: AtomicBool,
    /// Writes that were begun, that were done, and that are synced.
    begun: AtomicU64,
    done: AtomicU64,
    synced: AtomicU64,
}

impl SegmentFile {
    /// Whether nothing is lost when it is closed.
    fn may_close(&self) -> bool {
        !self.kept.load(Ordering::Acquire)
            && self.begun.load(Ordering::Acquire) == self.synced.load(Ordering::Acquire)
    }
}

impl Handles {
    pub(crate) fn new(disk: Arc<dyn Disk>, open_max: usize) -> Arc<Self> {
        let (open, uses) = (Mutex::default(), AtomicU64::default());
        Arc::new(Self { disk, open_max: open_max.max(1), open, uses })
    }

    /// How many files are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// Counts a file that was just opened; past the bound another is closed.
    fn count(&self, slot: &Arc<SegmentFile>, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let mut open = self.open.lock();
        let mut present = slot.file.lock();
        if let Some(first) = &*present {
            // Another thread was faster. This one is closed again.
            return Arc::clone(first);
        }
        *present = Some(Arc::clone(&file));
        drop(present);
        open.push(Arc::clone(slot));
        let mut closing = Vec::new();
        while open.len() > self.open_max {
            match close_one(&mut open, Some(slot)) {
                Some(file) => closing.push(file),
                None => break,
            }
        }
        // Closed behind the lock.
        drop(open);
        drop(closing);
        file
    }

    /// Opens a file. Where no more can be opened, files of other segments are closed for it.
    fn open_file(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        loop {
            match self.disk.open(name) {
                Err(error) if lacks_descriptors(&error) => {
                    let closed = close_one(&mut self.open.lock(), None);
                    // With none of ours left to close the caller gets the error, and may ask again later.
                    drop(closed.ok_or(error)?);
                }
                opened => return opened,
            }
        }
    }
}

/// Closes the file that was used longest ago; none when all must stay open.
fn close_one(open: &mut Vec<Arc<SegmentFile>>, but: Option<&Arc<SegmentFile>>) -> Option<Arc<dyn DiskFile>> {
    let closable =
        |slot: &Arc<SegmentFile>| slot.may_close() && but.is_none_or(|but| !Arc::ptr_eq(but, slot));
    let oldest = (0..open.len())
        .filter(|&index| open.get(index).is_some_and(closable))
        .min_by_key(|&index| open.get(index).map(|slot| slot.used.load(Ordering::Relaxed)))?;
    open.swap_remove(oldest).file.lock().take()
}

/// A segment's hold on its file.
pub(crate) struct Handle {
    handles: Arc<Handles>,
    slot: Arc<SegmentFile>,
}

impl Handle {
    /// The hold on a file that is open already and is kept.
    pub(crate) fn of_open(handles: &Arc<Handles>, name: String, file: Arc<dyn DiskFile>) -> Self {
        let handle = Self::new(handles, name, true);
        handle.handles.count(&handle.slot, file);
        handle
    }

    /// The hold on a file that is opened when it is needed.
    pub(crate) fn of_closed(handles: &Arc<Handles>, name: String) -> Self {
        Self::new(handles, name, false)
    }

    fn new(handles: &Arc<Handles>, name: String, kept: bool) -> Self {
        let slot = SegmentFile {
            name,
            file: Mutex::default(),
            used: AtomicU64::default(),
            kept: AtomicBool::new(kept),
            begun: AtomicU64::default(),
            done: AtomicU64::default(),
            synced: AtomicU64::default(),
        };
        Self { handles: Arc::clone(handles), slot: Arc::new(slot) }
    }

    /// The file's name within the store's directory.
    pub(crate) fn name(&self) -> &str {
        &self.slot.name
    }

    /// The file, opened if it was not.
    pub(crate) fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        let use_number = self.handles.uses.fetch_add(1, Ordering::Relaxed);
        self.slot.used.store(use_number, Ordering::Relaxed);
        if let Some(file) = &*self.slot.file.lock() {
            return Ok(Arc::clone(file));
        }
        let file = self.handles.open_file(&self.slot.name)?;
        Ok(self.handles.count(&self.slot, file))
    }

    /// Writes into the file, which is kept: it could be closed before the write otherwise, and its error be lost.
    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writing(|file| file.write_at(offset, bytes))
    }

    /// Writes a batch of the journal at an offset, or hands it over.
    pub(crate) fn append(&self, offset: u64, bytes: &[u8], batch: BatchMark) -> io::Result<()> {
        self.writing(|file| file.append(offset, bytes, batch))
    }

    fn writing(&self, write: impl FnOnce(&dyn DiskFile) -> io::Result<()>) -> io::Result<()> {
        debug_assert!(
            self.slot.kept.load(Ordering::Acquire),
            "{} is written and not kept open",
            self.slot.name
        );
        self.slot.begun.fetch_add(1, Ordering::AcqRel);
        write(&*self.file()?)?;
        self.slot.done.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Syncs what was written before.
    pub(crate) fn sync_data(&self) -> io::Result<()> {
        let done = self.slot.done.load(Ordering::Acquire);
        self.file()?.sync_data()?;
        self.slot.synced.fetch_max(done, Ordering::AcqRel);
        Ok(())
    }

    /// Keeps the file open from now on, which opens it if need be.
    pub(crate) fn keep_open(&self) -> io::Result<()> {
        self.set_kept(true);
        self.file().map(drop)
    }

    /// Lets the file be closed once what was written is synced.
    pub(crate) fn let_close(&self) {
        self.set_kept(false);
    }

    fn set_kept(&self, kept: bool) {
        let _nothing_is_closed_meanwhile = self.handles.open.lock();
        self.slot.kept.store(kept, Ordering::Release);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut open = self.handles.open.lock();
        if let Some(index) = open.iter().position(|slot| Arc::ptr_eq(slot, &self.slot)) {
            open.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    fn handles(files: usize, open_max: usize) -> (Arc<Handles>, Vec<Handle>) {
        let disk = SimDisk::new();
        let handles = Handles::new(Arc::new(disk.clone()), open_max);
        let all = (0..files).map(|number| {
            let name = format!("f{number}");
            disk.create(&name).unwrap().write_at(0, &[number as u8]).unwrap();
            Handle::of_closed(&handles, name)
        });
        let all = all.collect();
        (handles, all)
    }

    fn byte(handle: &Handle) -> u8 {
        let mut byte = [0];
        handle.file().unwrap().read_at(0, &mut byte).unwrap();
        byte[0]
    }

    fn is_open(handle: &Handle) -> bool {
        handle.slot.file.lock().is_some()
    }

    #[test]
    fn the_file_that_was_used_longest_ago_is_closed() {
        let (handles, all) = handles(4, 3);
        for number in [0, 1, 2, 0, 3] {
            assert_eq!(byte(&all[number]), number as u8);
        }
        assert_eq!(all.iter().map(is_open).collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!((handles.open(), byte(&all[1])), (3, 1));
        assert!(!is_open(&all[2]));
    }

    #[test]
    fn a_file_that_is_kept_or_not_synced_stays_open() {
        let (handles, all) = handles(4, 1);
        all[0].keep_open().unwrap();
        all[1].keep_open().unwrap();
        all[1].write_at(0, b"x").unwrap();
        all[1].let_close();
        assert_eq!((byte(&all[2]), byte(&all[3])), (2, 3));
        assert_eq!(all.iter().map(is_open).collect::<Vec<_>>(), [true, true, false, true]);
        all[0].let_close();
        all[1].sync_data().unwrap();
        assert_eq!(byte(&all[2]), 2);
        assert_eq!((handles.open(), byte(&all[1])), (1, b'x'));
    }

    #[test]
    fn a_hold_that_is_given_up_frees_its_place_and_readers_go_on() {
        let (handles, mut all) = handles(2, 2);
        let file = all[1].file().unwrap();
        drop(all.pop());
        assert_eq!(handles.open(), 0);
        let mut byte = [9];
        assert_eq!((file.read_at(0, &mut byte).unwrap(), byte), (1, [1]));
    }
}
