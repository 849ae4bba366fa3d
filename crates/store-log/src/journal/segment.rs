//! One segment: a file of fixed size that holds a stretch of logical addresses.
//!
//! The first 64 bytes say which stretch. A segment's file is named after its number only once its header is
//! durable, so every `.seg` file has a whole header; anything else there is damage.

use super::frame::u32_at;
use super::numbers::{Address, BatchNumber, SegmentNumber};
use crate::disk::{BatchMark, DiskFile, Handle, Handles, SEGMENTS_FOLDER, read_exact_at};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};
use crate::planted::Planted;
use crate::turns::{Lock, may_wait_for_a_disk};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes before a segment's data.
pub const SEGMENT_HEADER_BYTES: u64 = 64;

/// Format version of every file of the log; there was none before it.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"KewSegmt";
const HEADER_BYTES: usize = SEGMENT_HEADER_BYTES as usize;
const FLAG_FRESH: u8 = 1;
/// Bytes behind the flags that mean nothing.
const UNUSED_BYTES: usize = 2;
const SIZE_MAX: u64 = 1 << 40;

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentKind {
    /// Batches of the journal.
    Journal,
    /// Records copied out of nearly dead segments.
    Survivor,
}

impl SegmentKind {
    fn to_byte(self) -> u8 {
        match self {
            Self::Journal => 1,
            Self::Survivor => 2,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Journal),
            2 => Some(Self::Survivor),
            _ => None,
        }
    }

    /// The addresses that segments of this kind may begin at.
    fn addresses(self) -> std::ops::Range<Address> {
        match self {
            Self::Journal => Address::START..Address::SURVIVORS,
            Self::Survivor => Address::SURVIVORS..Address(2 * Address::SURVIVORS.0),
        }
    }
}

impl Codec for SegmentKind {
    const BYTES: usize = 1;

    fn put(self, to: &mut impl bytes::BufMut) {
        self.to_byte().put(to);
    }

    fn get(from: &[u8]) -> Option<Self> {
        u8::get(from).and_then(Self::from_byte)
    }
}

/// A segment as a checkpoint knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its number.
    pub number: SegmentNumber,
    /// What it holds.
    pub kind: SegmentKind,
    /// Its first address.
    pub base: Address,
    /// Data bytes in use.
    pub used: u64,
}

impl SegmentUse {
    /// A segment as it is now.
    pub fn of(segment: &Segment) -> Self {
        Self { number: segment.number(), kind: segment.kind(), base: segment.base(), used: segment.used() }
    }
}

/// A segment. A handle to one pins it: it may be freed meanwhile, but its bytes stay readable and its file is then
/// unlinked instead of recycled. Its file is open while it is written, else when it is read.
pub struct Segment {
    pub(crate) header: SegmentHeader,
    handle: Handle,
    /// Data bytes in use. Written by the segment's one writer after the bytes are in the file.
    used: AtomicU64,
    /// Held during a sync, so that only one runs at a time.
    syncs: Lock<Syncs>,
    /// How many need its file under its name.
    holds: AtomicU32,
}

/// While it lives, the segment's file keeps its name, so that it can be closed and opened again: also a segment that is
/// freed. (A plain handle keeps the file of a freed segment open.)
pub(crate) struct HeldSegment(Arc<Segment>);

impl std::ops::Deref for HeldSegment {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.0
    }
}

impl Drop for HeldSegment {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the syncs of a segment's file have come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syncs {
    /// None has failed.
    Sound,
    /// One has failed: which bytes are on the disk is unknown, and no later sync proves anything.
    Failed,
}

