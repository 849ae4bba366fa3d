//! What may be done with a receipt: delete the message, give its lease another end, or give the lease up.

use super::Model;
use super::queue::{Held, Join, Terms};
use crate::command::{Ack, Extend, Extension, Promote, Release, ReleaseOwners};
use crate::event::Words;
use crate::outcome::Extended;
use crate::rules::visibility::{self, LeaseEnd, Receipts};
use crate::rules::{delay, retry};
use crate::{
    EventKind, Failure, LeaseToken, Outcome, ReceiptRule, Return, RuleError, Sequence, State, Timestamp,
    WhenFree,
};
use std::time::Duration;

impl Model {
    pub(super) fn ack(&mut self, now: Timestamp, ack: Ack) -> Result<Outcome, RuleError> {
        let index = self.index(ack.queue)?;
        let mut ack_one = |token: &LeaseToken| {
            self.check_receipt(index, ack.receipt, token, now)?;
            self.remove(index, token.sequence);
            self.note(now, index, token.sequence, EventKind::Acked);
            Ok(())
        };
        Ok(Outcome::Acked(ack.tokens.iter().map(&mut ack_one).collect()))
    }

    pub(super) fn extend(&mut self, now: Timestamp, extend: Extend) -> Result<Outcome, RuleError> {
        let index = self.index(extend.queue)?;
        let extended =
            extend.entries.iter().map(|entry| self.extend_one(now, index, &extend, entry)).collect();
        Ok(Outcome::Extended(extended))
    }

    fn extend_one(
        &mut self,
        now: Timestamp,
        index: usize,
        extend: &Extend,
        entry: &Extension,
    ) -> Result<Extended, RuleError> {
        let sequence = entry.token.sequence;
        let held = self.check_receipt(index, extend.receipt, &entry.token, now)?;
        let terms = held.terms.clone();
        let leased = matches!(held.state, State::Leased { .. });
        let when_free = visibility::when_free(extend.receipt, extend.when_free);
        if !leased && when_free == WhenFree::Ignore {
            return Ok(Extended::Free);
        }
        let terms = if leased {
            Terms { owner: None, ..terms.expect("a leased message has terms") }
        } else {
            let returns = if extend.renew { Return::Behind } else { Return::InPlace };
            let ending = LeaseEnd::RanOut;
            Terms { received_at: now, cap: None, lapse_delay: Duration::ZERO, returns, owner: None, ending }
        };
        let until = visibility::extend_until(terms.received_at, terms.cap, now, entry.length)?;
        let ending = visibility::lease_end(leased, until, now);
        let nonce = extend.renew.then(|| self.entropy.bits());
        let queue = &mut self.queues[index];
        let held = queue.held(sequence);
        held.state = State::Leased { until };
        held.lease_end = Some(until);
        held.terms = Some(Terms { ending, ..terms });
        held.nonce = nonce.unwrap_or(held.nonce);
        held.before = None;
        held.leaves_at = None;
        held.fresh = false;
        if let Some(content) = &entry.content {
            held.content = content.in_place_of(&held.content);
        }
        let group = held.group.clone();
        queue.forget_attempt_of(sequence);
        queue.settle_group(group.as_ref(), Join::Back);
        let token = queue.token(queue.stored(sequence));
        if ending == LeaseEnd::RanOut {
            self.note(now, index, sequence, EventKind::Extended { until });
        }
        if entry.content.is_some() {
            self.note(now, index, sequence, EventKind::Rewritten);
        }
        Ok(Extended::Until { until, token })
    }

    pub(super) fn release(&mut self, now: Timestamp, release: Release) -> Result<Outcome, RuleError> {
        let index = self.index(release.queue)?;
        let mut release_one = |(token, delay): &(LeaseToken, Duration)| {
            let held = self.check_receipt(index, release.receipt, token, now)?;
            match held.state {
                State::Leased { .. } => Ok(self.end_lease(now, index, token.sequence, *delay)),
                State::Ready | State::Delayed { .. } => Err(RuleError::LeaseEnded),
            }
        };
        Ok(Outcome::Released(release.entries.iter().map(&mut release_one).collect()))
    }

