//! Documents that a store keeps about itself: under an account that no user has.

use bytes::Bytes;

use crate::{AccountId, DocumentKey, Timestamp};

/// Their account.
pub const OWN_ACCOUNT: AccountId = AccountId(u64::MAX);
/// Their owner.
pub const OWNER: &str = "store";

/// The owner of the documents of redrives by filter that run: one document a task, under the task's name.
pub const REDRIVES: &str = "redrives";

/// How far expiry is held after a leap of the clock.
pub fn expiry_hold() -> DocumentKey {
    DocumentKey::new(OWNER, "expiry-hold")
}

/// When the store was made by an import.
pub fn imported() -> DocumentKey {
    DocumentKey::new(OWNER, "imported")
}

/// The instant of an import as its document holds it.
pub fn write_imported(at: Timestamp) -> Bytes {
    Bytes::copy_from_slice(&at.0.to_be_bytes())
}

/// The instant in that document, if it is one.
pub fn read_imported(bytes: &[u8]) -> Option<Timestamp> {
    bytes.try_into().ok().map(|bytes| Timestamp(u64::from_be_bytes(bytes)))
}
