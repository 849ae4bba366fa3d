//! Checkpoints: the state of the store in slices, so that replay is short whatever the store holds.
//!
//! A checkpoint writes the slices that changed to a new generation file and refers to the others where they lie. The
//! manifest, replaced in one step, makes it count. Steps: [`CheckpointWriter::put`] and [`CheckpointWriter::keep`]
//! (between batches, at any pace), [`CheckpointWriter::seal`], [`SealedCheckpoint::install`],
//! [`Manifest::sweep`]; between any two the power may go.
//!
//! A generation file that is mostly dead, and the smallest ones when there are many, are written again: their keys
//! are reported by [`CheckpointWriter::must_put`].

use super::generation::{FILE_HEADER_BYTES, Generation, GenerationFile, file_header, slice_sum};
use super::manifest::{Manifest, ManifestFields};
use super::slices::{SLICE_HEADER_BYTES, SliceRef, Slices};
use crate::disk::{CHECKPOINTS_FOLDER, Disk, DiskFile, SYNC_BYTES, remove_if_there};
use crate::error::{Doing, LogError};
use crate::fields::Codec;
use crate::journal::{BatchNumber, parse_name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BUFFER: usize = 256 << 10;
/// Generation files beyond which the smallest are merged into the next checkpoint.
const FILES_MAX: usize = 16;

/// A slice being written, piece by piece.
struct OpenSlice {
    key: u64,
    offset: u64,
    bytes: u64,
    /// The checksum of its bytes alone.
    sum: u32,
}

/// A checkpoint being written, or only measured. Dropped before it is installed, it leaves a file that the next sweep
/// removes.
pub struct CheckpointWriter {
    disk: Arc<dyn Disk>,
    generation: Generation,
    /// Made with the first slice.
    file: Option<Arc<dyn DiskFile>>,
    buffer: Vec<u8>,
    written: u64,
    /// Bytes at the front of the file that were synced while it was written.
    synced: u64,
    slices: Vec<(u64, SliceRef)>,
    /// The slice that is being written.
    open: Option<OpenSlice>,
    previous: Slices,
    /// Files whose slices must be written again.
    outworn: BTreeSet<Generation>,
    /// Nothing is written; only the size counts.
    measures: bool,
}

impl CheckpointWriter {
    /// Starts a checkpoint that follows the one in `previous`.
    pub fn start(disk: Arc<dyn Disk>, previous: Option<&Manifest>) -> Result<Self, LogError> {
        disk.create_dir(CHECKPOINTS_FOLDER).doing("making", CHECKPOINTS_FOLDER)?;
        let names = disk.list(CHECKPOINTS_FOLDER).doing("listing", CHECKPOINTS_FOLDER)?;
        let newest =
            names.iter().filter_map(|name| parse_name(name)).map(|(number, _)| Generation(number)).max();
        let newest = newest.max(previous.map(Manifest::generation)).map_or(0, |newest| newest.0);
        Self::new(disk, previous, Generation(newest.saturating_add(1)))
    }

    /// A checkpoint that is not written: [`CheckpointWriter::bytes`] says how large it would be.
    pub(crate) fn measuring(disk: Arc<dyn Disk>, previous: Option<&Manifest>) -> Result<Self, LogError> {
        Ok(Self { measures: true, ..Self::new(disk, previous, Generation(0))? })
    }

    fn new(
        disk: Arc<dyn Disk>,
        previous: Option<&Manifest>,
        generation: Generation,
    ) -> Result<Self, LogError> {
        let previous = previous.map(|manifest| manifest.slices.clone()).unwrap_or_default();
        let outworn = outworn(&*disk, &previous)?;
        Ok(Self {
            disk,
            generation,
            file: None,
            buffer: Vec::new(),
            written: 0,
            synced: 0,
            slices: Vec::with_capacity(previous.len()),
            open: None,
            previous,
            outworn,
            measures: false,
        })
    }

    /// Writes a slice that reflects all batches up to `reflects`. A key put twice keeps the last.
    pub fn put(&mut self, key: u64, reflects: BatchNumber, bytes: &[u8]) -> Result<(), LogError> {
        self.begin(key)?;
        self.append(bytes)?;
        self.end(reflects)
    }

    /// Begins a slice that is written piece by piece: [`CheckpointWriter::append`], then [`CheckpointWriter::end`].
    pub fn begin(&mut self, key: u64) -> Result<(), LogError> {
        if self.file.is_none() && !self.measures {
            self.begin_file()?;
        }
        let offset = self.bytes();
        self.open = Some(OpenSlice { key, offset, bytes: 0, sum: crc32c::crc32c(&[]) });
        if self.measures {
            self.written += SLICE_HEADER_BYTES;
        } else {
            // Its length and checksum are known at its end.
            self.buffer.extend_from_slice(&[0; SLICE_HEADER_BYTES as usize]);
        }
        Ok(())
    }

    /// Adds bytes to the slice that was begun.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.bytes += bytes.len() as u64;
        if u32::try_from(open.bytes).is_err() {
            return Err(LogError::NoSpace { what: format!("a checkpoint slice of {} bytes", open.bytes) });
        }
        if self.measures {
            self.written += bytes.len() as u64;
            return Ok(());
        }
        open.sum = crc32c::crc32c_append(open.sum, bytes);
        if bytes.len() >= BUFFER {
            // Large pieces go past the buffer: they are not held twice.
            self.flush()?;
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Ends the slice that was begun. It reflects all batches up to `reflects`.
    pub fn end(&mut self, reflects: BatchNumber) -> Result<(), LogError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let bytes = u32::try_from(open.bytes).unwrap_or(u32::MAX);
        self.slices
            .push((open.key, SliceRef { generation: self.generation, offset: open.offset, bytes, reflects }));
        if self.measures {
            return Ok(());
        }
        let mut header = [0; SLICE_HEADER_BYTES as usize];
        let mut to = &mut header[4..];
        bytes.put(&mut to);
        open.key.put(&mut to);
        reflects.put(&mut to);
        let before = slice_sum(self.generation, &header, &[]);
        let sum = crc32c::crc32c_combine(before, open.sum, bytes as usize);
        header[..4].copy_from_slice(&sum.to_le_bytes());
        self.set_header(open.offset, &header)
    }

    /// Puts a slice's header in its place, in the buffer or in the file.
    fn set_header(&mut self, offset: u64, header: &[u8]) -> Result<(), LogError> {
        if let Some(place) = offset.checked_sub(self.written) {
            let place = place as usize;
            self.buffer[place..place + header.len()].copy_from_slice(header);
            return Ok(());
        }
        let file = self.file.as_ref().expect("the file was made before the first byte was buffered");
        file.write_at(offset, header).doing("writing", &self.generation.name())
    }

    /// Refers to the slice that the previous checkpoint has for a key, which is unchanged and so reflects all batches
    /// up to `reflects`. False when there is none, or it must be put.
    #[must_use]
    pub fn keep(&mut self, key: u64, reflects: BatchNumber) -> bool {
        let Some(slice) = self.previous.get(key).filter(|slice| !self.outworn.contains(&slice.generation))
        else {
            return false;
        };
        self.slices.push((key, SliceRef { reflects: reflects.max(slice.reflects), ..slice }));
        true
    }

    /// True when the previous checkpoint has a slice for the key that may not be kept, because its file is outworn.
    pub fn must_put(&self, key: u64) -> bool {
        self.previous.get(key).is_some_and(|slice| self.outworn.contains(&slice.generation))
    }

    /// The keys of the previous checkpoint's slices.
    pub(crate) fn previous_keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.previous.iter().map(|(key, _)| key)
    }

    /// How many slices there are so far, written or referred to.
    pub(crate) fn slices(&self) -> usize {
        self.slices.len()
    }

    /// Bytes written to the generation file so far.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Makes the slices durable. They count only after the manifest is installed.
    pub fn seal(mut self) -> Result<SealedCheckpoint, LogError> {
        if let Err(error) = self.make_durable() {
            // Its file takes space that is wanted elsewhere now. One that stays is removed after the next checkpoint.
            let _abandoned = self.abandon();
            return Err(error);
        }
        Ok(SealedCheckpoint { disk: self.disk, generation: self.generation, slices: Slices::of(self.slices) })
    }

    fn make_durable(&mut self) -> Result<(), LogError> {
        if self.file.is_some() {
            self.flush()?;
        }
        if let Some(file) = &self.file {
            file.sync_all().doing("syncing", &self.generation.name())?;
            self.disk.sync_dir(CHECKPOINTS_FOLDER).doing("syncing", CHECKPOINTS_FOLDER)?;
            // The folder may be new. Otherwise a power cut could keep the manifest's new name and lose the folder.
            self.disk.sync_dir("").doing("syncing", "the store's directory")?;
        }
        Ok(())
    }

    /// Gives the checkpoint up and frees its space.
    pub fn abandon(self) -> Result<(), LogError> {
        let name = self.generation.name();
        remove_if_there(&*self.disk, &name).doing("removing", &name)
    }

    fn begin_file(&mut self) -> Result<(), LogError> {
        let name = self.generation.name();
        self.file = Some(self.disk.create(&name).doing("making", &name)?);
        self.buffer.extend_from_slice(&file_header(self.generation));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        let file = self.file.as_ref().expect("the file was made before the first byte was buffered");
        file.write_at(self.written, bytes).doing("writing", &self.generation.name())?;
        self.written += bytes.len() as u64;
        if self.written - self.synced >= SYNC_BYTES {
            file.sync_data().doing("syncing", &self.generation.name())?;
            self.synced = self.written;
        }
        Ok(())
    }
}

