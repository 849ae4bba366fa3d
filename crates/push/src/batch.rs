//! A batch on its way: messages that were leased together, and what its target is told beside them.

use std::sync::Arc;

use kew_core::outcome::Leased;
use kew_core::{Counts, QueueKey};
use kew_http::hex;

/// A batch of one queue's messages; never empty.
#[derive(Debug)]
pub struct Batch {
    /// Names this delivery, and no other.
    pub id: [u8; 16],
    /// The queue they are of.
    pub queue: QueueKey,
    /// The messages, leased.
    pub messages: Vec<Leased>,
    /// What the queue held when they were leased.
    pub counts: Counts,
}

impl Batch {
    /// Its id in 32 hex digits.
    pub fn id_text(&self) -> String {
        hex_text(&self.id)
    }

    /// The queue's name.
    pub fn queue_name(&self) -> &Arc<str> {
        &self.queue.name
    }
}

/// Sixteen bytes as 32 hex digits.
pub(crate) fn hex_text(bytes: &[u8; 16]) -> String {
    hex::hash(bytes).iter().map(|digit| char::from(*digit)).collect()
}