/// What a segment's first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub number: SegmentNumber,
    pub kind: SegmentKind,
    /// True when the file held nothing but zeros when it became this segment.
    pub fresh: bool,
    pub base: Address,
    /// Number of the batch that was about to be written; all before it were synced. Survivors have none:
    /// [`BatchNumber::BEFORE_FIRST`].
    pub created_batch: BatchNumber,
    pub size: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut to = &mut bytes[..];
        MAGIC.put(&mut to);
        FORMAT_VERSION.put(&mut to);
        self.kind.put(&mut to);
        (if self.fresh { FLAG_FRESH } else { 0 }).put(&mut to);
        [0; UNUSED_BYTES].put(&mut to);
        self.number.put(&mut to);
        self.base.put(&mut to);
        self.created_batch.put(&mut to);
        self.size.put(&mut to);
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; magic, version and checksum keep their places in every version.
    pub fn decode(bytes: &[u8], file: &str) -> Result<Self, LogError> {
        let damage = |offset, what: &str| LogError::damage(file, offset, what);
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(damage(0, "no segment header"));
        }
        if crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(damage(0, "the segment header's checksum"));
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(LogError::UnsupportedVersion {
                file: file.to_owned(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        Self::fields(bytes).map_err(|bad| bad.damage(file, 0))
    }

    /// The fields between the version and the checksum.
    fn fields(bytes: &[u8]) -> Result<Self, BadField> {
        let mut fields = Fields::of("the segment header", bytes, 12);
        let kind: SegmentKind = fields.get("the kind")?;
        let fresh = fields.get::<u8>("the flags")? & FLAG_FRESH != 0;
        fields.skip(UNUSED_BYTES);
        let number = fields.get("the number")?;
        let bad_base = fields.bad("the base address");
        let base = fields.get("the base address")?;
        if !kind.addresses().contains(&base) {
            return Err(bad_base);
        }
        let created_batch = fields.get("the batch it was made for")?;
        let bad_size = fields.bad("the size");
        let size = fields.get("the size")?;
        if !(SEGMENT_HEADER_BYTES..=SIZE_MAX).contains(&size) {
            return Err(bad_size);
        }
        Ok(Self { number, kind, fresh, base, created_batch, size })
    }
}

impl Segment {
    /// A segment that was just made; its file stays open until it is [let close](Segment::let_close).
    pub(crate) fn new(header: SegmentHeader, handles: &Arc<Handles>, file: Arc<dyn DiskFile>) -> Self {
        Self::with(header, Handle::of_open(handles, segment_name(header.number), file), 0)
    }

    fn with(header: SegmentHeader, handle: Handle, used: u64) -> Self {
        Self {
            header,
            handle,
            used: AtomicU64::new(used),
            syncs: Lock::new(Syncs::Sound),
            holds: AtomicU32::new(0),
        }
    }

    /// Looks at the file of a numbered segment and checks that it is what its name says.
    pub(crate) fn open(handles: &Arc<Handles>, number: SegmentNumber) -> Result<Self, LogError> {
        let name = segment_name(number);
        let handle = Handle::of_closed(handles, name.clone());
        let file = handle.file().doing("opening", &name)?;
        let len = file.len().doing("measuring", &name)?;
        if len < SEGMENT_HEADER_BYTES {
            return Err(LogError::damage(name, len, "the file ends within the segment header"));
        }
        let bytes = read_exact_at(&*file, 0, HEADER_BYTES).doing("reading", &name)?;
        let header = SegmentHeader::decode(&bytes, &name)?;
        if header.number != number {
            return Err(LogError::damage(
                name,
                16,
                format!("the header says segment {:016x}", header.number),
            ));
        }
        if len < header.size {
            return Err(LogError::damage(
                name,
                len,
                format!("the file ends before its {} bytes", header.size),
            ));
        }
        Ok(Self::with(header, handle, header.size - SEGMENT_HEADER_BYTES))
    }

    /// Keeps its file open from now on, because it is written or its name is about to go.
    pub(crate) fn keep_open(&self) -> Result<(), LogError> {
        self.handle.keep_open().doing("opening", self.name())
    }

    /// Lets its file be closed once everything in it is synced.
    pub(crate) fn let_close(&self) {
        self.handle.let_close();
    }

    /// Keeps the file's name while the result lives.
    pub(crate) fn hold(self: Arc<Self>) -> HeldSegment {
        self.holds.fetch_add(1, Ordering::AcqRel);
        HeldSegment(self)
    }

    /// Whether somebody needs its file under its name.
    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }

    /// The segment's number: unique, growing in the order of creation.
    pub fn number(&self) -> SegmentNumber {
        self.header.number
    }

    /// What it holds.
    pub fn kind(&self) -> SegmentKind {
        self.header.kind
    }

    /// Address of its first data byte.
    pub fn base(&self) -> Address {
        self.header.base
    }

    /// Address after its last data byte in use.
    pub fn end(&self) -> Address {
        self.base() + self.used()
    }

    /// Data bytes in use; for a segment whose successor is gone and that is not in the manifest, an upper bound.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Data bytes it can hold.
    pub fn capacity(&self) -> u64 {
        self.header.size - SEGMENT_HEADER_BYTES
    }

    /// Data bytes still free.
    pub fn remaining(&self) -> u64 {
        self.capacity() - self.used()
    }

    /// Bytes of its file.
    pub fn size(&self) -> u64 {
        self.header.size
    }

    /// Number of the batch that was about to be written when it was made.
    pub fn created_batch(&self) -> BatchNumber {
        self.header.created_batch
    }

    /// The file's name within the store's directory.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// Where in the file an address lies.
    pub fn offset_of(&self, address: Address) -> u64 {
        SEGMENT_HEADER_BYTES + address.since(self.base())
    }

    /// Says how many data bytes are in use, at most what it can hold.
    pub fn set_used(&self, used: u64) {
        self.used.store(used.min(self.capacity()), Ordering::Release);
    }

    /// Writes behind the bytes in use and counts them.
    pub(crate) fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.append_by(bytes, |handle, offset| handle.write_at(offset, bytes))
    }

    /// Writes a batch behind the bytes in use, or hands it over, and counts them.
    pub(crate) fn append_batch(&self, bytes: &[u8], batch: BatchMark) -> std::io::Result<()> {
        self.append_by(bytes, |handle, offset| handle.append(offset, bytes, batch))
    }

    fn append_by(
        &self,
        bytes: &[u8],
        write: impl FnOnce(&Handle, u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let used = self.used();
        assert!(bytes.len() as u64 <= self.capacity() - used, "the caller has checked that it fits");
        write(&self.handle, SEGMENT_HEADER_BYTES + used)?;
        self.used.store(used + bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    /// Drops what the file holds from an offset on. False where that is done by overwriting it.
    pub(crate) fn cut(&self, from: u64) -> Result<bool, LogError> {
        let file = self.handle.file().doing("opening", self.name())?;
        file.cut(from).doing("cutting", self.name())
    }

    /// Overwrites at an offset of the file.
    pub(crate) fn overwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.handle.write_at(offset, bytes).doing("writing", self.name())
    }

    /// Makes the bytes written before this call durable. One sync runs at a time, and after one that failed all others
    /// fail: the system tells an error of writing back to a single caller, and drops the bytes that it could not write.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        if Planted::ErrorReportedOnce.is_there() {
            return self.handle.sync_data();
        }
        let mut syncs = self.syncs.lock();
        if *syncs == Syncs::Failed {
            return Err(std::io::Error::other("an earlier sync of this file failed"));
        }
        let synced = self.handle.sync_data();
        if synced.is_err() {
            *syncs = Syncs::Failed;
        }
        synced
    }

    /// Reads exactly these bytes of the file; bytes it does not have are damage.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, LogError> {
        may_wait_for_a_disk();
        let file = self.handle.file().doing("opening", self.name())?;
        read_exact_at(&*file, offset, len).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                LogError::damage(self.name(), offset, "the file ends too early")
            }
            _ => LogError::from_io(format!("reading {} at offset {offset}", self.name()), &error),
        })
    }

    /// Reads up to `len` bytes of the file; fewer where it ends.
    pub(crate) fn read_up_to(&self, offset: u64, len: usize) -> Result<Vec<u8>, LogError> {
        may_wait_for_a_disk();
        let mut bytes = vec![0; len];
        let file = self.handle.file().doing("opening", self.name())?;
        let read = file.read_at(offset, &mut bytes).doing("reading", self.name())?;
        bytes.truncate(read);
        Ok(bytes)
    }

    pub(crate) fn into_file(self) -> Result<Arc<dyn DiskFile>, LogError> {
        self.handle.file().doing("opening", self.name())
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("header", &self.header).field("used", &self.used()).finish()
    }
}

