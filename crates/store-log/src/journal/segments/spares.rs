//! Spare files: what the next segments are made of, whether there is room for a batch, and where room comes from.
//!
//! Files are filled and recycled outside the table's lock. Freed segments come back as spares; what is too many or too
//! small is unlinked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Room, Segments, Table};
use crate::disk::{Disk, DiskFile, SEGMENTS_FOLDER, remove_if_there};
use crate::error::{Doing, LogError};
use crate::journal::numbers::{Address, BatchNumber};
use crate::journal::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentKind, segment_name};

/// Sizes of files are multiples of this.
const BLOCK: u64 = 4096;

/// Number of a spare file: unique among the spare files of a store. It is not the number that its segment will have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpareNumber(pub u64);

impl SpareNumber {
    pub(super) const FIRST: Self = Self(1);

    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The name of the spare file.
    pub(super) fn name(self) -> String {
        format!("{SEGMENTS_FOLDER}/{:016x}.spare", self.0)
    }

    /// Its name while it is filled.
    pub(super) fn filling_name(self) -> String {
        format!("{SEGMENTS_FOLDER}/{:016x}.filling", self.0)
    }
}

/// A file that is ready to become a segment.
pub(crate) struct Spare {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: u64,
    /// Holds nothing but zeros.
    pub(super) fresh: bool,
}

impl Segments {
    /// True when [`Segments::prepare_spare`] has something to do.
    pub fn wants_spare(&self) -> bool {
        let table = self.shared.table.lock();
        table.retired.iter().any(|segment| !segment.is_held()) || self.is_missing(&table)
    }

    /// Whether there are too few spares, or none that holds what a step asked for.
    fn is_missing(&self, table: &Table) -> bool {
        table.spares.len() <= self.shared.options.reserve_spares
            || table.wanted.is_some_and(|wanted| !table.holds(wanted))
    }

    /// Asks for a spare that holds this many data bytes. The thread that makes spares makes it.
    pub(crate) fn want(&self, bytes: u64) {
        let mut table = self.shared.table.lock();
        table.wanted = table.wanted.max(Some(bytes));
    }

    /// Whether asking for a spare may help: the last one could be made, and nothing else is short of space.
    pub(crate) fn may_get_room(&self) -> bool {
        !self.shared.table.lock().starved && !self.shared.kept.is_short()
    }

    /// [`Segments::prepare_spare`], if it has something to do.
    pub(crate) fn prepare_wanted(&self) -> Result<(), LogError> {
        if self.wants_spare() { self.prepare_spare() } else { Ok(()) }
    }

    /// Recycles what was freed and fills a new spare ahead of need. Meant for a background thread; an error means
    /// that nothing could be prepared, and nothing else.
    pub fn prepare_spare(&self) -> Result<(), LogError> {
        while self.prepare_one()? {}
        Ok(())
    }

    /// Recycles what was freed and makes one of the spares that are missing; false when none is.
    pub(crate) fn prepare_one(&self) -> Result<bool, LogError> {
        let _alone = self.shared.making.lock();
        self.recycle_retired()?;
        let wanted = {
            let mut table = self.shared.table.lock();
            if !self.is_missing(&table) {
                table.wanted = None;
                return Ok(false);
            }
            table.wanted.take()
        };
        self.make_spare(wanted.unwrap_or(0))?;
        self.drop_excess()?;
        Ok(true)
    }

    /// Unlinks one spare file to make room for a checkpoint on a full disk; false when there is none.
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

    /// Whether a batch of some bytes can be written as things are, behind what the active segment holds or in a spare.
    pub(crate) fn room_now(&self, active: &Segment, bytes: u64) -> Room {
        self.enough(active, bytes).unwrap_or_else(|| self.reserve_room(active, bytes))
    }

    /// Whether a batch can be written that fits into the segment which is being made for it.
    pub(crate) fn room_that_fits(&self) -> Room {
        if self.reserve_is_there() { Room::Enough } else { Room::ReserveOnly }
    }

    /// The same as [`Segments::room_now`], but makes a spare on the spot if that is what it takes.
    pub(crate) fn room(&self, active: &Segment, bytes: u64) -> Room {
        if let Some(room) = self.enough(active, bytes) {
            return room;
        }
        // Failures show in what is there afterwards; the background thread reports them.
        let mut made = self.recycle_retired().is_ok();
        if let Some(room) = self.enough(active, bytes) {
            return room;
        }
        while made && !self.shared.kept.is_short() && !self.shared.table.lock().starved {
            made = self.make_spare(bytes).is_ok();
            if let Some(room) = self.enough(active, bytes) {
                return room;
            }
        }
        self.reserve_room(active, bytes)
    }

    fn reserve_room(&self, active: &Segment, bytes: u64) -> Room {
        let is_there = active.remaining() >= bytes || self.shared.table.lock().holds(bytes);
        if is_there { Room::ReserveOnly } else { Room::Nothing }
    }

    fn enough(&self, active: &Segment, bytes: u64) -> Option<Room> {
        let reserve = self.shared.options.reserve_spares;
        let table = self.shared.table.lock();
        let here = active.remaining() >= bytes && table.spares.len() >= reserve;
        let in_spare = table.spares.len() > reserve && table.holds(bytes);
        ((here || in_spare) && !self.shared.kept.is_short()).then_some(Room::Enough)
    }

