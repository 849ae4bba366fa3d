//! Messages that enter a queue by being sent.

use super::Model;
use super::queue::{Held, Remembered};
use crate::command::{FirstReceipts, Send};
use crate::rules::{dedup, delay, retention};
use crate::{
    Content, DeduplicationId, EventKind, Expiry, GroupId, LeaseToken, MessageId, NewMessage, Origin, Outcome,
    RuleError, Sequence, State, Timestamp, outcome,
};

/// A message on its way into a queue, by whichever door.
pub(super) struct Entering {
    pub id: MessageId,
    pub content: Content,
    pub group: Option<GroupId>,
    pub deduplication: Option<DeduplicationId>,
    pub sent_at: Timestamp,
    pub expiry: Expiry,
    pub attempts: u32,
    pub first_leased_at: Option<Timestamp>,
    pub origin: Option<Origin>,
    pub rank: Timestamp,
    pub visible_at: Timestamp,
    /// Whether a FIFO queue's delay decides when it shows, now and after a change of that delay.
    pub fresh: bool,
}

impl Remembered {
    /// The answer to a send that repeats this one.
    fn again(&self, now: Timestamp) -> outcome::Sent {
        outcome::Sent {
            id: self.id,
            sequence: self.token.sequence,
            sent_at: now,
            visible_at: now,
            expires_at: None,
            token: Some(self.token),
            duplicate: true,
        }
    }
}

impl Model {
    pub(super) fn send(&mut self, now: Timestamp, send: Send) -> Result<Outcome, RuleError> {
        let index = self.index(send.queue)?;
        let policy = &self.queues[index].definition.policy;
        for message in &send.messages {
            dedup::identity(policy.kind, message)?;
            delay::of_new_message(message.delay, policy)?;
        }
        let sent: Result<Vec<_>, _> =
            send.messages.into_iter().map(|message| self.send_one(now, index, message)).collect();
        let mut sent = sent?;
        if send.receipts == FirstReceipts::Untold {
            sent.iter_mut().for_each(|sent| sent.token = None);
        }
        Ok(Outcome::Sent(sent))
    }

    fn send_one(
        &mut self,
        now: Timestamp,
        index: usize,
        message: NewMessage,
    ) -> Result<outcome::Sent, RuleError> {
        let queue = &mut self.queues[index];
        let policy = queue.definition.policy.clone();
        let identity = dedup::identity(policy.kind, &message)?;
        if let Some(first) = queue.first_send(now, &message, identity.as_ref()) {
            return Ok(first.again(now));
        }
        let (id, expiry) = (message.id, message.expiry);
        let visible_at = now.plus(delay::of_new_message(message.delay, &policy)?);
        let token = self.enter(
            index,
            now,
            Entering {
                id,
                content: message.content,
                group: message.group,
                deduplication: identity.as_ref().map(|identity| identity.id.clone()),
                sent_at: now,
                expiry,
                attempts: 0,
                first_leased_at: None,
                origin: None,
                rank: delay::rank(message.returns, now, visible_at),
                visible_at,
                fresh: true,
            },
        );
        if let Some(identity) = identity {
            self.queues[index].remembered.push(Remembered { identity, first_at: now, id, token });
        }
        self.note(now, index, token.sequence, EventKind::Sent { id, visible_at });
        Ok(outcome::Sent {
            id,
            sequence: token.sequence,
            sent_at: now,
            visible_at,
            expires_at: retention::expires_at(now, expiry, policy.retention),
            token: Some(token),
            duplicate: false,
        })
    }

    /// Stores a message under the next sequence, with a receipt of its own.
    pub(super) fn enter(&mut self, index: usize, now: Timestamp, entering: Entering) -> LeaseToken {
        let nonce = self.entropy.bits();
        let queue = &mut self.queues[index];
        queue.last_sequence += 1;
        let mut held = Held {
            sequence: Sequence(queue.last_sequence),
            id: entering.id,
            content: entering.content,
            group: entering.group,
            deduplication: entering.deduplication,
            sent_at: entering.sent_at,
            expiry: entering.expiry,
            attempts: entering.attempts,
            first_leased_at: entering.first_leased_at,
            origin: entering.origin,
            rank: entering.rank,
            state: State::Ready,
            fresh: entering.fresh && queue.is_fifo(),
            nonce,
            lease_end: None,
            terms: None,
            leaves_at: None,
            before: None,
        };
        held.show_at(entering.visible_at, now);
        let token = queue.token(&held);
        queue.add(held);
        token
    }
}
