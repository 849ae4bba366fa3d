//! One file: what is durable of it, what is read, and what a cut leaves of the difference.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::chance::{Chance, Found, Portion};
use super::pages::Pages;
use super::unsynced::Unsynced;

pub(super) const SECTOR: u64 = 512;

/// One file: durable bytes, the bytes as read now, and what was done since its last sync.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) durable: Pages,
    pub(super) now: Pages,
    /// What was done since.
    unsynced: Unsynced<Change>,
    errors: WriteErrors,
}

/// Errors of writing back, which a system reports once to each open handle.
#[derive(Clone, Copy, Default)]
struct WriteErrors {
    /// How many there were.
    count: u64,
    /// The newest that was reported to any handle.
    reported: u64,
    kind: Option<io::ErrorKind>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Arc<[u8]>),
    Grow(u64),
}

impl Contents {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.unsynced.push(Change::Write(offset, bytes.into()));
    }

    /// The disk says it wrote this, and did not: it is read from memory until that is gone.
    pub(super) fn lose_write(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.unsynced.push(Change::Grow(offset + bytes.len() as u64));
    }

    /// The disk wrote here what was meant for another place, and memory does not show it.
    pub(super) fn receive_astray(&mut self, offset: u64, bytes: &[u8]) {
        if offset + bytes.len() as u64 <= self.durable.len {
            self.durable.write(offset, bytes);
        }
    }

    pub(super) fn grow(&mut self, len: u64) {
        self.now.grow(len);
        self.unsynced.push(Change::Grow(len));
    }

    /// How far a sync that begins now reaches.
    pub(super) fn reach(&self) -> u64 {
        self.unsynced.reach()
    }

    /// A sync ends that reached so far.
    pub(super) fn sync_to(&mut self, reach: u64) {
        for change in self.unsynced.take_to(reach) {
            match change {
                Change::Write(offset, bytes) => self.durable.write(offset, &bytes),
                Change::Grow(len) => self.durable.grow(len),
            }
        }
    }

    /// Some of it reached the disk, all of it stays readable, none of it will be tried again. The sync of a
    /// handle that ends first gets the error.
    pub(super) fn fail_sync(&mut self, kind: io::ErrorKind, chance: &mut Chance) {
        let now = self.now.clone();
        self.settle(Found::Torn, chance);
        self.now = now;
        self.errors = WriteErrors { count: self.errors.count + 1, kind: Some(kind), ..self.errors };
    }

    /// The newest error that was reported; a handle that is opened now gets the later ones.
    pub(super) fn errors_reported(&self) -> u64 {
        self.errors.reported
    }

    /// Reports an error to a handle to which `known` errors were reported before, if there are more. Answers how many
    /// it knows of now.
    pub(super) fn report_error(&mut self, known: u64) -> (u64, Option<io::ErrorKind>) {
        if self.errors.count <= known {
            return (known, None);
        }
        self.errors.reported = self.errors.count;
        (self.errors.count, self.errors.kind)
    }

    /// The machine has started anew.
    pub(super) fn forget_errors(&mut self) {
        self.errors = WriteErrors::default();
    }

    /// Makes durable what is found of the pending changes, and forgets the rest.
    pub(super) fn settle(&mut self, found: Found, chance: &mut Chance) {
        match chance.portion(found) {
            Portion::All => self.sync_to(self.reach()),
            Portion::Nothing => drop(self.unsynced.take_all()),
            Portion::Some => self.tear(found, chance),
        }
        self.now = self.durable.clone();
    }

    /// Each sector shows the state after any number of the writes that touched it; the length lies anywhere
    /// between the durable one and the last.
    fn tear(&mut self, found: Found, chance: &mut Chance) {
        let pending = self.unsynced.take_all();
        let len = self.torn_length(&pending, chance);
        let mut seen: HashMap<u64, (usize, bool)> = HashMap::new();
        for (index, change) in pending.iter().enumerate() {
            let Change::Write(offset, bytes) = change else { continue };
            for (at, part) in by_sector(*offset, bytes) {
                let (until, is_garbage) = *seen.entry(at / SECTOR).or_insert_with(|| {
                    let until = chance.prefix(pending.len());
                    (until, found == Found::Garbage && chance.below(4) == 0)
                });
                let fits = part.len().min(len.saturating_sub(at) as usize);
                if is_garbage {
                    let garbage: Vec<u8> = (0..fits).map(|_| chance.below(256) as u8).collect();
                    self.durable.write_if_any(at, &garbage);
                } else if index < until {
                    self.durable.write_if_any(at, &part[..fits]);
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
