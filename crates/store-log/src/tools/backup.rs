//! Backing a store up while it runs: a directory that is a store itself, as it was at one moment.
//!
//! A backup begins with a checkpoint. Then, while no other upkeep runs, every file that it needs is pinned or opened;
//! from there on the store goes on as always, and what it frees stays readable until it is copied. Files are copied, by
//! the file system itself where it can share bytes until one side changes; the journal's end is copied up to a whole
//! batch. Only who asks for it gets second names of files that will not change any more ([`Sharing::Links`]): quick,
//! but damage to such a file is damage to both. A segment with a second name is never overwritten. Last comes a list of
//! all files with lengths and checksums: without it, a backup is not finished. To restore one, open it, or a copy of
//! it, as a store; then it is one, and the list goes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::backup_list::{BackedUp, list_of, measure_by};
use super::backup_plan::{BackupPlan, Pacer, Sharing};
use super::backup_source::{Wanted, in_quarantine, open_file, segment_until, small};
use crate::checkpoint::{Expected, Manifest, Slot, store_file};
use crate::disk::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DAMAGED_FOLDER, DEDUPLICATION_FOLDER, Disk, IDENTITY_FILE,
    MANIFEST_FILE, RealDisk, SEGMENTS_FOLDER, folder_of, make_private, read_whole, remove_if_there,
    replace_whole,
};
use crate::error::{Doing, LogError};
use crate::journal::{BatchNumber, SegmentKind};
use crate::store::{LogStore, Upkeep};

/// Bytes that are copied at a time.
const STEP: u64 = 1 << 20;

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

/// How far a backup is, for others than its maker to see; and how they stop it.
#[derive(Debug, Default)]
pub struct BackupProgress {
    bytes: AtomicU64,
    of: AtomicU64,
    is_stopped: AtomicBool,
}

impl BackupProgress {
    /// Bytes that are in the backup by now, copied or shared.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that will be in it; 0 until that is known.
    pub fn of(&self) -> u64 {
        self.of.load(Ordering::Relaxed)
    }

    /// Ends the backup before the next piece is copied.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> Result<(), LogError> {
        if !self.is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(LogError::Io {
            doing: "backing up".to_owned(),
            kind: std::io::ErrorKind::Interrupted,
            detail: "it was stopped before its end".to_owned(),
        })
    }

    fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A backup that was not finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupFailed {
    /// Why.
    pub cause: LogError,
    /// The directory, if files of the unfinished backup could not be removed from it.
    pub left_in: Option<PathBuf>,
}

impl std::fmt::Display for BackupFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.left_in {
            None => write!(f, "{}", self.cause),
            Some(place) => {
                write!(f, "{}; files of the unfinished backup are left in {}", self.cause, place.display())
            }
        }
    }
}

/// Backs up a store that is not in use, into an empty directory, which is made if it is missing.
pub fn backup(store: &LogStore, target: &Path, sharing: Sharing) -> Result<BackupReport, LogError> {
    let plan = BackupPlan::alone(sharing);
    backup_watched(store, target, plan, &BackupProgress::default()).map_err(|failed| failed.cause)
}

/// Backs a store up that stays in use, with its progress to be seen. Upkeep goes on: it waits only until the files are
/// known. A backup that fails removes what it wrote; one that finds too little room copies nothing.
pub fn backup_watched(
    store: &LogStore,
    target: &Path,
    plan: BackupPlan,
    progress: &BackupProgress,
) -> Result<BackupReport, BackupFailed> {
    let empty = empty_directory(target).map_err(|cause| BackupFailed { cause, left_in: None })?;
    let mut copying = Copying {
        store,
        target,
        to: empty.disk,
        plan,
        progress,
        names: Vec::new(),
        copied: Vec::new(),
        linked: Vec::new(),
        cloned: Vec::new(),
        may_share: true,
    };
    copying.run().map_err(|cause| {
        let is_removed = copying.undo(empty.is_new).is_ok();
        BackupFailed { cause, left_in: (!is_removed).then(|| target.to_owned()) }
    })
}

/// A directory without files.
struct Empty {
    disk: RealDisk,
    /// It was made just now.
    is_new: bool,
}

