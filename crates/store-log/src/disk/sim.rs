//! A disk in memory that can fail at any point, lose power, and be found again as a real one might be.
//!
//! Every file keeps what is durable and what was done since its last sync; every folder does the same with its
//! names. Each operation that changes something is a numbered *point*, where a [`FaultPlan`] may strike.
//! After a cut, [`SimDisk::reopen`] decides by seed what of the unsynced operations is found, sector by sector and
//! name by name, never more than a disk may do. Contents are shared copy-on-write, so a [`SimDisk::snapshot`]
//! (also one before every point, with [`SimDisk::record_snapshots`]) costs little.
//!
//! A failed sync is modelled like Linux: some sectors reached the disk, the rest stays readable but counts as
//! clean, so a later sync of the same file does not save it.

use super::{Disk, DiskFile, DiskLock, check_name, check_rename, folder_of};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECTOR: u64 = 512;
const PAGE: u64 = 4096;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This operation fails with an I/O error; later ones work.
    Error,
    /// This operation fails because the disk is full; later ones work.
    NoSpace,
    /// This operation and all that follow fail with an I/O error.
    ErrorsFromHere,
    /// The power goes while this operation is under way: it may or may not reach the disk, and all later ones fail.
    PowerCut,
}

/// When a fault strikes: at the first point numbered `at` or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// The point's number; the first is 1.
    pub at: u64,
    /// What happens there.
    pub fault: Fault,
}

/// How the disk is found after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing unsynced reached the disk.
    Lost,
    /// Everything unsynced did.
    Kept,
    /// Any part did: sectors of any write, names of any folder, lengths in between.
    Torn,
}

/// What was done to the disk so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Positioned writes.
    pub writes: u64,
    /// Bytes in them.
    pub bytes_written: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of folders.
    pub dir_syncs: u64,
    /// Bytes filled with zeros.
    pub bytes_allocated: u64,
    /// Points passed: every operation that changes something.
    pub points: u64,
}

/// A simulated disk; clones are handles to the same one.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

struct Shared {
    /// Guards everything the disk holds, and the order of its operations.
    state: Mutex<State>,
    locked: AtomicBool,
}

#[derive(Clone, Default)]
struct State {
    files: HashMap<u64, Arc<SimContents>>,
    folders: BTreeMap<String, Folder>,
    next_file: u64,
    plan: Option<FaultPlan>,
    broken: Option<Fault>,
    capacity: Option<u64>,
    sync_delay: Duration,
    copy_on_write: bool,
    stats: SimStats,
    recording: bool,
    recorded: Vec<(u64, Arc<State>)>,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk without limits or faults.
    pub fn new() -> Self {
        let mut state = State { next_file: 1, ..State::default() };
        state.folders.insert(String::new(), Folder::default());
        Self::from_state(state)
    }

