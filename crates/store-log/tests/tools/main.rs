//! The tools for people who keep a store: check, backup, export and import, figures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod carried;
mod check;
mod missing;
#[path = "../open_files/mod.rs"]
mod open_files;
mod rescue;
#[path = "../small_store/mod.rs"]
mod small_store;
mod transfer;

use std::sync::Arc;

use kew_store_log::{SimDisk, stats};

#[test]
fn figures_count_what_a_store_holds() {
    let asked = small_store::a_bit_of_everything(Arc::new(SimDisk::new()));
    let found = stats(&asked.store);
    assert_eq!(found.queues, 4);
    // One oldest, ten old, three new; six in a row; one dead.
    assert_eq!((found.messages.visible, found.messages.delayed, found.messages.in_flight), (21, 1, 0));
    assert!(found.journal_segments >= 2 && found.survivor_segments == 1 && found.spares > 0);
    assert!(found.log.live_bytes > 4_000 && found.log.checkpoints > 2 && found.log.copied_bytes > 0);
    assert_eq!(found.messages.oldest_sent_at, Some(small_store::START));
}
