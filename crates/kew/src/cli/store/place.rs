//! Where a store is: a directory, or the shards of one in PostgreSQL. What tools look at, and what they fill.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kew_core::{QueueKey, ShardCount, ShardId};
use kew_log_pg::{Look, PgDisk, PgError};
use kew_store_log::{
    Disk, IDENTITY_FILE, Laid, LogError, LogStore, RealDisk, ShardFolders, is_untouched, laid_out,
};

use super::{ToolError, doing, entropy, options, tell_tail};
use crate::config::{self, PgUrl, SHARDS_MAX, StoreChoice};
use crate::opening;
use crate::store::fresh;

/// The place of a store.
pub(super) enum Place {
    Directory(PathBuf),
    Postgres(PgUrl),
}

impl Place {
    /// The one that a text means, as for `kew serve`.
    pub fn of(path: &Path) -> Result<Self, ToolError> {
        // What is no text can only be a path.
        let Some(text) = path.to_str() else { return Ok(Self::Directory(path.to_owned())) };
        match config::store_choice(text) {
            Ok(StoreChoice::Directory(path)) => Ok(Self::Directory(path)),
            Ok(StoreChoice::Postgres(url)) => Ok(Self::Postgres(url)),
            Ok(StoreChoice::Memory) => Err(ToolError::InMemory),
            Err(_) => Err(ToolError::NoPlace(config::without_password(text))),
        }
    }

    /// The one that a command names, or else the usual one.
    pub fn named(named: &Option<PathBuf>, usual: Self) -> Result<Self, ToolError> {
        named.as_deref().map_or(Ok(usual), Self::of)
    }

    /// In how many databases it is to lie, as far as that is said.
    pub fn databases(&self) -> usize {
        match self {
            Self::Directory(_) => 1,
            Self::Postgres(url) => url.0.given().map_or(1, |given| given.len()),
        }
    }

    /// For people.
    pub fn shown(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Postgres(url) => url.to_string(),
        }
    }

    /// The shards of a store that may not be there yet, to be changed. A database is owned until that is given up.
    pub fn to_fill(&self, shards: Option<ShardCount>) -> Result<Filled, ToolError> {
        let url = match self {
            Self::Directory(path) => return self.directory_to_fill(path, shards),
            Self::Postgres(url) => url,
        };
        let entropy = entropy()?;
        let node = opening::this_run("kew store", &*entropy);
        // Where it is to lie in several databases it is one of many nodes.
        let founding = if self.databases() > 1 { opening::founding_of_fleet } else { opening::founding };
        let owned = kew_log_pg::own_all(&url.0, &node, (founding(&*entropy), shards));
        let owned = owned.map_err(|error| self.explain_postgres(error))?;
        let disks = owned.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect();
        let key = owned.first().and_then(PgDisk::receipts_key);
        Ok(Filled { disks, owned, key, folders: None })
    }

    /// A directory holds as many shards as it was made with; a new one, as many as are asked for.
    fn directory_to_fill(&self, path: &Path, shards: Option<ShardCount>) -> Result<Filled, ToolError> {
        let reading = doing(format!("reading {}", path.display()));
        if let Some(occupied) = fresh::stands_in_the_way(path).map_err(reading)? {
            return Err(occupied.into());
        }
        let shards = match (laid_out(path)?.shards(), shards) {
            (Some(has), Some(wanted)) if has != wanted => {
                let (has, wanted) = (has.get(), wanted.get());
                return Err(ToolError::OtherShards { path: path.to_owned(), has, wanted });
            }
            (Some(has), _) => has,
            (None, wanted) => wanted.unwrap_or(ShardCount::ONE),
        };
        if shards == ShardCount::ONE {
            let disk = RealDisk::open(path).map_err(doing(format!("making {}", path.display())))?;
            return Ok(Filled { disks: vec![Arc::new(disk)], owned: Vec::new(), key: None, folders: None });
        }
        if shards.get() > SHARDS_MAX {
            return Err(ToolError::TooManyShards);
        }
        let folders = ShardFolders::take(path, shards).map_err(|error| self.explain(error))?;
        let disks = shards.all().map(|shard| Ok(Arc::new(folders.disk(shard)?) as Arc<dyn Disk>));
        let disks = disks.collect::<Result<_, LogError>>()?;
        let key = Some(folders.key(&*entropy()?)?.0);
        Ok(Filled { disks, owned: Vec::new(), key, folders: Some(folders) })
    }

    /// A store that exists, to be changed: all shards of a directory, or the only one in PostgreSQL.
    pub fn to_change(&self) -> Result<Filled, ToolError> {
        // Looked at first: only a store that is there is owned.
        let shards = self.look()?.shards();
        if shards != ShardCount::ONE && matches!(self, Self::Postgres(_)) {
            return Err(ToolError::NoBackup { place: self.shown(), shards: shards.get() });
        }
        self.to_fill(None)
    }

    /// A store that exists, to be read only.
    pub fn look(&self) -> Result<Looked<'_>, ToolError> {
        let shards = match self {
            Self::Directory(path) => match laid_out(path)? {
                // Looking at nothing must not make a store.
                Laid::Nothing => return Err(ToolError::NoStore(path.to_owned())),
                Laid::One => Shards::Directory(path),
                Laid::Several(_) => {
                    Shards::Folders(ShardFolders::look(path).map_err(|error| self.explain(error))?)
                }
            },
            Self::Postgres(url) => {
                Shards::Postgres(Look::open(&url.0).map_err(|error| self.explain_postgres(error))?)
            }
        };
        Ok(Looked { place: self, shards })
    }

    pub fn explain(&self, error: LogError) -> ToolError {
        match error {
            LogError::Locked { holder } => ToolError::Locked { path: self.shown().into(), holder },
            error => ToolError::Log(error),
        }
    }

    fn explain_postgres(&self, error: PgError) -> ToolError {
        match error {
            PgError::Owned { node, .. } => {
                ToolError::Locked { path: self.shown().into(), holder: format!("the node {node}") }
            }
            PgError::NoStore => ToolError::NoStore(self.shown().into()),
            cause => ToolError::Postgres { place: self.shown(), cause },
        }
    }
}

