//! Upkeep on bad days: what fails is told and tried again, and nothing stops because of one record or one file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod descriptors;
mod failures;
#[path = "../refusing/mod.rs"]
mod refusing;
mod scrub;
#[path = "../small/mod.rs"]
mod small;
