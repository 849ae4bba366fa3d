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
    /// At most so many receives wait at once.
    pub waiters_max: u32,
    /// At most so many receives wait on one queue.
    pub waiters_per_queue_max: u32,
    /// A move task moves at most so many messages in one step.
    pub move_batch: u32,
    /// Who is told what an operator should know; called in passing, so it must not block.
    pub notices: Arc<dyn Fn(Notice) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: ClockKind::System,
            waiters_max: 100_000,
            waiters_per_queue_max: 50_000,
            move_batch: 100,
            notices: Arc::new(drop),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("clock", &self.clock)
            .field("waiters_max", &self.waiters_max)
            .field("waiters_per_queue_max", &self.waiters_per_queue_max)
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
    /// Due work could not be done.
    DueFailed(StoreError),
    /// The move tasks that ran before the start could not be found.
    MovesUnknown(EngineError),
    /// A move task could not go on for now.
    MoveFailed(TaskId, EngineError),
}
