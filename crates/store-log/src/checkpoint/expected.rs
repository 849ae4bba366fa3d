//! What must exist: the part of the file `STORE` that says durably which files a store has, so that one that is missing
//! is refused by name and never read as an empty store.
//!
//! Two things are written down: the newest segment of the journal, and whether there is a manifest. Everything else is
//! named by one of these two: older segments by the gap they leave, checkpoints, survivors and deduplication ids by the
//! manifest.
//!
//! The order is what makes it right. A file is durable before it is written down here, so that a crash between the two
//! opens as before. It is written down before the store relies on it: a batch in a new segment is acknowledged as
//! durable, and what a manifest replaces is removed, only after that. The two slots are overwritten in turn and in
//! place: a torn write leaves the other one, and a full disk stops nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::identity::{Identity, Named, STORE_VERSION};
use super::manifest::Manifest;
use crate::disk::{Disk, DiskFile, IDENTITY_FILE, MANIFEST_FILE, replace_whole};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};
use crate::journal::{SegmentKind, SegmentNumber, Segments, segment_name};
use crate::turns::Lock;

/// Each slot lies in a block of its own, behind the identity's: a torn write damages no other.
const SLOTS_AT: [usize; 2] = [4096, 8192];
/// Bytes of the file `STORE`.
pub(crate) const STORE_BYTES: usize = 12_288;
const MAGIC: [u8; 8] = *b"KewExpct";
const SLOT_BYTES: usize = 48;
const FLAG_MANIFEST: u64 = 1;

/// What a file that must exist and does not is reported with.
const MISSING: &str = "the file is missing; put it back, or restore a backup";

/// The files that must exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Expected {
    /// The newest segment of the journal; `None` when there may be none.
    pub newest_segment: Option<SegmentNumber>,
    /// Whether there is a manifest.
    pub manifest: bool,
}

impl Expected {
    /// Fails with the name of the first file that must exist and does not.
    pub fn check(&self, manifest: Option<&Manifest>, segments: &Segments) -> Result<(), LogError> {
        self.check_manifest(manifest)?;
        self.check_newest(segments)
    }

    /// The same of the manifest alone.
    pub fn check_manifest(&self, manifest: Option<&Manifest>) -> Result<(), LogError> {
        if self.manifest && manifest.is_none() {
            return Err(LogError::damage(MANIFEST_FILE, 0, MISSING));
        }
        Ok(())
    }

    /// The same of the journal's newest segment. One that was made later counts as well: the one that was written down
    /// may have been left empty for it.
    pub fn check_newest(&self, segments: &Segments) -> Result<(), LogError> {
        let journal = segments.list().into_iter().filter(|segment| segment.kind() == SegmentKind::Journal);
        let newest = journal.map(|segment| segment.number()).max();
        match self.newest_segment {
            Some(expected) if newest < Some(expected) => {
                Err(LogError::damage(segment_name(expected), 0, MISSING))
            }
            _ => Ok(()),
        }
    }
}

/// One of the two places in the file that say what must exist. The one with the greater number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    number: u64,
    pub expected: Expected,
}

impl Slot {
    /// That of a store to which nothing was written: nothing must exist.
    pub const FIRST: Self = Self { number: 1, expected: Expected { newest_segment: None, manifest: false } };

    /// The first slot of a file, saying what must exist.
    pub fn first(expected: Expected) -> Self {
        Self { expected, ..Self::FIRST }
    }

    /// The slot after this one, which says something else.
    fn next(self, expected: Expected) -> Self {
        Self { number: self.number + 1, expected }
    }

    /// Its offset in the file.
    fn offset(self) -> usize {
        SLOTS_AT[(self.number % 2) as usize]
    }

    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let mut to = &mut bytes[16..];
        self.number.put(&mut to);
        self.expected.newest_segment.put(&mut to);
        (if self.expected.manifest { FLAG_MANIFEST } else { 0 }).put(&mut to);
        bytes[..8].copy_from_slice(&MAGIC);
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What a slot says; `None` for one that was never written, or not wholly.
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::get(bytes).ok().flatten()
    }

    fn get(bytes: &[u8]) -> Result<Option<Self>, BadField> {
        let mut from = Fields::of("a slot of what must exist", bytes, 0);
        let magic: [u8; 8] = from.get("the kind")?;
        let sum: u32 = from.get("the checksum")?;
        from.skip(4);
        let number = from.number("the number")?;
        let newest_segment = from.get("the newest segment")?;
        let manifest = from.get::<u64>("the flags")? & FLAG_MANIFEST != 0;
        let is_whole = magic == MAGIC && bytes.get(12..).is_some_and(|rest| crc32c::crc32c(rest) == sum);
        Ok(is_whole.then_some(Self { number, expected: Expected { newest_segment, manifest } }))
    }
}