    fn from_state(state: State) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::new(state), locked: AtomicBool::new(false) }) }
    }

    /// Plans a fault, or none.
    pub fn set_fault(&self, plan: Option<FaultPlan>) {
        let mut state = self.shared.state.lock();
        state.plan = plan;
        state.broken = None;
    }

    /// Limits the sum of all files' lengths.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().capacity = bytes;
    }

    /// Makes every sync of a file take that long in real time.
    pub fn set_sync_delay(&self, delay: Duration) {
        self.shared.state.lock().sync_delay = delay;
    }

    /// Makes the disk call itself copy-on-write.
    pub fn set_copy_on_write(&self, yes: bool) {
        self.shared.state.lock().copy_on_write = yes;
    }

    /// What was done so far.
    pub fn stats(&self) -> SimStats {
        self.shared.state.lock().stats
    }

    /// The number of the last point passed.
    pub fn points(&self) -> u64 {
        self.stats().points
    }

    /// A disk of its own with the same durable and unsynced state, unlocked and without a fault plan.
    pub fn snapshot(&self) -> SimDisk {
        Self::from_state(self.shared.state.lock().bare())
    }

    /// From here on keeps a snapshot from before every point: the states a power cut can meet.
    pub fn record_snapshots(&self) {
        self.shared.state.lock().recording = true;
    }

    /// The recorded snapshots with the number of the last point each has seen; recording ends.
    pub fn take_snapshots(&self) -> Vec<(u64, SimDisk)> {
        let mut state = self.shared.state.lock();
        state.recording = false;
        let recorded = std::mem::take(&mut state.recorded);
        drop(state);
        recorded.into_iter().map(|(point, state)| (point, Self::from_state(state.bare()))).collect()
    }

    /// The disk as it may be found after the power went now; what is found is durable.
    pub fn reopen(&self, seed: u64, found: Found) -> SimDisk {
        let mut state = self.shared.state.lock().bare();
        let mut chance = Chance(seed);
        for folder in state.folders.values_mut() {
            folder.settle(found, &mut chance);
        }
        let names: Vec<u64> =
            state.folders.values().flat_map(|folder| folder.now.values().copied()).collect();
        let mut files = HashMap::with_capacity(names.len());
        // In order of the names, so that the same seed finds the same disk.
        for id in names {
            if let Some(file) = state.files.get(&id) {
                files.entry(id).or_insert_with(|| {
                    let mut file = SimContents::clone(file);
                    file.settle(found, &mut chance);
                    Arc::new(file)
                });
            }
        }
        state.files = files;
        Self::from_state(state)
    }

    /// The disk after only the process died: all that was written can be read, but is no more durable than before.
    pub fn reopen_process_crash(&self) -> SimDisk {
        self.snapshot()
    }

    /// Changes stored bytes behind everyone's back, durably: for tests of damage.
    pub fn corrupt(
        &self,
        name: &str,
        offset: u64,
        change: impl FnOnce(&mut [u8]),
        len: usize,
    ) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let id = state.find(name)?;
        let file = Arc::make_mut(state.files.get_mut(&id).expect("a name leads to a file"));
        let mut bytes = vec![0; len];
        file.now.read(offset, &mut bytes);
        change(&mut bytes);
        file.now.write(offset, &bytes);
        file.durable.write(offset, &bytes);
        Ok(())
    }

    /// Cuts a file short behind everyone's back, durably: for tests of damage.
    pub fn shorten(&self, name: &str, len: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let id = state.find(name)?;
        let file = Arc::make_mut(state.files.get_mut(&id).expect("a name leads to a file"));
        file.now.truncate(len);
        file.durable.truncate(len);
        Ok(())
    }

    fn handle(&self, id: u64) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { shared: self.shared.clone(), id })
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        check_name(name)?;
        let mut state = self.shared.state.lock();
        if state.folder(name)?.now.contains_key(base_of(name)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let verdict = state.point();
        if verdict.applies() {
            let id = state.next_file;
            state.next_file += 1;
            state.files.insert(id, Arc::default());
            state.folder_mut(name)?.change(NameChange::Set(base_of(name).to_owned(), id));
        }
        verdict.result()?;
        let id = state.next_file - 1;
        drop(state);
        Ok(self.handle(id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        check_name(name)?;
        let state = self.shared.state.lock();
        state.check_power()?;
        let id = state.find(name)?;
        drop(state);
        Ok(self.handle(id))
    }

    fn create_dir(&self, folder: &str) -> io::Result<()> {
        check_name(folder)?;
        let mut state = self.shared.state.lock();
        if state.folders.contains_key(folder) {
            return Ok(());
        }
        // Folders are durable once made: they are made once, before anything is acknowledged.
        let verdict = state.point();
        if verdict.applies() {
            state.folders.insert(folder.to_owned(), Folder::default());
        }
        verdict.result()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_rename(from, to)?;
        let mut state = self.shared.state.lock();
        let id = state.find(from)?;
        let verdict = state.point();
        if verdict.applies() {
            state.folder_mut(from)?.change(NameChange::Move(
                base_of(from).to_owned(),
                base_of(to).to_owned(),
                id,
            ));
        }
        verdict.result()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut state = self.shared.state.lock();
        state.find(name)?;
        let verdict = state.point();
        if verdict.applies() {
            state.folder_mut(name)?.change(NameChange::Drop(base_of(name).to_owned()));
        }
        verdict.result()
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.folders.get(folder).map(|folder| folder.now.keys().cloned().collect()).unwrap_or_default())
    }

    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut state = self.shared.state.lock();
        let id = state.find(from)?;
        if state.find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let verdict = state.point();
        if verdict.applies() {
            state.folder_mut(to)?.change(NameChange::Set(base_of(to).to_owned(), id));
        }
        verdict.result()
    }

    fn hard_link_out(&self, _from: &str, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link_count(&self, name: &str) -> io::Result<u64> {
        let state = self.shared.state.lock();
        state.check_power()?;
        let id = state.find(name)?;
        Ok(state.links(id))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let verdict = state.point();
        state.stats.dir_syncs += 1;
        let folder = state.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound)?;
        if verdict == Verdict::Go {
            folder.settle(Found::Kept, &mut Chance(0));
        }
        verdict.result()
    }

    fn free_space(&self) -> io::Result<u64> {
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.capacity.map_or(1 << 50, |capacity| capacity.saturating_sub(state.used())))
    }

    fn lock(&self) -> io::Result<DiskLock> {
        if self.shared.locked.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another holder of the simulated disk"));
        }
        Ok(DiskLock::holding(SimLock(self.shared.clone())))
    }

    fn is_copy_on_write(&self) -> bool {
        self.shared.state.lock().copy_on_write
    }
}

