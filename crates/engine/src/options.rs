//! The engine's bounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::notice::Notice;
use crate::time::ClockKind;

/// How an engine is set up.
#[derive(Clone)]
pub struct Options {
    /// Whose time it keeps.
    pub clock: ClockKind,
    /// A leap of the system clock ahead by more than this holds expiry.
    pub clock_leap_max: Duration,
    /// How long the system clock runs evenly before a longer gap since the last stop is believed.
    pub clock_settle: Duration,
    /// Maximum number of receives that wait at once.
    pub waiters_max: u32,
    /// Maximum number of receives that wait on one queue.
    pub waiters_per_queue_max: u32,
    /// Maximum number of queues of an account, in all its regions together.
    pub queues_max: u32,
    /// Maximum number of messages that a move task moves in one step.
    pub move_batch: u32,
    /// Whether the store's shards come and go, each with its move tasks ([`crate::Engine::shard_came`]).
    pub shards_come: bool,
    /// Receives what an operator should know; runs on the request path, so it must not block.
    pub notices: Arc<dyn Fn(Notice) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: ClockKind::System,
            clock_leap_max: Duration::from_secs(3_600),
            clock_settle: Duration::from_secs(600),
            waiters_max: 100_000,
            waiters_per_queue_max: 50_000,
            queues_max: 100_000,
            move_batch: 100,
            shards_come: false,
            notices: Arc::new(drop),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("clock", &self.clock)
            .field("clock_leap_max", &self.clock_leap_max)
            .field("clock_settle", &self.clock_settle)
            .field("waiters_max", &self.waiters_max)
            .field("waiters_per_queue_max", &self.waiters_per_queue_max)
            .field("queues_max", &self.queues_max)
            .field("move_batch", &self.move_batch)
            .field("shards_come", &self.shards_come)
            .finish_non_exhaustive()
    }
}