/// The newer of the two slots of a file `STORE`. Bytes beyond the file's end are no slot.
pub(crate) fn newest_slot(bytes: &[u8]) -> Option<Slot> {
    let slots = SLOTS_AT.iter().filter_map(|at| Slot::decode(bytes.get(*at..*at + SLOT_BYTES)?));
    slots.max_by_key(|slot| slot.number)
}

/// A whole file `STORE`: the identity and one slot.
pub(crate) fn store_file(identity: &Identity, slot: Slot) -> Vec<u8> {
    let mut bytes = vec![0; STORE_BYTES];
    let head = identity.encode();
    bytes[..head.len()].copy_from_slice(&head);
    bytes[slot.offset()..slot.offset() + SLOT_BYTES].copy_from_slice(&slot.encode());
    bytes
}

/// Keeps what must exist of an open store.
pub(crate) struct Expecting {
    disk: Arc<dyn Disk>,
    identity: Identity,
    /// The newest segment that must exist, to be read without the lock; 0 when none must.
    newest: AtomicU64,
    /// Guards the file's slots; held while one is written and synced.
    slots: Lock<Slots>,
}

/// The file with the slots, and the one of them that counts.
struct Slots {
    /// `None` while the file is of an older format version: the next write replaces the whole file.
    file: Option<Arc<dyn DiskFile>>,
    /// The slot that counts; `None` while the file has none.
    slot: Option<Slot>,
}

impl Expecting {
    /// Goes on from what the file says. Writes nothing, also where the file is of an older version.
    pub fn new(disk: Arc<dyn Disk>, named: &Named) -> Result<Self, LogError> {
        let file = match named.version {
            STORE_VERSION => Some(disk.open(IDENTITY_FILE).doing("opening", IDENTITY_FILE)?),
            _ => None,
        };
        let newest = AtomicU64::new(number_or_zero(named.expected().newest_segment));
        let slots = Lock::new(Slots { file, slot: named.slot });
        Ok(Self { disk, identity: named.identity, newest, slots })
    }

    /// Who the store is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// From now on this segment of the journal must exist. It does, durably. Costs nothing when that is known.
    pub fn segment(&self, number: SegmentNumber) -> Result<(), LogError> {
        if number.0 <= self.newest.load(Ordering::Acquire) {
            return Ok(());
        }
        self.raise(Expected { newest_segment: Some(number), manifest: false })
    }

    /// From now on there must be a manifest. There is one, durably.
    pub fn manifest(&self) -> Result<(), LogError> {
        self.raise(Expected { newest_segment: None, manifest: true })
    }

    /// Adds to what must exist. A file of an older format version becomes one of [`STORE_VERSION`], before anything
    /// is written that an older program would misread; without space for that it fails. Without space for a slot
    /// alone what must exist stays as it is: less is noticed until the next time, and nothing stops.
    pub fn raise(&self, more: Expected) -> Result<(), LogError> {
        let mut slots = self.slots.lock();
        let before = slots.slot.map_or_else(Expected::default, |slot| slot.expected);
        let expected = Expected {
            newest_segment: before.newest_segment.max(more.newest_segment),
            manifest: before.manifest || more.manifest,
        };
        let is_newest = slots.file.is_some();
        if is_newest && expected == before {
            return Ok(());
        }
        match slots.write(&*self.disk, &self.identity, expected) {
            Err(LogError::NoSpace { .. }) if is_newest => return Ok(()),
            outcome => outcome?,
        }
        self.newest.store(number_or_zero(expected.newest_segment), Ordering::Release);
        Ok(())
    }
}

fn number_or_zero(newest: Option<SegmentNumber>) -> u64 {
    newest.map_or(0, |number| number.0)
}

impl Slots {
    fn write(&mut self, disk: &dyn Disk, identity: &Identity, expected: Expected) -> Result<(), LogError> {
        let slot = self.slot.map_or_else(|| Slot::first(expected), |slot| slot.next(expected));
        match &self.file {
            Some(file) => {
                file.write_at(slot.offset() as u64, &slot.encode()).doing("writing", IDENTITY_FILE)?;
                file.sync_data().doing("syncing", IDENTITY_FILE)?;
            }
            None => {
                let bytes = store_file(identity, slot);
                let doing = "raising the format version of";
                replace_whole(disk, IDENTITY_FILE, &bytes).doing(doing, IDENTITY_FILE)?;
                self.file = Some(disk.open(IDENTITY_FILE).doing("opening", IDENTITY_FILE)?);
            }
        }
        self.slot = Some(slot);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, FaultPlan, Found, SimDisk};

    const IDENTITY: Identity = Identity { store_id: [1; 16], mac_key: [2; 16], created_ms: 3 };

    fn expected(newest_segment: Option<u64>, manifest: bool) -> Expected {
        Expected { newest_segment: newest_segment.map(SegmentNumber), manifest }
    }

    fn found(disk: &SimDisk) -> Expected {
        let named = Named::load(disk).expect("the file STORE is whole").expect("the file STORE exists");
        named.slot.expect("a file of format 2 has a slot").expected
    }

