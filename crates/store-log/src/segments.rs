//! All segments of a store: which is where, which files are spare, and whether there is room.
//!
//! [`Segments`] is a handle that every part of the log shares. Its lock is held only for look-ups and book-keeping;
//! filling and recycling files happens outside it, so [`Segments::prepare_spare`] can run on a background thread
//! while the writer writes. Space is allocated here and nowhere else in the journal: a full disk shows as
//! [`Room`], never as a failed batch.

use crate::disk::{Disk, DiskFile, remove_if_there};
use crate::error::{Doing, LogError};
use crate::frame::{Address, Checksums, SURVIVOR_SPACE};
use crate::manifest::{ManifestFields, SegmentUse};
use crate::room::KeptRoom;
use crate::scan::frames_end;
use crate::segment::{
    SEGMENT_HEADER_BYTES, SEGMENTS_FOLDER, Segment, SegmentHeader, SegmentKind, filling_name, parse_name,
    segment_name, spare_name,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const BLOCK: u64 = 4096;

/// Sizes and bounds of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOptions {
    /// File bytes of the first segment, and the least of any.
    pub first_bytes: u64,
    /// File bytes beyond which segments do not grow (unless one batch needs more).
    pub largest_bytes: u64,
    /// Spare files that sends may not touch: the place for acks and copy-forward when the disk is full. With two, acks
    /// can go on for ever: while one fills, the one before it, which holds nothing but acks, is freed.
    pub reserve_spares: usize,
    /// Spare files kept at most; freed ones beyond it are unlinked. More than the reserve.
    pub spares_max: usize,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { first_bytes: 1 << 20, largest_bytes: 64 << 20, reserve_spares: 2, spares_max: 4 }
    }
}

/// Whether a batch can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Not even from the reserve.
    Nothing,
    /// Only at the cost of the reserve: acks and leases, no sends.
    ReserveOnly,
    /// Yes, and the reserve stays.
    Enough,
}

/// The segments of a store; clones are handles to the same ones.
#[derive(Clone)]
pub struct Segments {
    shared: Arc<Shared>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    options: SegmentOptions,
    /// Guards which files are what; never held during disk work.
    table: Mutex<Table>,
    /// `table.spares.len()`, to be read without the lock on the hot path.
    spares: AtomicUsize,
    kept: KeptRoom,
}

#[derive(Default)]
struct Table {
    /// In order of number, which is also the order of base.
    journal: Vec<Arc<Segment>>,
    /// In order of base.
    survivors: Vec<Arc<Segment>>,
    spares: Vec<Spare>,
    /// Freed, but their files still bear their names.
    retired: Vec<Arc<Segment>>,
    next_number: u64,
    next_spare: u64,
    survivor_end: Address,
    size_last: u64,
    /// The last attempt to make a spare failed; the writer does not try again by itself.
    starved: bool,
}

struct Spare {
    name: String,
    file: Arc<dyn DiskFile>,
    size: u64,
    /// Holds nothing but zeros.
    fresh: bool,
}

