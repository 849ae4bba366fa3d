//! A store of several shards in a directory: `shard-0000`, `shard-0001` and so on, each a store's directory of its own,
//! and beside them the file `SHARDS`, which says how many there are.
//!
//! The file is the first to be made and says that the shards are being made; when all of them are durable it says so,
//! and from then on one that is missing is refused by name. The lock of the directory is the lock of them all. A store
//! of one shard has none of this: its files lie in the directory itself.

use std::io;
use std::path::{Path, PathBuf};

use kew_core::{Entropy, ShardCount, ShardId};
use kew_store::token::TokenKey;

use crate::checkpoint::{Identity, envelope_version};
use crate::disk::{
    Disk, DiskLock, IDENTITY_FILE, MANIFEST_FILE, RealDisk, SEGMENTS_FOLDER, SHARDS_FILE, lock_store,
    read_whole, replace_whole,
};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};

const MAGIC: [u8; 8] = *b"KewShard";
const VERSION: u32 = 1;
const BYTES: usize = 24;
/// The checksum covers what is behind it.
const SUMMED_FROM: usize = 12;
/// Behind the version.
const COUNT_AT: usize = 16;

const BEING_MADE: u32 = 0;
const MADE: u32 = 1;

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
    if holds(SHARDS_FILE) {
        let disk = RealDisk::look(root).doing("opening", &shown(root))?;
        return Ok(ShardList::load(&disk)?.map_or(Laid::Nothing, |list| Laid::Several(list.count)));
    }
    // A store that lost the file that names it is still one. Anything else is somebody's directory.
    if [IDENTITY_FILE, MANIFEST_FILE, SEGMENTS_FOLDER].into_iter().any(holds) {
        return Ok(Laid::One);
    }
    if holds(&shard_folder(ShardId(0))) {
        let what = format!("the file is missing, but there is {}", shard_folder(ShardId(0)));
        return Err(LogError::damage(SHARDS_FILE, 0, what));
    }
    Ok(Laid::Nothing)
}

