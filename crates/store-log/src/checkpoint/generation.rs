//! Generation files: what a checkpoint wrote of the store's slices, one file for each checkpoint, read and verified
//! here.

use std::sync::Arc;

use bytes::Bytes;

use super::identity::check_envelope;
use super::slices::{SLICE_HEADER_BYTES, SliceRef};
use crate::disk::{CHECKPOINTS_FOLDER, Disk, DiskFile, read_exact_at};
use crate::error::{Doing, LogError, missing};
use crate::fields::{BadField, Fields, number_codec};
use crate::journal::{FORMAT_VERSION, parse_name};

const MAGIC: [u8; 8] = *b"KewChkpt";
/// Bytes before the first slice.
pub(super) const FILE_HEADER_BYTES: usize = 24;

/// Number of a checkpoint, and of the file that holds the slices it wrote. A newer checkpoint has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

number_codec!(Generation);

impl Generation {
    /// The name of its file.
    pub(crate) fn name(self) -> String {
        format!("{CHECKPOINTS_FOLDER}/{:016x}.ckp", self.0)
    }

    /// The generation whose file has this name in its folder.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (number, ending) = parse_name(name)?;
        (ending == "ckp").then_some(Self(number))
    }
}

/// The first bytes of a generation's file.
pub(super) fn file_header(generation: Generation) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&generation.0.to_le_bytes());
    let sum = crc32c::crc32c(&header[12..]);
    header[8..12].copy_from_slice(&sum.to_le_bytes());
    header
}

/// An open generation file.
pub(crate) struct GenerationFile {
    pub generation: Generation,
    pub bytes: u64,
    name: String,
    file: Arc<dyn DiskFile>,
}

impl GenerationFile {
    pub fn open(disk: &dyn Disk, generation: Generation) -> Result<Self, LogError> {
        let name = generation.name();
        let file = disk.open(&name).map_err(|error| missing(&name, &error))?;
        let bytes = file.len().doing("measuring", &name)?;
        if bytes < FILE_HEADER_BYTES as u64 {
            return Err(LogError::damage(name, bytes, "the file ends within its header"));
        }
        let header = read_exact_at(&*file, 0, FILE_HEADER_BYTES).doing("reading", &name)?;
        check_envelope(&header, MAGIC, &name)?;
        let mut fields = Fields::of("the header", &header, 16);
        let bad = fields.bad("the generation");
        if fields.get("the generation") != Ok(generation) {
            return Err(bad.damage(&name, 0));
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
    let bad = |bad: BadField| bad.damage(&file.name, slice.offset);
    let mut fields = Fields::of("the header of the slice", header, 0);
    let sum: u32 = fields.get("the checksum").map_err(bad)?;
    let (bytes_there, key_there): (u32, u64) =
        (fields.get("the length").map_err(bad)?, fields.get("the key").map_err(bad)?);
    if (bytes_there, key_there) != (slice.bytes, key) {
        return Err(damage("the header"));
    }
    if slice_sum(file.generation, header, body) != sum {
        return Err(damage("the checksum"));
    }
    Ok(Bytes::from(bytes).slice(SLICE_HEADER_BYTES as usize..))
}

/// The checksum of a slice covers its header behind the checksum, its bytes, and the file it belongs to.
pub(super) fn slice_sum(generation: Generation, header: &[u8], bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&generation.0.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &header[4..]), bytes)
}