/// All shards of a store, to be changed.
pub(super) struct Filled {
    pub disks: Vec<Arc<dyn Disk>>,
    /// The same, where they are in PostgreSQL.
    pub owned: Vec<PgDisk>,
    /// What those that are made seal receipts with, if that is not chance.
    pub key: Option<[u8; 16]>,
    /// What holds them, where they are folders of a directory.
    pub folders: Option<ShardFolders>,
}

impl Filled {
    pub fn shards(&self) -> ShardCount {
        let count = u16::try_from(self.disks.len()).ok().and_then(ShardCount::new);
        count.expect("a store has at least one shard, and as many as 16 bits count")
    }

    /// The disk of a store of one shard.
    pub fn only(&self) -> Arc<dyn Disk> {
        Arc::clone(self.disks.first().expect("a store has at least one shard"))
    }

    /// All shards are durable.
    pub fn made(&mut self) -> Result<(), ToolError> {
        self.folders.as_mut().map_or(Ok(()), ShardFolders::made).map_err(ToolError::Log)
    }

    /// Other nodes may take the store at once.
    pub fn give_up(&self) {
        self.owned.iter().for_each(PgDisk::give_up);
    }

    /// Whether a store, empty or not, is there.
    pub fn holds_store(&self) -> bool {
        let holds = |disk: &Arc<dyn Disk>| {
            disk.list("").is_ok_and(|names| names.iter().any(|name| name == IDENTITY_FILE))
        };
        self.disks.iter().any(holds)
    }

    /// Claims names of queues for their shard. A store of one shard has no names beside its ledger's.
    pub fn claim(&self, shard: ShardId, keys: Vec<QueueKey>) -> Result<(), LogError> {
        let Some(disk) = self.owned.get(usize::from(shard.0)).filter(|_| self.owned.len() > 1) else {
            return Ok(());
        };
        let failed = |error: PgError| LogError::from_io("naming the queues", &error.into());
        match disk.claim_names(keys).map_err(failed)? {
            None => Ok(()),
            Some(other) => {
                let what = format!("shard {other} has the name of a queue of shard {shard}");
                Err(LogError::damage("the table of names", 0, what))
            }
        }
    }
}

/// A store that is looked at, shard by shard.
pub(super) struct Looked<'a> {
    place: &'a Place,
    shards: Shards<'a>,
}

enum Shards<'a> {
    Directory(&'a Path),
    Folders(ShardFolders),
    Postgres(Look),
}

impl Looked<'_> {
    pub fn shards(&self) -> ShardCount {
        match &self.shards {
            Shards::Directory(_) => ShardCount::ONE,
            Shards::Folders(folders) => folders.shards(),
            Shards::Postgres(look) => look.shards(),
        }
    }

    pub fn disk(&self, shard: ShardId) -> Result<Arc<dyn Disk>, ToolError> {
        match &self.shards {
            Shards::Directory(path) => {
                let disk = RealDisk::look(path).map_err(doing(format!("opening {}", path.display())))?;
                Ok(Arc::new(disk))
            }
            Shards::Folders(folders) => Ok(Arc::new(folders.disk_to_look(shard)?)),
            Shards::Postgres(look) => {
                Ok(Arc::new(look.disk(shard).map_err(|error| self.place.explain_postgres(error))?))
            }
        }
    }

    /// Shards that hold something: of a store of several a node makes each when it first takes it.
    pub fn opened(&self) -> Result<Vec<ShardId>, ToolError> {
        let mut opened = Vec::new();
        for shard in self.shards().all() {
            if self.shards() == ShardCount::ONE || !is_untouched(&*self.disk(shard)?)? {
                opened.push(shard);
            }
        }
        if opened.is_empty() { Err(self.is_empty()) } else { Ok(opened) }
    }

    /// What is said of a store none of whose shards was ever opened.
    pub fn is_empty(&self) -> ToolError {
        ToolError::NoStore(self.place.shown().into())
    }

    /// Opens a shard without changing a byte of it. `tells` says whether an incomplete batch is reported.
    pub fn store(&self, shard: ShardId, tells: bool) -> Result<LogStore, ToolError> {
        let looked = LogStore::look(self.disk(shard)?, options(shard, self.shards()), entropy()?);
        let (store, report) = looked.map_err(|error| self.place.explain(error))?;
        if tells {
            tell_tail(report.tail.as_ref());
        }
        Ok(store)
    }

    /// Fails when a node has taken a shard meanwhile.
    pub fn end(self) -> Result<(), ToolError> {
        match self.shards {
            Shards::Directory(_) | Shards::Folders(_) => Ok(()),
            Shards::Postgres(look) => look.end().map_err(|error| self.place.explain_postgres(error)),
        }
    }
}
