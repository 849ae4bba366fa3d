//! The laws of files on a directory and on the simulated disk. Those on PostgreSQL run in `crates/log-pg/tests`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod laws;

use std::sync::Arc;

use kew_store_log::{Disk, RealDisk, SimDisk};
use laws::Place;
use tempfile::TempDir;

impl Place for TempDir {
    fn open(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::open(self.path()).unwrap())
    }
}

impl Place for SimDisk {
    fn open(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }
}

mod directory {
    crate::laws::disk_law_tests!(tempfile::tempdir().unwrap());
}

mod simulated {
    crate::laws::disk_law_tests!(kew_store_log::SimDisk::new());
}
