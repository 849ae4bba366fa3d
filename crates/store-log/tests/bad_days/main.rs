//! Bad days: every byte flipped, a full disk, a clock that steps back, a store of another time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod copied;
mod flips;
mod format;
mod full_disk;
#[path = "../small_store/mod.rs"]
mod small_store;
