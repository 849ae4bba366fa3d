//! Backing a store up while it runs: a directory that is a store itself, as it was at one moment.
//!
//! A backup begins with a checkpoint. Files are copied, by the file system itself where it can share bytes until one
//! side changes; the journal's end is copied up to a whole batch. Only who asks for it gets second names of files that
//! will not change any more ([`Sharing::Links`]): quick, but damage to such a file is damage to both. A segment with a
//! second name is never overwritten. Last comes a list of all files with lengths and checksums: without it, a backup is
//! not finished. To restore one, open it, or a copy of it, as a store; then it is one, and the list goes.

use std::path::Path;
use std::sync::Arc;

use super::problem::Problem;
use crate::checkpoint::{Expected, Manifest, Slot, store_file};
use crate::disk::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, Disk, DiskFile, IDENTITY_FILE, MANIFEST_FILE,
    RealDisk, SEGMENTS_FOLDER, folder_of, make_private, read_exact_at, read_whole, replace_whole,
};
use crate::error::{Doing, LogError, missing};
use crate::journal::{Address, BatchNumber, SEGMENT_HEADER_BYTES, Segment, SegmentKind};
use crate::store::{LogStore, Upkeep};

const FIRST_LINE: &str = "kew backup 1";
const STEP: u64 = 1 << 20;

/// What a backup has in common with the store it was made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Nothing: every file is a copy.
    Nothing,
    /// Files that do not change any more are the store's own, under a second name.
    Links,
}

/// What was backed up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    /// The newest batch in it.
    pub batch: BatchNumber,
    /// All files.
    pub files: Vec<BackedUp>,
    /// How many of them are the store's own files under a second name.
    pub linked: u64,
    /// How many were copied by the file system, which reads nothing for that.
    pub cloned: u64,
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
pub fn backup(store: &LogStore, target: &Path, sharing: Sharing) -> Result<BackupReport, LogError> {
    let to = empty_directory(target)?;
    let mut copying = Copying { store, target, to, sharing, names: Vec::new(), linked: 0, cloned: 0 };
    let batch = {
        // No checkpoint and no recycling until every file has its second name.
        let mut upkeep = store.inner.upkeep.lock();
        upkeep.checkpoint(&store.inner)?;
        let manifest = upkeep.manifest().cloned().expect("a checkpoint was just made");
        copying.all(&upkeep, &manifest)?
    };
    copying.finish(batch)
}

/// Reads a backup's list and every file on it, and fails at the first that is changed, missing or not on it.
pub fn verify_backup(target: &Path) -> Result<Vec<BackedUp>, LogError> {
    // Opening would make it.
    if !target.is_dir() {
        return Err(LogError::Io {
            doing: format!("opening {}", target.display()),
            kind: std::io::ErrorKind::NotFound,
            detail: "there is no such directory".to_owned(),
        });
    }
    let disk = RealDisk::look(target).doing("opening", &target.display().to_string())?;
    let (listed, problems) = compare(&disk)?;
    match problems.into_iter().next() {
        None => Ok(listed),
        Some(Problem { file, offset, what }) => Err(LogError::Damage { file, offset, what }),
    }
}

/// Reads the list of a backup, and tells every file that is not as it says, is missing, or is not on it.
pub(crate) fn compare(disk: &dyn Disk) -> Result<(Vec<BackedUp>, Vec<Problem>), LogError> {
    let list = disk.open(BACKUP_LIST).map_err(|error| missing(BACKUP_LIST, &error))?;
    let bytes = read_whole(&*list, 1 << 30).doing("reading", BACKUP_LIST)?;
    let listed = read_list(&bytes)?;
    let mut problems = Vec::new();
    let mut problem = |file: &str, offset: u64, what: String| {
        problems.push(Problem { file: file.to_owned(), offset, what });
    };
    for file in &listed {
        match measure(disk, &file.name) {
            Ok(found) if found == *file => {}
            Ok(_) => {
                let what = format!("{} bytes with checksum {:08x} were backed up", file.bytes, file.sum);
                problem(&file.name, 0, what);
            }
            Err(LogError::Damage { file, offset, what }) => problem(&file, offset, what),
            Err(error) => return Err(error),
        }
    }
    for name in names(disk)? {
        let is_ours = ["LOCK", BACKUP_LIST].contains(&name.as_str());
        if !is_ours && !listed.iter().any(|file| file.name == name) {
            problem(&name, 0, "the file was not backed up: it is not on the list".to_owned());
        }
    }
    Ok((listed, problems))
}

/// The names of all files in a store's directory and its folders.
fn names(disk: &dyn Disk) -> Result<Vec<String>, LogError> {
    let mut names = Vec::new();
    for folder in ["", SEGMENTS_FOLDER, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER] {
        for name in disk.list(folder).doing("listing", folder)? {
            names.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
        }
    }
    Ok(names)
}

