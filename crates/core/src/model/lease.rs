//! Leases: which messages are taken, in which order, and how one is undone.

use super::Model;
use super::queue::{Attempt, Before, Join, Terms};
use crate::command::{Lease, OverLimit, Withdraw};
use crate::rules::visibility::LeaseEnd;
use crate::rules::{attempts, dead_letters, delivery, fairness, visibility};
use crate::{EventKind, Outcome, RuleError, Sequence, State, Timestamp, outcome};

/// A receive being filled.
struct Filling {
    index: usize,
    now: Timestamp,
    /// As many as it may take.
    limit: usize,
    body_bytes: u64,
    taken: Vec<outcome::Leased>,
    /// A message did not fit.
    is_full: bool,
}

/// What became of an offered message.
#[derive(PartialEq, Eq)]
enum Offer {
    Taken,
    /// It went to the dead letters instead.
    Departed,
    /// The reply holds no more: the receive ends.
    Full,
}

impl Model {
    pub(super) fn lease(&mut self, now: Timestamp, lease: Lease) -> Result<Outcome, RuleError> {
        let index = self.index(lease.queue)?;
        let queue = &self.queues[index];
        if !delivery::is_open(&queue.definition.policy) {
            return Ok(Outcome::Leased(Vec::new()));
        }
        let attempt = lease.attempt.as_ref().filter(|_| queue.is_fifo());
        if let Some(known) = queue.attempts.iter().find(|known| Some(&known.id) == attempt)
            && attempts::may_repeat(known.first_at, now)
        {
            let known = known.clone();
            return Ok(self.repeat(now, index, &lease, &known));
        }
        let in_flight = u32::try_from(queue.leased().count()).unwrap_or(u32::MAX);
        let room = lease.in_flight_max.saturating_sub(in_flight);
        if room == 0 {
            return match lease.over_limit {
                OverLimit::Refuse => Err(RuleError::TooManyInFlight),
                OverLimit::FindNothing => Ok(Outcome::Leased(Vec::new())),
            };
        }
        let limit = lease.max.min(room) as usize;
        let mut filling = Filling { index, now, limit, body_bytes: 0, taken: Vec::new(), is_full: false };
        match queue.is_fifo() {
            true => self.fill_from_groups(&mut filling, &lease),
            false => self.fill_by_rank(&mut filling, &lease),
        }
        if filling.is_full && filling.taken.is_empty() {
            return Err(RuleError::FirstTooLarge);
        }
        if let Some(id) = lease.attempt.filter(|_| self.queues[index].is_fifo() && !filling.taken.is_empty())
        {
            let leased =
                filling.taken.iter().map(|taken| (taken.message.sequence, taken.token.nonce)).collect();
            let attempts = &mut self.queues[index].attempts;
            attempts.retain(|known| known.id != id);
            attempts.push(Attempt { id, first_at: now, leased });
        }
        Ok(Outcome::Leased(filling.taken))
    }

    /// The same messages with the same receipts, and a fresh end that no cap is stretched by.
    fn repeat(&mut self, now: Timestamp, index: usize, lease: &Lease, known: &Attempt) -> Outcome {
        let queue = &mut self.queues[index];
        let fresh_end =
            visibility::lease_until(now, lease.terms.length.unwrap_or(queue.definition.policy.lease_length));
        let mut repeated = Vec::new();
        for (sequence, nonce) in &known.leased {
            let held = queue.held(*sequence);
            assert_eq!(held.nonce, *nonce, "an attempt is forgotten when one of its leases changes");
            let terms = held.terms.as_ref().expect("a leased message has terms");
            let until = match (terms.owner, terms.cap) {
                (Some(_), _) => Timestamp::NEVER,
                (None, Some(cap)) => fresh_end.min(terms.received_at.plus(cap)).max(now),
                (None, None) => fresh_end,
            };
            held.state = State::Leased { until };
            held.lease_end = Some(until);
            held.before = None;
            let held = queue.stored(*sequence);
            repeated.push(outcome::Leased { message: queue.message(held), token: queue.token(held), until });
        }
        for each in &repeated {
            self.note(now, index, each.message.sequence, EventKind::Extended { until: each.until });
        }
        Outcome::Leased(repeated)
    }

    fn fill_by_rank(&mut self, filling: &mut Filling, lease: &Lease) {
        while filling.taken.len() < filling.limit {
            let Some(chosen) = self.choose_fairly(filling) else { return };
            if self.offer(filling, lease, chosen) == Offer::Full {
                return;
            }
        }
    }

