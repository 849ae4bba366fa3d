//! A store of several shards in a directory: `shard-0000`, `shard-0001` and so on, each a store's directory of its own,
//! and beside them a file `STORE` of another kind, the list, which says how many there are.
//!
//! The list is the first file to be made and says that the shards are being made; when all of them are durable it
//! says so, and from then on one that is missing is refused by name. The lock of the directory is the lock of them all.
//! In a store of one shard the files lie in the directory itself, and its `STORE` is the store's own. A program that
//! knows no lists refuses one by its version, and makes no store beside the shards.

use std::io;
use std::path::{Path, PathBuf};

use kew_core::{Entropy, ShardCount, ShardId};
use kew_store::token::TokenKey;

use crate::checkpoint::{Identity, STORE_MAGIC, envelope_version, identity_bytes};
use crate::disk::{
    Disk, DiskLock, IDENTITY_FILE, MANIFEST_FILE, RealDisk, SEGMENTS_FOLDER, lock_store, replace_whole,
};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};

/// Far above the versions of the file that names a store, which begins in the same way.
const LIST_VERSION: u32 = 1_001;
const BYTES: usize = 24;
/// Where the version lies.
const VERSION_AT: usize = 12;
/// The checksum covers what is behind it.
const SUMMED_FROM: usize = 12;
/// Behind the version.
const COUNT_AT: usize = 16;

/// What lies in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Laid {
    /// No store.
    Nothing,
    /// A store of one shard, or what is left of one.
    One,
    /// A store of several shards, or one that was begun.
    Several(ShardCount),
}

impl Laid {
    /// How many shards the store has, if there is one.
    pub fn shards(self) -> Option<ShardCount> {
        match self {
            Self::Nothing => None,
            Self::One => Some(ShardCount::ONE),
            Self::Several(shards) => Some(shards),
        }
    }
}

/// Looks what lies in a directory, which may be missing.
pub fn laid_out(root: &Path) -> Result<Laid, LogError> {
    let holds = |name: &str| root.join(name).exists();
    if let Some(list) = list_in(root)? {
        return Ok(Laid::Several(list.count));
    }
    // A store that lost the file that names it is still one. Anything else is somebody's directory.
    if [IDENTITY_FILE, MANIFEST_FILE, SEGMENTS_FOLDER].into_iter().any(holds) {
        return if is_shard_of_another(root)? { Err(by_itself(root)) } else { Ok(Laid::One) };
    }
    if let Some(folder) = any_shard(root).doing("listing", &shown(root))? {
        let what = format!("the file is missing, but there is {folder}");
        return Err(LogError::damage(IDENTITY_FILE, 0, what));
    }
    Ok(Laid::Nothing)
}

/// The list of a directory, which may be missing.
fn list_in(root: &Path) -> Result<Option<ShardList>, LogError> {
    if !root.join(IDENTITY_FILE).exists() {
        return Ok(None);
    }
    ShardList::load(&RealDisk::look(root).doing("opening", &shown(root))?)
}

/// The name of a folder that is one of a shard.
fn any_shard(root: &Path) -> io::Result<Option<String>> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_shard_folder(&name) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether a directory is a shard beside others. By itself it would get queues with the numbers of all shards.
fn is_shard_of_another(root: &Path) -> Result<bool, LogError> {
    let root = root.canonicalize().doing("finding", &shown(root))?;
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
    match (name, root.parent()) {
        (Some(name), Some(parent)) if is_shard_folder(&name) => Ok(list_in(parent)?.is_some()),
        _ => Ok(false),
    }
}

fn by_itself(root: &Path) -> LogError {
    let detail = format!("{} is one shard of a store: open the directory that it lies in", shown(root));
    LogError::Io { doing: "opening the store".into(), kind: io::ErrorKind::InvalidInput, detail }
}

/// The folder of a shard.
pub fn shard_folder(shard: ShardId) -> String {
    format!("shard-{:04}", shard.0)
}

