//! Room for a checkpoint on a full disk: spare segments are given up for it, but never for nothing.
//!
//! A spare that is given up is missed by deletes, so it goes only when the checkpoint then surely fits and frees a
//! segment in its place. The caller writes the checkpoint at once: whatever is left free for longer is soon a spare again.

use crate::checkpoint::CheckpointWriter;
use crate::disk::Disk;
use crate::error::LogError;
use crate::manifest::Manifest;
use crate::segments::Segments;

/// File systems give space in blocks.
const BLOCK: u64 = 4096;
/// Bytes of a manifest, without what it lists, and of each thing that it lists.
const MANIFEST_BYTES: u64 = 256;
const LISTED_BYTES: u64 = 64;

/// Bytes of disk that a measured checkpoint takes, with a manifest that lists so many files beside its slices.
pub(crate) fn needed(measured: &CheckpointWriter, files: usize) -> u64 {
    on_disk(measured.bytes(), measured.slices() + files)
}

/// The same of one that was written: its bytes, and the manifest that refers to it.
pub(crate) fn taken(last: &Manifest, bytes: u64) -> u64 {
    on_disk(bytes, last.slices.len() + last.fields.segments.len() + last.fields.sidecars.len())
}

fn on_disk(checkpoint: u64, listed: usize) -> u64 {
    let manifest = MANIFEST_BYTES + LISTED_BYTES * listed as u64;
    checkpoint.next_multiple_of(BLOCK) + manifest.next_multiple_of(BLOCK)
}

/// Gives spares up until so many bytes are free; false, and nothing is given up, when all of them are too few.
pub(crate) fn make(disk: &dyn Disk, segments: &Segments, needed: u64) -> Result<bool, LogError> {
    let free = || disk.free_space().map_err(|error| LogError::from_io("measuring the free space", &error));
    if free()?.saturating_add(segments.spare_bytes()) < needed {
        return Ok(false);
    }
    while free()? < needed {
        if !segments.give_up_spare()? {
            return Ok(false);
        }
    }
    Ok(true)
}
