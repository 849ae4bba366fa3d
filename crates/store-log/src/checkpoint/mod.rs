//! What a store says durably of itself: its identity, what must exist, and the newest checkpoint.
//!
//! Decides which checkpoint counts and where replay starts from. A checkpoint is slices of bytes under keys; what a
//! slice holds it does not know, nor that there are queues. First to read: `manifest.rs`, then `writer.rs`.

mod expected;
mod generation;
mod identity;
mod manifest;
pub(crate) mod room;
mod slices;
mod writer;

pub(crate) use expected::{Expected, Expecting, Slot, store_file};
pub use generation::Generation;
pub(crate) use generation::{GenerationFile, read_slice};
pub use identity::{Identity, STORE_VERSION};
pub(crate) use identity::{Named, STORE_MAGIC, envelope_version, identity_bytes};
pub use manifest::{Manifest, ManifestFields, Sidecar};
pub use slices::SliceRef;
pub use writer::{CheckpointWriter, SealedCheckpoint};
