//! The manifest: one small file, replaced in one step, that says what the store consists of.
//!
//! It names every checkpoint slice with the file it lies in, where replay starts, the segments, and files of the
//! caller's own. What it does not name does not count, whatever lies in the directory.

use super::generation::{GenerationFile, generation_name, read_slice};
use super::identity::check_envelope;
use super::slices::{SliceRef, Slices};
use crate::disk::{CHECKPOINTS_FOLDER, Disk, MANIFEST_FILE, read_whole, remove_if_there, replace_whole};
use crate::error::{Doing, LogError, missing};
use crate::journal::{
    Address, FORMAT_VERSION, KnownSegments, NUMBER_MAX, ReplayStart, SegmentKind, SegmentUse, parse_name,
    u32_at, u64_at,
};
use crate::planted::Planted;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const MAGIC: [u8; 8] = *b"KewManif";
const FILE_MAX: u64 = 4 << 30;

/// What a durable checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub(crate) generation: u64,
    pub(crate) slices: Slices,
    /// What the caller said when it was installed.
    pub fields: ManifestFields,
}

/// The caller's part of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFields {
    /// The first batch that is not reflected everywhere.
    pub replay: ReplayStart,
    /// The newest batch known synced.
    pub durable_through: u64,
    /// The segments that are needed.
    pub segments: Vec<SegmentUse>,
    /// The number the next segment gets at least ([`crate::Segments::next_number`]).
    pub next_segment: u64,
    /// Where the next survivor segment starts at least ([`crate::Segments::survivor_end`]).
    pub survivor_end: Address,
    /// Files of the caller's own that belong to this checkpoint.
    pub sidecars: Vec<Sidecar>,
    /// Anything else of the caller's.
    pub meta: Bytes,
}

/// A named file that belongs to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its name within the store's directory, at most 255 bytes.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC32C of its contents.
    pub sum: u32,
}

impl ManifestFields {
    /// What it says of segments.
    pub fn known_segments(&self) -> KnownSegments<'_> {
        let Self { replay, next_segment, survivor_end, .. } = *self;
        KnownSegments { segments: &self.segments, replay, next_segment, survivor_end }
    }
}

