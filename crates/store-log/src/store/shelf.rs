//! The ledger's shelf, as a journal: changes become records of the batch being filled, contents are read back from it.

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use kew_core::{Sequence, Timestamp};
use kew_store::StoreError;
use kew_store::ledger::dedup::PUT_AWAY_BYTES;
use kew_store::ledger::{self, Change, Made, Place, Shelf, Stored, codec};

use super::arrivals::Arrivals;
use super::gathering::Gathering;
use super::live::Live;
use super::owed::Owed;
use super::reads::Reads;
use super::reads::cold::Cold;
use super::reads::damaged::DAMAGED_KIND;
use super::recent::Recent;
use super::upkeep::put_away::PutAway;
use crate::error::LogError;
use crate::journal::{Address, BatchBuffer, BatchNumber, Checksums, Frame, Journal, Room, trusted};

/// Bytes reserved in a batch for what a step does beside what was asked of it: due work, and its own framing.
pub(crate) const STEP_BYTES: u64 = 4 << 10;

/// A journal as a shelf.
pub(crate) struct LogShelf {
    /// Missing only while the journal is being replayed.
    pub journal: Option<Journal>,
    pub batch: BatchBuffer,
    /// Whether the batch being filled must be synced before its answers leave.
    pub must_sync: bool,
    /// Whether it is let fill, where appends end later and elsewhere.
    pub gathering: Gathering,
    /// The sync that answers wait for.
    pub owed: Owed,
    pub arrivals: Arrivals,
    pub recent: Recent,
    /// Who reads what is not in memory, and what the step at hand found not to be.
    pub reads: Arc<Reads>,
    pub cold: Option<Box<Cold>>,
    pub live: Live,
    pub put_away: PutAway,
    /// Whether room may be made on the spot. On an event loop it may not: it is asked for and waited for.
    pub makes_room: bool,
    /// Bytes of the batch that the last refused step would have made.
    pub refused: u64,
    pub sums: Checksums,
    pub stamp: codec::Stamp,
}

impl LogShelf {
    /// Whether a step that adds this many bytes can be journalled.
    #[inline]
    pub(crate) fn room_for(&self, bytes: u64) -> Room {
        let bytes = self.batch.bytes() + bytes + STEP_BYTES;
        match &self.journal {
            Some(journal) if journal.has_room(bytes) => Room::Enough,
            Some(journal) if self.makes_room => journal.room(bytes),
            Some(journal) => journal.room_now(bytes),
            None => Room::Nothing,
        }
    }

    /// The record at an address, if it is in memory.
    fn frame(&mut self, address: Address) -> Option<Frame> {
        match self.held(address) {
            Some(frame) => Some(frame),
            None => self.reads.ahead(address),
        }
    }

    /// The record at an address, if it is in memory and stays there during the step.
    fn held(&mut self, address: Address) -> Option<Frame> {
        if address >= self.batch.start() && address < self.batch.next_record() {
            self.pending_frame(address)
        } else {
            let recent = self.recent.find(address);
            recent.and_then(|(batch, offset)| {
                let (kind, payload) = trusted(batch, offset)?;
                Some(Frame { address, kind, payload: batch.slice_ref(payload) })
            })
        }
    }

    fn cold(&mut self) -> &mut Cold {
        self.cold.get_or_insert_default()
    }

    /// A record of the batch being filled, copied: the buffer is still growing.
    fn pending_frame(&self, address: Address) -> Option<Frame> {
        let offset = usize::try_from(address - self.batch.start()).ok()?;
        let (kind, payload) = trusted(self.batch.as_bytes(), offset)?;
        Some(Frame { address, kind, payload: Bytes::copy_from_slice(payload) })
    }
}

/// The ledger knows addresses only as places of its shelf; what they mean the journal says.
impl From<ledger::Address> for Address {
    #[inline]
    fn from(address: ledger::Address) -> Self {
        Self(address.0)
    }
}

impl From<Address> for ledger::Address {
    #[inline]
    fn from(address: Address) -> Self {
        Self(address.0)
    }
}

/// A batch on its way to the disk.
pub(super) struct Written {
    pub batch: BatchNumber,
    pub must_sync: bool,
    /// Steps that it has records of.
    pub steps: u32,
}

impl LogShelf {
    pub(crate) fn journal_mut(&mut self) -> Result<&mut Journal, LogError> {
        self.journal.as_mut().ok_or_else(|| LogError::FailStopped { cause: "the journal is not open".into() })
    }

    /// Whether nothing stands against a command, as nearly always; `may_write` looks closer.
    #[inline]
    pub(super) fn may_surely_write(&self, needs: Option<u64>) -> bool {
        let bytes = self.batch.bytes() + needs.unwrap_or(0) + STEP_BYTES;
        self.journal.as_ref().is_some_and(|journal| journal.is_running() && journal.has_room(bytes))
    }

