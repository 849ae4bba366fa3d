//! What the laws refuse. A variant exists because some caller answers it differently.

use std::time::Duration;

use thiserror::Error;

use crate::Queue;
use std::sync::Arc;

/// A step, or one entry of it, that the laws do not allow.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RuleError {
    /// The queue does not exist.
    #[error("no such queue")]
    QueueNotFound,
    /// The name is taken.
    #[error("a queue of this name exists")]
    QueueExists(Arc<Queue>),
    /// The queue, or the document, changed since the caller looked.
    #[error("it was changed by somebody else meanwhile")]
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
    /// The message is not hidden by a delay.
    #[error("the message is not delayed")]
    NotDelayed,
    /// The lease would become longer than it may ever be.
    #[error("the lease would last longer than {cap:?} in all")]
    LeaseTooLong {
        /// The longest it may be, from the arrival of the request that took it.
        cap: Duration,
    },
    /// As many messages are leased as the caller allows.
    #[error("too many messages in flight")]
    TooManyInFlight,
    /// The first message is larger than the caller allows, who wants none then.
    #[error("the first message is larger than asked for")]
    FirstTooLarge,
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
}
