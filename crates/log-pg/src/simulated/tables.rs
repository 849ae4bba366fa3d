//! What the simulated database holds.

use std::collections::BTreeMap;

use bytes::Bytes;
use kew_core::{QueueKey, ShardId};

use crate::PgError;
use crate::database::{Change, FoundFile, Own, PROMISED};
use crate::map::{DatabasePlace, Node, ShardRow, shard_id};
use crate::tables::{Purpose, Table, overlay};

/// Position, epoch and number of a row.
pub(super) type Key = (u64, i64, i64);

#[derive(Clone)]
struct File {
    shard: i32,
    name: String,
    length: u64,
    bytes: Option<Vec<u8>>,
}

/// The row of a shard.
#[derive(Clone, Default)]
pub(super) struct Shard {
    pub epoch: i64,
    pub node: String,
    pub wanted: String,
    pub wanted_at: i64,
}

/// All tables, at one moment.
#[derive(Clone, Default)]
pub(super) struct Tables {
    shards: BTreeMap<i32, Shard>,
    /// Nodes, and the instants until which they live, by id.
    nodes: BTreeMap<String, (Node, i64)>,
    /// The shard of each queue's name, and the number of its last claim.
    names: BTreeMap<QueueKey, (i32, i64)>,
    files: BTreeMap<i64, File>,
    rows: BTreeMap<i64, BTreeMap<Key, Bytes>>,
}

/// One thing that a transaction did.
#[derive(Clone)]
pub(super) enum Did {
    Inserted {
        table: i64,
        key: Key,
        bytes: Bytes,
    },
    Took {
        shard: i32,
        epoch: i64,
        node: String,
    },
    Renewed {
        node: Node,
        until: i64,
    },
    GaveUp {
        shard: i32,
        to: String,
        at: i64,
    },
    /// Rows of nodes are deleted.
    Forgot(Vec<String>),
    Named(QueueKey, i32, i64),
    Released(QueueKey),
    Changed(i32, Change),
    Nothing,
}

impl Tables {
    pub fn apply(&mut self, did: &Did) {
        match did {
            Did::Inserted { table, key, bytes } => {
                self.rows.entry(*table).or_default().insert(*key, bytes.clone());
            }
            Did::Took { shard, epoch, node } => {
                let taken = Shard { epoch: *epoch, node: node.clone(), ..Shard::default() };
                self.shards.insert(*shard, taken);
            }
            Did::Renewed { node, until } => {
                self.nodes.insert(node.id.clone(), (node.clone(), *until));
            }
            Did::GaveUp { shard, to, at } => {
                let shard = self.shards.entry(*shard).or_default();
                shard.node.clear();
                (shard.wanted, shard.wanted_at) = (to.clone(), *at);
            }
            Did::Forgot(nodes) => nodes.iter().for_each(|node| drop(self.nodes.remove(node))),
            Did::Named(key, shard, claim) => drop(self.names.insert(key.clone(), (*shard, *claim))),
            Did::Released(key) => drop(self.names.remove(key)),
            Did::Changed(shard, change) => self.change(*shard, change),
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

    /// A database of a store of this many shards that no node has owned: those that lie here.
    pub fn of_shards(shards: u16, place: DatabasePlace) -> Self {
        let here = (0..shards).filter(|shard| place.has_at_first(ShardId(*shard)));
        let shards = here.map(|shard| (i32::from(shard), Shard::default())).collect();
        Self { shards, ..Self::default() }
    }

    /// The row of a shard.
    pub fn shard(&self, shard: i32) -> Result<&Shard, PgError> {
        self.shards.get(&shard).ok_or_else(|| PgError::Database(format!("there is no row of shard {shard}")))
    }

    /// Whether a shard has this epoch.
    pub fn has_epoch(&self, own: Own) -> bool {
        self.shards.get(&own.shard).is_some_and(|shard| shard.epoch == own.epoch)
    }

    /// Shards of a node, with their epochs.
    pub fn shards_of(&self, node: &str) -> Vec<(i32, i64)> {
        let own = self.shards.iter().filter(|(_, shard)| shard.node == node);
        own.map(|(id, shard)| (*id, shard.epoch)).collect()
    }

    /// All shards, as a renewal reads them.
    pub fn shard_rows(&self) -> Vec<ShardRow> {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let rows = self.shards.iter().map(|(id, row)| ShardRow {
            shard: shard_id(*id),
            epoch: row.epoch,
            node: some(&row.node),
            wanted: some(&row.wanted),
            moves: 0,
            wanted_in: None,
        });
        rows.collect()
    }

    /// Nodes that live at this instant.
    pub fn live_nodes(&self, clock: i64) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(move |(_, until)| *until > clock).map(|(node, _)| node)
    }

    /// Nodes that had gone at this instant.
    pub fn nodes_past(&self, clock: i64) -> Vec<String> {
        let past = self.nodes.iter().filter(|(_, (_, until))| *until <= clock);
        past.map(|(id, _)| id.clone()).collect()
    }

    /// Rows of nodes, also of those that have gone.
    pub fn node_rows(&self) -> usize {
        self.nodes.len()
    }

    /// The shard that has a name, and the number of its last claim.
    pub fn named(&self, key: &QueueKey) -> Option<(i32, i64)> {
        self.names.get(key).copied()
    }

    /// Names of a shard behind one of them.
    pub fn names(&self, shard: i32, after: Option<&QueueKey>, most: usize) -> Vec<QueueKey> {
        let own =
            self.names.iter().filter(|(key, (of, _))| *of == shard && after.is_none_or(|after| *key > after));
        own.map(|(key, _)| key.clone()).take(most).collect()
    }

    fn change(&mut self, shard: i32, change: &Change) {
        match change {
            Change::Create { id, name, table } => {
                let file = File { shard, name: name.clone(), length: 0, bytes: None };
                self.files.entry(*id).or_insert(file);
                if table.is_some() {
                    self.rows.entry(*id).or_default();
                }
            }
            Change::Rename { id, to } => {
                let replaced = |(other, file): &(&i64, &mut File)| {
                    *other != id && file.shard == shard && file.name == *to
                };
                for (other, file) in self.files.iter_mut().filter(replaced) {
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

    /// The name of the node that keeps this one from taking a shard: it owns it, or it is handed it, and lives at this
    /// instant.
    pub fn owner_at(&self, shard: i32, clock: i64, own_id: &str) -> Option<String> {
        let row = self.shards.get(&shard)?;
        let promised = i64::try_from(PROMISED.as_millis()).unwrap_or(i64::MAX);
        let is_promised = (0..=promised).contains(&(clock - row.wanted_at));
        let owner = if row.node.is_empty() { Some(&row.wanted).filter(|_| is_promised)? } else { &row.node };
        let (node, until) = self.nodes.get(owner)?;
        (*until > clock && owner != own_id).then(|| node.name.clone())
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
    pub fn is_taken(&self, shard: i32, name: &str, by: i64) -> bool {
        self.files.iter().any(|(id, file)| *id != by && file.shard == shard && file.name == name)
    }

    pub fn find(&self, shard: i32, name: &str) -> Option<FoundFile> {
        let (id, file) = self.files.iter().find(|(_, file)| file.shard == shard && file.name == name)?;
        Some(FoundFile { id: *id, length: file.length, bytes: file.bytes.clone() })
    }

    pub fn files(&self, shard: i32) -> Vec<(i64, String)> {
        self.files
            .iter()
            .filter(|(_, file)| file.shard == shard)
            .map(|(id, file)| (*id, file.name.clone()))
            .collect()
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