/// The folder of a shard.
pub fn shard_folder(shard: ShardId) -> String {
    format!("shard-{:04}", shard.0)
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
        let root = RealDisk::open(root).doing("opening", &shown(root))?;
        let lock = lock_store(&root)?;
        let list = match (ShardList::load(&root)?, laid_out(root.root())?) {
            (Some(list), _) => list,
            (None, Laid::Nothing) => {
                let list = ShardList { count: shards, is_made: false };
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
        let root = RealDisk::look(root).doing("opening", &shown(root))?;
        let lock = lock_store(&root)?;
        let list = ShardList::load(&root)?;
        let list = list.ok_or_else(|| LogError::damage(SHARDS_FILE, 0, "the file is missing"))?;
        Ok(Self { root, list, _lock: lock })
    }

    /// How many there are.
    pub fn shards(&self) -> ShardCount {
        self.list.count
    }

    /// Whether all of them were made. Those of a store that was only begun hold nothing that was acknowledged.
    pub fn is_made(&self) -> bool {
        self.list.is_made
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
        if self.list.is_made {
            return Ok(());
        }
        self.list.is_made = true;
        self.list.write(&self.root)
    }

    /// Fails where a shard that must be there is not, or is one of another store.
    fn check(&self, shard: ShardId) -> Result<(), LogError> {
        let folder = shard_folder(shard);
        let (first, own) = (self.key_of(ShardId(0))?, self.key_of(shard)?);
        match (first, own) {
            (_, None) if !self.list.is_made => Ok(()),
            (_, None) => {
                let what = format!(
                    "the shard is missing, and {SHARDS_FILE} says that the store has {}; put it back, or restore a backup",
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

/// What the file `SHARDS` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ShardList {
    count: ShardCount,
    is_made: bool,
}

impl ShardList {
    fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        let file = match disk.open(SHARDS_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.doing("opening", SHARDS_FILE)?,
        };
        let bytes = match read_whole(&*file, 4096) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(LogError::damage(SHARDS_FILE, 0, error.to_string()));
            }
            bytes => bytes.doing("reading", SHARDS_FILE)?,
        };
        Self::decode(&bytes).map(Some)
    }

    /// Writes the file, wholly or not at all.
    fn write(self, disk: &dyn Disk) -> Result<(), LogError> {
        replace_whole(disk, SHARDS_FILE, &self.encode()).doing("writing", SHARDS_FILE)
    }

    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut to = &mut bytes[..];
        MAGIC.put(&mut to);
        0_u32.put(&mut to);
        VERSION.put(&mut to);
        u32::from(self.count.get()).put(&mut to);
        (if self.is_made { MADE } else { BEING_MADE }).put(&mut to);
        let sum = crc32c::crc32c(&bytes[SUMMED_FROM..]);
        bytes[8..SUMMED_FROM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let _version = envelope_version(bytes, MAGIC, SHARDS_FILE, VERSION)?;
        let bad = |bad: BadField| bad.damage(SHARDS_FILE, 0);
        let mut from = Fields::of("the list of shards", bytes, COUNT_AT);
        let count: u32 = from.get("the number of shards").map_err(bad)?;
        let state: u32 = from.get("whether they were made").map_err(bad)?;
        let count = u16::try_from(count).ok().and_then(ShardCount::new);
        match (count, state) {
            (Some(count), BEING_MADE | MADE) => Ok(Self { count, is_made: state == MADE }),
            _ => Err(LogError::damage(SHARDS_FILE, COUNT_AT as u64, "a number that makes no sense")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Found, SimDisk};
    use kew_testing::CountingEntropy;

    fn count(shards: u16) -> ShardCount {
        ShardCount::new(shards).expect("a store has a shard")
    }

    fn disk_of(folder: &Path) -> RealDisk {
        RealDisk::open(folder).expect("the folder can be opened")
    }

    /// Makes every shard that is not there, as the opening of its store does.
    fn make(folders: &mut ShardFolders) -> TokenKey {
        let entropy = CountingEntropy::default();
        let key = folders.key(&entropy).expect("the key is read");
        for shard in folders.shards().all() {
            let disk = folders.disk(shard).expect("the folder is there");
            if Identity::load(&disk).expect("the identity can be read").is_none() {
                let identity = Identity { store_id: [1; 16], mac_key: key.0, created_ms: 1 };
                identity.create(&disk).expect("the identity can be written");
            }
        }
        folders.made().expect("the list is written");
        key
    }

    #[test]
    fn list_is_read_as_it_was_written_and_no_other_bytes_are() {
        for is_made in [false, true] {
            let list = ShardList { count: count(300), is_made };
            assert_eq!(ShardList::decode(&list.encode()), Ok(list));
        }
        let good = ShardList { count: count(4), is_made: true }.encode();
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 1;
            assert!(ShardList::decode(&bad).is_err(), "byte {at}");
            assert!(ShardList::decode(&good[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn list_is_there_wholly_or_not_at_all_and_the_newer_one_wins() {
        let disk = SimDisk::new();
        assert_eq!(ShardList::load(&disk), Ok(None));
        let begun = ShardList { count: count(4), is_made: false };
        let made = ShardList { is_made: true, ..begun };
        for (list, before) in [(begun, None), (made, Some(begun))] {
            disk.record_snapshots();
            list.write(&disk).expect("the list can be written");
            for (point, cut) in disk.take_snapshots() {
                for seed in 0..20 {
                    let found = ShardList::load(&cut.reopen(seed, Found::Torn))
                        .expect("the list is read whole or is not there");
                    assert!(found == before || found == Some(list), "point {point} seed {seed}");
                }
            }
            assert_eq!(ShardList::load(&disk.reopen(0, Found::Lost)), Ok(Some(list)));
        }
    }

    #[test]
    fn directory_is_one_store_of_as_many_shards_as_it_was_made_with() {
        let home = tempfile::tempdir().expect("the machine has a temporary directory");
        let root = home.path().join("data");
        assert_eq!(laid_out(&root), Ok(Laid::Nothing));
        assert!(!root.exists(), "looking makes nothing");
        let mut folders = ShardFolders::take(&root, count(3)).expect("a store can begin here");
        assert_eq!((laid_out(&root), folders.is_made()), (Ok(Laid::Several(count(3))), false));
        let second = ShardFolders::take(&root, count(3)).map(drop);
        assert!(matches!(second, Err(LogError::Locked { .. })), "{second:?}");
        let key = make(&mut folders);
        drop(folders);
        let other = ShardFolders::take(&root, count(2)).map(drop);
        assert!(matches!(other, Err(LogError::Io { kind: io::ErrorKind::AlreadyExists, .. })), "{other:?}");
        let mut again = ShardFolders::take(&root, count(3)).expect("the store can be taken again");
        assert!(again.is_made());
        assert_eq!(make(&mut again).0, key.0, "all shards have one key");
        drop(again);
        assert_eq!(ShardFolders::look(&root).expect("the store can be looked at").shards(), count(3));
    }

    #[test]
    fn making_that_was_cut_short_goes_on() {
        let home = tempfile::tempdir().expect("the machine has a temporary directory");
        let begun = ShardFolders::take(home.path(), count(2)).expect("a store can begin here");
        let first = begun.disk(ShardId(0)).expect("the folder is there");
        let identity = Identity { store_id: [1; 16], mac_key: [7; 16], created_ms: 1 };
        identity.create(&first).expect("the identity can be written");
        drop(begun);
        let mut again = ShardFolders::take(home.path(), count(2)).expect("the store can be taken again");
        assert!(!again.is_made());
        assert_eq!(make(&mut again).0, [7; 16]);
    }

    #[test]
    fn shard_that_is_missing_or_of_another_store_is_refused_by_name() {
        let home = tempfile::tempdir().expect("the machine has a temporary directory");
        let mut folders = ShardFolders::take(home.path(), count(2)).expect("a store can begin here");
        make(&mut folders);
        drop(folders);
        let refusal = || match ShardFolders::take(home.path(), count(2)).map(drop) {
            Err(LogError::Damage { file, what, .. }) => format!("{file}: {what}"),
            other => panic!("{other:?}"),
        };
        let (second, aside) = (home.path().join("shard-0001"), home.path().join("aside"));
        std::fs::rename(&second, &aside).expect("the folder can be moved");
        assert!(refusal().starts_with("shard-0001: the shard is missing"), "{}", refusal());
        assert!(!second.exists(), "a refusal makes nothing");
        std::fs::create_dir(&second).expect("the directory is ours");
        let identity = Identity { store_id: [1; 16], mac_key: [9; 16], created_ms: 1 };
        identity.create(&disk_of(&second)).expect("the identity can be written");
        assert_eq!(refusal(), "shard-0001: the shard is one of another store");
        std::fs::remove_file(home.path().join(SHARDS_FILE)).expect("the list can be removed");
        let lost = laid_out(home.path());
        assert!(matches!(&lost, Err(LogError::Damage { file, .. }) if file == SHARDS_FILE), "{lost:?}");
    }

    #[test]
    fn store_of_one_shard_is_never_taken_for_several() {
        let home = tempfile::tempdir().expect("the machine has a temporary directory");
        let identity = Identity { store_id: [1; 16], mac_key: [9; 16], created_ms: 1 };
        identity.create(&disk_of(home.path())).expect("the identity can be written");
        assert_eq!(laid_out(home.path()), Ok(Laid::One));
        let taken = ShardFolders::take(home.path(), count(2)).map(drop);
        assert!(matches!(taken, Err(LogError::Io { kind: io::ErrorKind::AlreadyExists, .. })), "{taken:?}");
    }
}
