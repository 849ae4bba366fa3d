//! How much space of the disk the next checkpoint takes: so much room is kept for it.

use super::manifest::Manifest;
use super::writer::CheckpointWriter;

/// File systems give space in blocks.
const BLOCK: u64 = 4096;
/// Bytes of a manifest, without what it lists, and of each thing that it lists.
const MANIFEST_BYTES: u64 = 256;
const LISTED_BYTES: u64 = 64;

/// Bytes of disk that a measured checkpoint takes, with a manifest that lists `files` files beside its slices.
pub(crate) fn needed(measured: &CheckpointWriter, files: usize) -> u64 {
    on_disk(measured.bytes(), measured.slices() + files)
}

/// The same of the one that counts, if all of it had to be written again; of a small one when there is none.
pub(crate) fn taken(last: Option<&Manifest>) -> u64 {
    let Some(last) = last else { return on_disk(1, 0) };
    let listed = last.slices.len() + last.fields.segments.len() + last.fields.sidecars.len();
    on_disk(last.slices.refs().map(|slice| slice.file_bytes()).sum(), listed)
}

fn on_disk(checkpoint: u64, listed: usize) -> u64 {
    let manifest = MANIFEST_BYTES + LISTED_BYTES * listed as u64;
    checkpoint.next_multiple_of(BLOCK) + manifest.next_multiple_of(BLOCK)
}
