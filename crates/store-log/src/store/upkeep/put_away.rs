//! Deduplication ids that are put away: one file for each generation, sorted, read by place.
//!
//! A file is written once, before the checkpoint that names it, and dropped whole after the last of its windows has
//! closed.

use std::sync::Arc;

use hashbrown::HashMap;
use kew_core::Timestamp;
use kew_store::ledger::dedup::{PUT_AWAY_BYTES, heads};

use crate::checkpoint::Sidecar;
use crate::disk::{DEDUPLICATION_FOLDER, Disk, DiskFile, SYNC_BYTES, remove_if_there};
use crate::error::{Doing, LogError};

/// The generations on disk.
pub(crate) struct PutAway {
    disk: Arc<dyn Disk>,
    files: HashMap<Timestamp, (Arc<dyn DiskFile>, Sidecar)>,
}

impl PutAway {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, files: HashMap::new() }
    }

    /// Opens a generation that a checkpoint names. Answers its first instant and its bytes, which [`heads_of`]
    /// verifies.
    pub(crate) fn open(&mut self, sidecar: &Sidecar) -> Result<(Timestamp, Vec<u8>), LogError> {
        let name = &sidecar.name;
        let start = parse(name).ok_or_else(|| LogError::damage(name, 0, "not the name of a generation"))?;
        let file = self.disk.open(name).doing("opening", name)?;
        let length = usize::try_from(sidecar.bytes).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let read = file.read_at(0, &mut bytes).doing("reading", name)?;
        bytes.truncate(read);
        self.files.insert(start, (file, sidecar.clone()));
        Ok((start, bytes))
    }

    /// Takes a generation over that was written.
    pub(crate) fn add(&mut self, generation: NewGeneration) {
        self.files.insert(generation.start, (generation.file, generation.sidecar));
    }

    /// One entry of a generation.
    pub(crate) fn entry(&self, start: Timestamp, place: u64) -> Result<[u8; PUT_AWAY_BYTES], LogError> {
        let name = name_of(start);
        let (file, _) =
            self.files.get(&start).ok_or_else(|| LogError::damage(&name, 0, "the file is not open"))?;
        let offset = place * PUT_AWAY_BYTES as u64;
        let mut entry = [0; PUT_AWAY_BYTES];
        if file.read_at(offset, &mut entry).doing("reading", &name)? < PUT_AWAY_BYTES {
            return Err(LogError::damage(&name, offset, "the file ends before this id"));
        }
        Ok(entry)
    }

    /// Forgets every generation but these; answers their files for the manifest.
    pub(crate) fn keep(&mut self, starts: &[Timestamp]) -> Vec<Sidecar> {
        self.files.retain(|start, _| starts.contains(start));
        let mut sidecars: Vec<Sidecar> = self.files.values().map(|(_, sidecar)| sidecar.clone()).collect();
        sidecars.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        sidecars
    }
}

/// Verifies the bytes of a generation that a checkpoint names. Answers its heads.
pub(crate) fn heads_of(sidecar: &Sidecar, bytes: &[u8]) -> Result<Box<[u32]>, LogError> {
    let damage = |what| LogError::damage(&sidecar.name, 0, what);
    if (bytes.len() as u64) < sidecar.bytes || crc32c::crc32c(bytes) != sidecar.sum {
        return Err(damage("its checksum is not the one the manifest names"));
    }
    heads(bytes).ok_or_else(|| damage("its ids are not sorted"))
}

/// A generation that was written, before anyone knows of it.
pub(crate) struct NewGeneration {
    start: Timestamp,
    file: Arc<dyn DiskFile>,
    sidecar: Sidecar,
}

impl NewGeneration {
    /// Writes a generation and makes it durable. It counts from the next checkpoint on.
    pub(crate) fn new(disk: &dyn Disk, start: Timestamp, bytes: &[u8]) -> Result<Self, LogError> {
        let name = name_of(start);
        disk.create_dir(DEDUPLICATION_FOLDER).doing("making", DEDUPLICATION_FOLDER)?;
        // One may be left of a try whose checkpoint failed.
        remove_if_there(disk, &name).doing("removing", &name)?;
        let file = disk.create(&name).doing("making", &name)?;
        for (piece, some) in (0..).zip(bytes.chunks(SYNC_BYTES as usize)) {
            file.write_at(piece * SYNC_BYTES, some).doing("writing", &name)?;
            if some.len() as u64 == SYNC_BYTES {
                file.sync_data().doing("syncing", &name)?;
            }
        }
        file.sync_all().doing("syncing", &name)?;
        disk.sync_dir(DEDUPLICATION_FOLDER).doing("syncing", DEDUPLICATION_FOLDER)?;
        disk.sync_dir("").doing("syncing", "the store's directory")?;
        let sidecar = Sidecar { name, bytes: bytes.len() as u64, sum: crc32c::crc32c(bytes) };
        Ok(Self { start, file, sidecar })
    }
}

/// Removes the files of generations that no checkpoint names.
pub(crate) fn sweep(disk: &dyn Disk, sidecars: &[Sidecar]) -> Result<(), LogError> {
    for file in disk.list(DEDUPLICATION_FOLDER).doing("listing", DEDUPLICATION_FOLDER)? {
        let name = format!("{DEDUPLICATION_FOLDER}/{file}");
        if parse(&name).is_some() && !sidecars.iter().any(|sidecar| sidecar.name == name) {
            remove_if_there(disk, &name).doing("removing", &name)?;
        }
    }
    Ok(())
}

fn name_of(start: Timestamp) -> String {
    format!("{DEDUPLICATION_FOLDER}/{:016x}.ids", start.0)
}

fn parse(name: &str) -> Option<Timestamp> {
    let number = name.strip_prefix(DEDUPLICATION_FOLDER)?.strip_prefix('/')?.strip_suffix(".ids")?;
    u64::from_str_radix(number, 16).ok().map(Timestamp)
}
