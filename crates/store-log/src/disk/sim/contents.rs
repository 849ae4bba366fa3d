//! One file: what is durable of it, what is read, and what a cut leaves of the difference.

use std::collections::HashMap;
use std::sync::Arc;

use super::chance::{Chance, Found, Taste};
use super::pages::Pages;

const SECTOR: u64 = 512;

/// One file: durable bytes, the bytes as read now, and what was done since its last sync.
#[derive(Clone, Default)]
pub(super) struct Contents {
    pub(super) durable: Pages,
    pub(super) now: Pages,
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Arc<[u8]>),
    Grow(u64),
}

impl Contents {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.now.write(offset, bytes);
        self.pending.push(Change::Write(offset, bytes.into()));
    }

    pub(super) fn grow(&mut self, len: u64) {
        self.now.grow(len);
        self.pending.push(Change::Grow(len));
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write(offset, bytes) => self.durable.write(offset, &bytes),
                Change::Grow(len) => self.durable.grow(len),
            }
        }
    }

    /// Some of it reached the disk, all of it stays readable, none of it will be tried again.
    pub(super) fn fail_sync(&mut self, chance: &mut Chance) {
        let now = self.now.clone();
        self.settle(Found::Torn, chance);
        self.now = now;
    }

    /// Makes durable what is found of the pending changes, and forgets the rest.
    pub(super) fn settle(&mut self, found: Found, chance: &mut Chance) {
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
