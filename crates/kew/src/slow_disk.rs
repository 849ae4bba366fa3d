//! A disk whose syncs or reads take longer than the machine's, to measure what a slow one does to those who wait:
//! `KEW_SLOW_SYNC_MS=3 kew serve`, `KEW_SLOW_READ_MS=5 kew serve`. They are no settings, since no server needs them in
//! earnest, and a warning is logged.

use std::sync::Arc;
use std::time::Duration;

use kew_store_log::{Disk, WatchedDisk, Watcher};

/// The variables that ask for it: milliseconds added to each sync, and to each read.
pub const SYNCS: &str = "KEW_SLOW_SYNC_MS";
/// See [`SYNCS`].
pub const READS: &str = "KEW_SLOW_READ_MS";

/// How much longer a disk takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slow {
    /// For each sync of data.
    pub sync: Duration,
    /// For each read.
    pub read: Duration,
}

/// What the variables ask for; nothing when neither is set to a number above zero.
pub fn asked() -> Option<Slow> {
    let slow = Slow { sync: millis_of(SYNCS), read: millis_of(READS) };
    (slow.sync + slow.read > Duration::ZERO).then_some(slow)
}

fn millis_of(variable: &str) -> Duration {
    let text = std::env::var(variable).unwrap_or_default();
    text.parse().map_or(Duration::ZERO, Duration::from_millis)
}

impl Watcher for Slow {
    type File = ();

    fn opened(&self, _name: &str) {}

    fn syncs(&self, _file: &()) {
        wait(self.sync);
    }

    fn reads(&self, _file: &()) {
        wait(self.read);
    }
}

fn wait(added: Duration) {
    if added > Duration::ZERO {
        std::thread::sleep(added);
    }
}

/// The disk, slower by so much.
pub fn slowed(disk: impl Disk, slow: Slow) -> impl Disk {
    WatchedDisk::new(disk, Arc::new(slow))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kew_store_log::RealDisk;

    use super::*;

    #[test]
    fn only_syncs_of_data_take_longer_and_bytes_are_there() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let real = RealDisk::open(directory.path()).expect("the directory opens as a disk");
        let disk = slowed(real, Slow { sync: Duration::from_millis(30), read: Duration::ZERO });
        let file = disk.create("file").expect("the name is free");
        file.write_at(0, b"bytes").expect("the test's disk takes a write");
        let begun = Instant::now();
        file.sync_data().expect("the test's disk syncs");
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let mut read = [0; 5];
        assert_eq!(disk.open("file").and_then(|file| file.read_at(0, &mut read)).ok(), Some(5));
        assert_eq!(&read, b"bytes");
    }
}
