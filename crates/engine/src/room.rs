//! The bytes of messages that are leased and not yet answered, counted against their asker's room.
//!
//! A lease takes its messages in one step and answers when that is durable. In between their bodies are in memory, so
//! they are counted from the step on; with the answer the caller counts the reply that is made of them.

use std::sync::Arc;

use kew_core::command::{FirstMessage, Lease};
use kew_core::{Outcome, QueueId, Room, SMALL_BYTES};
use kew_store::{StoreError, Submission};

/// What a lease is refused with when its asker has no room.
pub(crate) const FULL: StoreError =
    StoreError::Overloaded { what: "the number of bytes of replies that clients have not taken yet" };

/// Bytes that are counted until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    room: Option<Arc<dyn Room>>,
    bytes: usize,
}

impl Held {
    /// What a lease took, as far as that is known.
    pub(crate) fn of(room: Option<&Arc<dyn Room>>, submission: &Submission) -> Self {
        let (Some(room), Some(Outcome::Leased(leased))) = (room, submission.peek()) else {
            return Self::default();
        };
        let bytes: usize = leased.iter().map(|leased| leased.message.content.body.len()).sum();
        let bytes = bytes + submission.bytes_on_their_way();
        room.take(bytes);
        Self { room: Some(Arc::clone(room)), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.give_back(self.bytes);
        }
    }
}

/// Whether a lease may be taken in this room; it is changed so that it takes what is small where there is no room for
/// more.
///
/// A lease that is carried to another node is whole or not at all, and so is one that may repeat an attempt: it takes
/// what that took.
pub(crate) fn portion(
    room: Option<&Arc<dyn Room>>,
    lease: &mut Lease,
    is_kept_here: impl FnOnce(QueueId) -> bool,
) -> Result<(), StoreError> {
    let Some(room) = room.filter(|room| room.is_full()) else { return Ok(()) };
    if room.is_full_for_small() || lease.attempt.is_some() || !is_kept_here(lease.queue) {
        return Err(FULL);
    }
    lease.body_bytes_max = lease.body_bytes_max.min(SMALL_BYTES);
    lease.first = FirstMessage::FitsOrStays;
    Ok(())
}

/// Whether there is a room, and it is full.
pub(crate) fn is_full(room: Option<&Arc<dyn Room>>) -> bool {
    room.is_some_and(|room| room.is_full())
}