fn empty_directory(target: &Path) -> Result<Empty, LogError> {
    let name = target.display().to_string();
    let is_new = !target.exists();
    let disk = RealDisk::open(target).doing("making", &name)?;
    let mut entries = std::fs::read_dir(target).doing("listing", &name)?;
    match entries.next() {
        None => {
            make_private(target).doing("closing to others", &name)?;
            Ok(Empty { disk, is_new })
        }
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
    plan: BackupPlan,
    progress: &'a BackupProgress,
    /// Files of the backup that were made.
    names: Vec<String>,
    /// Those that were copied, with checksums of what the store held.
    copied: Vec<BackedUp>,
    /// Files that are the store's own under a second name.
    linked: Vec<String>,
    /// Files that the file system copied, and that are not synced yet.
    cloned: Vec<String>,
    /// No file could not be shared so far.
    may_share: bool,
}

impl Copying<'_> {
    fn run(&mut self) -> Result<BackupReport, LogError> {
        for folder in [SEGMENTS_FOLDER, CHECKPOINTS_FOLDER] {
            self.to.create_dir(folder).doing("making", folder)?;
        }
        let (wanted, batch) = {
            // No checkpoint and no recycling until every file is held, open or has its second name.
            let mut upkeep = self.store.inner.upkeep.lock();
            upkeep.checkpoint(&self.store.inner)?;
            let manifest = upkeep.manifest().cloned().expect("a checkpoint was just made");
            self.collect(&upkeep, &manifest)?
        };
        let bytes: u64 = wanted.iter().map(|wanted| wanted.lengths.copied).sum();
        self.progress.of.store(self.progress.bytes() + bytes, Ordering::Relaxed);
        let whole = wanted.iter().map(|wanted| wanted.lengths.whole).sum();
        let free = self.to.free_space().doing("measuring", "the free space of the backup's disk")?;
        self.plan.check_room(whole, free)?;
        for wanted in wanted {
            // Each is let go when it is copied: a segment that was freed meanwhile gives its space back then.
            self.copy(&wanted)?;
        }
        self.finish(batch)
    }

    /// Everything that the newest checkpoint and the journal after it need: what can be shared is, the rest is to be
    /// copied. Answers the newest batch of it too.
    fn collect(
        &mut self,
        upkeep: &Upkeep,
        manifest: &Manifest,
    ) -> Result<(Vec<Wanted>, BatchNumber), LogError> {
        let inner = &self.store.inner;
        let mut wanted = Vec::new();
        let (segments, active, end, batch) = {
            let mut ledger = inner.writer.lock();
            let journal = ledger.shelf.journal_mut()?;
            (inner.segments.list(), journal.active().number(), journal.end(), journal.written_through())
        };
        let start = manifest.fields.replay.address;
        for segment in segments {
            let is_listed = manifest.fields.segments.iter().any(|listed| listed.number == segment.number());
            let is_after = segment.kind() == SegmentKind::Journal && segment.end() > start;
            let is_open = Some(segment.number()) == upkeep.open_survivor();
            if segment.number() == active {
                wanted.push(segment_until(segment, end));
            } else if is_open || ((is_listed || is_after) && !self.try_share(segment.name())?) {
                let end = segment.end();
                wanted.push(segment_until(segment, end));
            }
        }
        let sidecars = manifest.fields.sidecars.iter().map(|sidecar| sidecar.name.clone());
        for name in manifest.files().into_iter().chain(sidecars) {
            self.to.create_dir(folder_of(&name)).doing("making", folder_of(&name))?;
            if !self.try_share(&name)? {
                wanted.push(open_file(&*inner.disk, name)?);
            }
        }
        for name in inner.disk.list(DAMAGED_FOLDER).doing("listing", DAMAGED_FOLDER)? {
            self.to.create_dir(DAMAGED_FOLDER).doing("making", DAMAGED_FOLDER)?;
            wanted.push(in_quarantine(&inner.disk, &format!("{DAMAGED_FOLDER}/{name}"))?);
        }
        let file = inner.disk.open(MANIFEST_FILE).doing("opening", MANIFEST_FILE)?;
        let bytes = read_whole(&*file, 4 << 30).doing("reading", MANIFEST_FILE)?;
        wanted.push(small(MANIFEST_FILE, bytes));
        // The store may begin a segment later, which is not part of the backup.
        let expected = Expected { newest_segment: Some(active), manifest: true };
        let identity = inner.expecting.identity();
        wanted.push(small(IDENTITY_FILE, store_file(&identity, Slot::first(expected))));
        Ok((wanted, batch))
    }

    /// Gives a file that does not change any more a second name, if that was asked for, or has the file system copy it.
    /// False when neither can be. After the first refusal nothing more is tried: the other files lie on the same disks.
    fn try_share(&mut self, name: &str) -> Result<bool, LogError> {
        if !self.may_share {
            return Ok(false);
        }
        let (disk, to) = (&self.store.inner.disk, self.target.join(name));
        self.names.push(name.to_owned());
        let shared = match self.plan.sharing {
            Sharing::Links => disk.hard_link_out(name, &to),
            Sharing::Nothing => disk.clone_out(name, &to),
        };
        if shared.is_err() {
            self.names.pop();
            self.may_share = false;
            return Ok(false);
        }
        match self.plan.sharing {
            Sharing::Links => self.linked.push(name.to_owned()),
            Sharing::Nothing => self.cloned.push(name.to_owned()),
        }
        let file = self.to.open(name).doing("opening", name)?;
        self.progress.add(file.len().doing("measuring", name)?);
        Ok(true)
    }

    /// Copies a file up to a length; zeros follow, as in a new segment.
    fn copy(&mut self, wanted: &Wanted) -> Result<(), LogError> {
        let (name, lengths) = (&wanted.name, wanted.lengths);
        self.progress.goes_on()?;
        let file = self.to.create(name).doing("making", name)?;
        self.names.push(name.clone());
        let (mut at, mut sum) = (0, 0);
        while at < lengths.copied {
            self.progress.goes_on()?;
            let step = wanted.source.read(name, at, (lengths.copied - at).min(STEP) as usize)?;
            file.write_at(at, &step).doing("writing", name)?;
            // Of what the store held: what the backup's disk makes of it shows when the backup is verified.
            sum = crc32c::crc32c_append(sum, &step);
            at += step.len() as u64;
            self.progress.add(step.len() as u64);
            if at < lengths.copied {
                // Bit by bit: one sync at the end would keep the disk from the journal for long.
                file.sync_data().doing("syncing", name)?;
            }
        }
        file.allocate(lengths.whole).doing("filling", name)?;
        file.sync_all().doing("syncing", name)?;
        sum = with_zeros(sum, lengths.whole.saturating_sub(lengths.copied));
        self.copied.push(BackedUp { name: name.clone(), bytes: lengths.whole.max(lengths.copied), sum });
        Ok(())
    }

    /// Makes everything durable, then writes the list.
    fn finish(&mut self, batch: BatchNumber) -> Result<BackupReport, LogError> {
        for name in &self.cloned {
            self.to.open(name).and_then(|file| file.sync_all()).doing("syncing", name)?;
        }
        let folders: std::collections::BTreeSet<&str> =
            self.names.iter().map(|name| folder_of(name)).chain([""]).collect();
        for folder in folders {
            self.to.sync_dir(folder).doing("syncing", folder)?;
        }
        let files = self.measured()?;
        replace_whole(&self.to, BACKUP_LIST, list_of(&files).as_bytes()).doing("writing", BACKUP_LIST)?;
        let (linked, cloned) = (self.linked.len() as u64, self.cloned.len() as u64);
        Ok(BackupReport { batch, files, linked, cloned })
    }

    /// All files with their checksums, by name. Only those that the file system shared are read for that, slowly.
    fn measured(&mut self) -> Result<Vec<BackedUp>, LogError> {
        let mut pacer = Pacer::begin(self.plan.read_per_second_max);
        let mut files = std::mem::take(&mut self.copied);
        for name in self.linked.iter().chain(&self.cloned) {
            files.push(measure_by(&self.to, name, |read| {
                self.progress.goes_on()?;
                pacer.read(read);
                Ok(())
            })?);
        }
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    /// Removes what was made of a backup that failed, and the directory if it was made for it.
    fn undo(&self, is_new: bool) -> std::io::Result<()> {
        let unfinished = format!("{BACKUP_LIST}.tmp");
        let list = [BACKUP_LIST, unfinished.as_str()];
        for name in self.names.iter().map(String::as_str).chain(list) {
            remove_if_there(&self.to, name)?;
        }
        for folder in [SEGMENTS_FOLDER, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, DAMAGED_FOLDER] {
            match std::fs::remove_dir(self.target.join(folder)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if is_new { std::fs::remove_dir(self.target) } else { Ok(()) }
    }
}

/// The checksum of bytes with zeros behind them.
fn with_zeros(mut sum: u32, mut zeros: u64) -> u32 {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while zeros > 0 {
        let step = zeros.min(ZEROS.len() as u64);
        sum = crc32c::crc32c_append(sum, &ZEROS[..step as usize]);
        zeros -= step;
    }
    sum
}
