//! Steps that only look, and those about what is due.

use kew_core::command::{Browse, History, Identify, Peek, StateKind, View};
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{Command, GroupId, Sequence, Timestamp};

use super::Generator;
use crate::contract::model::run::Run;

impl Generator {
    pub(super) fn peek(&mut self, run: &Run<'_>) -> Option<Command> {
        let views = [View::Ready, View::Ready, View::Delayed, View::Leased];
        Some(Command::Peek(Peek {
            queue: self.queue(run)?,
            view: *self.random.pick(&views).expect("a list with entries has a pick"),
            skip: *self.random.pick(&[0, 0, 0, 1, 5]).expect("a list with entries has a pick"),
            max: *self.random.pick(&[1, 10, 32, 200]).expect("a list with entries has a pick"),
            body_bytes_max: if self.random.chance(80) { 8 << 20 } else { self.random.below(100) },
        }))
    }

    pub(super) fn browse(&mut self, run: &Run<'_>) -> Option<Command> {
        let states = [None, Some(StateKind::Visible), Some(StateKind::InFlight), Some(StateKind::Delayed)];
        let group = self.random.chance(15).then(|| GroupId(self.text("g", 4)));
        let ago = self.random.millis(&[0, 1_000, 60_000]);
        let is_old = self.random.chance(15);
        Some(Command::Browse(Browse {
            queue: self.queue(run)?,
            from: Sequence(
                *self.random.pick(&[0, 0, 1, 5, 20, 80]).expect("the list of first places is not empty"),
            ),
            state: *self.random.pick(&states).expect("the list of states is not empty"),
            group,
            attempts_min: *self.random.pick(&[0, 0, 0, 1, 2]).expect("the list of attempts is not empty"),
            sent_through: if is_old { self.now.minus(ago) } else { Timestamp::NEVER },
            max: *self.random.pick(&[1, 3, 32, 1_000]).expect("the list of page lengths is not empty"),
            body_bytes_max: if self.random.chance(80) { 8 << 20 } else { self.random.below(100) },
            // A store may end a page earlier than the model after a number of messages it looked at.
            look_max: u32::MAX,
        }))
    }

    pub(super) fn identify(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        Some(Command::Identify(Identify { queue, token: self.token(run, queue, |_| true)? }))
    }

    pub(super) fn counts(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::Counts(self.queue(run)?))
    }

    pub(super) fn due(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::Due)
    }

    /// Held through the present mostly, or through an instant beside which something ends; and lifted as often.
    pub(super) fn hold_expiry(&mut self, run: &Run<'_>) -> Option<Command> {
        if self.random.chance(50) {
            return Some(Command::HoldExpiry(None));
        }
        let instants = run.model.instants();
        let near = self.random.pick(&instants).copied().filter(|_| self.random.chance(40));
        let until = if self.random.chance(50) { HoldEnd::Confirmed } else { HoldEnd::Settled };
        Some(Command::HoldExpiry(Some(ExpiryHold { through: near.unwrap_or(self.now), until })))
    }

    pub(super) fn queues(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::Queues)
    }

    pub(super) fn history(&mut self, run: &Run<'_>) -> Option<Command> {
        let place = self.random.pick(&run.known)?.place;
        Some(Command::History(History { queue: place.queue, sequence: place.sequence }))
    }
}
