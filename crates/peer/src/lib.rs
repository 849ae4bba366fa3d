//! What the nodes of one fleet say to each other.
//!
//! Each shard of a store is owned by one node. A node that is asked about a queue of another node's shard carries the
//! engine's command to the owner and gets the answer back. [`wire`] is how a command, an answer and a refusal are
//! written as bytes. [`link`] carries those bytes: one connection to each other node. First to read: `wire/mod.rs`,
//! then `link/mod.rs`.

pub mod link;
pub mod wire;

pub use wire::{PROTOCOL, Refusal, Reply, Request, Response, WireError};
