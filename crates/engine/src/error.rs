//! What the engine answers when it does not do what was asked, by what the caller does about it.
//!
//! What the laws refuse is their own [`RuleError`], for a whole command as for one entry of a batch: a front-end turns
//! it into its own words in one exhaustive match. The other variants are conditions of the store and of the engine.

use kew_core::RuleError;
use kew_store::StoreError;
use thiserror::Error;

/// A command that was not done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EngineError {
    /// The laws do not allow it.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The account has as many queues as it may have.
    #[error("the account has {max} queues, which is the most there may be ([limits] queues_max)")]
    TooManyQueues {
        /// The most there may be.
        max: u32,
    },
    /// There is no room for more messages; deletes and reads go on.
    #[error("no space left for more messages")]
    NoSpace,
    /// Something that grows is at its bound; the caller may try again later.
    #[error("{what} is at its bound")]
    Overloaded {
        /// What is at its bound.
        what: &'static str,
    },
    /// Nothing is accepted until a restart has recovered what is durable.
    #[error("the store stopped: {cause}")]
    FailStopped {
        /// What failed.
        cause: String,
    },
    /// The store cannot be reached, and whether the command was done is unknown.
    #[error("the store is unavailable: {cause}")]
    Unavailable {
        /// Why.
        cause: String,
    },
    /// Not every queue that other nodes keep is known just now, so it cannot be said that there is none. Nothing was
    /// done.
    #[error("the queues that other nodes keep are not all known just now")]
    NotAllKnown,
    /// Stored bytes are not what was written.
    #[error("stored data is damaged: {what}")]
    Damaged {
        /// What and where.
        what: String,
    },
    /// The clock follows the machine and cannot be moved by hand.
    #[error("the clock is not virtual")]
    ClockNotVirtual,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rule(rule) => Self::Rule(rule),
            StoreError::NoSpace => Self::NoSpace,
            StoreError::Overloaded { what } => Self::Overloaded { what },
            StoreError::FailStopped { cause } => Self::FailStopped { cause },
            StoreError::Unavailable { cause } => Self::Unavailable { cause },
            StoreError::Damaged { what } => Self::Damaged { what },
        }
    }
}
