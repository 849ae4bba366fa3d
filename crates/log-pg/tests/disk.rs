//! The laws of files on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kept;
#[path = "../../store-log/tests/disk_laws/laws.rs"]
mod laws;

use std::sync::Arc;

use kew_store_log::Disk;
use laws::Place;

/// A database of its own.
struct Database(String);

impl Database {
    fn new() -> Self {
        Self(kept::server().database().unwrap())
    }
}

impl Place for Database {
    fn open(&self) -> Arc<dyn Disk> {
        let has_owners = kept::server()
            .psql(kew_log_pg::server::name_in(&self.0), "SELECT to_regclass('kew_node') IS NOT NULL")
            .unwrap();
        let take = if has_owners == "t" { kept::take_from_vanished } else { kept::take };
        Arc::new(take(&self.0).disk)
    }
}

laws::disk_law_tests!(Database::new());
