//! Who a store is, and who holds it: the head of the file `STORE`, written once, and the directory lock.
//!
//! Behind the head the file says what must exist ([`crate::checkpoint::expected`]); one of format 1 ends with the head.

use super::expected::{Expected, STORE_BYTES, Slot, newest_slot, store_file};
use crate::disk::{Disk, IDENTITY_FILE, folder_of, read_whole, replace_whole};
use crate::error::{Doing, LogError};
use crate::fields::{BadField, Codec, Fields};
use crate::journal::{Checksums, FORMAT_VERSION};
use std::io;

/// Format version of the file that names a store, and so of the store. Version 1 did not say what must exist; version 2
/// knew no record of a message from another shard, version 3 none of one that was tried too often and stayed.
pub const STORE_VERSION: u32 = 4;

/// What the file begins with.
pub(crate) const STORE_MAGIC: [u8; 8] = *b"KewStore";
const HEAD_BYTES: usize = 56;

/// A store's identity: made with it, kept through backup, export and migration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Tells this store from all others.
    pub store_id: [u8; 16],
    /// Key of the lease tokens' MACs. Never leaves the store except in a backup of it.
    pub mac_key: [u8; 16],
    /// When it was made, in milliseconds since 1970 (UTC).
    pub created_ms: u64,
}

/// What the file `STORE` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// The file's format version.
    pub version: u32,
    pub identity: Identity,
    /// What must exist; `None` in a file of format 1.
    pub slot: Option<Slot>,
}

/// The bytes of the file, whatever store it is of; `None` where there is no store.
pub(crate) fn identity_bytes(disk: &dyn Disk) -> Result<Option<Vec<u8>>, LogError> {
    let file = match disk.open(IDENTITY_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.doing("opening", IDENTITY_FILE)?,
    };
    match read_whole(&*file, 64 << 10) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(LogError::damage(IDENTITY_FILE, 0, error.to_string()))
        }
        bytes => bytes.doing("reading", IDENTITY_FILE).map(Some),
    }
}

impl Named {
    /// Reads the file; `None` in a directory that holds no store yet.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        identity_bytes(disk)?.map(|bytes| Self::decode(&bytes)).transpose()
    }

    /// What must exist; nothing in a store of format 1.
    pub fn expected(&self) -> Expected {
        self.slot.map_or_else(Expected::default, |slot| slot.expected)
    }

    fn decode(bytes: &[u8]) -> Result<Self, LogError> {
        let head = &bytes[..bytes.len().min(HEAD_BYTES)];
        let version = envelope_version(head, STORE_MAGIC, IDENTITY_FILE, STORE_VERSION)?;
        let bytes_of_version = if version == 1 { HEAD_BYTES } else { STORE_BYTES };
        if bytes.len() != bytes_of_version {
            return Err(LogError::damage(IDENTITY_FILE, bytes.len() as u64, "the file's length"));
        }
        let identity = Identity::get(head).map_err(|bad| bad.damage(IDENTITY_FILE, 0))?;
        let slot = newest_slot(bytes);
        if version > 1 && slot.is_none() {
            return Err(LogError::damage(
                IDENTITY_FILE,
                HEAD_BYTES as u64,
                "no slot that says what must exist",
            ));
        }
        Ok(Self { version, identity, slot })
    }
}

impl Identity {
    /// Reads the identity; `None` in a directory that holds no store yet.
    pub fn load(disk: &dyn Disk) -> Result<Option<Self>, LogError> {
        Ok(Named::load(disk)?.map(|named| named.identity))
    }

    /// Writes the identity of a new store, wholly or not at all. Nothing else must exist so far.
    pub fn create(&self, disk: &dyn Disk) -> Result<(), LogError> {
        debug_assert!(folder_of(IDENTITY_FILE).is_empty());
        let bytes = store_file(self, Slot::FIRST);
        replace_whole(disk, IDENTITY_FILE, &bytes).doing("writing", IDENTITY_FILE)
    }

