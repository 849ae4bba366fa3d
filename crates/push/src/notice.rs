//! What the dispatcher has to tell an operator.

use std::sync::Arc;

use kew_core::{MessageId, QueueKey};
use kew_engine::EngineError;

use crate::attempts::Attempt;
use crate::rules::circuit::OpenCircuit;

/// Something an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A batch failed.
    BatchFailed(Arc<Attempt>),
    /// A target cannot be reached any more: its messages wait, and no attempt is counted.
    Unreached(Arc<OpenCircuit>),
    /// It can be reached again.
    ReachedAgain(Arc<OpenCircuit>),
    /// It could not be reached to the last, and is brought nothing any more: its consumer was removed, or has another
    /// target.
    GoneUnreached(Arc<OpenCircuit>),
    /// A verdict names messages that are not of its batch.
    StrangeIds {
        /// The queue of the batch.
        queue: QueueKey,
        /// Which delivery it was: 32 hex digits.
        batch: String,
        /// Those it names.
        ids: StrangeIds,
    },
    /// A message was brought as often as its queue allows, and failed the last time.
    GivenUp {
        /// The queue it was in.
        queue: QueueKey,
        /// Which message.
        message: MessageId,
        /// How often it was brought.
        attempts: u32,
        /// Where it went; `None` when it was deleted.
        to: Option<QueueKey>,
    },
    /// A batch could not be leased.
    LeaseFailed(QueueKey, EngineError),
    /// The verdict on a batch could not be written down for a while. It is tried on until the end of this process; then
    /// the batch is delivered again after the next start.
    SettleFailed(QueueKey, EngineError),
    /// Leases that an earlier start left behind could not be released; nothing is pushed until they are.
    ReleaseFailed(EngineError),
    /// Time to finish is over: batches still under way are delivered again after the next start.
    CutOff {
        /// How many.
        batches: usize,
    },
}

/// Ids in a verdict that are not of its batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrangeIds {
    /// How many there are.
    pub count: usize,
    /// The beginning of the first, as the target wrote it.
    pub example: String,
}
