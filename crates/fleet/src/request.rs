//! What one node asks of another, and what it is answered.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::{Command, Outcome, Queue, QueueId, ShardId};
use kew_store::StoreError;

/// What a node is asked for.
#[derive(Clone, Debug)]
pub enum Request {
    /// A step of a shard.
    Step {
        /// The shard, which the node that is asked keeps.
        shard: ShardId,
        /// The step.
        command: Command,
    },
    /// A lease that waits for messages.
    Lease {
        /// The shard, which the node that is asked keeps.
        shard: ShardId,
        /// The lease.
        lease: Lease,
        /// How long it waits.
        wait: Duration,
    },
    /// A page of the queues of a shard, by number.
    Queues {
        /// The shard, which the node that is asked keeps.
        shard: ShardId,
        /// Only queues of greater numbers than this.
        after: QueueId,
    },
    /// To show these queues as they are now.
    Show(Vec<Arc<Queue>>),
    /// To show a queue no more.
    Hide(QueueId),
}

/// What was done.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// A step, or a lease.
    Done(Outcome),
    /// A page of queues, and whether it is the last.
    Queues(Vec<Arc<Queue>>, bool),
    /// The queues are shown so.
    Shown,
}

/// Why nothing was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The store of the shard refused the step.
    Store(StoreError),
    /// The node that was asked does not keep the shard.
    NotTheOwner,
    /// The name of the queue belongs to this shard.
    NameIsIn(ShardId),
}

impl Request {
    /// Whether it may be asked once more where it is not known if it was done.
    pub(crate) fn may_repeat(&self) -> bool {
        match self {
            Self::Step { command, .. } => matches!(
                command,
                Command::Peek(_)
                    | Command::Browse(_)
                    | Command::Groups(_)
                    | Command::FirstSend(_)
                    | Command::Trace(_)
                    | Command::Identify(_)
                    | Command::Counts(_)
                    | Command::ListMoves(_)
                    | Command::Documents(_)
                    | Command::History(_)
            ),
            Self::Lease { .. } => false,
            Self::Queues { .. } | Self::Show(_) | Self::Hide(_) => true,
        }
    }
}