    /// Refuses a command whose records could not be written: after a failure, or without space even in the reserve.
    #[cold]
    pub(crate) fn may_write(&self, needs: Option<u64>) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else {
            let cause = "the store is open to be looked at only".to_owned();
            return needs.map_or(Ok(()), |_| Err(StoreError::Unavailable { cause }));
        };
        journal.check().map_err(store_error)?;
        match needs {
            Some(bytes) if self.room_for(bytes) == Room::Nothing => Err(StoreError::NoSpace),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the batch being filled waits for a segment that is made, or is to be.
    pub(super) fn wants_a_segment(&self) -> bool {
        !self.fits() || self.journal.as_ref().is_some_and(Journal::is_rolling)
    }

    /// Whether the batch being filled goes into the segment that is being written; one without records goes nowhere.
    pub(super) fn fits(&self) -> bool {
        self.batch.records() == 0
            || self.journal.as_ref().is_none_or(|journal| journal.fits(self.batch.bytes()))
    }

    /// Writes the batch being filled and begins the next; `None` when it is empty.
    pub(super) fn write_batch(&mut self, syncs: bool) -> Result<Option<Written>, LogError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        if self.batch.records() == 0 {
            return Ok(None);
        }
        let start = self.batch.start();
        let appended = journal.append_for(&mut self.batch, syncs && self.must_sync)?;
        let base = journal.active().base();
        let messages = self.live.place_batch(base);
        if messages > 0 {
            self.recent.push(start, self.batch.take(), messages);
            if let Some(memory) = self.recent.take_spare() {
                self.batch.reuse(memory);
            }
        }
        self.batch.begin(journal.next_batch(), journal.end());
        self.live.begin_batch(journal.end());
        let must_sync = std::mem::take(&mut self.must_sync);
        let steps = std::mem::take(&mut self.gathering.steps);
        Ok(Some(Written { batch: appended.batch, must_sync, steps }))
    }
}

impl Shelf for LogShelf {
    #[inline]
    fn room(&mut self, bytes: u64) -> Result<(), StoreError> {
        match self.room_for(bytes) {
            Room::Enough => Ok(()),
            Room::ReserveOnly | Room::Nothing => {
                self.refused = self.batch.bytes() + bytes + STEP_BYTES;
                Err(StoreError::NoSpace)
            }
        }
    }

    fn record(&mut self, made: Made, change: &Change<'_>) -> Place {
        if change.must_sync() {
            self.must_sync = true;
            self.arrivals.note(self.batch.number(), change);
        }
        let stamp = &mut self.stamp;
        let address =
            self.batch.push_with(codec::kind_of(change), |buffer| codec::write(buffer, stamp, made, change));
        let bytes = u32::try_from(self.batch.next_record() - address).unwrap_or(u32::MAX);
        Place { address: address.into(), bytes }
    }

    fn read(&mut self, place: Place) -> Result<Stored, StoreError> {
        match self.frame(place.address.into()) {
            Some(frame) => self.reads.content(frame),
            None => {
                let reads = Arc::clone(&self.reads);
                self.cold().need(&reads, place)
            }
        }
    }

    fn fetch(&mut self, sequence: Sequence, place: Place) -> Result<Stored, StoreError> {
        let found = self.frame(place.address.into()).map(|frame| self.reads.content(frame));
        match found {
            Some(Ok(stored)) => Ok(stored),
            // One that is damaged as well: it is left out of the answer then, whatever was read ahead.
            Some(Err(_)) | None => {
                let reads = Arc::clone(&self.reads);
                self.cold().put_on_its_way(&reads, sequence, place)
            }
        }
    }

    fn at_hand(&mut self, place: Place) -> Result<(), StoreError> {
        if let Some(frame) = self.held(place.address.into()) {
            // A mark stands for a message that cannot be read.
            return if frame.kind == DAMAGED_KIND { self.reads.content(frame).map(drop) } else { Ok(()) };
        }
        let reads = Arc::clone(&self.reads);
        // What was read ahead may be gone when the step comes to it.
        let read = reads.ahead(place.address.into()).map(|frame| reads.content(frame));
        self.cold().make_sure(&reads, place, read)
    }

    fn recall(&mut self, generation: Timestamp, place: u64) -> Result<[u8; PUT_AWAY_BYTES], StoreError> {
        self.put_away.entry(generation, place).map_err(store_error)
    }

    fn has_room_for_due(&self, bytes: u64) -> bool {
        // The reserve is for deletes, which make space; what happens by itself takes some only later.
        let has_room = match self.room_for(bytes) {
            Room::Enough => true,
            // While spares are on their way the reserve may be lent.
            Room::ReserveOnly => {
                !self.makes_room
                    && self.journal.as_ref().is_some_and(|journal| journal.segments().may_get_room())
            }
            Room::Nothing => false,
        };
        #[cfg(feature = "planted")]
        let has_room = crate::planted::has_room_for_due(has_room);
        has_room
    }

    fn occupy(&mut self, place: Place) {
        if !self.live.is_pending(place.address.into()) {
            self.recent.occupy(place.address.into());
        }
        self.live.occupy(place.address.into(), place.bytes);
    }

    fn vacate(&mut self, place: Place) {
        if !self.live.is_pending(place.address.into()) {
            self.recent.vacate(place.address.into());
        }
        self.live.vacate(place.address.into(), place.bytes);
    }

    fn mark(&self) -> u64 {
        self.batch.number().0
    }
}

/// What is at its bound when a file cannot be opened for lack of descriptors.
const NO_DESCRIPTOR: &str = "the number of open files";

/// What is out of reach when a disk that is elsewhere has no connection. It is answered as what passes: nothing is
/// wrong with a message that cannot be read meanwhile, so none is set aside.
const NO_CONNECTION: &str = "the database: it cannot be reached";

/// What a failure of the log means to the caller of a step.
pub(crate) fn store_error(error: LogError) -> StoreError {
    match error {
        LogError::NoSpace { .. } => StoreError::NoSpace,
        LogError::FailStopped { cause } => StoreError::FailStopped { cause },
        LogError::Damage { .. } | LogError::UnsupportedVersion { .. } => {
            StoreError::Damaged { what: error.to_string() }
        }
        LogError::NoDescriptor { .. } => StoreError::Overloaded { what: NO_DESCRIPTOR },
        LogError::Io { kind: ErrorKind::NotConnected, .. } => StoreError::Overloaded { what: NO_CONNECTION },
        LogError::Locked { .. } | LogError::Io { .. } => StoreError::Unavailable { cause: error.to_string() },
    }
}
