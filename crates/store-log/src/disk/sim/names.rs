//! One folder: names that are durable, and names as they are now.

use std::collections::{BTreeMap, BTreeSet};

use super::chance::{Chance, Found};
use super::unsynced::Unsynced;

/// One folder's names: durable ones, and what was done since its last sync.
#[derive(Clone, Default)]
pub(super) struct Folder {
    durable: BTreeMap<String, u64>,
    pub(super) now: BTreeMap<String, u64>,
    unsynced: Unsynced<NameChange>,
    /// Folders made in it whose own names are durable.
    pub(super) durable_folders: BTreeSet<String>,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Set(String, u64),
    Move(String, String, u64),
    Drop(String),
    /// A folder was made.
    Made(String),
}

impl Folder {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    /// How far a sync that begins now reaches.
    pub(super) fn reach(&self) -> u64 {
        self.unsynced.reach()
    }

    /// A sync ends that reached so far.
    pub(super) fn sync_to(&mut self, reach: u64) {
        self.unsynced.take_to(reach).iter().for_each(|change| self.keep(change));
    }

    fn keep(&mut self, change: &NameChange) {
        match change {
            NameChange::Made(folder) => drop(self.durable_folders.insert(folder.clone())),
            change => change.apply(&mut self.durable),
        }
    }

    /// Makes durable what is found of the pending changes. Each change is found whole or not at all.
    pub(super) fn settle(&mut self, found: Found, chance: &mut Chance) {
        let portion = chance.portion(found);
        for change in self.unsynced.take_all() {
            if chance.keeps(portion) {
                self.keep(&change);
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
            Self::Made(_) => {}
        }
    }
}
