//! All segments of a store: which is where, which files are spare, and whether there is room.
//!
//! [`Segments`] is a handle that every part of the log shares. Its lock is held only to look up and to change entries;
//! filling and recycling files happens outside it, so [`Segments::prepare_spare`] can run on a background thread
//! while the writer writes. Space is allocated here and nowhere else in the journal: a full disk shows as
//! [`Room`], never as a failed batch.

mod spares;

use crate::disk::{Disk, Handles, SEGMENTS_FOLDER};
use crate::error::{Doing, LogError};
use crate::journal::frame::Checksums;
use crate::journal::kept_room::KeptRoom;
use crate::journal::numbers::{Address, SegmentNumber};
use crate::journal::plain_frames::frames_end;
use crate::journal::scan::ReplayStart;
use crate::journal::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentKind, SegmentUse, parse_name};
use crate::turns::Lock;
pub(crate) use spares::Spare;
use spares::SpareNumber;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Files of segments that are open at a time, besides those that must be.
    pub open_max: usize,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self {
            first_bytes: 1 << 20,
            largest_bytes: 64 << 20,
            reserve_spares: 2,
            spares_max: 4,
            open_max: 256,
        }
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

/// What a checkpoint remembers of segments.
#[derive(Debug, Clone, Copy)]
pub struct KnownSegments<'a> {
    /// The segments that it needs.
    pub segments: &'a [SegmentUse],
    /// The first batch that is not reflected everywhere.
    pub replay: ReplayStart,
    /// The number the next segment gets at least ([`Segments::next_number`]).
    pub next_segment: SegmentNumber,
    /// Where the next survivor segment starts at least ([`Segments::survivor_end`]).
    pub survivor_end: Address,
}

/// The segments of a store; clones are handles to the same ones.
#[derive(Clone)]
pub struct Segments {
    shared: Arc<SharedSegments>,
}

struct SharedSegments {
    disk: Arc<dyn Disk>,
    handles: Arc<Handles>,
    options: SegmentOptions,
    /// Guards which files are what; never held during disk work.
    table: Lock<Table>,
    /// `table.spares.len()`, to be read without the lock on the hot path.
    spares: AtomicUsize,
    /// Held while spares are made ahead of need: one maker at a time, or there would be too many.
    making: Lock<()>,
    kept: KeptRoom,
}

struct Table {
    /// In order of number, which is also the order of base.
    journal: Vec<Arc<Segment>>,
    /// In order of base.
    survivors: Vec<Arc<Segment>>,
    spares: Vec<Spare>,
    /// Freed, but their files still bear their names.
    retired: Vec<Arc<Segment>>,
    next_number: SegmentNumber,
    next_spare: SpareNumber,
    survivor_end: Address,
    size_last: u64,
    /// The last attempt to make a spare failed; the writer does not try again by itself.
    starved: bool,
    /// Data bytes that a step asked for and no spare held.
    wanted: Option<u64>,
}

