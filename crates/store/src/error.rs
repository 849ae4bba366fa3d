//! Why a step was not done.

use kew_core::RuleError;
use thiserror::Error;

/// What a move task waits for that has left many messages for another shard.
pub const OWED_AHEAD: &str = "the number of messages owed to another shard";

/// A step that was not done, by what the caller does about it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum StoreError {
    /// The laws refuse it; nothing changed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is no room for more messages; deletes and reads go on.
    #[error("no space left for more messages")]
    NoSpace,
    /// Something that grows is at its bound; try again later.
    #[error("{what} is at its bound")]
    Overloaded {
        /// What is at its bound.
        what: &'static str,
    },
    /// A write or sync failed: nothing is accepted until a restart recovers what is durable.
    #[error("the store stopped after a failed write: {cause}")]
    FailStopped {
        /// What failed.
        cause: String,
    },
    /// The store cannot be reached; whether the step was done is unknown.
    #[error("the store is unavailable: {cause}")]
    Unavailable {
        /// Why.
        cause: String,
    },
    /// Stored bytes are not what was written.
    #[error("stored data is damaged: {what}")]
    Damaged {
        /// What and where.
        what: String,
    },
}