impl Segments {
    /// Reads every segment's header; changes nothing on disk.
    pub fn open(disk: Arc<dyn Disk>, options: SegmentOptions) -> Result<Self, LogError> {
        let mut table =
            Table { next_number: 1, next_spare: 1, survivor_end: SURVIVOR_SPACE, ..Table::default() };
        for name in disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)? {
            match parse_name(&name) {
                Some((number, "seg")) => table.insert(Arc::new(Segment::open(&*disk, number)?)),
                Some((number, "spare")) => table.add_old_spare(&*disk, number)?,
                _ => {}
            }
        }
        table.journal.sort_unstable_by_key(|segment| segment.number());
        table.survivors.sort_unstable_by_key(|segment| segment.base());
        table.derive_used();
        let spares = AtomicUsize::new(table.spares.len());
        let kept = KeptRoom::new(disk.clone());
        Ok(Self { shared: Arc::new(Shared { disk, options, table: Mutex::new(table), spares, kept }) })
    }

    /// Removes half-made files and spares past the bound, makes the folder and its names durable.
    /// Whoever is going to write calls it once.
    pub(crate) fn tidy(&self) -> Result<(), LogError> {
        let disk = &*self.shared.disk;
        disk.create_dir(SEGMENTS_FOLDER).doing("making", SEGMENTS_FOLDER)?;
        disk.sync_dir("").doing("syncing", "the store's directory")?;
        let kept = self.trim_spares();
        for name in disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)? {
            let name = match parse_name(&name) {
                Some((number, "filling")) => filling_name(number),
                Some((number, "spare")) if !kept.contains(&spare_name(number)) => spare_name(number),
                _ => continue,
            };
            disk.remove(&name).doing("removing", &name)?;
        }
        disk.sync_dir(SEGMENTS_FOLDER).doing("syncing", SEGMENTS_FOLDER)
    }

    /// Keeps the largest spares, up to the bound; answers their names.
    fn trim_spares(&self) -> Vec<String> {
        let mut table = self.shared.table.lock();
        table.spares.sort_unstable_by_key(|spare| std::cmp::Reverse(spare.size));
        table.spares.truncate(self.shared.options.spares_max);
        self.shared.spares.store(table.spares.len(), Ordering::Release);
        table.spares.iter().map(|spare| spare.name.clone()).collect()
    }

    /// Makes the first spare of the reserve as far as space allows: a start does not wait for more. Without the others
    /// sends are refused, so the first of them makes what upkeep has not made by then.
    pub(crate) fn begin_reserve(&self) {
        if self.spares() < self.shared.options.reserve_spares.min(1) {
            // Failures show in what is there afterwards.
            let _made = self.make_spare(0);
        }
    }

    /// Room that is kept for a checkpoint.
    pub(crate) fn kept(&self) -> &KeptRoom {
        &self.shared.kept
    }

    /// The disk they lie on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// All segments in use, journal first, each kind in order of address.
    pub fn list(&self) -> Vec<Arc<Segment>> {
        let table = self.shared.table.lock();
        table.journal.iter().chain(&table.survivors).cloned().collect()
    }

    /// The segment that holds an address, if there is one.
    pub fn find(&self, address: Address) -> Option<Arc<Segment>> {
        let table = self.shared.table.lock();
        let segments = if address & SURVIVOR_SPACE == 0 { &table.journal } else { &table.survivors };
        let after = segments.partition_point(|segment| segment.base() <= address);
        let segment = segments.get(after.checked_sub(1)?)?;
        (address < segment.end()).then(|| segment.clone())
    }

    /// The segment with a number, if it is in use.
    pub fn numbered(&self, number: u64) -> Option<Arc<Segment>> {
        let table = self.shared.table.lock();
        table.journal.iter().chain(&table.survivors).find(|segment| segment.number() == number).cloned()
    }

    /// Sets where new numbers and survivor addresses start at least, for what the manifest remembers of segments
    /// that are gone.
    fn raise_floors(&self, number: u64, survivor_end: Address) {
        let mut table = self.shared.table.lock();
        table.next_number = table.next_number.max(number);
        table.survivor_end = table.survivor_end.max(survivor_end);
    }

    /// After [`crate::Journal::open`], makes the segments what the manifest says: gives up those from before the
    /// replay start that it does not list (freed, or survivors that no checkpoint knows), and learns how far the
    /// listed ones are used. Without a manifest no survivor counts. Answers the numbers given up. A listed segment
    /// that is gone was freed after the checkpoint, because records replayed now killed its last ones.
    ///
    /// A survivor segment in which messages rest by now (`is_needed`, by its base) stays, listed or not: a message
    /// that was copied forward after the checkpoint may have moved to another queue since, and the record of that move
    /// names its new place.
    pub fn reconcile(
        &self,
        manifest: Option<&ManifestFields>,
        sums: Checksums,
        is_needed: impl Fn(Address) -> bool,
    ) -> Result<Vec<u64>, LogError> {
        let listed: HashMap<u64, &SegmentUse> = manifest
            .iter()
            .flat_map(|fields| &fields.segments)
            .map(|segment| (segment.number, segment))
            .collect();
        let start = manifest.map_or(0, |fields| fields.replay.address);
        let mut given_up = Vec::new();
        for segment in self.list() {
            let survivor = segment.kind() == SegmentKind::Survivor;
            if survivor && is_needed(segment.base()) {
                let listed = listed.get(&segment.number()).map_or(0, |listed| listed.used);
                segment.set_used(listed.max(frames_end(&segment, sums)? - segment.base()));
                self.raise_floors(segment.number() + 1, segment.end());
                continue;
            }
            match listed.get(&segment.number()).filter(|listed| listed.base == segment.base()) {
                // One that was written on since knows better itself.
                Some(listed) if survivor || segment.end() <= start => segment.set_used(listed.used),
                None if (survivor || segment.base() < start) && self.free(segment.number()) => {
                    given_up.push(segment.number());
                }
                _ => {}
            }
        }
        if let Some(fields) = manifest {
            self.raise_floors(fields.next_segment, fields.survivor_end);
        }
        Ok(given_up)
    }

    /// The number the next segment gets.
    pub fn next_number(&self) -> u64 {
        self.shared.table.lock().next_number
    }

    /// The address where the next survivor segment starts.
    pub fn survivor_end(&self) -> Address {
        self.shared.table.lock().survivor_end
    }

    /// Gives a segment up: nothing needs its bytes any more, not even after a crash right now. Its file is recycled
    /// or unlinked by the next [`Segments::prepare_spare`]. The journal's newest segment is never freed: false.
    pub fn free(&self, number: u64) -> bool {
        let mut table = self.shared.table.lock();
        if table.journal.last().is_some_and(|newest| newest.number() == number) {
            return false;
        }
        table.retire(number)
    }

    /// Puts an empty segment aside after a successor was made for a batch that it could not hold.
    pub(crate) fn retire(&self, number: u64) {
        self.shared.table.lock().retire(number);
    }

    /// True when [`Segments::prepare_spare`] has something to do.
    pub fn wants_spare(&self) -> bool {
        let table = self.shared.table.lock();
        !table.retired.is_empty() || table.spares.len() <= self.shared.options.reserve_spares
    }

    /// Recycles what was freed and fills a new spare ahead of need. Meant for a background thread; an error means
    /// that nothing could be prepared, and nothing else.
    pub fn prepare_spare(&self) -> Result<(), LogError> {
        self.recycle_retired()?;
        while self.spares() <= self.shared.options.reserve_spares {
            self.make_spare(0)?;
        }
        Ok(())
    }

    /// Unlinks one spare file to make room for something else (a checkpoint on a full disk); false when there is none.
    pub fn give_up_spare(&self) -> Result<bool, LogError> {
        let Some(spare) = self.take_spare(0, 0) else { return Ok(false) };
        self.shared.disk.remove(&spare.name).doing("removing", &spare.name)?;
        Ok(true)
    }

    /// How many of them sends may not touch.
    pub(crate) fn reserve(&self) -> usize {
        self.shared.options.reserve_spares
    }

    /// How many spare files there are.
    pub fn spares(&self) -> usize {
        self.shared.spares.load(Ordering::Acquire)
    }

    /// Bytes of all spare files.
    pub fn spare_bytes(&self) -> u64 {
        self.shared.table.lock().spares.iter().map(|spare| spare.size).sum()
    }

    pub(crate) fn reserve_is_there(&self) -> bool {
        self.spares() >= self.shared.options.reserve_spares && !self.shared.kept.is_short()
    }

    /// Whether a batch of some bytes can be written when the active segment has `remaining` left; makes a spare on
    /// the spot if that is what it takes.
    pub(crate) fn room(&self, remaining: u64, bytes: u64) -> Room {
        if let Some(room) = self.room_now(remaining, bytes) {
            return room;
        }
        // Failures show in what is there afterwards; the background thread reports them.
        let mut made = self.recycle_retired().is_ok();
        if let Some(room) = self.room_now(remaining, bytes) {
            return room;
        }
        while made && !self.shared.kept.is_short() && !self.shared.table.lock().starved {
            made = self.make_spare(bytes).is_ok();
            if let Some(room) = self.room_now(remaining, bytes) {
                return room;
            }
        }
        let reserve_fits = self.shared.table.lock().spares.iter().any(|spare| spare.holds(bytes));
        if remaining >= bytes || reserve_fits { Room::ReserveOnly } else { Room::Nothing }
    }

    fn room_now(&self, remaining: u64, bytes: u64) -> Option<Room> {
        let reserve = self.shared.options.reserve_spares;
        let table = self.shared.table.lock();
        let here = remaining >= bytes && table.spares.len() >= reserve;
        let in_spare = table.spares.len() > reserve && table.spares.iter().any(|spare| spare.holds(bytes));
        ((here || in_spare) && !self.shared.kept.is_short()).then_some(Room::Enough)
    }

    /// Makes a segment out of a spare: header written and synced, then its name, then the folder synced. `keep` spares
    /// are left alone. `NoSpace` means that nothing has changed.
    pub(crate) fn take(
        &self,
        kind: SegmentKind,
        bytes: u64,
        base: Address,
        created_batch: u64,
        keep: usize,
    ) -> Result<Arc<Segment>, LogError> {
        let spare = match self.take_spare(bytes, keep) {
            Some(spare) => spare,
            None => self.make_and_take_spare(bytes, keep)?,
        };
        let number = {
            let mut table = self.shared.table.lock();
            table.next_number += 1;
            table.next_number - 1
        };
        let header =
            SegmentHeader { number, kind, fresh: spare.fresh, base, created_batch, size: spare.size };
        let (disk, name) = (&*self.shared.disk, segment_name(number));
        spare.file.write_at(0, &header.encode()).doing("writing the header of", &name)?;
        spare.file.sync_all().doing("syncing the header of", &name)?;
        disk.rename(&spare.name, &name).doing("naming", &name)?;
        if let Err(error) = disk.sync_dir(SEGMENTS_FOLDER) {
            // Not `NoSpace`, whatever the system says: the name is there already, and going on in the old segment
            // would leave a second one that claims the same addresses.
            return Err(LogError::Io {
                doing: format!("syncing {SEGMENTS_FOLDER}"),
                kind: error.kind(),
                detail: error.to_string(),
            });
        }
        let segment = Arc::new(Segment::new(header, spare.file, 0));
        self.shared.table.lock().insert(segment.clone());
        Ok(segment)
    }

    /// Takes the largest spare if it holds the bytes, leaving at least `keep`.
    fn take_spare(&self, bytes: u64, keep: usize) -> Option<Spare> {
        let mut table = self.shared.table.lock();
        if table.spares.len() <= keep {
            return None;
        }
        let largest = (0..table.spares.len()).max_by_key(|&index| table.spares[index].size)?;
        if !table.spares[largest].holds(bytes) {
            return None;
        }
        let spare = table.spares.swap_remove(largest);
        self.shared.spares.store(table.spares.len(), Ordering::Release);
        Some(spare)
    }

    fn make_and_take_spare(&self, bytes: u64, keep: usize) -> Result<Spare, LogError> {
        self.recycle_retired()?;
        loop {
            if let Some(spare) = self.take_spare(bytes, keep) {
                return Ok(spare);
            }
            self.make_spare(bytes)?;
        }
    }

    /// Plans, fills and adopts one new spare that holds at least so many data bytes.
    fn make_spare(&self, bytes: u64) -> Result<(), LogError> {
        let disk = &*self.shared.disk;
        let made = self.plan(bytes).and_then(|(number, size)| fill(disk, number, size));
        let mut table = self.shared.table.lock();
        table.starved = made.is_err();
        let spare = made?;
        table.size_last = spare.size;
        table.spares.push(spare);
        self.shared.spares.store(table.spares.len(), Ordering::Release);
        Ok(())
    }

    /// Number and size of the next new spare.
    fn plan(&self, bytes: u64) -> Result<(u64, u64), LogError> {
        let free = self.shared.disk.free_space().doing("measuring", "the free space")?;
        let options = &self.shared.options;
        let mut table = self.shared.table.lock();
        table.next_spare += 1;
        let doubled =
            if table.size_last == 0 { options.first_bytes } else { table.size_last.saturating_mul(2) };
        let most = options.largest_bytes.min(free / 8).max(options.first_bytes);
        let size = doubled.min(most).max(bytes.saturating_add(SEGMENT_HEADER_BYTES));
        Ok((table.next_spare - 1, size.div_ceil(BLOCK) * BLOCK))
    }

    /// Turns freed segments into spares, or unlinks them: when someone reads one, when a backup linked it, when
    /// there are enough.
    fn recycle_retired(&self) -> Result<(), LogError> {
        loop {
            let Some(segment) = self.shared.table.lock().retired.pop() else { return Ok(()) };
            let name = segment.name().to_owned();
            if let Some(spare) = self.recycle(segment)? {
                self.adopt(spare)?;
            } else {
                self.shared.disk.remove(&name).doing("removing", &name)?;
            }
        }
    }

    fn recycle(&self, segment: Arc<Segment>) -> Result<Option<Spare>, LogError> {
        let disk = &*self.shared.disk;
        let Ok(segment) = Arc::try_unwrap(segment) else { return Ok(None) };
        let (name, size) = (segment.name().to_owned(), segment.size());
        if !self.worth_keeping(size) || disk.link_count(&name).doing("counting the names of", &name)? > 1 {
            return Ok(None);
        }
        let number = {
            let mut table = self.shared.table.lock();
            table.next_spare += 1;
            table.next_spare - 1
        };
        let spare = Spare { name: spare_name(number), file: segment.into_file(), size, fresh: false };
        disk.rename(&name, &spare.name).doing("renaming", &name)?;
        // Durable before it is overwritten: a crash must not bring the old name back over a new segment's bytes.
        disk.sync_dir(SEGMENTS_FOLDER).doing("syncing", SEGMENTS_FOLDER)?;
        Ok(Some(spare))
    }

    fn worth_keeping(&self, size: u64) -> bool {
        let table = self.shared.table.lock();
        size <= self.shared.options.largest_bytes
            && (table.spares.len() < self.shared.options.spares_max
                || table.spares.iter().any(|spare| spare.size < size))
    }

    /// Adds a recycled spare; past the bound the smallest one goes.
    fn adopt(&self, spare: Spare) -> Result<(), LogError> {
        let excess = {
            let mut table = self.shared.table.lock();
            table.starved = false;
            table.spares.push(spare);
            let smallest = (0..table.spares.len()).min_by_key(|&index| table.spares[index].size);
            let excess = smallest
                .filter(|_| table.spares.len() > self.shared.options.spares_max)
                .map(|index| table.spares.swap_remove(index));
            self.shared.spares.store(table.spares.len(), Ordering::Release);
            excess
        };
        match excess {
            Some(spare) => self.shared.disk.remove(&spare.name).doing("removing", &spare.name),
            None => Ok(()),
        }
    }
}

