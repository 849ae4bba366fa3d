//! The engine's bounds, and what it has to tell an operator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kew_core::TaskId;
use kew_store::StoreError;

use crate::EngineError;
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
    /// At most so many receives wait at once.
    pub waiters_max: u32,
    /// At most so many receives wait on one queue.
    pub waiters_per_queue_max: u32,
    /// An account has at most so many queues, in all its regions together.
    pub queues_max: u32,
    /// A move task moves at most so many messages in one step.
    pub move_batch: u32,
    /// Who is told what an operator should know; called in passing, so it must not block.
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
            .finish_non_exhaustive()
    }
}

/// Something an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The system clock is behind engine time, which runs slower until they meet.
    ClockBehind {
        /// By how much.
        by: Duration,
    },
    /// The system clock has caught up with engine time.
    ClockMet,
    /// The system clock leapt ahead; the leap counts as time that passed.
    ClockJumped {
        /// How far.
        by: Duration,
    },
    /// The clock leapt by more than is believed: no message expires until it comes back or somebody confirms it.
    ExpiryHeld {
        /// How far.
        by: Duration,
    },
    /// The store was closed for long, or the clock is wrong: no message expires until the clock has run evenly for a while.
    ExpiryWaits {
        /// How long, by the clock.
        by: Duration,
    },
    /// The clock came back: messages expire by the system clock until engine time and it meet.
    ExpiryFollows {
        /// How far engine time is ahead.
        by: Duration,
    },
    /// Messages expire again by engine time.
    ExpiryGoesOn,
    /// Due work could not be done.
    DueFailed(StoreError),
    /// The move tasks that ran before the start could not be found.
    MovesUnknown(EngineError),
    /// A move task could not go on for now.
    MoveFailed(TaskId, EngineError),
}
