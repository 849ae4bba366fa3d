//! What a node asks of the owner of a shard, and what it gets back.

use std::time::Duration;

use bytes::Bytes;
use kew_core::{Command, Outcome, ShardId, command};
use kew_engine::EngineError;
use thiserror::Error;

use super::forms::choices;
use super::{Fault, WireError, decode};

/// What is asked of the owner of a shard.
#[derive(Clone, Debug)]
pub enum Request {
    /// One step of the shard's engine.
    Ask {
        /// Which shard.
        shard: ShardId,
        /// The step.
        command: Command,
    },
    /// A lease that waits at the owner until a message comes. If the asker cancels it, it is withdrawn.
    LeaseWaiting {
        /// Which shard.
        shard: ShardId,
        /// The lease.
        lease: command::Lease,
        /// How long it waits at most.
        wait: Duration,
    },
}

/// What the owner answers.
pub type Response = Result<Outcome, Refusal>;

/// Why a request was not done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// The shard's engine did not do it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// This node does not own the shard, and did nothing. The asker looks again who does.
    #[error("this node does not own the shard")]
    NotTheOwner,
}

choices! {
    Request {
        0 => Ask { shard, command },
        1 => LeaseWaiting { shard, lease, wait },
    }
    Refusal { 0 => Engine(error), 1 => NotTheOwner, }
}

impl Request {
    /// The shard whose owner is asked.
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Ask { shard, .. } | Self::LeaseWaiting { shard, .. } => *shard,
        }
    }

    /// Reads the answer to this request. An answer of another kind, or with another number of entries than were asked
    /// about, is an error: callers take one entry for each of theirs.
    pub fn read_response(&self, frame: &Bytes) -> Result<Response, WireError> {
        let response = decode::<Response>(frame)?;
        match &response {
            Ok(outcome) if !self.is_answered_by(outcome) => {
                Err(WireError::new("Outcome", Fault::OtherAnswer))
            }
            _ => Ok(response),
        }
    }

    fn is_answered_by(&self, outcome: &Outcome) -> bool {
        match self {
            Self::LeaseWaiting { .. } => matches!(outcome, Outcome::Leased(_)),
            Self::Ask { command, .. } => command.is_answered_by(outcome) && has_entries(command, outcome),
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
        Request::Ask { shard: ShardId(3), command: Command::Ack(ack) }
    }

    fn frame(response: &Response) -> Bytes {
        encode(response).into()
    }

    #[test]
    fn answer_of_another_kind_or_length_is_refused() {
        let request = ack(2);
        let entries = |count| Ok(Outcome::Acked(vec![Err(RuleError::TokenStale); count]));
        assert_eq!(request.read_response(&frame(&entries(2))), Ok(entries(2)));
        let other = WireError::new("Outcome", Fault::OtherAnswer);
        assert_eq!(request.read_response(&frame(&entries(1))), Err(other));
        assert_eq!(request.read_response(&frame(&Ok(Outcome::Done))), Err(other));
    }

    #[test]
    fn every_request_may_be_refused() {
        for refusal in [Refusal::NotTheOwner, EngineError::NoSpace.into()] {
            assert_eq!(ack(2).read_response(&frame(&Err(refusal.clone()))), Ok(Err(refusal)));
        }
    }

    #[test]
    fn waiting_lease_is_answered_by_leases_alone() {
        let lease = command::Lease::of(QueueId(1), 1, kew_core::Timestamp(1));
        let request = Request::LeaseWaiting { shard: ShardId(3), lease, wait: Duration::from_secs(20) };
        assert_eq!(request.shard(), ShardId(3));
        let nothing = Ok(Outcome::Leased(Vec::new()));
        assert_eq!(request.read_response(&frame(&nothing)), Ok(nothing));
        let other = WireError::new("Outcome", Fault::OtherAnswer);
        assert_eq!(request.read_response(&frame(&Ok(Outcome::Sent(Vec::new())))), Err(other));
    }
}