    /// The checksums of this store's frames. They start from a secret, so that no client can make bytes that look
    /// like the journal's.
    pub fn checksums(&self) -> Checksums {
        Checksums::new(crc32c::crc32c(&self.mac_key))
    }

    fn get(head: &[u8]) -> Result<Self, BadField> {
        let mut from = Fields::of("the store's identity", head, 16);
        Ok(Self {
            store_id: from.get("the id")?,
            mac_key: from.get("the key")?,
            created_ms: from.get("the instant of creation")?,
        })
    }

    /// The head of the file.
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut to = &mut bytes[..];
        STORE_MAGIC.put(&mut to);
        0_u32.put(&mut to);
        STORE_VERSION.put(&mut to);
        self.store_id.put(&mut to);
        self.mac_key.put(&mut to);
        self.created_ms.put(&mut to);
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("created_ms", &self.created_ms).finish_non_exhaustive()
    }
}

/// Checks `magic | crc32c of the rest | version`, which every whole-file format begins with, in every version.
pub(crate) fn check_envelope(bytes: &[u8], magic: [u8; 8], file: &str) -> Result<(), LogError> {
    envelope_version(bytes, magic, file, FORMAT_VERSION).map(|_| ())
}

/// The magic; then checksum and version.
fn envelope(bytes: &[u8]) -> Result<([u8; 8], (u32, u32)), BadField> {
    let mut from = Fields::of("the file", bytes, 0);
    Ok((from.get("the kind")?, (from.get("the checksum")?, from.get("the version")?)))
}

/// The same for a format of which all versions up to one are known; answers which it is.
pub(crate) fn envelope_version(
    bytes: &[u8],
    magic: [u8; 8],
    file: &str,
    newest: u32,
) -> Result<u32, LogError> {
    let Some((sum, version)) =
        envelope(bytes).ok().and_then(|(found, rest)| (found == magic).then_some(rest))
    else {
        return Err(LogError::damage(file, 0, "not the expected kind of file"));
    };
    if crc32c::crc32c(&bytes[12..]) != sum {
        return Err(LogError::damage(file, 8, "the file's checksum"));
    }
    match version {
        version if (1..=newest).contains(&version) => Ok(version),
        found => Err(LogError::UnsupportedVersion { file: file.to_owned(), found, supported: newest }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Found, SimDisk, lock_store};

    const IDENTITY: Identity = Identity { store_id: [1; 16], mac_key: [2; 16], created_ms: 3 };

    #[test]
    fn an_identity_is_there_wholly_or_not_at_all() {
        let disk = SimDisk::new();
        assert_eq!(Identity::load(&disk).unwrap(), None);
        disk.record_snapshots();
        IDENTITY.create(&disk).unwrap();
        for (point, before) in disk.take_snapshots() {
            for seed in 0..20 {
                let found = Identity::load(&before.reopen(seed, Found::Torn)).unwrap();
                assert!(found.is_none() || found == Some(IDENTITY), "point {point} seed {seed}");
            }
        }
        assert_eq!(Identity::load(&disk.reopen(0, Found::Lost)).unwrap(), Some(IDENTITY));
    }

    #[test]
    fn any_flipped_bit_is_refused_and_a_newer_version_named() {
        let good = store_file(&IDENTITY, Slot::FIRST);
        for at in 0..HEAD_BYTES {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(matches!(Named::decode(&bad), Err(LogError::Damage { .. })));
            }
        }
        let mut newer = good;
        newer[12] = 9;
        let sum = crc32c::crc32c(&newer[12..HEAD_BYTES]);
        newer[8..12].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(Named::decode(&newer), Err(LogError::UnsupportedVersion { found: 9, .. })));
    }

    #[test]
    fn the_mac_key_is_never_printed() {
        assert!(!format!("{IDENTITY:?}").contains('2'));
    }

    #[test]
    fn a_second_holder_gets_the_name_of_the_first() {
        let disk = SimDisk::new();
        let _held = lock_store(&disk).unwrap();
        assert!(matches!(lock_store(&disk), Err(LogError::Locked { .. })));
    }
}