struct SimLock(Arc<Shared>);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

struct SimFile {
    shared: Arc<Shared>,
    id: u64,
}

impl SimFile {
    fn change<T>(
        &self,
        change: impl FnOnce(&mut State, &mut SimContents, Verdict) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.shared.state.lock();
        let verdict = state.point();
        // Taken out of the map, so that nobody else shares it unless a snapshot does.
        let mut file = state.files.remove(&self.id).unwrap_or_default();
        let result = change(&mut state, Arc::make_mut(&mut file), verdict);
        state.files.insert(self.id, file);
        result
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|state, file, verdict| {
            let end = offset + bytes.len() as u64;
            state.check_room(file.now.len, end.saturating_sub(file.now.len))?;
            match verdict {
                Verdict::Fail(_) => file.write(offset, &bytes[..bytes.len() / 2]),
                Verdict::Go | Verdict::Cut => file.write(offset, bytes),
                Verdict::Dead => {}
            }
            state.stats.writes += 1;
            state.stats.bytes_written += bytes.len() as u64;
            verdict.result()
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.now.read(offset, buffer)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let delay = self.shared.state.lock().sync_delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        self.change(|state, file, verdict| {
            state.stats.syncs += 1;
            match verdict {
                Verdict::Go => file.sync(),
                Verdict::Fail(_) => file.fail_sync(&mut Chance(state.stats.points)),
                Verdict::Cut | Verdict::Dead => {}
            }
            verdict.result()
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.now.len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(|state, file, verdict| {
            let more = len.saturating_sub(file.now.len);
            state.check_room(file.now.len, more)?;
            match verdict {
                Verdict::Fail(_) => file.grow(file.now.len + more / 2),
                Verdict::Go | Verdict::Cut => file.grow(len),
                Verdict::Dead => {}
            }
            state.stats.bytes_allocated += more;
            verdict.result()
        })
    }
}

/// What the fault plan says of one operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Go,
    /// It fails, and may have done part of its work.
    Fail(io::ErrorKind),
    /// The power goes while it is under way.
    Cut,
    /// The power is gone.
    Dead,
}

impl Verdict {
    /// Whether a change of names takes place (unsynced); a failed one does not.
    fn applies(self) -> bool {
        matches!(self, Self::Go | Self::Cut)
    }

    fn result(self) -> io::Result<()> {
        match self {
            Self::Go => Ok(()),
            Self::Fail(kind) => Err(io::Error::new(kind, "planned fault")),
            Self::Cut | Self::Dead => Err(power_is_gone()),
        }
    }
}

fn power_is_gone() -> io::Error {
    io::Error::other("the simulated power is gone")
}

impl State {
    /// A copy without plans, faults and recordings.
    fn bare(&self) -> Self {
        Self {
            files: self.files.clone(),
            folders: self.folders.clone(),
            next_file: self.next_file,
            capacity: self.capacity,
            copy_on_write: self.copy_on_write,
            ..Self::default()
        }
    }

    fn point(&mut self) -> Verdict {
        if self.recording {
            let before = Arc::new(self.bare());
            self.recorded.push((self.stats.points, before));
        }
        if self.broken == Some(Fault::PowerCut) {
            return Verdict::Dead;
        }
        self.stats.points += 1;
        if self.broken.is_some() {
            return Verdict::Fail(io::ErrorKind::Other);
        }
        let Some(plan) = self.plan.filter(|plan| plan.at <= self.stats.points) else { return Verdict::Go };
        self.plan = None;
        match plan.fault {
            Fault::Error => Verdict::Fail(io::ErrorKind::Other),
            Fault::NoSpace => Verdict::Fail(io::ErrorKind::StorageFull),
            Fault::ErrorsFromHere => {
                self.broken = Some(plan.fault);
                Verdict::Fail(io::ErrorKind::Other)
            }
            Fault::PowerCut => {
                self.broken = Some(plan.fault);
                Verdict::Cut
            }
        }
    }

    fn check_power(&self) -> io::Result<()> {
        if self.broken == Some(Fault::PowerCut) { Err(power_is_gone()) } else { Ok(()) }
    }

    fn folder(&self, name: &str) -> io::Result<&Folder> {
        self.folders.get(folder_of(name)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn folder_mut(&mut self, name: &str) -> io::Result<&mut Folder> {
        self.folders.get_mut(folder_of(name)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.folder(name)?.now.get(base_of(name)).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn links(&self, id: u64) -> u64 {
        self.folders.values().flat_map(|folder| folder.now.values()).filter(|&&other| other == id).count()
            as u64
    }

    /// Bytes of all files that have a name.
    fn used(&self) -> u64 {
        let mut ids: Vec<u64> =
            self.folders.values().flat_map(|folder| folder.now.values().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().filter_map(|id| self.files.get(id)).map(|file| file.now.len).sum()
    }

    /// Refuses growth past the capacity. The file being changed is out of the map just now: `len` is its length.
    fn check_room(&self, len: u64, more: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity.filter(|_| more > 0) else { return Ok(()) };
        if self.used() + len + more <= capacity { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

fn base_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, base)| base)
}

/// One folder's names: durable ones, and what was done since its last sync.
#[derive(Clone, Default)]
struct Folder {
    durable: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
}

#[derive(Clone)]
enum NameChange {
    Set(String, u64),
    Move(String, String, u64),
    Drop(String),
}

impl Folder {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    /// Makes durable what is found of the pending changes. Each change is found whole or not at all.
    fn settle(&mut self, found: Found, chance: &mut Chance) {
        let taste = chance.taste(found);
        for change in self.pending.drain(..) {
            if chance.keeps(taste) {
                change.apply(&mut self.durable);
            }
        }
        self.now.clone_from(&self.durable);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Set(name, id) => drop(names.insert(name.clone(), *id)),
            Self::Move(from, to, id) => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
            Self::Drop(name) => drop(names.remove(name)),
        }
    }
}

/// One file: durable bytes, the bytes as read now, and what was done since its last sync.
#[derive(Clone, Default)]
struct SimContents {
    durable: Pages,
    now: Pages,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Arc<[u8]>),
    Grow(u64),
}

impl SimContents {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.pending.push(Change::Write(offset, bytes.into()));
    }

    fn grow(&mut self, len: u64) {
        self.now.grow(len);
        self.pending.push(Change::Grow(len));
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write(offset, bytes) => self.durable.write(offset, &bytes),
                Change::Grow(len) => self.durable.grow(len),
            }
        }
    }

    /// Some of it reached the disk, all of it stays readable, none of it will be tried again.
    fn fail_sync(&mut self, chance: &mut Chance) {
        let now = self.now.clone();
        self.settle(Found::Torn, chance);
        self.now = now;
    }

    /// Makes durable what is found of the pending changes, and forgets the rest.
    fn settle(&mut self, found: Found, chance: &mut Chance) {
        match chance.taste(found) {
            Taste::All => self.sync(),
            Taste::Nothing => self.pending.clear(),
            Taste::Some => self.tear(chance),
        }
        self.now = self.durable.clone();
    }

    /// Each sector shows the state after any number of the writes that touched it; the length lies anywhere
    /// between the durable one and the last.
    fn tear(&mut self, chance: &mut Chance) {
        let pending = std::mem::take(&mut self.pending);
        let len = self.torn_length(&pending, chance);
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for (index, change) in pending.iter().enumerate() {
            let Change::Write(offset, bytes) = change else { continue };
            for (at, part) in by_sector(*offset, bytes) {
                let until = *seen.entry(at / SECTOR).or_insert_with(|| chance.prefix(pending.len()));
                if index < until && at < len {
                    let fits = part.len().min((len - at) as usize);
                    self.durable.write(at, &part[..fits]);
                }
            }
        }
        self.durable.grow(len);
    }

    fn torn_length(&self, pending: &[Change], chance: &mut Chance) -> u64 {
        let longest = pending.iter().fold(self.durable.len, |len, change| match change {
            Change::Write(offset, bytes) => len.max(offset + bytes.len() as u64),
            Change::Grow(grown) => len.max(*grown),
        });
        match chance.below(3) {
            0 => self.durable.len,
            1 => longest,
            _ => self.durable.len + chance.below(longest - self.durable.len + 1),
        }
    }
}

/// Splits a write where sectors meet.
fn by_sector(mut offset: u64, mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let (part, rest) = bytes.split_at(bytes.len().min((SECTOR - offset % SECTOR) as usize));
        let at = offset;
        offset += part.len() as u64;
        bytes = rest;
        Some((at, part))
    })
}

