//! Backing a store up while it runs: a directory that is a store itself, as it was at one moment.
//!
//! A backup begins with a checkpoint. Files that will not change any more get a second name there, or are copied where
//! that cannot be; the journal's end is copied up to a whole batch. A segment with a second name is never overwritten.
//! Last comes a list of all files with lengths and checksums: without it, a backup is not finished. To restore one,
//! open it, or a copy of it, as a store.

use std::path::Path;
use std::sync::Arc;

use crate::checkpoint::CHECKPOINTS_FOLDER;
use crate::disk::{Disk, DiskFile, RealDisk, folder_of, read_whole, replace_whole};
use crate::error::{Doing, LogError};
use crate::frame::Address;
use crate::identity::IDENTITY_FILE;
use crate::manifest::{MANIFEST_FILE, Manifest};
use crate::segment::{SEGMENT_HEADER_BYTES, SEGMENTS_FOLDER, Segment, SegmentKind};
use crate::store::LogStore;
use crate::upkeep::Upkeep;

/// The list of a backup's files.
pub const BACKUP_LIST: &str = "BACKUP";

const FIRST_LINE: &str = "kew backup 1";
const STEP: u64 = 1 << 20;

/// What was backed up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    /// The newest batch in it.
    pub batch: u64,
    /// All files.
    pub files: Vec<BackedUp>,
    /// How many of them share their bytes with the store's.
    pub linked: u64,
}

/// One file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackedUp {
    /// Its name within the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC32C of its bytes.
    pub sum: u32,
}

/// Backs a running store up into an empty directory, which is made if it is missing.
pub fn backup(store: &LogStore, target: &Path) -> Result<BackupReport, LogError> {
    let to = empty_directory(target)?;
    let mut copying = Copying { store, target, to, names: Vec::new(), linked: 0 };
    let batch = {
        // No checkpoint and no recycling until every file has its second name.
        let mut upkeep = store.inner.upkeep.lock();
        upkeep.checkpoint(&store.inner)?;
        let manifest = upkeep.manifest().cloned().expect("a checkpoint was just made");
        copying.all(&upkeep, &manifest)?
    };
    copying.finish(batch)
}

/// Reads a backup's list and every file on it. Files beyond the list do not matter.
pub fn verify_backup(target: &Path) -> Result<Vec<BackedUp>, LogError> {
    // Opening would make it.
    if !target.is_dir() {
        return Err(LogError::Io {
            doing: format!("opening {}", target.display()),
            kind: std::io::ErrorKind::NotFound,
            detail: "there is no such directory".to_owned(),
        });
    }
    let disk = RealDisk::open(target).doing("opening", &target.display().to_string())?;
    let list = disk.open(BACKUP_LIST).map_err(|error| crate::manifest::missing(BACKUP_LIST, &error))?;
    let bytes = read_whole(&*list, 1 << 30).doing("reading", BACKUP_LIST)?;
    let listed = read_list(&bytes)?;
    for file in &listed {
        let found = measure(&disk, &file.name)?;
        if found != *file {
            let what = format!("{} bytes with checksum {:08x} were backed up", file.bytes, file.sum);
            return Err(LogError::damage(&file.name, 0, what));
        }
    }
    Ok(listed)
}

fn empty_directory(target: &Path) -> Result<RealDisk, LogError> {
    let name = target.display().to_string();
    let disk = RealDisk::open(target).doing("making", &name)?;
    let mut entries = std::fs::read_dir(target).doing("listing", &name)?;
    match entries.next() {
        None => Ok(disk),
        Some(_) => Err(LogError::Io {
            doing: format!("backing up into {name}"),
            kind: std::io::ErrorKind::AlreadyExists,
            detail: "the directory is not empty".to_owned(),
        }),
    }
}

struct Copying<'a> {
    store: &'a LogStore,
    target: &'a Path,
    to: RealDisk,
    names: Vec<String>,
    linked: u64,
}

