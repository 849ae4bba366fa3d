//! What a backup copies: each file with what it is read from.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::{Doing, LogError};
use crate::journal::{Address, HeldSegment, SEGMENT_HEADER_BYTES, Segment};

/// Bytes of a file that are copied, and the length of the copy: zeros follow.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    pub(super) copied: u64,
    pub(super) whole: u64,
}

/// A file that is to be copied, whatever becomes of the store meanwhile. Segments may be many, and are not kept open:
/// they keep their names. Files of checkpoints are open, since they lose theirs; there are few. What is in quarantine
/// keeps its name.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) lengths: Lengths,
}

pub(super) enum Source {
    Segment(HeldSegment),
    File(Arc<dyn DiskFile>),
    Named(Arc<dyn Disk>),
    Bytes(Vec<u8>),
}

impl Source {
    pub(super) fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>, LogError> {
        match self {
            Self::Segment(segment) => segment.read(offset, len),
            Self::File(file) => read_exact_at(&**file, offset, len).doing("reading", name),
            Self::Named(disk) => {
                let file = disk.open(name).doing("opening", name)?;
                read_exact_at(&*file, offset, len).doing("reading", name)
            }
            Self::Bytes(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                Ok(bytes[from..bytes.len().min(from.saturating_add(len))].to_vec())
            }
        }
    }
}

/// A segment up to an address.
pub(super) fn segment_until(segment: Arc<Segment>, end: Address) -> Wanted {
    let copied = segment.offset_of(end).max(SEGMENT_HEADER_BYTES);
    let lengths = Lengths { copied, whole: segment.size() };
    Wanted { name: segment.name().to_owned(), source: Source::Segment(segment.hold()), lengths }
}

/// A file of the store that does not change, open.
pub(super) fn open_file(disk: &dyn Disk, name: String) -> Result<Wanted, LogError> {
    let file = disk.open(&name).doing("opening", &name)?;
    let bytes = file.len().doing("measuring", &name)?;
    Ok(Wanted { name, source: Source::File(file), lengths: Lengths { copied: bytes, whole: bytes } })
}

/// A file with bytes of a damaged record: nothing of the store needs it, and no part of the store removes it.
pub(super) fn in_quarantine(disk: &Arc<dyn Disk>, name: &str) -> Result<Wanted, LogError> {
    let bytes = disk.open(name).and_then(|file| file.len()).doing("measuring", name)?;
    let lengths = Lengths { copied: bytes, whole: bytes };
    Ok(Wanted { name: name.to_owned(), source: Source::Named(Arc::clone(disk)), lengths })
}

/// A small file.
pub(super) fn small(name: &str, bytes: Vec<u8>) -> Wanted {
    let length = bytes.len() as u64;
    let lengths = Lengths { copied: length, whole: length };
    Wanted { name: name.to_owned(), source: Source::Bytes(bytes), lengths }
}
