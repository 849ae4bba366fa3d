//! Holding expiry over the store: at a start, at a leap, and until it goes on. What the clocks mean is
//! [`crate::leap`]'s.

use std::time::Duration;

use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{Command, Timestamp};

use crate::leap::{Expiry, LeapRules, Look, Then};
use crate::notice::Notice;
use crate::pass::Pass;
use crate::{Engine, EngineError};

/// How often the clocks are looked at while expiry is held.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How often the time is recorded at least, on the steady clock: a server that had nothing to do was not off.
const RECORDED_EVERY: Duration = Duration::from_secs(900);

/// Expiry that is held, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldExpiry {
    /// Messages whose time was over by this instant have expired, and no others.
    pub through: Timestamp,
    /// How long until the clock has run evenly for long enough; `None` when it takes a person.
    pub settles_in: Option<Duration>,
}

impl Engine {
    /// Whether expiry is held until somebody confirms the time, or until the clock settles or comes back.
    pub fn held_expiry(&self) -> Option<HeldExpiry> {
        let Expiry::Held { hold, even_since, last, .. } = *self.expiry.lock() else { return None };
        let even_for = last.steady.saturating_sub(even_since);
        let settles_in =
            (hold.until == HoldEnd::Settled).then(|| self.options.clock_settle.saturating_sub(even_for));
        Some(HeldExpiry { through: hold.through, settles_in })
    }

    /// Somebody says that the clock is right: what is over by it expires. False when nothing was held.
    pub async fn confirm_clock(&self) -> Result<bool, EngineError> {
        {
            let mut expiry = self.expiry.lock();
            if !matches!(*expiry, Expiry::Held { .. }) {
                return Ok(false);
            }
            *expiry = Expiry::Free;
        }
        (self.options.notices)(Notice::ExpiryGoesOn);
        let command = Command::HoldExpiry(None);
        self.ask(command).await?;
        Ok(true)
    }

    /// The store was opened: a long gap since its newest instant is doubted, and an earlier hold goes on.
    pub(crate) fn hold_expiry_at_start(&self, newest: Timestamp) {
        if self.clock.is_virtual() {
            return;
        }
        let look = self.clock.look();
        let stored = self.store.expiry_hold();
        let Some(hold) = self.hold_at_opening(stored, newest, look) else { return };
        if stored != Some(hold) {
            // At the newest instant: nothing between it and now has happened to the store yet.
            drop(self.store.step(newest, &Command::HoldExpiry(Some(hold))));
        }
        *self.expiry.lock() = Expiry::held(hold, look);
        self.tell_held_at_opening(hold, look);
    }

    /// How expiry is to be held in a shard that comes, whose store has this hold and newest instant. It must be so
    /// before anything else is done to the shard.
    pub fn hold_expiry_of_shard(&self, stored: Option<ExpiryHold>, newest: Timestamp) -> Option<ExpiryHold> {
        if self.clock.is_virtual() {
            return stored;
        }
        let hold = self.hold_at_opening(stored, newest, self.clock.look());
        match *self.expiry.lock() {
            Expiry::Follows { through, .. } if hold.is_none() => {
                Some(ExpiryHold { through, until: HoldEnd::Settled })
            }
            _ => hold,
        }
    }

    /// A shard came whose expiry is held: this node sees to it from now on that it goes on.
    pub(crate) fn see_to_hold(&self, hold: ExpiryHold) {
        let look = self.clock.look();
        let mut expiry = self.expiry.lock();
        let is_stricter = match *expiry {
            Expiry::Free => true,
            Expiry::Held { hold: known, .. } => {
                (known.until, hold.until) == (HoldEnd::Settled, HoldEnd::Confirmed)
            }
            Expiry::Follows { .. } => false,
        };
        if is_stricter {
            *expiry = Expiry::held(hold, look);
            drop(expiry);
            // The timers look at the clocks more often from now on.
            self.alarm.notify_one();
            self.tell_held_at_opening(hold, look);
        }
    }

