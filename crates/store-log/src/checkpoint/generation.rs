//! Generation files: what a checkpoint wrote of the store's slices, one file for each checkpoint, read and verified
//! here.

use std::sync::Arc;

use bytes::Bytes;

use super::identity::check_envelope;
use super::slices::{SLICE_HEADER_BYTES, SliceRef};
use crate::disk::{CHECKPOINTS_FOLDER, Disk, DiskFile, read_exact_at};
use crate::error::{Doing, LogError, missing};
use crate::journal::{FORMAT_VERSION, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"KewChkpt";
/// Bytes before the first slice.
pub(super) const FILE_HEADER_BYTES: usize = 24;

pub(crate) fn generation_name(generation: u64) -> String {
    format!("{CHECKPOINTS_FOLDER}/{generation:016x}.ckp")
}

/// The first bytes of a generation's file.
pub(super) fn file_header(generation: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&generation.to_le_bytes());
    let sum = crc32c::crc32c(&header[12..]);
    header[8..12].copy_from_slice(&sum.to_le_bytes());
    header
}

/// An open generation file.
pub(crate) struct GenerationFile {
    pub generation: u64,
    pub bytes: u64,
    name: String,
    file: Arc<dyn DiskFile>,
}

impl GenerationFile {
    pub fn open(disk: &dyn Disk, generation: u64) -> Result<Self, LogError> {
        let name = generation_name(generation);
        let file = disk.open(&name).map_err(|error| missing(&name, &error))?;
        let bytes = file.len().doing("measuring", &name)?;
        if bytes < FILE_HEADER_BYTES as u64 {
            return Err(LogError::damage(name, bytes, "the file ends within its header"));
        }
        let header = read_exact_at(&*file, 0, FILE_HEADER_BYTES).doing("reading", &name)?;
        check_envelope(&header, MAGIC, &name)?;
        if u64_at(&header, 16) != generation {
            return Err(LogError::damage(name, 16, "the generation in the header"));
        }
        Ok(Self { generation, bytes, name, file })
    }
}

/// Reads and verifies the slice that the manifest says is there.
pub(crate) fn read_slice(file: &GenerationFile, key: u64, slice: &SliceRef) -> Result<Bytes, LogError> {
    let damage = |what: &str| LogError::damage(&file.name, slice.offset, format!("{what} of slice {key:#x}"));
    if slice.end() > file.bytes {
        return Err(damage("the length"));
    }
    let bytes =
        read_exact_at(&*file.file, slice.offset, slice.file_bytes() as usize).doing("reading", &file.name)?;
    let (header, body) = bytes.split_at(SLICE_HEADER_BYTES as usize);
    if u32_at(header, 4) != slice.bytes || u64_at(header, 8) != key {
        return Err(damage("the header"));
    }
    if slice_sum(file.generation, header, body) != u32_at(header, 0) {
        return Err(damage("the checksum"));
    }
    Ok(Bytes::from(bytes).slice(SLICE_HEADER_BYTES as usize..))
}

/// The checksum of a slice covers its header behind the checksum, its bytes, and the file it belongs to.
pub(super) fn slice_sum(generation: u64, header: &[u8], bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&generation.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &header[4..]), bytes)
}