    /// Makes a segment out of a spare. `keep` spares are left alone. `NoSpace` means that nothing has changed.
    pub(crate) fn take(
        &self,
        kind: SegmentKind,
        bytes: u64,
        base: Address,
        created_batch: BatchNumber,
        keep: usize,
    ) -> Result<Arc<Segment>, LogError> {
        let spare = self.obtain(bytes, keep)?;
        let segment = self.name(spare, kind, base, created_batch)?;
        self.add(segment.clone());
        Ok(segment)
    }

    /// Counts a segment among those in use.
    pub(crate) fn add(&self, segment: Arc<Segment>) {
        let mut table = self.shared.table.lock();
        // The one before it is written no more. It stays open until it is synced.
        if let Some(left) = table.newest(segment.kind()) {
            left.let_close();
        }
        table.insert(segment);
    }

    /// Takes a spare that holds this many bytes, and makes one if there is none.
    pub(crate) fn obtain(&self, bytes: u64, keep: usize) -> Result<Spare, LogError> {
        match self.take_spare(bytes, keep) {
            Some(spare) => Ok(spare),
            None => self.make_and_take_spare(bytes, keep),
        }
    }

    /// A spare becomes a segment: header written and synced, then its name, then the folder synced. It is not among
    /// those in use before [`Segments::add`].
    pub(crate) fn name(
        &self,
        spare: Spare,
        kind: SegmentKind,
        base: Address,
        created_batch: BatchNumber,
    ) -> Result<Arc<Segment>, LogError> {
        let number = {
            let mut table = self.shared.table.lock();
            let number = table.next_number;
            table.next_number = number.next();
            number
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
        Ok(Arc::new(Segment::new(header, &self.shared.handles, spare.file)))
    }

    /// Takes the largest spare if it holds the bytes, leaving at least `keep`.
    pub(crate) fn take_spare(&self, bytes: u64, keep: usize) -> Option<Spare> {
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

    /// Plans, fills and adopts one new spare that holds at least this many data bytes.
    pub(super) fn make_spare(&self, bytes: u64) -> Result<(), LogError> {
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
    fn plan(&self, bytes: u64) -> Result<(SpareNumber, u64), LogError> {
        let free = self.shared.disk.free_space().doing("measuring", "the free space")?;
        let options = &self.shared.options;
        let mut table = self.shared.table.lock();
        let number = table.take_spare_number();
        let doubled =
            if table.size_last == 0 { options.first_bytes } else { table.size_last.saturating_mul(2) };
        let most = options.largest_bytes.min(free / 8).max(options.first_bytes);
        let size = doubled.min(most).max(bytes.saturating_add(SEGMENT_HEADER_BYTES));
        Ok((number, size.div_ceil(BLOCK) * BLOCK))
    }

    /// Turns freed segments into spares, or unlinks them: when one is being read, when a backup linked it, when
    /// there are enough. One whose name a backup still needs waits.
    fn recycle_retired(&self) -> Result<(), LogError> {
        loop {
            let Some(segment) = self.shared.table.lock().take_retired() else { return Ok(()) };
            // A reader goes on reading when the file's name is gone.
            if let Err(error) = segment.keep_open() {
                self.shared.table.lock().retired.push(segment);
                return Err(error);
            }
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
        if !disk.recycles()
            || !self.worth_keeping(size)
            || disk.link_count(&name).doing("counting the names of", &name)? > 1
        {
            return Ok(None);
        }
        let number = self.shared.table.lock().take_spare_number();
        let spare = Spare { name: number.name(), file: segment.into_file()?, size, fresh: false };
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
        {
            let mut table = self.shared.table.lock();
            table.starved = false;
            table.spares.push(spare);
            self.shared.spares.store(table.spares.len(), Ordering::Release);
        }
        self.drop_excess()
    }

    /// Removes the smallest spare when there is one too many.
    fn drop_excess(&self) -> Result<(), LogError> {
        let excess = {
            let mut table = self.shared.table.lock();
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
    /// A freed segment whose file is not needed under its name.
    fn take_retired(&mut self) -> Option<Arc<Segment>> {
        let index = self.retired.iter().rposition(|segment| !segment.is_held())?;
        Some(self.retired.remove(index))
    }

    fn take_spare_number(&mut self) -> SpareNumber {
        let number = self.next_spare;
        self.next_spare = number.next();
        number
    }

    /// Whether a spare holds this many data bytes.
    fn holds(&self, bytes: u64) -> bool {
        bytes == 0 || self.spares.iter().any(|spare| spare.holds(bytes))
    }
}

impl Spare {
    /// Data bytes it can hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.size - SEGMENT_HEADER_BYTES
    }

    fn holds(&self, bytes: u64) -> bool {
        self.size - SEGMENT_HEADER_BYTES >= bytes
    }
}

/// Makes a file of real zeros. It gets its spare's name only when they are on disk.
fn fill(disk: &dyn Disk, number: SpareNumber, size: u64) -> Result<Spare, LogError> {
    let (filling, name) = (number.filling_name(), number.name());
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
            // The failure is reported as it is; what cannot be removed now is removed at the next start.
            let _left_behind = disk.remove(&filling);
            Err(LogError::from_io(format!("a segment of {size} bytes"), &error))
        }
    }
}