/// A checkpoint whose slices are durable, and that waits for every batch it reflects to be so too.
pub struct SealedCheckpoint {
    disk: Arc<dyn Disk>,
    generation: Generation,
    slices: Slices,
}

impl SealedCheckpoint {
    /// The newest batch that any slice reflects. It must be synced before the manifest is installed.
    pub fn reflects(&self) -> BatchNumber {
        self.slices.refs().map(|slice| slice.reflects).max().unwrap_or(BatchNumber::BEFORE_FIRST)
    }

    /// Makes the checkpoint count, in one step. After an error either checkpoint may be found at the next start; so
    /// nothing that the old one needs may be freed until a later one is installed, and this one's file stays.
    pub fn install(self, fields: ManifestFields) -> Result<Manifest, LogError> {
        let manifest = Manifest { generation: self.generation, slices: self.slices, fields };
        manifest.install(&*self.disk)?;
        Ok(manifest)
    }
}

/// Files that should be written again: less than half alive, or the smallest of too many.
fn outworn(disk: &dyn Disk, slices: &Slices) -> Result<BTreeSet<Generation>, LogError> {
    let mut alive: BTreeMap<Generation, u64> = BTreeMap::new();
    for slice in slices.refs() {
        *alive.entry(slice.generation).or_default() += slice.file_bytes();
    }
    let mut outworn = BTreeSet::new();
    let mut sound = Vec::new();
    for (generation, alive) in alive {
        let bytes = GenerationFile::open(disk, generation)?.bytes;
        if (alive + FILE_HEADER_BYTES as u64) * 2 < bytes {
            outworn.insert(generation);
        } else {
            sound.push((alive, generation));
        }
    }
    // The new file is one more.
    if sound.len() >= FILES_MAX {
        sound.sort_unstable();
        outworn.extend(sound.iter().take(sound.len() / 2).map(|(_, generation)| *generation));
    }
    Ok(outworn)
}
