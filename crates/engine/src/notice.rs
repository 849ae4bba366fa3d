//! What the engine has to tell an operator.

use std::time::Duration;

use kew_core::{QueueId, TaskId};
use kew_store::StoreError;

use crate::EngineError;

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
    /// The store was closed for long, or the clock is wrong: no message expires until the clock has run evenly for a
    /// while.
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
    /// Messages for a queue of another shard could not be carried there for a while; it is tried again.
    NotCarried(QueueId, EngineError),
    /// They can be carried again.
    CarriedAgain(QueueId),
}
