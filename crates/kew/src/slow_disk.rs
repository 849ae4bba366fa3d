//! A disk whose syncs take longer than the machine's, to measure what a slow one does to those who wait:
//! `KEW_SLOW_SYNC_MS=3 kew serve`. It is no setting, since nobody wants it in earnest, and it is told as a warning.

use std::sync::Arc;
use std::time::Duration;

use kew_store_log::{Disk, WatchedDisk, Watcher};

/// The variable that asks for it: milliseconds added to each sync.
pub const VARIABLE: &str = "KEW_SLOW_SYNC_MS";

/// What the variable adds to each sync; nothing when it is not set or no number.
pub fn asked() -> Option<Duration> {
    let text = std::env::var(VARIABLE).ok()?;
    text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}

/// Stands beside a disk and takes its time before each sync of data.
struct Slow {
    added: Duration,
}

impl Watcher for Slow {
    type File = ();

    fn opened(&self, _name: &str) {}

    fn syncs(&self, _file: &()) {
        std::thread::sleep(self.added);
    }
}

/// The disk, its syncs of data slower by so much.
pub fn slowed(disk: impl Disk, added: Duration) -> impl Disk {
    WatchedDisk::new(disk, Arc::new(Slow { added }))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kew_store_log::RealDisk;

    use super::*;

    #[test]
    fn only_syncs_of_data_take_longer_and_bytes_are_there() {
        let directory = tempfile::tempdir().expect("there is room");
        let real = RealDisk::open(directory.path()).expect("it is ours");
        let disk = slowed(real, Duration::from_millis(30));
        let file = disk.create("file").expect("the name is free");
        file.write_at(0, b"bytes").expect("there is room");
        let begun = Instant::now();
        file.sync_data().expect("it syncs");
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let mut read = [0; 5];
        assert_eq!(disk.open("file").and_then(|file| file.read_at(0, &mut read)).ok(), Some(5));
        assert_eq!(&read, b"bytes");
    }
}