fn is_shard_folder(name: &str) -> bool {
    let number = name.strip_prefix("shard-");
    number.is_some_and(|number| number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The shards of a store in a directory, for as long as this process has them.
#[derive(Debug)]
pub struct ShardFolders {
    root: RealDisk,
    list: ShardList,
    _lock: DiskLock,
}

impl ShardFolders {
    /// Takes the directory to change what is in it. A store that is not there is begun, with this number of shards.
    pub fn take(root: &Path, shards: ShardCount) -> Result<Self, LogError> {
        Self::take_or_begin(root, shards, ShardsAre::BeingMade)
    }

    /// Takes an empty directory to copy a store of this number of shards into it. Until [`ShardFolders::made`] it is
    /// refused by everything but the check of a backup.
    pub fn take_for_copy(root: &Path, shards: ShardCount) -> Result<Self, LogError> {
        Self::take_or_begin(root, shards, ShardsAre::BeingCopied)
    }

    fn take_or_begin(root: &Path, shards: ShardCount, begun: ShardsAre) -> Result<Self, LogError> {
        let root = RealDisk::open(root).doing("opening", &shown(root))?;
        let lock = lock_store(&root)?;
        let list = match (ShardList::load(&root)?, laid_out(root.root())?) {
            (Some(list), _) => list.not_half_a_copy()?,
            (None, Laid::Nothing) => {
                let list = ShardList { count: shards, are: begun };
                list.write(&root)?;
                list
            }
            (None, _) => return Err(of_another_count(Laid::One)),
        };
        if list.count != shards {
            return Err(of_another_count(Laid::Several(list.count)));
        }
        let folders = Self { root, list, _lock: lock };
        for shard in shards.all() {
            let folder = folders.path(shard);
            folders.check(shard)?;
            // Its name is durable before anything in it is.
            drop(RealDisk::open(&folder).doing("making", &shown(&folder))?);
        }
        Ok(folders)
    }

    /// Takes the directory of a store that is there to look at it.
    pub fn look(root: &Path) -> Result<Self, LogError> {
        let folders = Self::look_at_copy(root)?;
        folders.list.not_half_a_copy()?;
        Ok(folders)
    }

    /// The same of a backup, which may have been cut short: [`ShardFolders::is_made`] says so.
    pub fn look_at_copy(root: &Path) -> Result<Self, LogError> {
        let root = RealDisk::look(root).doing("opening", &shown(root))?;
        let lock = lock_store(&root)?;
        let list = ShardList::load(&root)?;
        let list = list.ok_or_else(|| LogError::damage(IDENTITY_FILE, 0, "the file is missing"))?;
        Ok(Self { root, list, _lock: lock })
    }

    /// How many there are.
    pub fn shards(&self) -> ShardCount {
        self.list.count
    }

    /// Whether all of them were made. Those of a store that was only begun hold nothing that was acknowledged.
    pub fn is_made(&self) -> bool {
        self.list.are == ShardsAre::Made
    }

    /// The directory of a shard.
    pub fn path(&self, shard: ShardId) -> PathBuf {
        self.root.root().join(shard_folder(shard))
    }

    /// A shard to be changed.
    pub fn disk(&self, shard: ShardId) -> Result<RealDisk, LogError> {
        let path = self.path(shard);
        RealDisk::open(&path).doing("opening", &shown(&path))
    }

    /// A shard to be looked at.
    pub fn disk_to_look(&self, shard: ShardId) -> Result<RealDisk, LogError> {
        self.check(shard)?;
        let path = self.path(shard);
        RealDisk::look(&path).doing("opening", &shown(&path))
    }

    /// The key of the receipts, which all shards have: of one that is there, or a new one.
    pub fn key(&self, entropy: &dyn Entropy) -> Result<TokenKey, LogError> {
        for shard in self.shards().all() {
            if let Some(key) = self.key_of(shard)? {
                return Ok(TokenKey(key));
            }
        }
        Ok(TokenKey(entropy.wide_bits().to_be_bytes()))
    }

    /// All shards have been made and are durable.
    pub fn made(&mut self) -> Result<(), LogError> {
        if self.is_made() {
            return Ok(());
        }
        self.list.are = ShardsAre::Made;
        self.list.write(&self.root)
    }

    /// Removes a copy that could not be finished, and what was made for it. What cannot be removed stays half a copy.
    pub fn undo(self) -> io::Result<()> {
        for shard in self.shards().all() {
            match std::fs::remove_dir_all(self.path(shard)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.root.remove(IDENTITY_FILE)
    }

    /// Fails where a shard that must be there is not, or is one of another store.
    fn check(&self, shard: ShardId) -> Result<(), LogError> {
        let folder = shard_folder(shard);
        let (first, own) = (self.key_of(ShardId(0))?, self.key_of(shard)?);
        match (first, own) {
            (_, None) if !self.is_made() => Ok(()),
            (_, None) => {
                let what = format!(
                    "the shard is missing, and {IDENTITY_FILE} says that the store has {}; put it back, or restore a backup",
                    self.list.count.get()
                );
                Err(LogError::damage(folder, 0, what))
            }
            (Some(first), Some(own)) if first != own => {
                Err(LogError::damage(folder, 0, "the shard is one of another store"))
            }
            _ => Ok(()),
        }
    }

    fn key_of(&self, shard: ShardId) -> Result<Option<[u8; 16]>, LogError> {
        let path = self.path(shard);
        if !path.is_dir() {
            return Ok(None);
        }
        let disk = RealDisk::look(&path).doing("opening", &shown(&path))?;
        Ok(Identity::load(&disk)?.map(|identity| identity.mac_key))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn of_another_count(laid: Laid) -> LogError {
    let shards = laid.shards().map_or(0, ShardCount::get);
    let detail = format!(
        "the directory holds a store of {shards} {} already",
        if shards == 1 { "shard" } else { "shards" }
    );
    LogError::Io { doing: "taking the shards".into(), kind: io::ErrorKind::AlreadyExists, detail }
}

/// How far the shards are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ShardsAre {
    /// They hold nothing that was acknowledged yet, and the next opening goes on making them.
    BeingMade,
    /// All are there and durable.
    Made,
    /// They are copies of another store's, of which some may be missing.
    BeingCopied,
}

impl ShardsAre {
    const ALL: [Self; 3] = [Self::BeingMade, Self::Made, Self::BeingCopied];

    fn number(self) -> u32 {
        match self {
            Self::BeingMade => 0,
            Self::Made => 1,
            Self::BeingCopied => 2,
        }
    }
}

/// What the list says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ShardList {
    count: ShardCount,
    are: ShardsAre,
}

impl ShardList {
    /// Reads the list; `None` where there is no store, or a store of one shard.
    fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        // A store of one shard has more bytes in this file than a list has.
        let Some(bytes) = identity_bytes(disk)? else { return Ok(None) };
        if bytes.get(VERSION_AT..COUNT_AT) != Some(LIST_VERSION.to_le_bytes().as_slice()) {
            return Ok(None);
        }
        Self::decode(&bytes).map(Some)
    }

    /// Refuses a copy that was not finished: opening it would make the shards that are missing, without what they held.
    fn not_half_a_copy(self) -> Result<Self, LogError> {
        if self.are == ShardsAre::BeingCopied {
            let what = "a backup into this directory was cut short; remove it and back the store up again";
            return Err(LogError::damage(IDENTITY_FILE, COUNT_AT as u64, what));
        }
        Ok(self)
    }

    /// Writes the file, wholly or not at all.
    fn write(self, disk: &dyn Disk) -> Result<(), LogError> {
        replace_whole(disk, IDENTITY_FILE, &self.encode()).doing("writing", IDENTITY_FILE)
    }

    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut to = &mut bytes[..];
        STORE_MAGIC.put(&mut to);
        0_u32.put(&mut to);
        LIST_VERSION.put(&mut to);
        u32::from(self.count.get()).put(&mut to);
        self.are.number().put(&mut to);
        let sum = crc32c::crc32c(&bytes[SUMMED_FROM..]);
        bytes[8..SUMMED_FROM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let _version = envelope_version(bytes, STORE_MAGIC, IDENTITY_FILE, LIST_VERSION)?;
        let bad = |bad: BadField| bad.damage(IDENTITY_FILE, 0);
        let mut from = Fields::of("the list of shards", bytes, COUNT_AT);
        let count: u32 = from.get("the number of shards").map_err(bad)?;
        let state: u32 = from.get("how far they are").map_err(bad)?;
        let count = u16::try_from(count).ok().and_then(ShardCount::new);
        match (count, ShardsAre::ALL.into_iter().find(|are| are.number() == state)) {
            (Some(count), Some(are)) => Ok(Self { count, are }),
            _ => Err(LogError::damage(IDENTITY_FILE, COUNT_AT as u64, "a number that makes no sense")),
        }
    }
}

#[cfg(test)]
mod tests;
