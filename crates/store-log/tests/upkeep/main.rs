//! Upkeep on bad days: what fails is reported and tried again, and nothing stops because of one record or one file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod descriptors;
mod failures;
#[path = "../open_files/mod.rs"]
mod open_files;
#[path = "../refusing_disk/mod.rs"]
mod refusing_disk;
mod scrub;
#[path = "../small_store/mod.rs"]
mod small_store;
