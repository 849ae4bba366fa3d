//! What a node asks of another, and what it gets back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::Lease;
use kew_core::{Command, Outcome, Pause, Queue, QueueId, ShardId, Text, Timestamp};
use kew_store::StoreError;
use thiserror::Error;

use super::forms::choices;
use super::{Fault, WireError, decode};

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
    /// To give no shard to the node that asks: it hands its own over and stops. Names the run of that node.
    Leaves(Text),
    /// To hand a shard over to a node, which an operator wants. That node is asked first: it keeps what it is given.
    HandOver {
        /// The shard, which one of the two nodes that are asked keeps.
        shard: ShardId,
        /// The run of the node that is to have it.
        to: Text,
    },
    /// To answer what an operator wants to see of the node that is asked. What the words mean is agreed upon above: one
    /// that is not understood is answered by an empty text.
    Look(Text),
    /// To know that something is paused.
    Pause {
        /// What.
        pause: Pause,
        /// Up to when.
        until: Timestamp,
    },
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
    /// What an operator wants to see.
    Seen(Text),
}

/// What a node answers.
pub type Response = Result<Reply, Refusal>;

/// Why nothing was done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// The store of the shard refused the step.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node that was asked does not keep the shard.
    #[error("this node does not own the shard")]
    NotTheOwner,
    /// The name of the queue belongs to this shard.
    #[error("the name belongs to shard {0}")]
    NameIsIn(ShardId),
}

choices! {
    Pause { 0 => Name(key), 1 => Purge(queue), }
    Request {
        0 => Step { shard, command },
        1 => Lease { shard, lease, wait },
        2 => Queues { shard, after },
        3 => Show(queues),
        4 => Hide(queue),
        5 => Leaves(node),
        6 => HandOver { shard, to },
        7 => Look(question),
        8 => Pause { pause, until },
    }
    Reply { 0 => Done(outcome), 1 => Queues(queues, is_last), 2 => Shown, 3 => Seen(text), }
    Refusal { 0 => Store(error), 1 => NotTheOwner, 2 => NameIsIn(shard), }
}

impl Request {
    /// Whether it may be asked once more where it is not known if it was done.
    pub fn may_repeat(&self) -> bool {
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
                    // It passes over what came before.
                    | Command::Bring(_)
            ),
            Self::Lease { .. } => false,
            Self::Queues { .. }
            | Self::Show(_)
            | Self::Hide(_)
            | Self::Leaves(_)
            | Self::HandOver { .. }
            | Self::Pause { .. }
            | Self::Look(_) => true,
        }
    }

    /// Reads the answer to this request. An answer of another kind, or with another number of entries than were asked
    /// about, is an error: callers take one entry for each of theirs.
    pub fn read_response(&self, frame: &Bytes) -> Result<Response, WireError> {
        let response = decode::<Response>(frame)?;
        match &response {
            Ok(reply) if !self.is_answered_by(reply) => Err(WireError::new("Reply", Fault::OtherAnswer)),
            _ => Ok(response),
        }
    }

    fn is_answered_by(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::Lease { .. }, Reply::Done(outcome)) => matches!(outcome, Outcome::Leased(_)),
            (Self::Step { command, .. }, Reply::Done(outcome)) => {
                command.is_answered_by(outcome) && has_entries(command, outcome)
            }
            (Self::Queues { .. }, Reply::Queues(..))
            | (
                Self::Show(_) | Self::Hide(_) | Self::Leaves(_) | Self::HandOver { .. } | Self::Pause { .. },
                Reply::Shown,
            )
            | (Self::Look(_), Reply::Seen(_)) => true,
            _ => false,
        }
    }
}

/// Whether an outcome has an entry for each one that its command asks about.
fn has_entries(command: &Command, outcome: &Outcome) -> bool {
    match (command, outcome) {
        (Command::Send(send), Outcome::Sent(sent)) => sent.len() == send.messages.len(),
        (Command::Ack(ack), Outcome::Acked(acked)) => acked.len() == ack.tokens.len(),
        (Command::Extend(extend), Outcome::Extended(extended)) => extended.len() == extend.entries.len(),
        (Command::Release(release), Outcome::Released(released)) => released.len() == release.entries.len(),
        (Command::Promote(promote), Outcome::Promoted(promoted)) => promoted.len() == promote.tokens.len(),
        (Command::MoveChosen(chosen), Outcome::MovedChosen(moved)) => moved.len() == chosen.tokens.len(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kew_core::command::Ack;
    use kew_core::{LeaseToken, QueueId, ReceiptRule, RuleError, Sequence};

    use super::*;
    use crate::wire::encode;

    fn ack(tokens: usize) -> Request {
        let token = LeaseToken { queue: QueueId(1), sequence: Sequence(1), nonce: 1, mac: 1 };
        let ack = Ack { queue: QueueId(1), receipt: ReceiptRule::Any, tokens: vec![token; tokens] };
        Request::Step { shard: ShardId(3), command: Command::Ack(ack) }
    }

    fn frame(response: &Response) -> Bytes {
        encode(response).into()
    }

    #[test]
    fn answer_of_another_kind_or_length_is_refused() {
        let request = ack(2);
        let entries = |count| Ok(Reply::Done(Outcome::Acked(vec![Err(RuleError::TokenStale); count])));
        assert_eq!(request.read_response(&frame(&entries(2))), Ok(entries(2)));
        let other = WireError::new("Reply", Fault::OtherAnswer);
        assert_eq!(request.read_response(&frame(&entries(1))), Err(other));
        assert_eq!(request.read_response(&frame(&Ok(Reply::Done(Outcome::Done)))), Err(other));
    }

    #[test]
    fn every_request_may_be_refused() {
        for refusal in [Refusal::NotTheOwner, StoreError::NoSpace.into()] {
            assert_eq!(ack(2).read_response(&frame(&Err(refusal.clone()))), Ok(Err(refusal)));
        }
    }

    #[test]
    fn waiting_lease_is_answered_by_leases_alone() {
        let lease = Lease::of(QueueId(1), 1, Timestamp(1));
        let request = Request::Lease { shard: ShardId(3), lease, wait: Duration::from_secs(20) };
        let nothing = Ok(Reply::Done(Outcome::Leased(Vec::new())));
        assert_eq!(request.read_response(&frame(&nothing)), Ok(nothing));
        let other = WireError::new("Reply", Fault::OtherAnswer);
        assert_eq!(request.read_response(&frame(&Ok(Reply::Done(Outcome::Sent(Vec::new()))))), Err(other));
    }
}
