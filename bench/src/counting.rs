//! Counts what is done to the real disk: syncs of journal segments, and bytes by folder.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kew_store_log::{RealDisk, SEGMENTS_FOLDER, WatchedDisk, Watcher};

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

/// What a file is counted as.
pub enum Kind {
    Segment,
    Other,
}

impl Watcher for Counts {
    type File = Kind;

    fn opened(&self, name: &str) -> Kind {
        if name.starts_with(SEGMENTS_FOLDER) { Kind::Segment } else { Kind::Other }
    }

    fn writes(&self, file: &Kind, bytes: usize) {
        let counter = match file {
            Kind::Segment => &self.segment_bytes,
            Kind::Other => &self.other_bytes,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn syncs(&self, file: &Kind) {
        if let Kind::Segment = file {
            self.segment_syncs.fetch_add(1, Ordering::Relaxed);
            SYNCS_HERE.set(SYNCS_HERE.get() + 1);
        }
    }
}

/// The real disk in a directory, counted.
pub fn open(dir: &Path) -> io::Result<(WatchedDisk<Counts>, Arc<Counts>)> {
    let counts = Arc::new(Counts::default());
    Ok((WatchedDisk::new(RealDisk::open(dir)?, Arc::clone(&counts)), counts))
}