    /// How expiry is to be held in what was opened now.
    fn hold_at_opening(
        &self,
        stored: Option<ExpiryHold>,
        newest: Timestamp,
        look: Look,
    ) -> Option<ExpiryHold> {
        let max = self.options.clock_leap_max;
        match stored {
            // The clock that was in doubt is not the one of today.
            Some(hold) if newest.since(look.system) > max => {
                Some(ExpiryHold { until: HoldEnd::Settled, ..hold })
            }
            Some(hold) => Some(hold),
            None if newest > Timestamp::ZERO && look.system.since(newest) > max => {
                Some(ExpiryHold { through: newest, until: HoldEnd::Settled })
            }
            None => None,
        }
    }

    fn tell_held_at_opening(&self, hold: ExpiryHold, look: Look) {
        let by = look.now.since(hold.through);
        (self.options.notices)(match hold.until {
            HoldEnd::Confirmed => Notice::ExpiryHeld { by },
            HoldEnd::Settled => Notice::ExpiryWaits { by },
        });
    }

    /// Holds expiry if the clock has leapt.
    #[inline]
    pub(crate) fn hold_expiry_after_a_leap(&self, pass: &mut Pass) {
        if self.clock.has_leapt() {
            self.hold_expiry_after_leap(pass);
        }
    }

    /// The clock leapt, and no step has seen the time after it.
    #[cold]
    fn hold_expiry_after_leap(&self, pass: &mut Pass) {
        let Some(from) = self.clock.take_leap() else { return };
        let from = from.max(pass.stepped);
        let earlier = self.store.expiry_hold();
        let through = earlier.map_or(from, |earlier| earlier.through.min(from));
        let hold = ExpiryHold { through, until: HoldEnd::Confirmed };
        let submission = self.store.step(from, &Command::HoldExpiry(Some(hold)));
        let look = self.clock.look();
        *self.expiry.lock() = Expiry::held(hold, look);
        self.serve_after(pass, (from, self.now()), &submission);
        (self.options.notices)(Notice::ExpiryHeld { by: look.now.since(from) });
    }

    /// How long the clocks need no look at where nothing is due.
    pub(crate) fn looks_at_clock_within(&self) -> Duration {
        if *self.expiry.lock() == Expiry::Free { RECORDED_EVERY } else { LOOKS_EVERY }
    }

    /// Looks at the clocks, about once a second, and lets expiry go on when they say so.
    pub(crate) fn look_after_leap(&self) {
        if self.clock.is_virtual() {
            return;
        }
        let mut look = self.clock.look();
        self.hold_expiry_after_a_leap(&mut self.pass());
        if self.options.shards_come {
            // A shard may have come that is ahead of this node; and those whose expiry was held may have left.
            look.now = look.now.max(self.store.newest_instant());
            if self.store.expiry_hold().is_none() {
                *self.expiry.lock() = Expiry::Free;
            }
        }
        let rules = LeapRules { max: self.options.clock_leap_max, settle: self.options.clock_settle };
        let then = {
            let mut expiry = self.expiry.lock();
            let (next, then) = expiry.look(look, rules);
            *expiry = next;
            then
        };
        self.follow_clock(look, then);
        self.record_time(look);
    }

    fn follow_clock(&self, look: Look, then: Then) {
        let (hold, notice) = match then {
            Then::Nothing => return,
            Then::Hold(hold) => (Some(hold), Some(Notice::ExpiryHeld { by: look.now.since(hold.through) })),
            Then::CameBack(hold) => {
                (Some(hold), Some(Notice::ExpiryFollows { by: look.now.since(look.system) }))
            }
            Then::Follow(hold) => (Some(hold), None),
            Then::LetGo => (None, Some(Notice::ExpiryGoesOn)),
        };
        drop(self.submit(&Command::HoldExpiry(hold)));
        if let Some(notice) = notice {
            (self.options.notices)(notice);
        }
    }

    /// A store that is idle learns the time now and then, so that the next start knows when it was last in use.
    fn record_time(&self, look: Look) {
        let is_due = {
            let mut pass = self.pass();
            let is_due = look.steady.saturating_sub(pass.recorded) >= RECORDED_EVERY;
            if is_due {
                pass.recorded = look.steady;
            }
            is_due
        };
        if is_due {
            self.record_in_store();
        }
    }
}
