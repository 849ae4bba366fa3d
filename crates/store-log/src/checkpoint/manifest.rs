//! The manifest: one small file, replaced in one step, that says what the store consists of.
//!
//! It names every checkpoint slice with the file it lies in, where replay starts, the segments, and files of the
//! caller's own. What it does not name does not count, whatever lies in the directory.

use super::generation::{Generation, GenerationFile, read_slice};
use super::identity::check_envelope;
use super::slices::{SliceRef, Slices};
use crate::disk::{CHECKPOINTS_FOLDER, Disk, MANIFEST_FILE, read_whole, remove_if_there, replace_whole};
use crate::error::{Doing, LogError, missing};
use crate::fields::{BadField, Codec, Fields};
use crate::journal::{
    Address, BatchNumber, FORMAT_VERSION, KnownSegments, ReplayStart, SegmentKind, SegmentNumber, SegmentUse,
};
use crate::planted::Planted;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const MAGIC: [u8; 8] = *b"KewManif";
const FILE_MAX: u64 = 4 << 30;
/// A segment's kind takes eight bytes here: one that says it, and these.
const KIND_PADDING: [u8; 7] = [0; 7];

/// What a durable checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub(crate) generation: Generation,
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
    pub durable_through: BatchNumber,
    /// The segments that are needed.
    pub segments: Vec<SegmentUse>,
    /// The number the next segment gets at least ([`crate::Segments::next_number`]).
    pub next_segment: SegmentNumber,
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
    pub fn generation(&self) -> Generation {
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
    pub fn read_slice(&self, disk: &dyn Disk, key: u64) -> Result<Option<(BatchNumber, Bytes)>, LogError> {
        let Some(slice) = self.slice(key) else { return Ok(None) };
        let file = GenerationFile::open(disk, slice.generation)?;
        let bytes = read_slice(&file, key, &slice)?;
        Ok(Some((slice.reflects, bytes)))
    }

    /// Reads and verifies the slices whose keys are wanted, file by file in the order they lie there: key, reflects,
    /// bytes.
    pub fn read_slices(
        &self,
        disk: &dyn Disk,
        is_wanted: impl Fn(u64) -> bool,
        mut visit: impl FnMut(u64, BatchNumber, Bytes) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let mut order: Vec<_> = self.slices().filter(|(key, _)| is_wanted(*key)).collect();
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
        self.generations().into_iter().map(Generation::name).collect()
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
            if let Some(generation) = Generation::of_name(&name)
                && !needed.contains(&generation)
            {
                let name = generation.name();
                remove_if_there(disk, &name).doing("removing", &name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn install(&self, disk: &dyn Disk) -> Result<(), LogError> {
        replace_whole(disk, MANIFEST_FILE, &self.encode()).doing("writing", MANIFEST_FILE)
    }

    fn generations(&self) -> BTreeSet<Generation> {
        self.slices.refs().map(|slice| slice.generation).collect()
    }

    fn check_files(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let mut ends: BTreeMap<Generation, u64> = BTreeMap::new();
        for slice in self.slices.refs() {
            let end = ends.entry(slice.generation).or_default();
            *end = slice.end().max(*end);
        }
        for (generation, end) in ends {
            let file = GenerationFile::open(disk, generation)?;
            if file.bytes < end {
                let what = format!("the file ends before the {end} bytes that the manifest names");
                return Err(LogError::damage(generation.name(), file.bytes, what));
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
        MAGIC.put(&mut bytes);
        0_u32.put(&mut bytes);
        FORMAT_VERSION.put(&mut bytes);
        self.generation.put(&mut bytes);
        fields.replay.address.put(&mut bytes);
        fields.replay.batch.put(&mut bytes);
        fields.durable_through.put(&mut bytes);
        fields.next_segment.put(&mut bytes);
        fields.survivor_end.put(&mut bytes);
        for count in [self.slices.len(), fields.segments.len(), fields.sidecars.len(), fields.meta.len()] {
            (count as u64).put(&mut bytes);
        }
        self.slices.iter().for_each(|(key, slice)| put_slice(key, &slice, &mut bytes));
        fields.segments.iter().for_each(|segment| put_segment(segment, &mut bytes));
        fields.sidecars.iter().for_each(|sidecar| put_sidecar(sidecar, &mut bytes));
        bytes.extend_from_slice(&fields.meta);
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        check_envelope(bytes, MAGIC, MANIFEST_FILE)?;
        Self::get(bytes).map_err(|bad| bad.damage(MANIFEST_FILE, 0))
    }

    fn get(bytes: &[u8]) -> Result<Self, BadField> {
        let mut from = Fields::of("the manifest", bytes, 16);
        let generation = from.get("the generation")?;
        let replay =
            ReplayStart { address: from.get("the replay address")?, batch: from.get("the replay batch")? };
        let durable_through = from.get("the durable batch")?;
        let next_segment = from.get("the next segment")?;
        let survivor_end = from.get("the end of the survivors")?;
        let slices_len: u64 = from.get("the number of slices")?;
        let segments_len: u64 = from.get("the number of segments")?;
        let sidecars_len: u64 = from.get("the number of sidecars")?;
        let meta_len: u64 = from.get("the length of the rest")?;
        // Nothing is reserved by a count from the file: a false one ends with the bytes.
        let slices = (0..slices_len).map(|_| get_slice(&mut from)).collect::<Result<_, _>>()?;
        let segments = (0..segments_len).map(|_| get_segment(&mut from)).collect::<Result<_, _>>()?;
        let sidecars = (0..sidecars_len).map(|_| get_sidecar(&mut from)).collect::<Result<_, _>>()?;
        if from.rest().len() as u64 != meta_len {
            return Err(from.bad("the rest"));
        }
        let meta = Bytes::copy_from_slice(from.rest());
        let fields =
            ManifestFields { replay, durable_through, segments, next_segment, survivor_end, sidecars, meta };
        Ok(Self { generation, slices: Slices::of(slices), fields })
    }
}

fn put_slice(key: u64, slice: &SliceRef, to: &mut Vec<u8>) {
    key.put(to);
    slice.generation.put(to);
    slice.offset.put(to);
    u64::from(slice.bytes).put(to);
    slice.reflects.put(to);
}

fn get_slice(from: &mut Fields<'_>) -> Result<(u64, SliceRef), BadField> {
    let key = from.get("the key of a slice")?;
    let generation = from.get("the generation of a slice")?;
    let offset = from.number("the offset of a slice")?;
    let bad = from.bad("the length of a slice");
    let bytes = u32::try_from(from.get::<u64>("the length of a slice")?).map_err(|_| bad)?;
    Ok((key, SliceRef { generation, offset, bytes, reflects: from.get("the batch of a slice")? }))
}

fn put_segment(segment: &SegmentUse, to: &mut Vec<u8>) {
    segment.number.put(to);
    segment.kind.put(to);
    KIND_PADDING.put(to);
    segment.base.put(to);
    segment.used.put(to);
}

fn get_segment(from: &mut Fields<'_>) -> Result<SegmentUse, BadField> {
    let number = from.get("the number of a segment")?;
    let bad = from.bad("the kind of a segment");
    let kind: SegmentKind = from.get("the kind of a segment")?;
    if from.get("the kind of a segment") != Ok(KIND_PADDING) {
        return Err(bad);
    }
    let base = from.get("the base of a segment")?;
    Ok(SegmentUse { number, kind, base, used: from.number("the length of a segment")? })
}

fn put_sidecar(sidecar: &Sidecar, to: &mut Vec<u8>) {
    assert!(sidecar.name.len() <= 255, "names of sidecars are short");
    (sidecar.name.len() as u8).put(to);
    to.extend_from_slice(sidecar.name.as_bytes());
    sidecar.bytes.put(to);
    sidecar.sum.put(to);
}

fn get_sidecar(from: &mut Fields<'_>) -> Result<Sidecar, BadField> {
    let bad = from.bad("the name of a sidecar");
    let len = usize::from(from.get::<u8>("the name of a sidecar")?);
    let name = from.take("the name of a sidecar", len)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| bad)?;
    Ok(Sidecar {
        name,
        bytes: from.number("the length of a sidecar")?,
        sum: from.get("the checksum of a sidecar")?,
    })
}
