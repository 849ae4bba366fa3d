//! The bytes that one receiver may be given: its caller counts them, and nothing is leased while the count is full.

use std::fmt::Debug;

/// Room for the messages that one asker is given, counted in bytes.
pub trait Room: Send + Sync + Debug {
    /// Whether nothing more may be handed out for now.
    fn is_full(&self) -> bool;

    /// Counts bytes that are handed out. What does not fit any more is counted too: it is there.
    fn take(&self, bytes: usize);

    /// Counts them no longer.
    fn give_back(&self, bytes: usize);
}