fn empty_directory(target: &Path) -> Result<RealDisk, LogError> {
    let name = target.display().to_string();
    let disk = RealDisk::open(target).doing("making", &name)?;
    let mut entries = std::fs::read_dir(target).doing("listing", &name)?;
    match entries.next() {
        None => {
            make_private(target).doing("closing to others", &name)?;
            Ok(disk)
        }
        Some(_) => Err(LogError::Io {
            doing: format!("backing up into {name}"),
            kind: std::io::ErrorKind::AlreadyExists,
            detail: "the directory is not empty".to_owned(),
        }),
    }
}

/// Bytes of a file that are copied, and the length of the copy: zeros follow.
struct Lengths {
    copied: u64,
    whole: u64,
}

struct Copying<'a> {
    store: &'a LogStore,
    target: &'a Path,
    to: RealDisk,
    sharing: Sharing,
    names: Vec<String>,
    linked: u64,
    cloned: u64,
}

impl Copying<'_> {
    /// Everything the newest checkpoint and the journal after it need. Answers the newest batch of it.
    fn all(&mut self, upkeep: &Upkeep, manifest: &Manifest) -> Result<BatchNumber, LogError> {
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
                self.take_segment(segment)?;
            }
        }
        for name in manifest.files() {
            self.take_file(&name)?;
        }
        for sidecar in &manifest.fields.sidecars {
            self.to.create_dir(folder_of(&sidecar.name)).doing("making", folder_of(&sidecar.name))?;
            self.take_file(&sidecar.name)?;
        }
        let file = inner.disk.open(MANIFEST_FILE).doing("opening", MANIFEST_FILE)?;
        let bytes = read_whole(&*file, 4 << 30).doing("reading", MANIFEST_FILE)?;
        self.write(MANIFEST_FILE, &bytes)?;
        // The store may have begun a segment meanwhile, which is not part of the backup.
        let expected = Expected { newest_segment: Some(active.number()), manifest: true };
        let identity = inner.expecting.identity();
        self.write(IDENTITY_FILE, &store_file(&identity, Slot::first(expected)))?;
        Ok(batch)
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), LogError> {
        replace_whole(&self.to, name, bytes).doing("writing", name)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    fn take_file(&mut self, name: &str) -> Result<(), LogError> {
        if self.try_share(name) {
            return Ok(());
        }
        let from = self.store.inner.disk.open(name).doing("opening", name)?;
        let bytes = from.len().doing("measuring", name)?;
        let lengths = Lengths { copied: bytes, whole: bytes };
        self.copy(name, lengths, |offset, len| read_exact_at(&*from, offset, len).doing("reading", name))
    }

    /// Takes a sealed segment over whole.
    fn take_segment(&mut self, segment: &Segment) -> Result<(), LogError> {
        if self.try_share(segment.name()) { Ok(()) } else { self.copy_segment(segment, segment.end()) }
    }

    /// Gives a file that does not change any more a second name, if that was asked for, or has the file system copy it.
    /// False when neither can be.
    fn try_share(&mut self, name: &str) -> bool {
        let (disk, to) = (&self.store.inner.disk, self.target.join(name));
        let (shared, count) = match self.sharing {
            Sharing::Links => (disk.hard_link_out(name, &to).is_ok(), &mut self.linked),
            Sharing::Nothing => (clone_out(&**disk, name, &to).is_ok(), &mut self.cloned),
        };
        if shared {
            *count += 1;
            self.names.push(name.to_owned());
        }
        shared
    }

    /// Copies a segment up to an address; zeros follow, as in a new file.
    fn copy_segment(&mut self, segment: &Segment, end: Address) -> Result<(), LogError> {
        let bytes = segment.offset_of(end).max(SEGMENT_HEADER_BYTES);
        let lengths = Lengths { copied: bytes, whole: segment.size() };
        self.copy(segment.name(), lengths, |offset, len| segment.read(offset, len))
    }

    fn copy(
        &mut self,
        name: &str,
        lengths: Lengths,
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, LogError>,
    ) -> Result<(), LogError> {
        let file = self.to.create(name).doing("making", name)?;
        let mut at = 0;
        while at < lengths.copied {
            let step = read(at, (lengths.copied - at).min(STEP) as usize)?;
            file.write_at(at, &step).doing("writing", name)?;
            at += step.len() as u64;
        }
        file.allocate(lengths.whole).doing("filling", name)?;
        file.sync_all().doing("syncing", name)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Makes the names durable, then writes the list.
    fn finish(mut self, batch: BatchNumber) -> Result<BackupReport, LogError> {
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
        Ok(BackupReport { batch, files, linked: self.linked, cloned: self.cloned })
    }
}

/// A copy by the file system, durable.
fn clone_out(disk: &dyn Disk, name: &str, to: &Path) -> std::io::Result<()> {
    disk.clone_out(name, to)?;
    std::fs::File::open(to)?.sync_all()
}

fn measure(disk: &dyn Disk, name: &str) -> Result<BackedUp, LogError> {
    let file: Arc<dyn DiskFile> = disk.open(name).map_err(|error| missing(name, &error))?;
    let bytes = file.len().doing("measuring", name)?;
    let (mut at, mut sum) = (0, 0);
    while at < bytes {
        let step = read_exact_at(&*file, at, (bytes - at).min(STEP) as usize);
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
