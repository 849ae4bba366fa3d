//! The ceiling: appending and syncing on this disk with nothing of Kew around it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A file of zeros that is written over from front to back, as Kew's segments are.
pub struct Raw {
    file: File,
    len: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl Raw {
    /// A file of `len` bytes in `dir`, filled and synced.
    pub fn new(dir: &Path, len: u64) -> Self {
        std::fs::create_dir_all(dir).expect("the directory can be made");
        let path = dir.join("raw");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = open.expect("a file can be made");
        let zeros = vec![0; 1 << 20];
        for offset in (0..len).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset).expect("the disk has room");
        }
        file.sync_all().expect("the disk syncs");
        Self { file, len, at: 0, bytes: Vec::new() }
    }

    /// One append of `bytes` bytes, synced.
    pub fn append(&mut self, bytes: usize) -> Duration {
        self.bytes.resize(bytes, 0x5a);
        if self.at + bytes as u64 > self.len {
            self.at = 0;
        }
        let begun = Instant::now();
        self.file.write_all_at(&self.bytes, self.at).expect("the disk writes");
        self.file.sync_data().expect("the disk syncs");
        self.at += bytes as u64;
        begun.elapsed()
    }
}