impl Manifest {
    /// Reads the manifest and checks that every file it names is there, is what it should be, and is long enough.
    /// `None` when there is none: the store has had no checkpoint yet. Slices are verified when they are read.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        let file = match disk.open(MANIFEST_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.doing("opening", MANIFEST_FILE)?,
        };
        let bytes = match read_whole(&*file, FILE_MAX) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(LogError::damage(MANIFEST_FILE, 0, error.to_string()));
            }
            bytes => bytes.doing("reading", MANIFEST_FILE)?,
        };
        let manifest = Self::decode(&bytes)?;
        manifest.check_files(disk)?;
        Ok(Some(manifest))
    }

    /// The checkpoint's generation; each newer one has a greater number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All slices by key.
    pub fn slices(&self) -> impl Iterator<Item = (u64, SliceRef)> + '_ {
        self.slices.iter()
    }

    /// One slice's place.
    pub fn slice(&self, key: u64) -> Option<SliceRef> {
        self.slices.get(key)
    }

    /// Reads and verifies one slice.
    pub fn read_slice(&self, disk: &dyn Disk, key: u64) -> Result<Option<(u64, Bytes)>, LogError> {
        let Some(slice) = self.slice(key) else { return Ok(None) };
        let file = GenerationFile::open(disk, slice.generation)?;
        let bytes = read_slice(&file, key, &slice)?;
        Ok(Some((slice.reflects, bytes)))
    }

    /// Reads and verifies all slices, file by file in the order they lie there: key, reflects, bytes.
    pub fn read_slices(
        &self,
        disk: &dyn Disk,
        mut visit: impl FnMut(u64, u64, Bytes) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let mut order: Vec<_> = self.slices().collect();
        order.sort_unstable_by_key(|(_, slice)| (slice.generation, slice.offset));
        let mut open: Option<GenerationFile> = None;
        for (key, slice) in order {
            let file = match open.take().filter(|file| file.generation == slice.generation) {
                Some(file) => file,
                None => GenerationFile::open(disk, slice.generation)?,
            };
            visit(key, slice.reflects, read_slice(&file, key, &slice)?)?;
            open = Some(file);
        }
        Ok(())
    }

    /// Names of all checkpoint files it needs, for a backup.
    pub fn files(&self) -> Vec<String> {
        self.generations().into_iter().map(generation_name).collect()
    }

    /// Removes checkpoint files that it does not need. Call only for the manifest that was loaded at start, or after
    /// [`crate::SealedCheckpoint::install`] returned it.
    pub fn sweep(&self, disk: &dyn Disk) -> Result<(), LogError> {
        // A manifest loaded at start may have been renamed but never synced by a process that died: without this, a
        // power cut could bring back the old one after its files are gone.
        if !Planted::SweepBeforeFolderSync.is_there() {
            disk.sync_dir("").doing("syncing", "the store's directory")?;
        }
        let needed = self.generations();
        for name in disk.list(CHECKPOINTS_FOLDER).doing("listing", CHECKPOINTS_FOLDER)? {
            if let Some((generation, "ckp")) = parse_name(&name)
                && !needed.contains(&generation)
            {
                let name = generation_name(generation);
                remove_if_there(disk, &name).doing("removing", &name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn install(&self, disk: &dyn Disk) -> Result<(), LogError> {
        replace_whole(disk, MANIFEST_FILE, &self.encode()).doing("writing", MANIFEST_FILE)
    }

    fn generations(&self) -> BTreeSet<u64> {
        self.slices.refs().map(|slice| slice.generation).collect()
    }

    fn check_files(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for slice in self.slices.refs() {
            let end = ends.entry(slice.generation).or_default();
            *end = slice.end().max(*end);
        }
        for (generation, end) in ends {
            let file = GenerationFile::open(disk, generation)?;
            if file.bytes < end {
                let what = format!("the file ends before the {end} bytes that the manifest names");
                return Err(LogError::damage(generation_name(generation), file.bytes, what));
            }
        }
        for sidecar in &self.fields.sidecars {
            let file = disk.open(&sidecar.name).map_err(|error| missing(&sidecar.name, &error))?;
            let len = file.len().doing("measuring", &sidecar.name)?;
            if len < sidecar.bytes {
                let what =
                    format!("the file ends before the {} bytes that the manifest names", sidecar.bytes);
                return Err(LogError::damage(&sidecar.name, len, what));
            }
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let fields = &self.fields;
        let mut bytes = Vec::with_capacity(128 + self.slices.len() * 40 + fields.meta.len());
        bytes.extend_from_slice(&MAGIC);
        put_u32(&mut bytes, 0);
        put_u32(&mut bytes, FORMAT_VERSION);
        for number in [
            self.generation,
            fields.replay.address,
            fields.replay.batch,
            fields.durable_through,
            fields.next_segment,
            fields.survivor_end,
        ] {
            put_u64(&mut bytes, number);
        }
        for count in [self.slices.len(), fields.segments.len(), fields.sidecars.len(), fields.meta.len()] {
            put_u64(&mut bytes, count as u64);
        }
        for (key, slice) in self.slices.iter() {
            for number in [key, slice.generation, slice.offset, u64::from(slice.bytes), slice.reflects] {
                put_u64(&mut bytes, number);
            }
        }
        for segment in &fields.segments {
            let kind = u64::from(segment.kind.to_byte());
            for number in [segment.number, kind, segment.base, segment.used] {
                put_u64(&mut bytes, number);
            }
        }
        for sidecar in &fields.sidecars {
            assert!(sidecar.name.len() <= 255, "names of sidecars are short");
            bytes.push(sidecar.name.len() as u8);
            bytes.extend_from_slice(sidecar.name.as_bytes());
            put_u64(&mut bytes, sidecar.bytes);
            put_u32(&mut bytes, sidecar.sum);
        }
        bytes.extend_from_slice(&fields.meta);
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        check_envelope(bytes, MAGIC, MANIFEST_FILE)?;
        let mut from = Cursor { bytes, at: 16 };
        let generation = from.number()?;
        let replay = ReplayStart { address: from.u64()?, batch: from.number()? };
        let (durable_through, next_segment, survivor_end) = (from.number()?, from.number()?, from.number()?);
        let (slices_len, segments_len, sidecars_len, meta_len) =
            (from.u64()?, from.u64()?, from.u64()?, from.u64()?);

        // Nothing is reserved by a count from the file: a false one ends with the bytes.
        let mut slices = Vec::new();
        for _ in 0..slices_len {
            let key = from.u64()?;
            let (generation, offset) = (from.number()?, from.number()?);
            let at = from.at as u64;
            let bytes = u32::try_from(from.u64()?)
                .map_err(|_| LogError::damage(MANIFEST_FILE, at, "the length of a slice"))?;
            let reflects = from.number()?;
            slices.push((key, SliceRef { generation, offset, bytes, reflects }));
        }
        let mut segments = Vec::new();
        for _ in 0..segments_len {
            let (number, at) = (from.number()?, from.at as u64);
            let kind = u8::try_from(from.u64()?).ok().and_then(SegmentKind::from_byte);
            let kind = kind.ok_or_else(|| LogError::damage(MANIFEST_FILE, at, "the kind of a segment"))?;
            segments.push(SegmentUse { number, kind, base: from.number()?, used: from.number()? });
        }
        let mut sidecars = Vec::new();
        for _ in 0..sidecars_len {
            let at = from.at as u64;
            let len = usize::from(from.take(1)?[0]);
            let name = String::from_utf8(from.take(len)?.to_vec())
                .map_err(|_| LogError::damage(MANIFEST_FILE, at, "the name of a sidecar"))?;
            let bytes = from.number()?;
            sidecars.push(Sidecar { name, bytes, sum: u32_at(from.take(4)?, 0) });
        }
        let rest = &bytes[from.at..];
        if rest.len() as u64 != meta_len {
            return Err(LogError::damage(MANIFEST_FILE, from.at as u64, "the length of the rest"));
        }
        let meta = Bytes::copy_from_slice(rest);
        let fields =
            ManifestFields { replay, durable_through, segments, next_segment, survivor_end, sidecars, meta };
        Ok(Self { generation, slices: Slices::of(slices), fields })
    }
}

/// Reads numbers one after the other; the end of the bytes is damage.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], LogError> {
        let taken = self.bytes.get(self.at..self.at.saturating_add(len));
        let taken = taken.ok_or_else(|| LogError::damage(MANIFEST_FILE, self.at as u64, "ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    fn u64(&mut self) -> Result<u64, LogError> {
        Ok(u64_at(self.take(8)?, 0))
    }

    /// A number that arithmetic may be done with.
    fn number(&mut self) -> Result<u64, LogError> {
        let at = self.at as u64;
        let number = self.u64()?;
        if number <= NUMBER_MAX {
            Ok(number)
        } else {
            Err(LogError::damage(MANIFEST_FILE, at, "a number beyond all sense"))
        }
    }
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}
