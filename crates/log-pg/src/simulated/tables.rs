//! What the simulated database holds.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::PgError;
use crate::database::{Change, FoundFile};
use crate::tables::{Purpose, Table, overlay};

/// Position, epoch and number of a row.
pub(super) type Key = (u64, i64, i64);

#[derive(Clone)]
struct File {
    name: String,
    length: u64,
    bytes: Option<Vec<u8>>,
}

/// All tables, at one moment.
#[derive(Clone, Default)]
pub(super) struct Tables {
    pub epoch: i64,
    pub owner: String,
    /// Names of nodes, and the instants until which they own, by id.
    nodes: BTreeMap<String, (String, i64)>,
    files: BTreeMap<i64, File>,
    rows: BTreeMap<i64, BTreeMap<Key, Bytes>>,
}

/// One thing that a transaction did.
#[derive(Clone)]
pub(super) enum Did {
    Inserted { table: i64, key: Key, bytes: Bytes },
    Took { epoch: i64, node: String },
    Renewed { node: String, name: String, until: i64 },
    GaveUp { node: String },
    Changed(Change),
    Nothing,
}

impl Tables {
    pub fn apply(&mut self, did: &Did) {
        match did {
            Did::Inserted { table, key, bytes } => {
                self.rows.entry(*table).or_default().insert(*key, bytes.clone());
            }
            Did::Took { epoch, node } => {
                self.nodes.remove(&self.owner);
                (self.epoch, self.owner) = (*epoch, node.clone());
            }
            Did::Renewed { node, name, until } => {
                self.nodes.insert(node.clone(), (name.clone(), *until));
            }
            Did::GaveUp { node } => {
                self.nodes.remove(node);
                self.owner.clear();
            }
            Did::Changed(change) => self.change(change),
            Did::Nothing => {}
        }
    }

    /// Tables of large files.
    pub fn tables(&self) -> usize {
        self.rows.len()
    }

    /// Rows that were written in an epoch.
    pub fn rows_of(&self, epoch: i64) -> usize {
        self.rows.values().flat_map(BTreeMap::keys).filter(|key| key.1 == epoch).count()
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create { id, name, table } => {
                let file = File { name: name.clone(), length: 0, bytes: None };
                self.files.entry(*id).or_insert(file);
                if table.is_some() {
                    self.rows.entry(*id).or_default();
                }
            }
            Change::Rename { id, to } => {
                for (other, file) in
                    self.files.iter_mut().filter(|(other, file)| *other != id && file.name == *to)
                {
                    file.name = format!("#{other}");
                }
                self.with(*id, |file| file.name = to.clone());
            }
            Change::Remove { id } => self.with(*id, |file| file.name = format!("#{id}")),
            // A file that has a name is in use: it is not dropped.
            Change::Drop { id } if self.files.get(id).is_some_and(|file| file.name == format!("#{id}")) => {
                self.files.remove(id);
                self.rows.remove(id);
            }
            Change::Drop { .. } => {}
            Change::Length { id, length } => {
                self.with(*id, |file| file.length = file.length.max(u64::try_from(*length).unwrap_or(0)));
            }
            Change::Bytes { id, bytes } => self.with(*id, |file| {
                file.length = file.length.max(bytes.len() as u64);
                file.bytes = Some(bytes.to_vec());
            }),
            Change::Cut { table, from } => {
                let from = u64::try_from(*from).unwrap_or(0);
                self.rows.entry(table.id).or_default().retain(|(pos, _, _), _| *pos < from);
            }
        }
    }

    fn with(&mut self, id: i64, change: impl FnOnce(&mut File)) {
        if let Some(file) = self.files.get_mut(&id) {
            change(file);
        }
    }

    /// The name of the owner, if that is another node and its tenure has not ended at this instant.
    pub fn owner_at(&self, clock: i64, own_id: &str) -> Option<String> {
        let (name, until) = self.nodes.get(&self.owner)?;
        (*until > clock && self.owner != own_id).then(|| name.clone())
    }

    /// Whether a file is there, by whatever name.
    pub fn has_file(&self, id: i64) -> bool {
        self.files.contains_key(&id)
    }

    /// Whether a table has a row.
    pub fn has(&self, table: &Table, key: Key) -> Result<bool, PgError> {
        Ok(self.table(table)?.contains_key(&key))
    }

    /// Whether a name belongs to another file.
    pub fn is_taken(&self, name: &str, by: i64) -> bool {
        self.files.iter().any(|(id, file)| *id != by && file.name == name)
    }

    pub fn find(&self, name: &str) -> Option<FoundFile> {
        let (id, file) = self.files.iter().find(|(_, file)| file.name == name)?;
        Some(FoundFile { id: *id, length: file.length, bytes: file.bytes.clone() })
    }

    pub fn files(&self) -> Vec<(i64, String)> {
        self.files.iter().map(|(id, file)| (*id, file.name.clone())).collect()
    }

    /// Reads as the statement of `tables.rs` does.
    pub fn read(&self, table: &Table, offset: u64, len: usize) -> Result<Vec<u8>, PgError> {
        let (rows, end) = (self.table(table)?, offset + len as u64);
        let first = match table.purpose {
            Purpose::Journal => {
                rows.range(..=(offset, i64::MAX, i64::MAX)).next_back().map_or(0, |(key, _)| key.0)
            }
            Purpose::Slices => 0,
        };
        let mut found: Vec<_> = rows.range((first, i64::MIN, i64::MIN)..(end, i64::MIN, i64::MIN)).collect();
        found.sort_by_key(|((_, epoch, seq), _)| (*epoch, *seq));
        let mut bytes = vec![0; len];
        found.into_iter().for_each(|((pos, _, _), row)| overlay(&mut bytes, offset, *pos, row));
        Ok(bytes)
    }

    fn table(&self, table: &Table) -> Result<&BTreeMap<Key, Bytes>, PgError> {
        let missing = || PgError::Database(format!("relation \"{}\" does not exist", table.name));
        self.rows.get(&table.id).ok_or_else(missing)
    }
}