    /// The first ready message, unless its group is noisy and another's message is near.
    fn choose_fairly(&self, filling: &Filling) -> Option<Sequence> {
        let queue = &self.queues[filling.index];
        let ready = queue.ready();
        let first = *ready.first()?;
        let is_turn = fairness::is_turn_of_the_front(filling.now, queue.leased().count() as u64);
        if is_turn && !queue.is_of_group_with_noisy_leases(first) {
            return Some(first);
        }
        let is_noisy = |sequence: Sequence| {
            queue.is_of_group_with_noisy_leases(sequence) || queue.is_of_group_with_noisy_backlog(sequence)
        };
        let mut near = ready.iter().take(fairness::LOOK_AHEAD).copied();
        near.find(|sequence| !is_noisy(*sequence)).or(Some(first))
    }

    /// Takes what the first group offers, then goes on with the next. A served group leaves the rotation, because its
    /// head is leased; it joins again, at the back, when its head is free again.
    fn fill_from_groups(&mut self, filling: &mut Filling, lease: &Lease) {
        while filling.taken.len() < filling.limit {
            let queue = &self.queues[filling.index];
            let Some(group) = queue.rotation.first().cloned() else { return };
            for sequence in queue.offered_of(&group) {
                if filling.taken.len() == filling.limit || self.offer(filling, lease, sequence) == Offer::Full
                {
                    return;
                }
            }
        }
    }

    /// Offers one message to the receive; an exhausted one departs instead, if it has somewhere to go.
    fn offer(&mut self, filling: &mut Filling, lease: &Lease, sequence: Sequence) -> Offer {
        let (index, now) = (filling.index, filling.now);
        if self.depart_if_exhausted(index, sequence, now) {
            return Offer::Departed;
        }
        let body_bytes = self.queues[index].held(sequence).body_bytes();
        if !lease.fits(filling.taken.len(), filling.body_bytes, body_bytes) {
            filling.is_full = true;
            return Offer::Full;
        }
        filling.body_bytes += body_bytes;
        filling.taken.push(self.take(index, now, lease, sequence));
        Offer::Taken
    }

    fn take(&mut self, index: usize, now: Timestamp, lease: &Lease, sequence: Sequence) -> outcome::Leased {
        let nonce = self.entropy.bits();
        let queue = &mut self.queues[index];
        let length = lease.terms.length.unwrap_or(queue.definition.policy.lease_length);
        let until = match lease.owner {
            Some(_) => Timestamp::NEVER,
            None => visibility::lease_until(now, length),
        };
        let held = queue.held(sequence);
        let terms = Terms {
            received_at: lease.received_at,
            cap: lease.terms.cap,
            lapse_delay: lease.terms.lapse_delay,
            returns: lease.terms.returns,
            owner: lease.owner,
            ending: LeaseEnd::RanOut,
        };
        held.before = Some(Before {
            first_leased_at: held.first_leased_at,
            nonce: held.nonce,
            lease_end: held.lease_end,
            terms: held.terms.replace(terms),
            fresh: held.fresh,
        });
        held.attempts = held.attempts.saturating_add(1);
        held.first_leased_at = held.first_leased_at.or(Some(now));
        held.nonce = nonce;
        held.lease_end = Some(until);
        held.leaves_at = None;
        held.fresh = false;
        held.state = State::Leased { until };
        let attempts = held.attempts;
        let group = held.group.clone();
        queue.settle_group(group.as_ref(), Join::Back);
        let held = queue.stored(sequence);
        let leased = outcome::Leased { message: queue.message(held), token: queue.token(held), until };
        self.note(now, index, sequence, EventKind::Leased { by: lease.by, until, attempts });
        leased
    }

    /// Sends a message to its dead letters if it was leased as often as allowed and there is somewhere to go.
    pub(super) fn depart_if_exhausted(&mut self, index: usize, sequence: Sequence, at: Timestamp) -> bool {
        let queue = &mut self.queues[index];
        let attempts = queue.held(sequence).attempts;
        dead_letters::is_exhausted(attempts, queue.definition.policy.dead_letters.as_deref())
            && self.depart(index, sequence, at)
    }

    pub(super) fn withdraw(&mut self, withdraw: Withdraw) -> Result<Outcome, RuleError> {
        let index = self.index(withdraw.queue)?;
        let mut undone = 0;
        // The last one first, so that groups stand in the rotation as they did before.
        for token in withdraw.tokens.iter().rev() {
            let newest = self.check_token(index, token).is_ok_and(|held| held.nonce == token.nonce);
            if newest && self.undo_lease(index, token.sequence) {
                undone += 1;
            }
        }
        Ok(Outcome::Withdrawn(undone))
    }

    fn undo_lease(&mut self, index: usize, sequence: Sequence) -> bool {
        let queue = &mut self.queues[index];
        let held = queue.held(sequence);
        let Some(before) = held.before.take() else { return false };
        held.attempts -= 1;
        held.first_leased_at = before.first_leased_at;
        held.nonce = before.nonce;
        held.lease_end = before.lease_end;
        held.terms = before.terms;
        held.fresh = before.fresh;
        held.state = State::Ready;
        let group = held.group.clone();
        queue.forget_attempt_of(sequence);
        queue.settle_group(group.as_ref(), Join::Front);
        true
    }
}
