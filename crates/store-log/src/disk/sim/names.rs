//! One folder: names that are durable, and names as they are now.

use std::collections::BTreeMap;

use super::chance::{Chance, Found};

/// One folder's names: durable ones, and what was done since its last sync.
#[derive(Clone, Default)]
pub(super) struct Folder {
    durable: BTreeMap<String, u64>,
    pub(super) now: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Set(String, u64),
    Move(String, String, u64),
    Drop(String),
}

impl Folder {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    /// Makes durable what is found of the pending changes. Each change is found whole or not at all.
    pub(super) fn settle(&mut self, found: Found, chance: &mut Chance) {
        let taste = chance.taste(found);
        for change in self.pending.drain(..) {
            if chance.keeps(taste) {
                change.apply(&mut self.durable);
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
        }
    }
}
