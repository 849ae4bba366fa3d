//! Files that only their owner may read, whatever the umask: exports and the file of ports.
//!
//! A store's own files are made private by its disk (`kew_store_log::RealDisk`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a new file with mode 0600; fails when the name is taken.
pub fn make_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
