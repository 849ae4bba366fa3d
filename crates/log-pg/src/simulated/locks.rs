//! Row locks of the simulated database: those of the shards' rows, and of rows that are written by their keys.

use std::collections::{BTreeMap, BTreeSet};

use super::tables::{Key, Tables};

/// What a transaction locks of the shards' rows.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum RowLock {
    None,
    Share(i32),
    Exclusive(i32),
    /// Exclusively, unless it is locked just now.
    ExclusiveIfFree(i32),
    /// For share those of a node that are not locked exclusively just now.
    ShareOfNode(String),
}

/// Shards whose rows a transaction has locked, with their epochs.
pub(super) type Locked = Vec<(i32, i64)>;

/// The locks and the commit of one transaction.
pub(super) struct Transaction {
    pub lock: RowLock,
    pub is_synced: bool,
    pub key: Option<(i64, Key)>,
}

/// A transaction that has its locks.
pub(super) struct Begun {
    pub transaction: Transaction,
    pub locked: Locked,
}

/// Locks of transactions under way.
#[derive(Default)]
pub(super) struct Locks {
    /// How many share each shard's row.
    sharers: BTreeMap<i32, u64>,
    exclusive: BTreeSet<i32>,
    /// Rows that are written.
    keys: Vec<(i64, Key)>,
}

impl Locks {
    /// Takes the locks; `None` while others hold them.
    pub fn begin(&mut self, tables: &Tables, transaction: &Transaction) -> Option<Locked> {
        let is_free = match &transaction.lock {
            RowLock::None | RowLock::ShareOfNode(_) | RowLock::ExclusiveIfFree(_) => true,
            RowLock::Share(shard) => !self.exclusive.contains(shard),
            RowLock::Exclusive(shard) => !self.exclusive.contains(shard) && !self.sharers.contains_key(shard),
        };
        if !is_free || transaction.key.is_some_and(|key| self.keys.contains(&key)) {
            return None;
        }
        let mut locked = match &transaction.lock {
            RowLock::ShareOfNode(node) => tables.shards_of(node),
            RowLock::ExclusiveIfFree(shard) if !self.sharers.contains_key(shard) => {
                tables.shard(*shard).map(|row| vec![(*shard, row.epoch)]).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        locked.retain(|(shard, _)| !self.exclusive.contains(shard));
        match &transaction.lock {
            RowLock::None => {}
            RowLock::Share(shard) => self.share(*shard),
            RowLock::Exclusive(shard) => drop(self.exclusive.insert(*shard)),
            RowLock::ShareOfNode(_) => locked.iter().for_each(|(shard, _)| self.share(*shard)),
            RowLock::ExclusiveIfFree(_) => self.exclusive.extend(locked.iter().map(|(shard, _)| *shard)),
        }
        self.keys.extend(transaction.key);
        Some(locked)
    }

    fn share(&mut self, shard: i32) {
        *self.sharers.entry(shard).or_default() += 1;
    }

    fn share_no_more(&mut self, shard: i32) {
        if let Some(sharers) = self.sharers.get_mut(&shard) {
            *sharers -= 1;
        }
        self.sharers.retain(|_, sharers| *sharers > 0);
    }

    /// Lets the locks go.
    pub fn end(&mut self, begun: &Begun) {
        match &begun.transaction.lock {
            RowLock::None => {}
            RowLock::Share(shard) => self.share_no_more(*shard),
            RowLock::Exclusive(shard) => drop(self.exclusive.remove(shard)),
            RowLock::ExclusiveIfFree(_) => {
                self.exclusive.retain(|shard| !begun.locked.iter().any(|(locked, _)| locked == shard));
            }
            RowLock::ShareOfNode(_) => {
                begun.locked.iter().for_each(|(shard, _)| self.share_no_more(*shard));
            }
        }
        self.keys.retain(|key| Some(*key) != begun.transaction.key);
    }
}
