//! Move tasks: bringing a queue's messages back to where they came from, or to another queue.

use std::time::Duration;

use crate::{QueueId, QueueKey, TaskId, Timestamp};

/// A task that takes as long as this ends, wherever it stands.
pub const TASK_TIME_MAX: Duration = Duration::from_secs(36 * 3_600);

/// Where a move task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Moving.
    Running,
    /// Every message it set out to move was moved, or nothing visible was left.
    Completed,
    /// Stopped by request; what was moved stays moved.
    Cancelled,
    /// Could not go on.
    Failed(TaskFailure),
}

/// Why a move task could not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskFailure {
    /// The queue to move to, or to return a message to, does not exist (any more).
    DestinationMissing,
    /// A message that should return to its origin came from nowhere.
    OriginUnknown,
    /// A FIFO message cannot enter a standard queue, nor the other way round.
    KindMismatch,
    /// The queue it moved from was deleted.
    SourceMissing,
    /// It ran as long as a task may.
    TookTooLong,
}

/// One move task. It is stored, so it goes on after a crash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveTask {
    /// Its number.
    pub id: TaskId,
    /// The queue it empties.
    pub source: QueueId,
    /// That queue's name when the task began.
    pub source_key: QueueKey,
    /// Where to; `None` returns each message to its origin.
    pub destination: Option<QueueKey>,
    /// Messages a second; `None` is as fast as possible.
    pub rate_max: Option<u32>,
    /// Where it stands.
    pub state: TaskState,
    /// Messages moved so far.
    pub moved: u64,
    /// Visible messages when it began: the maximum number of messages it moves.
    pub to_move: u64,
    /// When it began.
    pub started_at: Timestamp,
}

impl MoveTask {
    /// Whether its time is over: from that very instant on it moves nothing more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.started_at.plus(TASK_TIME_MAX) <= now
    }
}
