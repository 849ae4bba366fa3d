//! Requests and answers of two nodes as bytes.
//!
//! A frame is one value in the form of its type, with nothing behind it. Numbers take as many bytes as they need
//! (`kew_store::ledger::varint`), texts and bodies stand behind their lengths, a choice is one byte and then its
//! fields, and fields stand in the order in which the form lists them. No name is written, so both sides must know the
//! same forms.
//!
//! `forms` has the macros that list a type's fields. They take every type apart without `..`: a field or a variant that
//! is new in `kew-core` does not compile here until it has a place. What is read comes from another process, so nothing
//! panics on it, and no length that is read reserves more memory than the frame has bytes. No type of these holds
//! itself, so the types bound how deep a frame is nested.
//!
//! # Changing a form
//!
//! `tests/protocol-N.txt` holds the bytes of every kind of request and answer. A change of any of them raises
//! [`PROTOCOL`] and gets a file of its own. What no node sends is added to the newest file: `RuleError::FirstTooLarge`
//! answers leases that are not carried. Nodes of two adjacent versions run together, so the old form is kept for
//! one version: two nodes use the lower of their numbers. Nothing here reads an older form yet: the change that raises
//! [`PROTOCOL`] first makes `decode` take the number agreed in the handshake, and lowers `oldest` in
//! `crates/kew/src/fleet/mod.rs`. That number is `Link::version`. Frames are read in `request.rs` here and in
//! `crates/kew/src/fleet/links.rs`.

#[cfg(test)]
mod any;
mod bounds;
mod commands;
mod error;
mod errors;
mod forms;
mod frame;
mod messages;
mod names;
mod outcomes;
mod plain;
mod queues;
mod request;
#[cfg(test)]
mod tests;

pub use error::{Fault, WireError};
pub use frame::{In, Out, Wire, decode, encode};
pub use request::{Refusal, Reply, Request, Response};

/// The number of the forms that this version writes and reads.
pub const PROTOCOL: u16 = 1;