    #[test]
    fn what_must_exist_only_grows_and_a_cut_leaves_it_as_it_was_or_as_it_becomes() {
        let disk = SimDisk::new();
        IDENTITY.create(&disk).expect("the simulated disk has space");
        let named = Named::load(&disk).expect("the file STORE is whole").expect("the file STORE exists");
        let expecting = Expecting::new(Arc::new(disk.clone()), &named).expect("the file STORE opens");
        disk.record_snapshots();
        expecting.segment(SegmentNumber(5)).expect("the disk works");
        expecting.manifest().expect("the disk works");
        expecting.segment(SegmentNumber(3)).expect("the disk works");
        expecting.segment(SegmentNumber(9)).expect("the disk works");
        let all = [(None, false), (Some(5), false), (Some(5), true), (Some(9), true)];
        let all = all.map(|(newest, manifest)| expected(newest, manifest));
        assert_eq!(found(&disk.reopen(0, Found::Lost)), all[3], "each was synced");
        let mut seen = 0;
        for (point, before) in disk.take_snapshots() {
            for seed in 0..40 {
                let after = found(&before.reopen(seed, Found::Torn));
                let place = all.iter().position(|expected| *expected == after);
                let place = place.unwrap_or_else(|| panic!("point {point} seed {seed}: {after:?}"));
                assert!(place + 1 >= seen, "point {point} seed {seed}: {after:?} after {:?}", all[seen]);
                seen = seen.max(place);
            }
        }
    }

    #[test]
    fn a_file_of_format_1_gets_its_slots_when_there_is_something_to_say() {
        let disk = SimDisk::new();
        let mut old = IDENTITY.encode();
        old[12..16].copy_from_slice(&1_u32.to_le_bytes());
        let sum = crc32c::crc32c(&old[12..]);
        old[8..12].copy_from_slice(&sum.to_le_bytes());
        replace_whole(&disk, IDENTITY_FILE, &old).expect("the simulated disk has space");
        let named = Named::load(&disk).expect("format 1 is known").expect("the file STORE exists");
        assert_eq!((named.identity, named.slot), (IDENTITY, None));
        let expecting = Expecting::new(Arc::new(disk.clone()), &named).expect("the file STORE opens");
        disk.record_snapshots();
        expecting.raise(expected(Some(7), true)).expect("the simulated disk has space");
        assert_eq!(found(&disk.reopen(0, Found::Lost)), expected(Some(7), true));
        for (point, before) in disk.take_snapshots() {
            for seed in 0..20 {
                let named = Named::load(&before.reopen(seed, Found::Torn));
                let named = named.unwrap_or_else(|error| panic!("point {point}: {error}"));
                assert_eq!(named.expect("the file STORE exists").identity, IDENTITY, "point {point}");
            }
        }
    }

    /// What the file of an older version says, which has slots as that of the newest.
    fn older() -> Named {
        let slot = Slot { number: 6, expected: expected(Some(7), true) };
        Named { version: STORE_VERSION - 1, identity: IDENTITY, slot: Some(slot) }
    }

    #[test]
    fn a_file_of_an_older_version_becomes_of_the_newest_even_when_nothing_new_must_exist() {
        let disk = SimDisk::new();
        let expecting = Expecting::new(Arc::new(disk.clone()), &older()).expect("no file is opened");
        expecting.raise(expected(Some(7), true)).expect("the simulated disk has space");
        let after = disk.reopen(0, Found::Lost);
        let named = Named::load(&after).expect("the file STORE is whole").expect("the file STORE exists");
        let slot = Slot { number: 7, expected: expected(Some(7), true) };
        assert_eq!(named, Named { version: STORE_VERSION, slot: Some(slot), ..older() });
        expecting.segment(SegmentNumber(8)).expect("the disk works");
        assert_eq!(found(&disk.reopen(0, Found::Lost)), expected(Some(8), true), "slots again");
    }

    #[test]
    fn without_space_an_older_version_is_refused_and_a_slot_is_left_out() {
        let disk = SimDisk::new();
        IDENTITY.create(&disk).expect("the simulated disk has space");
        let newest = Named::load(&disk).expect("the file STORE is whole").expect("the file STORE exists");
        let older = Expecting::new(Arc::new(disk.clone()), &older()).expect("no file is opened");
        let newest = Expecting::new(Arc::new(disk.clone()), &newest).expect("the file STORE opens");
        let no_space = Some(FaultPlan { at: 1, fault: Fault::NoSpace });
        disk.set_fault(no_space);
        let refused = older.raise(expected(Some(7), true));
        assert!(matches!(refused, Err(LogError::NoSpace { .. })), "{refused:?}");
        disk.set_fault(no_space);
        newest.raise(expected(Some(7), true)).expect("a slot without space stops nothing");
        assert_eq!(found(&disk), expected(None, false), "it is as it was");
    }
}