impl Segments {
    /// Reads every segment's header; changes nothing on disk.
    pub fn open(disk: Arc<dyn Disk>, options: SegmentOptions) -> Result<Self, LogError> {
        let mut table = Table::new();
        let handles = Handles::new(Arc::clone(&disk), options.open_max);
        for name in disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)? {
            match parse_name(&name) {
                Some((number, "seg")) => {
                    table.insert(Arc::new(Segment::open(&handles, SegmentNumber(number))?));
                }
                Some((number, "spare")) => table.add_old_spare(&*disk, SpareNumber(number))?,
                _ => {}
            }
        }
        table.journal.sort_unstable_by_key(|segment| segment.number());
        table.survivors.sort_unstable_by_key(|segment| segment.base());
        table.derive_used();
        if let Some(newest) = table.journal.last() {
            newest.keep_open()?;
        }
        let spares = AtomicUsize::new(table.spares.len());
        let kept = KeptRoom::new(disk.clone());
        Ok(Self {
            shared: Arc::new(SharedSegments {
                disk,
                handles,
                options,
                table: Lock::new(table),
                spares,
                making: Lock::new(()),
                kept,
            }),
        })
    }

    /// Removes half-made files and spares past the bound, makes the folder and its names durable.
    /// Called once, before the first write.
    pub(crate) fn tidy(&self) -> Result<(), LogError> {
        let disk = &*self.shared.disk;
        disk.create_dir(SEGMENTS_FOLDER).doing("making", SEGMENTS_FOLDER)?;
        disk.sync_dir("").doing("syncing", "the store's directory")?;
        let kept = self.trim_spares();
        for name in disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)? {
            let name = match parse_name(&name) {
                Some((number, "filling")) => SpareNumber(number).filling_name(),
                Some((number, "spare")) if !kept.contains(&SpareNumber(number).name()) => {
                    SpareNumber(number).name()
                }
                _ => continue,
            };
            disk.remove(&name).doing("removing", &name)?;
        }
        disk.sync_dir(SEGMENTS_FOLDER).doing("syncing", SEGMENTS_FOLDER)
    }

    /// Keeps the largest spares, up to the bound; answers their names. One whose bytes an earlier run could not write
    /// back goes: its first sync would tell of that, and as a segment it would stop the journal.
    fn trim_spares(&self) -> Vec<String> {
        let mut table = self.shared.table.lock();
        table.spares.retain(|spare| spare.file.sync_data().is_ok());
        table.spares.sort_unstable_by_key(|spare| std::cmp::Reverse(spare.size));
        table.spares.truncate(self.shared.options.spares_max);
        self.shared.spares.store(table.spares.len(), Ordering::Release);
        table.spares.iter().map(|spare| spare.name.clone()).collect()
    }

    /// Makes the first spare of the reserve as far as space allows: a start does not wait for more. Without the others
    /// sends are refused, so the first of them makes what upkeep has not made by then.
    pub(crate) fn begin_reserve(&self) {
        if self.spares() < self.shared.options.reserve_spares.min(1) {
            // Upkeep makes what is missing, and reports when it cannot.
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
        let segments = if address.is_survivor() { &table.survivors } else { &table.journal };
        let after = segments.partition_point(|segment| segment.base() <= address);
        let segment = segments.get(after.checked_sub(1)?)?;
        (address < segment.end()).then(|| segment.clone())
    }

    /// The first segment that is written no more and has bytes at an address or behind it. Survivors that are still
    /// being copied count too, as far as they are.
    pub(crate) fn sealed_from(&self, address: Address) -> Option<Arc<Segment>> {
        let table = self.shared.table.lock();
        let first = |segments: &[Arc<Segment>]| {
            segments.get(segments.partition_point(|segment| segment.end() <= address)).cloned()
        };
        first(table.sealed_journal()).or_else(|| first(&table.survivors))
    }

    /// Bytes in use in all those segments.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        let table = self.shared.table.lock();
        table.sealed_journal().iter().chain(&table.survivors).map(|segment| segment.used()).sum()
    }

    /// How many of their files are open.
    pub fn open_files(&self) -> usize {
        self.shared.handles.open()
    }

    /// The segment with a number, if it is in use.
    pub fn numbered(&self, number: SegmentNumber) -> Option<Arc<Segment>> {
        let table = self.shared.table.lock();
        table.journal.iter().chain(&table.survivors).find(|segment| segment.number() == number).cloned()
    }

    /// Sets where new numbers and survivor addresses start at least, for what the manifest remembers of segments
    /// that are gone.
    fn raise_floors(&self, number: SegmentNumber, survivor_end: Address) {
        let mut table = self.shared.table.lock();
        table.next_number = table.next_number.max(number);
        table.survivor_end = table.survivor_end.max(survivor_end);
    }

    /// After [`crate::Journal::open`], makes the segments what a checkpoint remembers: gives up those from before the
    /// replay start that it does not list (freed, or survivors that no checkpoint knows), and learns how far the
    /// listed ones are used. Without a checkpoint no survivor counts. Answers the numbers given up. A listed segment
    /// that is gone was freed after the checkpoint, because records replayed now killed its last ones.
    ///
    /// A survivor segment in which messages rest by now (`is_needed`, by its base) stays, listed or not: a message
    /// that was copied forward after the checkpoint may have moved to another queue since, and the record of that move
    /// names its new place.
    pub fn reconcile(
        &self,
        known: Option<KnownSegments<'_>>,
        sums: Checksums,
        is_needed: impl Fn(Address) -> bool,
    ) -> Result<Vec<SegmentNumber>, LogError> {
        let listed: HashMap<SegmentNumber, &SegmentUse> =
            known.iter().flat_map(|known| known.segments).map(|segment| (segment.number, segment)).collect();
        let start = known.map_or(Address::START, |known| known.replay.address);
        // Its end is where the replay ended, whatever was written behind that when the checkpoint was made.
        let newest = self.shared.table.lock().newest(SegmentKind::Journal).map(|newest| newest.number());
        let mut given_up = Vec::new();
        for segment in self.list() {
            let survivor = segment.kind() == SegmentKind::Survivor;
            if survivor && is_needed(segment.base()) {
                // What a checkpoint lists was synced before: only what came after that is looked at.
                let listed = listed.get(&segment.number()).map_or(0, |listed| listed.used);
                let end = frames_end(&segment, segment.base() + listed, sums)?;
                segment.set_used(end - segment.base());
                self.raise_floors(segment.number().next(), segment.end());
                continue;
            }
            match listed.get(&segment.number()).filter(|listed| listed.base == segment.base()) {
                _ if Some(segment.number()) == newest => {}
                // One that was written on since knows better itself.
                Some(listed) if survivor || segment.end() <= start => segment.set_used(listed.used),
                None if (survivor || segment.base() < start) && self.free(segment.number()) => {
                    given_up.push(segment.number());
                }
                _ => {}
            }
        }
        if let Some(known) = known {
            self.raise_floors(known.next_segment, known.survivor_end);
        }
        Ok(given_up)
    }

    /// The number the next segment gets.
    pub fn next_number(&self) -> SegmentNumber {
        self.shared.table.lock().next_number
    }

    /// The address where the next survivor segment starts.
    pub fn survivor_end(&self) -> Address {
        self.shared.table.lock().survivor_end
    }

    /// Gives a segment up: nothing needs its bytes any more, not even after a crash right now. Its file is recycled
    /// or unlinked by the next [`Segments::prepare_spare`]. The journal's newest segment is never freed: false.
    pub fn free(&self, number: SegmentNumber) -> bool {
        let mut table = self.shared.table.lock();
        if table.journal.last().is_some_and(|newest| newest.number() == number) {
            return false;
        }
        table.retire(number)
    }

    /// Puts an empty segment aside after a successor was made for a batch that it could not hold.
    pub(crate) fn retire(&self, number: SegmentNumber) {
        self.shared.table.lock().retire(number);
    }
}

