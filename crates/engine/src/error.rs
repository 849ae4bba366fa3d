//! What the engine answers when it does not do what was asked, by what the caller does about it.
//!
//! One flat list: a front-end turns it into its own words in one exhaustive match. Entries of a batch carry the
//! laws' own [`RuleError`], which converts into the same list.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{Outcome, Queue, RuleError};
use kew_store::StoreError;
use thiserror::Error;

/// A command that was not done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EngineError {
    /// The queue does not exist.
    #[error("no such queue")]
    QueueNotFound,
    /// The name is taken.
    #[error("a queue of this name exists")]
    QueueExists(Arc<Queue>),
    /// The queue changed since the caller looked.
    #[error("the queue was changed by somebody else")]
    VersionChanged,
    /// The token was never made by this store, or was altered.
    #[error("the lease token is not genuine")]
    TokenForged,
    /// The token belongs to another queue.
    #[error("the lease token names another queue")]
    TokenOfOtherQueue,
    /// No live message has this token's sequence.
    #[error("the message does not exist")]
    MessageNotFound,
    /// A newer receipt of the message exists.
    #[error("the lease token is not the newest of its message")]
    TokenStale,
    /// The lease has ended.
    #[error("the lease has ended")]
    LeaseEnded,
    /// The lease would become longer than it may ever be.
    #[error("the lease would last longer than {cap:?} in all")]
    LeaseTooLong {
        /// The longest it may be, from the arrival of the request that took it.
        cap: Duration,
    },
    /// As many messages are leased as the caller allows.
    #[error("too many messages in flight")]
    TooManyInFlight,
    /// A FIFO queue needs a group.
    #[error("a message of a FIFO queue needs a group")]
    GroupMissing,
    /// A FIFO queue needs a deduplication id, or a body hash where it allows one.
    #[error("a message of a FIFO queue needs a deduplication id")]
    DeduplicationMissing,
    /// Standard queues do not deduplicate.
    #[error("a standard queue takes no deduplication id")]
    DeduplicationNotAllowed,
    /// A FIFO queue delays all messages alike.
    #[error("a FIFO queue takes no delay for one message")]
    DelayNotAllowed,
    /// A document is larger than a document may be.
    #[error("a document may hold at most {max} bytes")]
    DocumentTooLarge {
        /// The most bytes.
        max: usize,
    },
    /// A queue's kind is for life.
    #[error("a queue cannot change its kind")]
    KindChange,
    /// The task does not exist, or is not running.
    #[error("no such running task")]
    TaskNotFound,
    /// The queue is being emptied already.
    #[error("a move task is already running on this queue")]
    TaskRunning,
    /// As many tasks run as the caller allows one account.
    #[error("too many move tasks are running")]
    TooManyTasks,
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

impl From<RuleError> for EngineError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::QueueNotFound => Self::QueueNotFound,
            RuleError::QueueExists(queue) => Self::QueueExists(queue),
            RuleError::VersionChanged => Self::VersionChanged,
            RuleError::TokenForged => Self::TokenForged,
            RuleError::TokenOfOtherQueue => Self::TokenOfOtherQueue,
            RuleError::MessageNotFound => Self::MessageNotFound,
            RuleError::TokenStale => Self::TokenStale,
            RuleError::LeaseEnded => Self::LeaseEnded,
            RuleError::LeaseTooLong { cap } => Self::LeaseTooLong { cap },
            RuleError::TooManyInFlight => Self::TooManyInFlight,
            RuleError::GroupMissing => Self::GroupMissing,
            RuleError::DeduplicationMissing => Self::DeduplicationMissing,
            RuleError::DeduplicationNotAllowed => Self::DeduplicationNotAllowed,
            RuleError::DelayNotAllowed => Self::DelayNotAllowed,
            RuleError::DocumentTooLarge { max } => Self::DocumentTooLarge { max },
            RuleError::KindChange => Self::KindChange,
            RuleError::TaskNotFound => Self::TaskNotFound,
            RuleError::TaskRunning => Self::TaskRunning,
            RuleError::TooManyTasks => Self::TooManyTasks,
        }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rule(rule) => rule.into(),
            StoreError::NoSpace => Self::NoSpace,
            StoreError::Overloaded { what } => Self::Overloaded { what },
            StoreError::FailStopped { cause } => Self::FailStopped { cause },
            StoreError::Unavailable { cause } => Self::Unavailable { cause },
            StoreError::Damaged { what } => Self::Damaged { what },
        }
    }
}

/// A store answers every command with its own kind of outcome; another kind is a bug in it.
pub(crate) fn unexpected(command: &str, outcome: &Outcome) -> ! {
    unreachable!("the store answered {command} with {outcome:?}")
}