impl Table {
    fn insert(&mut self, segment: Arc<Segment>) {
        self.next_number = self.next_number.max(segment.number().saturating_add(1));
        match segment.kind() {
            SegmentKind::Journal => {
                self.size_last = self.size_last.max(segment.size());
                self.journal.push(segment);
            }
            SegmentKind::Survivor => {
                let end = segment.base().saturating_add(segment.capacity());
                self.survivor_end = self.survivor_end.max(end);
                self.survivors.push(segment);
            }
        }
    }

    /// Registers a spare file found at start. One too short for a header, or with a second name,
    /// is not used and soon removed.
    fn add_old_spare(&mut self, disk: &dyn Disk, number: u64) -> Result<(), LogError> {
        self.next_spare = self.next_spare.max(number.saturating_add(1));
        let name = spare_name(number);
        let file = disk.open(&name).doing("opening", &name)?;
        let size = file.len().doing("measuring", &name)?;
        if size > SEGMENT_HEADER_BYTES && disk.link_count(&name).doing("counting the names of", &name)? == 1 {
            self.spares.push(Spare { name, file, size, fresh: false });
        }
        Ok(())
    }

    /// A journal segment ends where the next begins, if nothing between them is gone.
    fn derive_used(&self) {
        for pair in self.journal.windows(2) {
            let distance = pair[1].base().saturating_sub(pair[0].base());
            pair[0].set_used(distance);
        }
    }

    fn retire(&mut self, number: u64) -> bool {
        for segments in [&mut self.journal, &mut self.survivors] {
            if let Some(index) = segments.iter().position(|segment| segment.number() == number) {
                let segment = segments.remove(index);
                self.retired.push(segment);
                return true;
            }
        }
        false
    }
}

impl Spare {
    fn holds(&self, bytes: u64) -> bool {
        self.size - SEGMENT_HEADER_BYTES >= bytes
    }
}

/// Makes a file of real zeros. It gets its spare's name only when they are on disk.
fn fill(disk: &dyn Disk, number: u64, size: u64) -> Result<Spare, LogError> {
    let (filling, name) = (filling_name(number), spare_name(number));
    let filled = (|| {
        remove_if_there(disk, &filling)?;
        let file = disk.create(&filling)?;
        file.allocate(size)?;
        file.sync_all()?;
        disk.rename(&filling, &name)?;
        Ok(file)
    })();
    match filled {
        Ok(file) => Ok(Spare { name, file, size, fresh: true }),
        Err(error) => {
            // What cannot be removed now is removed at the next start.
            let _left_behind = disk.remove(&filling);
            Err(LogError::from_io(format!("a segment of {size} bytes"), &error))
        }
    }
}
