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

use super::identity::{Identity, Named};
use super::manifest::Manifest;
use crate::disk::{Disk, DiskFile, IDENTITY_FILE, MANIFEST_FILE, replace_whole};
use crate::error::{Doing, LogError};
use crate::journal::{NUMBER_MAX, SegmentKind, Segments, segment_name, u32_at, u64_at};
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
    /// Number of the newest segment of the journal; 0 when there may be none.
    pub newest_segment: u64,
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
        let newest = journal.map(|segment| segment.number()).max().unwrap_or(0);
        if newest < self.newest_segment {
            return Err(LogError::damage(segment_name(self.newest_segment), 0, MISSING));
        }
        Ok(())
    }

    fn encode(&self, number: u64) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[16..24].copy_from_slice(&number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.newest_segment.to_le_bytes());
        let flags = if self.manifest { FLAG_MANIFEST } else { 0 };
        bytes[32..40].copy_from_slice(&flags.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// A slot's number and what it says; `None` for one that was never written, or not wholly.
    fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let is_whole = bytes[..8] == MAGIC && crc32c::crc32c(&bytes[12..]) == u32_at(bytes, 8);
        let (number, newest_segment) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let manifest = u64_at(bytes, 32) & FLAG_MANIFEST != 0;
        let is_sense = number <= NUMBER_MAX && newest_segment <= NUMBER_MAX;
        (is_whole && is_sense).then_some((number, Self { newest_segment, manifest }))
    }
}

/// The newer of the two slots of a file `STORE`, with its number. Bytes beyond the file's end are no slot.
pub(crate) fn newest_slot(bytes: &[u8]) -> Option<(u64, Expected)> {
    let slots = SLOTS_AT.iter().filter_map(|at| Expected::decode(bytes.get(*at..*at + SLOT_BYTES)?));
    slots.max_by_key(|(number, _)| *number)
}

/// A whole file `STORE`: the identity and one slot.
pub(crate) fn store_file(identity: &Identity, number: u64, expected: Expected) -> Vec<u8> {
    let mut bytes = vec![0; STORE_BYTES];
    let head = identity.encode();
    bytes[..head.len()].copy_from_slice(&head);
    let at = slot_at(number);
    bytes[at..at + SLOT_BYTES].copy_from_slice(&expected.encode(number));
    bytes
}

fn slot_at(number: u64) -> usize {
    SLOTS_AT[(number % 2) as usize]
}

/// Keeps what must exist of an open store.
pub(crate) struct Expecting {
    disk: Arc<dyn Disk>,
    identity: Identity,
    /// `state.expected.newest_segment`, to be read without the lock.
    newest: AtomicU64,
    /// Guards the file's slots; held while one is written and synced.
    state: Lock<State>,
}

struct State {
    /// Missing while the file is of format 1, which has no slots.
    file: Option<Arc<dyn DiskFile>>,
    /// Number of the slot that counts.
    number: u64,
    expected: Expected,
}

impl Expecting {
    /// Goes on from what the file says.
    pub fn new(disk: Arc<dyn Disk>, named: &Named) -> Result<Self, LogError> {
        let file = match named.slot {
            Some(_) => Some(disk.open(IDENTITY_FILE).doing("opening", IDENTITY_FILE)?),
            None => None,
        };
        let (number, expected) = named.slot.unwrap_or_default();
        let newest = AtomicU64::new(expected.newest_segment);
        let state = Lock::new(State { file, number, expected });
        Ok(Self { disk, identity: named.identity, newest, state })
    }

    /// Who the store is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// From now on this segment of the journal must exist. It does, durably. Costs nothing when that is known.
    pub fn segment(&self, number: u64) -> Result<(), LogError> {
        if number <= self.newest.load(Ordering::Acquire) {
            return Ok(());
        }
        self.raise(Expected { newest_segment: number, manifest: false })
    }

    /// From now on there must be a manifest. There is one, durably.
    pub fn manifest(&self) -> Result<(), LogError> {
        self.raise(Expected { newest_segment: 0, manifest: true })
    }

    /// Adds to what must exist. Without space (a file of format 1 has to be made longer) it stays as it is: less is
    /// noticed until the next time, and nothing stops.
    pub fn raise(&self, more: Expected) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let expected = Expected {
            newest_segment: state.expected.newest_segment.max(more.newest_segment),
            manifest: state.expected.manifest || more.manifest,
        };
        if state.file.is_some() && expected == state.expected {
            return Ok(());
        }
        match state.write(&*self.disk, &self.identity, expected) {
            Err(LogError::NoSpace { .. }) => return Ok(()),
            written => written?,
        }
        self.newest.store(expected.newest_segment, Ordering::Release);
        Ok(())
    }
}

impl State {
    fn write(&mut self, disk: &dyn Disk, identity: &Identity, expected: Expected) -> Result<(), LogError> {
        let number = self.number + 1;
        match &self.file {
            Some(file) => {
                let slot = expected.encode(number);
                file.write_at(slot_at(number) as u64, &slot).doing("writing", IDENTITY_FILE)?;
                file.sync_data().doing("syncing", IDENTITY_FILE)?;
            }
            None => {
                let bytes = store_file(identity, number, expected);
                replace_whole(disk, IDENTITY_FILE, &bytes).doing("writing", IDENTITY_FILE)?;
                self.file = Some(disk.open(IDENTITY_FILE).doing("opening", IDENTITY_FILE)?);
            }
        }
        (self.number, self.expected) = (number, expected);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Found, SimDisk};

    const IDENTITY: Identity = Identity { store_id: [1; 16], mac_key: [2; 16], created_ms: 3 };

    fn found(disk: &SimDisk) -> Expected {
        Named::load(disk).expect("it is whole").expect("it is there").slot.expect("it is of format 2").1
    }

    #[test]
    fn what_must_exist_only_grows_and_a_cut_leaves_it_as_it_was_or_as_it_becomes() {
        let disk = SimDisk::new();
        IDENTITY.create(&disk).expect("there is room");
        let named = Named::load(&disk).expect("it is whole").expect("it is there");
        let expecting = Expecting::new(Arc::new(disk.clone()), &named).expect("it opens");
        disk.record_snapshots();
        expecting.segment(5).expect("the disk works");
        expecting.manifest().expect("the disk works");
        expecting.segment(3).expect("the disk works");
        expecting.segment(9).expect("the disk works");
        let all = [(0, false), (5, false), (5, true), (9, true)]
            .map(|(newest_segment, manifest)| Expected { newest_segment, manifest });
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
        replace_whole(&disk, IDENTITY_FILE, &old).expect("there is room");
        let named = Named::load(&disk).expect("it is known").expect("it is there");
        assert_eq!((named.identity, named.slot), (IDENTITY, None));
        let expecting = Expecting::new(Arc::new(disk.clone()), &named).expect("it opens");
        disk.record_snapshots();
        expecting.raise(Expected { newest_segment: 7, manifest: true }).expect("there is room");
        assert_eq!(found(&disk.reopen(0, Found::Lost)), Expected { newest_segment: 7, manifest: true });
        for (point, before) in disk.take_snapshots() {
            for seed in 0..20 {
                let named = Named::load(&before.reopen(seed, Found::Torn));
                let named = named.unwrap_or_else(|error| panic!("point {point}: {error}"));
                assert_eq!(named.expect("it is there").identity, IDENTITY, "point {point}");
            }
        }
    }
}
