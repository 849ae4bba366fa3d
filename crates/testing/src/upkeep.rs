//! Log stores whose upkeep is driven by a test.

use std::sync::atomic::{AtomicU32, Ordering};

use kew_store::Store;
use kew_store_log::{Drive, LogOptions, LogStore, SegmentOptions};

use crate::Wrap;

/// Segments that are full after a few messages, and everything that goes with them. Nothing is done but by a call.
pub fn small_log() -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 4 << 10,
        largest_bytes: 8 << 10,
        reserve_spares: 1,
        spares_max: 3,
        open_max: 4,
    };
    LogOptions {
        segments,
        recent_bytes: 2 << 10,
        checkpoint_bytes: 512,
        slack_bytes: 0,
        drive: Drive::Manual,
        ..LogOptions::default()
    }
}

/// Wraps a store so that it does its upkeep at its first commit, and then once in a number of commits.
#[derive(Debug)]
pub struct UpkeepByCommits<S> {
    log: fn(&S) -> &LogStore,
    commits_per_upkeep: u32,
    commits: AtomicU32,
}

impl<S> UpkeepByCommits<S> {
    /// The upkeep of the log store that `log` finds in the store.
    pub fn new(commits_per_upkeep: u32, log: fn(&S) -> &LogStore) -> Self {
        Self { log, commits_per_upkeep, commits: AtomicU32::new(0) }
    }
}

impl<S: Store> Wrap<S> for UpkeepByCommits<S> {
    fn commit(&self, store: &S) -> bool {
        let waited = store.commit();
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.commits_per_upkeep) {
            (self.log)(store).keep_up().expect("the disk of the test lets upkeep succeed");
        }
        waited
    }
}