pub(crate) fn segment_name(number: SegmentNumber) -> String {
    format!("{SEGMENTS_FOLDER}/{number:016x}.seg")
}

/// Splits the name of a numbered file into number and ending, when it is one of ours. What is numbered the ending
/// says: segments, spare files, generations of checkpoints.
pub(crate) fn parse_name(name: &str) -> Option<(u64, &str)> {
    let (digits, ending) = name.split_once('.')?;
    let ours = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    ours.then(|| u64::from_str_radix(digits, 16).ok()).flatten().map(|number| (number, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        number: SegmentNumber(9),
        kind: SegmentKind::Journal,
        fresh: true,
        base: Address(77),
        created_batch: BatchNumber(3),
        size: 65536,
    };

    #[test]
    fn a_header_comes_back_and_any_flipped_bit_is_refused() {
        let good = HEADER.encode();
        assert_eq!(SegmentHeader::decode(&good, "x").unwrap(), HEADER);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good;
                bad[at] ^= 1 << bit;
                assert!(
                    matches!(SegmentHeader::decode(&bad, "x"), Err(LogError::Damage { .. })),
                    "byte {at}"
                );
            }
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = HEADER.encode();
        bytes[8] = 2;
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        let error = SegmentHeader::decode(&bytes, "segments/x.seg").unwrap_err();
        assert!(matches!(error, LogError::UnsupportedVersion { found: 2, supported: 1, .. }));
        assert!(error.to_string().contains("newer program"));
    }

    #[test]
    fn only_our_own_file_names_are_read() {
        assert_eq!(parse_name("000000000000000a.seg"), Some((10, "seg")));
        for name in ["a.seg", "000000000000000A.seg", "+00000000000000a.seg", "000000000000000a", "x"] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
