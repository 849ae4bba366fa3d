//! The bytes that one receiver may be given: its caller counts them, and nothing large is leased while the count is
//! full.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// Bytes of bodies of a reply that is small: it has room of its own, so that it need not wait behind large ones.
/// Attributes do not count here; they do where the room counts the reply.
pub const SMALL_BYTES: u64 = 64 << 10;

/// Room for the messages that one asker is given, counted in bytes.
pub trait Room: Send + Sync + Debug {
    /// Whether nothing more may be handed out for now, but for what is small.
    fn is_full(&self) -> bool;

    /// Whether what is small may not be handed out either: at most [`SMALL_BYTES`] of bodies.
    fn is_full_for_small(&self) -> bool;

    /// Ends when there is room again: for what is small where there was none, or else for all. By the next look that
    /// may have changed.
    fn freed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Counts a request that was refused because there was no room to its end.
    fn count_refused(&self);

    /// Counts bytes that are handed out. What does not fit any more is counted too: it is there.
    fn take(&self, bytes: usize);

    /// Counts them no longer.
    fn give_back(&self, bytes: usize);
}