    pub(super) fn promote(&mut self, now: Timestamp, promote: Promote) -> Result<Outcome, RuleError> {
        let index = self.index(promote.queue)?;
        let mut promote_one = |token: &LeaseToken| {
            let held = self.check_receipt(index, ReceiptRule::OutOfTurn, token, now)?;
            if !matches!(held.state, State::Delayed { .. }) {
                return Err(RuleError::NotDelayed);
            }
            let queue = &mut self.queues[index];
            let held = queue.held(token.sequence);
            (held.state, held.fresh, held.rank) = (State::Ready, false, held.rank.min(now));
            let group = held.group.clone();
            queue.settle_group(group.as_ref(), Join::Back);
            self.note(now, index, token.sequence, EventKind::Promoted);
            Ok(())
        };
        Ok(Outcome::Promoted(promote.tokens.iter().map(&mut promote_one).collect()))
    }

    /// Leases of owners that are no more fail as if their time had run out.
    pub(super) fn release_owners(
        &mut self,
        now: Timestamp,
        owners: ReleaseOwners,
    ) -> Result<Outcome, RuleError> {
        for index in 0..self.queues.len() {
            let orphaned = |held: &&Held| {
                let owner = held.terms.as_ref().and_then(|terms| terms.owner);
                owner.is_some_and(|owner| owner != owners.except)
            };
            let orphans: Vec<_> =
                self.queues[index].leased().filter(orphaned).map(|held| held.sequence).collect();
            for sequence in orphans {
                let terms = self.queues[index].held(sequence).terms.as_ref();
                let delay = terms.map_or(Duration::ZERO, |terms| terms.lapse_delay);
                let kind = EventKind::Failed { why: Failure::OwnerGone, detail: Words::default() };
                self.note(now, index, sequence, kind);
                self.end_lease(now, index, sequence, delay);
            }
        }
        Ok(Outcome::Done)
    }

    /// Ends a running lease now. The answer is when the message shows again; an exhausted one leaves at once.
    fn end_lease(&mut self, now: Timestamp, index: usize, sequence: Sequence, delay: Duration) -> Timestamp {
        let queue = &mut self.queues[index];
        queue.forget_attempt_of(sequence);
        let held = queue.held(sequence);
        held.lease_end = Some(now);
        held.before = None;
        if self.depart_if_exhausted(index, sequence, now) {
            return now;
        }
        let queue = &mut self.queues[index];
        let visible_at = retry::after_release(now, delay);
        let held = queue.held(sequence);
        let returns = held.terms.as_ref().expect("a leased message has terms").returns;
        held.rank = delay::rank(returns, held.rank, visible_at);
        held.show_at(visible_at, now);
        let group = held.group.clone();
        queue.settle_group(group.as_ref(), Join::Back);
        self.note(now, index, sequence, EventKind::Released { visible_at });
        visible_at
    }

    /// Refuses receipts that do not count (any more).
    fn check_receipt(
        &self,
        index: usize,
        rule: ReceiptRule,
        token: &LeaseToken,
        now: Timestamp,
    ) -> Result<&Held, RuleError> {
        let held = self.check_token(index, token)?;
        // On a FIFO queue the receipt of a send never counts: only a lease gives the right to touch a message.
        if self.queues[index].is_fifo() && held.lease_end.is_none() {
            return match rule {
                ReceiptRule::OutOfTurn => Ok(held),
                ReceiptRule::Any | ReceiptRule::Current => Err(RuleError::TokenStale),
                ReceiptRule::Unexpired => Err(RuleError::LeaseEnded),
            };
        }
        let known = Receipts { newest: held.nonce, lease_end: held.lease_end };
        visibility::check_receipt(rule, token.nonce, known, now)?;
        Ok(held)
    }
}
