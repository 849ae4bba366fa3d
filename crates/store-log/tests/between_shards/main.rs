//! Messages that move between two shards, each a store on a disk of its own: every one arrives once, whatever crashes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../small_store/mod.rs"]
mod small_store;

mod history;
mod laws;
mod pair;
mod whole;
