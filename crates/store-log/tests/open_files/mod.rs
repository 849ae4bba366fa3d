//! Counts the files of segments that a store has open.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kew_store_log::{SEGMENTS_FOLDER, Watcher};

/// How many are open, and the most that were at once.
#[derive(Default)]
pub struct OpenFiles {
    open: Arc<AtomicI64>,
    most: AtomicI64,
}

/// An open file, while it is.
pub struct OpenFile(Option<Arc<AtomicI64>>);

impl OpenFile {
    /// Whether it is a segment's.
    pub fn is_segment(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl OpenFiles {
    pub fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    pub fn most(&self) -> i64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Watcher for OpenFiles {
    type File = OpenFile;

    fn opened(&self, name: &str) -> OpenFile {
        let is_segment = name.starts_with(SEGMENTS_FOLDER);
        if is_segment {
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(open, Ordering::Relaxed);
        }
        OpenFile(is_segment.then(|| Arc::clone(&self.open)))
    }
}