/// Bytes in shared pages; a missing page is zeros.
#[derive(Clone, Default)]
struct Pages {
    len: u64,
    pages: Vec<Option<Arc<[u8; PAGE as usize]>>>,
}

impl Pages {
    fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
        self.pages.resize(self.len.div_ceil(PAGE) as usize, None);
    }

    fn truncate(&mut self, len: u64) {
        if len < self.len {
            let zeros = vec![0; (self.len - len).min(PAGE - len % PAGE) as usize];
            self.write(len, &zeros);
            self.len = len;
            self.pages.truncate(len.div_ceil(PAGE) as usize);
        }
    }

    fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        self.grow(offset + bytes.len() as u64);
        while !bytes.is_empty() {
            let within = (offset % PAGE) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(PAGE as usize - within));
            let page =
                self.pages[(offset / PAGE) as usize].get_or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(part);
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let wanted = (self.len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let step = (PAGE as usize - within).min(wanted - done);
            let target = &mut buffer[done..done + step];
            match &self.pages[(at / PAGE) as usize] {
                Some(page) => target.copy_from_slice(&page[within..within + step]),
                None => target.fill(0),
            }
            done += step;
        }
        wanted
    }
}

/// How much of a group of changes is found.
#[derive(Clone, Copy)]
enum Taste {
    Nothing,
    All,
    Some,
}

