//! Containers and encodings that know no message and no law: what the ledger is built of.
//!
//! Most share their memory with an image, so that a checkpoint can be written while the ledger goes on.

pub(super) mod keyed;
pub(super) mod last_found;
pub(super) mod near;
pub(super) mod ordered;
pub(super) mod parted;
pub(super) mod parts;
pub(super) mod pieces;
pub(super) mod regions;
pub(super) mod row;
pub(super) mod sink;
pub(super) mod slab;
pub mod varint;
