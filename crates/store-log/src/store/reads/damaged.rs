//! Records that cannot be read: which are known, and where their bytes are kept for rescue.
//!
//! A record that does not verify concerns one message. It is reported once, with file and offset. When its segment is
//! about to be given back, its bytes as they were found go to a file of their own, and a mark takes its place: the
//! message stays known and counted, and nothing else waits for it. Both the list and the files have bounds; past the
//! second a damaged record stays where it is, and so does its segment.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kew_core::Reports;
use parking_lot::Mutex;

use crate::disk::{DAMAGED_FOLDER, Disk, replace_whole};
use crate::error::{Doing, LogError};
use crate::journal::Address;

/// The kind of the record that stands in a damaged one's place. Its payload says in words what was found, and where.
pub(crate) const DAMAGED_KIND: u8 = 0xE0;

/// Damaged records that are known and reported one by one.
const KNOWN_MAX: usize = 10_000;
/// Files in the folder, and bytes in all of them.
const FILES_MAX: usize = 1_000;
const BYTES_MAX: u64 = 256 << 20;

/// What is known of damaged records.
pub(crate) struct Damaged {
    disk: Arc<dyn Disk>,
    listener: OnceLock<Arc<dyn Reports>>,
    /// Guards the records found since the start, by address.
    known: Mutex<BTreeMap<Address, KnownDamage>>,
}

/// Where a record was found damaged.
#[derive(Clone)]
struct KnownDamage {
    file: String,
    offset: u64,
    what: String,
}

impl Damaged {
    /// None is known so far.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, listener: OnceLock::new(), known: Mutex::default() }
    }

    /// Records are reported there from now on, and those known by now. The first listener stays.
    pub fn report_to(&self, listener: Arc<dyn Reports>) {
        let known = self.known.lock();
        if self.listener.set(Arc::clone(&listener)).is_ok() {
            known.values().for_each(|found| listener.damaged(&found.file, found.offset, &found.what));
        }
    }

    /// How many records were found damaged since the start.
    pub fn len(&self) -> usize {
        self.known.lock().len()
    }

    /// The record at an address could not be read. Reports it the first time, if it is damage.
    pub fn note(&self, address: Address, error: &LogError) {
        let LogError::Damage { file, offset, what } = error else { return };
        let found = KnownDamage { file: file.clone(), offset: *offset, what: what.clone() };
        let mut known = self.known.lock();
        if known.contains_key(&address) || known.len() >= KNOWN_MAX {
            return;
        }
        known.insert(address, found);
        drop(known);
        if let Some(listener) = self.listener.get() {
            listener.damaged(file, *offset, what);
        }
    }

    /// What was known by one address is known by another: a mark took its place.
    pub fn moved(&self, from: Address, to: Address) {
        let mut known = self.known.lock();
        if let Some(found) = known.remove(&from) {
            known.insert(to, found);
        }
    }

    /// Keeps the bytes of a damaged record, durably. Fails when the folder is full: then it must stay where it is.
    pub fn keep(&self, address: Address, bytes: &[u8]) -> Result<String, LogError> {
        let disk = &*self.disk;
        let name = format!("{DAMAGED_FOLDER}/{address:016x}.record");
        disk.create_dir(DAMAGED_FOLDER).doing("making", DAMAGED_FOLDER)?;
        disk.sync_dir("").doing("syncing", "the store's directory")?;
        let mut held = 0;
        let names = disk.list(DAMAGED_FOLDER).doing("listing", DAMAGED_FOLDER)?;
        for other in &names {
            let other = format!("{DAMAGED_FOLDER}/{other}");
            held += disk.open(&other).and_then(|file| file.len()).doing("measuring", &other)?;
        }
        if names.len() >= FILES_MAX || held + bytes.len() as u64 > BYTES_MAX {
            let what =
                format!("a damaged record: {DAMAGED_FOLDER} holds {} files, {held} bytes", names.len());
            return Err(LogError::NoSpace { what });
        }
        replace_whole(disk, &name, bytes).doing("writing", &name)?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn folder_takes_no_more_files_than_its_bound() {
        let disk = SimDisk::new();
        let damaged = Damaged::new(Arc::new(disk.clone()));
        let kept = (0..=FILES_MAX as u64).map(|address| damaged.keep(Address(address), b"x"));
        let kept: Vec<bool> = kept.map(|kept| kept.is_ok()).collect();
        assert_eq!(kept.iter().filter(|kept| **kept).count(), FILES_MAX);
        assert_eq!(kept.last(), Some(&false));
    }

    #[test]
    fn record_is_known_once_and_what_is_no_damage_not_at_all() {
        let damaged = Damaged::new(Arc::new(SimDisk::new()));
        let error = LogError::damage("a", 7, "bad");
        damaged.note(Address(5), &error);
        damaged.note(Address(5), &error);
        damaged.note(Address(6), &LogError::NoSpace { what: "x".into() });
        damaged.moved(Address(5), Address(9));
        damaged.note(Address(9), &error);
        assert_eq!(damaged.len(), 1);
    }
}