impl Copying<'_> {
    /// Everything the newest checkpoint and the journal after it need. Answers the newest batch of it.
    fn all(&mut self, upkeep: &Upkeep, manifest: &Manifest) -> Result<u64, LogError> {
        let inner = &self.store.inner;
        for folder in [SEGMENTS_FOLDER, CHECKPOINTS_FOLDER] {
            self.to.create_dir(folder).doing("making", folder)?;
        }
        let (segments, active, end, batch) = {
            let mut ledger = inner.writer.lock();
            let journal = ledger.shelf.journal_mut()?;
            (inner.segments.list(), journal.active().clone(), journal.end(), journal.written_through())
        };
        let start = manifest.fields.replay.address;
        for segment in &segments {
            let is_listed = manifest.fields.segments.iter().any(|listed| listed.number == segment.number());
            let is_after = segment.kind() == SegmentKind::Journal && segment.end() > start;
            if segment.number() == active.number() {
                self.copy_segment(segment, end)?;
            } else if Some(segment.number()) == upkeep.open_survivor() {
                self.copy_segment(segment, segment.end())?;
            } else if is_listed || is_after {
                self.link_segment(segment)?;
            }
        }
        for name in manifest.files() {
            self.link_file(&name)?;
        }
        for sidecar in &manifest.fields.sidecars {
            self.to.create_dir(folder_of(&sidecar.name)).doing("making", folder_of(&sidecar.name))?;
            self.link_file(&sidecar.name)?;
        }
        for name in [IDENTITY_FILE, MANIFEST_FILE] {
            let file = inner.disk.open(name).doing("opening", name)?;
            let bytes = read_whole(&*file, 4 << 30).doing("reading", name)?;
            replace_whole(&self.to, name, &bytes).doing("writing", name)?;
            self.names.push(name.to_owned());
        }
        Ok(batch)
    }

    fn link_file(&mut self, name: &str) -> Result<(), LogError> {
        if self.try_link(name) {
            return Ok(());
        }
        let from = self.store.inner.disk.open(name).doing("opening", name)?;
        let bytes = from.len().doing("measuring", name)?;
        self.copy(name, bytes, bytes, |offset, len| {
            crate::disk::read_exact_at(&*from, offset, len).doing("reading", name)
        })
    }

    /// Gives a sealed segment a second name, or copies it whole.
    fn link_segment(&mut self, segment: &Segment) -> Result<(), LogError> {
        if self.try_link(segment.name()) { Ok(()) } else { self.copy_segment(segment, segment.end()) }
    }

    fn try_link(&mut self, name: &str) -> bool {
        let is_linked = self.store.inner.disk.hard_link_out(name, &self.target.join(name)).is_ok();
        if is_linked {
            self.linked += 1;
            self.names.push(name.to_owned());
        }
        is_linked
    }

    /// Copies a segment up to an address; zeros follow, as in a new file.
    fn copy_segment(&mut self, segment: &Segment, end: Address) -> Result<(), LogError> {
        let bytes = segment.offset_of(end).max(SEGMENT_HEADER_BYTES);
        self.copy(segment.name(), bytes, segment.size(), |offset, len| segment.read(offset, len))
    }

    fn copy(
        &mut self,
        name: &str,
        bytes: u64,
        size: u64,
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, LogError>,
    ) -> Result<(), LogError> {
        let file = self.to.create(name).doing("making", name)?;
        let mut at = 0;
        while at < bytes {
            let step = read(at, (bytes - at).min(STEP) as usize)?;
            file.write_at(at, &step).doing("writing", name)?;
            at += step.len() as u64;
        }
        file.allocate(size).doing("filling", name)?;
        file.sync_all().doing("syncing", name)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Makes the names durable, then writes the list.
    fn finish(mut self, batch: u64) -> Result<BackupReport, LogError> {
        let folders: std::collections::BTreeSet<&str> =
            self.names.iter().map(|name| folder_of(name)).chain([""]).collect();
        for folder in folders {
            self.to.sync_dir(folder).doing("syncing", folder)?;
        }
        self.names.sort_unstable();
        let files: Vec<BackedUp> =
            self.names.iter().map(|name| measure(&self.to, name)).collect::<Result<_, _>>()?;
        let mut list = format!("{FIRST_LINE}\n");
        for file in &files {
            list.push_str(&format!("{:08x} {} {}\n", file.sum, file.bytes, file.name));
        }
        replace_whole(&self.to, BACKUP_LIST, list.as_bytes()).doing("writing", BACKUP_LIST)?;
        Ok(BackupReport { batch, files, linked: self.linked })
    }
}

fn measure(disk: &RealDisk, name: &str) -> Result<BackedUp, LogError> {
    let file: Arc<dyn DiskFile> = disk.open(name).map_err(|error| crate::manifest::missing(name, &error))?;
    let bytes = file.len().doing("measuring", name)?;
    let (mut at, mut sum) = (0, 0);
    while at < bytes {
        let step = crate::disk::read_exact_at(&*file, at, (bytes - at).min(STEP) as usize);
        let step = step.doing("reading", name)?;
        sum = crc32c::crc32c_append(sum, &step);
        at += step.len() as u64;
    }
    Ok(BackedUp { name: name.to_owned(), bytes, sum })
}

fn read_list(bytes: &[u8]) -> Result<Vec<BackedUp>, LogError> {
    let damaged = |what: &str| LogError::damage(BACKUP_LIST, 0, what);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("not text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(damaged("not the list of a backup this program knows"));
    }
    let entry = |line: &str| {
        let (sum, rest) = line.split_once(' ')?;
        let (bytes, name) = rest.split_once(' ')?;
        let sum = u32::from_str_radix(sum, 16).ok()?;
        Some(BackedUp { name: name.to_owned(), bytes: bytes.parse().ok()?, sum })
    };
    lines.map(|line| entry(line).ok_or_else(|| damaged(line))).collect()
}