impl Table {
    /// The table of a store without files.
    fn new() -> Self {
        Self {
            journal: Vec::new(),
            survivors: Vec::new(),
            spares: Vec::new(),
            retired: Vec::new(),
            next_number: SegmentNumber::FIRST,
            next_spare: SpareNumber::FIRST,
            survivor_end: Address::SURVIVORS,
            size_last: 0,
            starved: false,
            wanted: None,
        }
    }

    /// The journal without the segment that is being written.
    fn sealed_journal(&self) -> &[Arc<Segment>] {
        self.journal.split_last().map_or(&[], |(_, sealed)| sealed)
    }

    /// The newest segment of a kind: the one that is being written.
    fn newest(&self, kind: SegmentKind) -> Option<&Arc<Segment>> {
        match kind {
            SegmentKind::Journal => self.journal.last(),
            SegmentKind::Survivor => self.survivors.last(),
        }
    }

    fn insert(&mut self, segment: Arc<Segment>) {
        self.next_number = self.next_number.max(segment.number().next());
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
    fn add_old_spare(&mut self, disk: &dyn Disk, number: SpareNumber) -> Result<(), LogError> {
        self.next_spare = self.next_spare.max(number.next());
        let name = number.name();
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
            let distance = pair[1].base().since(pair[0].base());
            pair[0].set_used(distance);
        }
    }

    fn retire(&mut self, number: SegmentNumber) -> bool {
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
