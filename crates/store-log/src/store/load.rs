//! Reading a checkpoint into an empty ledger.

use bytes::Bytes;
use hashbrown::HashMap;
use kew_core::QueueId;
use kew_store::ledger::{IdsRead, Ledger};

use super::ids_aside::IdsAside;
use super::shelf::LogShelf;
use crate::checkpoint::Manifest;
use crate::disk::{CHECKPOINTS_FOLDER, Disk};
use crate::error::LogError;
use crate::journal::Address;

/// How far each queue's slice of the checkpoint reaches: records below are in it.
pub(crate) type Reaches = HashMap<QueueId, Address>;

/// Reads all slices of a checkpoint, and the deduplication ids that were put away. Every byte was verified when this
/// returns.
pub(super) fn checkpoint(
    disk: &dyn Disk,
    manifest: &Manifest,
    ledger: &mut Ledger<LogShelf>,
    reaches: &mut Reaches,
    ids: &mut IdsAside,
) -> Result<(), LogError> {
    ids.make_room(bytes_of_ids(manifest));
    // The ids come first: another thread remembers them while this one reads the queues.
    for sidecar in &manifest.fields.sidecars {
        let (start, bytes) = ledger.shelf.put_away.open(sidecar)?;
        ids.add_put_away(start, sidecar, bytes)?;
    }
    manifest.read_slices(disk, IdsRead::has_key, |key, _reflects, bytes| ids.add_slice(key, bytes))?;
    let is_of_queue = |key| !IdsRead::has_key(key);
    manifest.read_slices(disk, is_of_queue, |key, _reflects, bytes| {
        slice(ledger, reaches, key, &bytes).ok_or_else(|| damage(key))
    })?;
    ids.settle()
}

/// Bytes of all slices of deduplication ids.
pub(crate) fn bytes_of_ids(manifest: &Manifest) -> usize {
    let slices = manifest.slices().filter(|(key, _)| IdsRead::has_key(*key));
    slices.map(|(_, slice)| slice.bytes as usize).sum()
}

/// What is said of a slice whose bytes are not one.
pub(super) fn damage(key: u64) -> LogError {
    LogError::damage(CHECKPOINTS_FOLDER, 0, format!("the slice of key {key:#x} is not one"))
}

/// Reads the slice of a queue, or of what belongs to no queue, into the ledger; `None` when the bytes are not one.
pub(crate) fn slice(
    ledger: &mut Ledger<LogShelf>,
    reaches: &mut Reaches,
    key: u64,
    bytes: &Bytes,
) -> Option<()> {
    let (reach, slice) = bytes.split_first_chunk::<8>()?;
    reaches.insert(QueueId(key), Address(u64::from_le_bytes(*reach)));
    ledger.load_slice(key, &bytes.slice_ref(slice))
}

/// Reads the slice of a generation of deduplication ids; `None` when the bytes are not one.
pub(crate) fn ids_slice(ids: &mut IdsRead, bytes: &[u8]) -> Option<()> {
    let (_reach, slice) = bytes.split_first_chunk::<8>()?;
    ids.read(slice)
}