/// Random numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A torn disk keeps some files and folders wholly and loses others wholly, to meet every mixture.
    fn taste(&mut self, found: Found) -> Taste {
        match found {
            Found::Lost => Taste::Nothing,
            Found::Kept => Taste::All,
            Found::Torn => match self.below(4) {
                0 => Taste::Nothing,
                1 => Taste::All,
                _ => Taste::Some,
            },
        }
    }

    fn keeps(&mut self, taste: Taste) -> bool {
        match taste {
            Taste::Nothing => false,
            Taste::All => true,
            Taste::Some => self.below(2) == 0,
        }
    }

    /// How many of `count` writes a sector has seen.
    fn prefix(&mut self, count: usize) -> usize {
        match self.below(3) {
            0 => 0,
            1 => count,
            _ => self.below(count as u64 + 1) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
        let file = disk.open(name).ok()?;
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    #[test]
    fn unsynced_writes_may_be_lost_kept_or_torn_and_synced_ones_never() {
        let disk = SimDisk::new();
        let file = disk.create("a").unwrap();
        file.allocate(4096).unwrap();
        file.write_at(0, &[1; 1024]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, &[2; 2048]).unwrap();
        file.write_at(512, &[3; 512]).unwrap();

        let lost = contents(&disk.reopen(1, Found::Lost), "a").unwrap();
        assert_eq!((lost[0], lost[512], lost[1024]), (1, 1, 0));
        let kept = contents(&disk.reopen(1, Found::Kept), "a").unwrap();
        assert_eq!((kept[0], kept[512], kept[1024]), (2, 3, 2));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let torn = contents(&disk.reopen(seed, Found::Torn), "a").unwrap();
            assert!(torn[..512].iter().all(|b| *b == torn[0]), "a sector is never torn within");
            seen.insert((torn[0], torn[512], torn[1024], torn[1536]));
        }
        assert!(seen.contains(&(1, 3, 0, 2)) && seen.contains(&(2, 1, 2, 0)) && seen.contains(&(2, 2, 0, 0)));
        assert_eq!(seen.len(), 2 * 3 * 2 * 2);
    }

    #[test]
    fn the_same_seed_finds_the_same_disk() {
        let disk = SimDisk::new();
        for name in ["a", "b", "c", "d"] {
            disk.create(name).unwrap().write_at(100, &[7; 5000]).unwrap();
        }
        let found = |seed| ["a", "b", "c", "d"].map(|name| contents(&disk.reopen(seed, Found::Torn), name));
        assert_eq!(found(5), found(5));
        assert!((0..20).any(|seed| found(seed) != found(5)));
    }

    #[test]
    fn names_are_durable_only_after_their_folder_is_synced() {
        let disk = SimDisk::new();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"x").unwrap();
        file.sync_all().unwrap();
        assert_eq!(contents(&disk.reopen(0, Found::Lost), "a"), None);
        disk.sync_dir("").unwrap();
        disk.rename("a", "b").unwrap();
        let lost = disk.reopen(0, Found::Lost);
        assert_eq!((contents(&lost, "a").is_some(), contents(&lost, "b").is_some()), (true, false));
        let kept = disk.reopen(0, Found::Kept);
        assert_eq!((contents(&kept, "a").is_some(), contents(&kept, "b").is_some()), (false, true));
    }

    #[test]
    fn lengths_are_shorn_before_a_sync() {
        let disk = SimDisk::new();
        let file = disk.create("a").unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(0, &[9; 3000]).unwrap();
        let lengths: std::collections::BTreeSet<usize> =
            (0..100).map(|seed| contents(&disk.reopen(seed, Found::Torn), "a").unwrap().len()).collect();
        assert!(lengths.contains(&0) && lengths.contains(&3000) && lengths.len() > 5);
    }

    #[test]
    fn a_process_crash_keeps_writes_readable_but_not_durable() {
        let disk = SimDisk::new();
        disk.create("a").unwrap().write_at(0, b"x").unwrap();
        let after = disk.reopen_process_crash();
        assert_eq!(contents(&after, "a").unwrap(), b"x");
        assert_eq!(contents(&after.reopen(0, Found::Lost), "a"), None);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_the_next() {
        let lost = (0..40).any(|extra| {
            let disk = SimDisk::new();
            let file = disk.create("a").unwrap();
            disk.sync_dir("").unwrap();
            for _ in 0..extra {
                file.sync_data().unwrap();
            }
            file.write_at(0, b"x").unwrap();
            disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::Error }));
            file.sync_data().unwrap_err();
            file.sync_data().unwrap();
            assert_eq!(contents(&disk, "a").unwrap(), b"x");
            contents(&disk.reopen(0, Found::Kept), "a").unwrap() != b"x"
        });
        assert!(lost);
    }

    #[test]
    fn faults_strike_at_their_point_and_a_cut_ends_everything() {
        let disk = SimDisk::new();
        disk.set_fault(Some(FaultPlan { at: 2, fault: Fault::PowerCut }));
        let file = disk.create("a").unwrap();
        file.write_at(0, b"x").unwrap_err();
        file.sync_data().unwrap_err();
        disk.open("a").map(|_| ()).unwrap_err();
        assert_eq!(contents(&disk.reopen(0, Found::Kept), "a").unwrap(), b"x");
        disk.set_fault(Some(FaultPlan { at: 0, fault: Fault::Error }));
        file.write_at(0, b"y").unwrap_err();
        file.write_at(0, b"y").unwrap();
    }

    #[test]
    fn a_full_disk_refuses_growth_only() {
        let disk = SimDisk::new();
        disk.set_capacity(Some(10_000));
        let file = disk.create("a").unwrap();
        file.allocate(8_000).unwrap();
        assert_eq!(disk.free_space().unwrap(), 2_000);
        let other = disk.create("b").unwrap();
        assert_eq!(other.allocate(2_001).unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(7_990, &[1; 10]).unwrap();
        file.write_at(7_990, &[1; 3_000]).unwrap_err();
        disk.remove("a").unwrap();
        other.allocate(9_000).unwrap();
    }

    #[test]
    fn recorded_snapshots_show_every_state_a_cut_can_meet() {
        let disk = SimDisk::new();
        disk.record_snapshots();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"x").unwrap();
        file.write_at(0, b"y").unwrap();
        let seen: Vec<_> =
            disk.take_snapshots().iter().map(|(at, disk)| (*at, contents(disk, "a"))).collect();
        assert_eq!(seen, [(0, None), (1, Some(vec![])), (2, Some(b"x".to_vec()))]);
    }
}
