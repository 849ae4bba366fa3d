//! What the dispatcher has to tell an operator.

use std::sync::Arc;

use kew_core::QueueKey;
use kew_engine::EngineError;

use crate::attempts::Attempt;

/// Something an operator should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A batch failed.
    BatchFailed(Arc<Attempt>),
    /// A batch could not be leased.
    LeaseFailed(QueueKey, EngineError),
    /// The verdict on a batch could not be written down: it is delivered again after the next start.
    SettleFailed(QueueKey, EngineError),
    /// Leases that an earlier start left behind could not be released; nothing is pushed until they are.
    ReleaseFailed(EngineError),
    /// Time to finish is over: batches still under way are delivered again after the next start.
    CutOff {
        /// How many.
        batches: usize,
    },
}
