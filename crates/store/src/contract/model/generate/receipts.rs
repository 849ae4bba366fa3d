//! What is done with receipts: those that count, and those that just do not.

use kew_core::command::{Ack, Extend, Extension, Promote, Release, ReleaseOwners, Withdraw};
use kew_core::{Command, LeaseToken, OwnerId, QueueId, ReceiptRule, Sequence, State, WhenFree};

use super::Generator;
use super::things::{is_delayed, is_free, is_leased};
use crate::contract::model::random::Random;
use crate::contract::model::run::Run;
use crate::contract::model::trace::forged;

impl Generator {
    /// The newest receipt of a message that is leased, or is in some state, or of any; or an old or altered one.
    pub(super) fn token(
        &mut self,
        run: &Run<'_>,
        queue: QueueId,
        wanted: fn(State) -> bool,
    ) -> Option<LeaseToken> {
        let stored = run.model.messages(queue);
        let fitting: Vec<Sequence> =
            stored.iter().filter(|(.., state)| wanted(*state)).map(|(sequence, ..)| *sequence).collect();
        let newest = |sequence: Sequence| {
            let mut known = run.known.iter().rev();
            known
                .find(|known| (known.place.queue, known.place.sequence) == (queue, sequence))
                .map(|known| known.place)
        };
        let any = |random: &mut Random| random.pick(&run.known).map(|known| known.place);
        let recent = &run.known[run.known.len().saturating_sub(12)..];
        match self.random.below(100) {
            0..74 => newest(*self.random.pick(&fitting)?),
            74..82 => newest(stored.get(self.random.below(stored.len().max(1) as u64) as usize)?.0),
            82..86 => self.random.pick(recent).map(|known| known.place),
            86..96 => {
                let of_queue: Vec<_> = run.known.iter().filter(|known| known.place.queue == queue).collect();
                self.random.pick(&of_queue).map(|known| known.place)
            }
            96..98 => any(&mut self.random),
            _ => any(&mut self.random).map(forged),
        }
    }

    pub(super) fn tokens(
        &mut self,
        run: &Run<'_>,
        queue: QueueId,
        wanted: fn(State) -> bool,
    ) -> Option<Vec<LeaseToken>> {
        let count = *self.random.pick(&[1, 1, 1, 2, 3, 5]).expect("a list with entries has a pick");
        let tokens: Vec<_> = (0..count).filter_map(|_| self.token(run, queue, wanted)).collect();
        (!tokens.is_empty()).then_some(tokens)
    }

    pub(super) fn receipt(&mut self) -> ReceiptRule {
        let rules = [ReceiptRule::Any, ReceiptRule::Current, ReceiptRule::Unexpired, ReceiptRule::OutOfTurn];
        *self.random.pick(&rules).expect("a list with entries has a pick")
    }

    pub(super) fn ack(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let tokens = self.tokens(run, queue, is_leased)?;
        Some(Command::Ack(Ack { queue, receipt: self.receipt(), tokens }))
    }

    pub(super) fn extend(&mut self, run: &Run<'_>) -> Option<Command> {
        let wanted = if self.random.chance(70) { is_leased } else { is_free };
        let queue = self.queue_with(run, wanted)?;
        let tokens = self.tokens(run, queue, wanted)?;
        let mut entry = |token| Extension {
            token,
            length: self.random.millis(&[0, 0, 1, 2_000, 10_000, 50_000]),
            content: self.random.chance(20).then(|| self.body()),
        };
        let entries = tokens.into_iter().map(&mut entry).collect();
        Some(Command::Extend(Extend {
            queue,
            receipt: self.receipt(),
            when_free: if self.random.chance(50) { WhenFree::Ignore } else { WhenFree::Hide },
            renew: self.random.chance(40),
            entries,
        }))
    }

    pub(super) fn release(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let tokens = self.tokens(run, queue, is_leased)?;
        let delay = self.random.millis(&[0, 0, 1, 3_000]);
        let entries = tokens.into_iter().map(|token| (token, delay)).collect();
        Some(Command::Release(Release { queue, receipt: self.receipt(), entries }))
    }

    /// Only receives that were not answered are withdrawn, and a restart ends all of those.
    pub(super) fn withdraw(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let mut tokens = self.tokens(run, queue, is_leased)?;
        let alive = |place: &LeaseToken| {
            run.known.iter().any(|known| known.since_restart && known.place.nonce == place.nonce)
        };
        tokens.retain(alive);
        Some(Command::Withdraw(Withdraw { queue, tokens }))
    }

    pub(super) fn promote(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_delayed)?;
        let tokens = self.tokens(run, queue, is_delayed)?;
        Some(Command::Promote(Promote { queue, tokens }))
    }

    pub(super) fn release_owners(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::ReleaseOwners(ReleaseOwners { except: OwnerId(1 + self.random.below(3)) }))
    }
}
