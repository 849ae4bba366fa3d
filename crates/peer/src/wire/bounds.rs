//! What may be at its bound (`StoreError::Overloaded`), as texts that live as long as the program.
//!
//! The text itself is written. A reader finds its own copy of it here, and takes [`OTHER`] for one that it does not
//! know, as another version may have.

use super::{In, Out, Wire, WireError};

/// Every text of this version: a test compares them with the sources.
pub(super) const KNOWN: [&str; 10] = [
    "the batch that waits for the disk",
    "the database: it cannot be reached",
    "the disk that messages are read from",
    "the number of bytes of replies that clients have not taken yet",
    "the number of deduplication ids remembered",
    "the number of messages owed to another shard",
    "the number of open files",
    "the number of receives waiting on this queue",
    "the number of waiting receives",
    "the room that is ready for messages",
];

/// Stands for a text that is not known here.
pub(super) const OTHER: &str = "something at the node that owns the queue";

impl Wire for &'static str {
    fn put(&self, out: &mut Out) {
        out.bytes(self.as_bytes());
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let text = from.text()?;
        Ok(KNOWN.into_iter().find(|known| *known == text).unwrap_or(OTHER))
    }
}
