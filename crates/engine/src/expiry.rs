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
        let (look, max) = (self.clock.look(), self.options.clock_leap_max);
        let stored = self.store.expiry_hold();
        let gap = look.system.since(newest);
        let hold = match stored {
            // The clock that was in doubt is not the one of today.
            Some(hold) if newest.since(look.system) > max => ExpiryHold { until: HoldEnd::Settled, ..hold },
            Some(hold) => hold,
            None if newest > Timestamp::ZERO && gap > max => {
                ExpiryHold { through: newest, until: HoldEnd::Settled }
            }
            None => return,
        };
        if stored != Some(hold) {
            // At the newest instant: nothing between it and now has happened to the store yet.
            drop(self.store.step(newest, &Command::HoldExpiry(Some(hold))));
        }
        *self.expiry.lock() = Expiry::held(hold, look);
        (self.options.notices)(match hold.until {
            HoldEnd::Confirmed => Notice::ExpiryHeld { by: look.now.since(hold.through) },
            HoldEnd::Settled => Notice::ExpiryWaits { by: look.now.since(hold.through) },
        });
    }

    /// The clock leapt, and no step has seen the time after it.
    #[cold]
    pub(crate) fn hold_expiry_after_leap(&self, pass: &Pass) {
        let Some(from) = self.clock.take_leap() else { return };
        let from = from.max(pass.stepped);
        let earlier = self.store.expiry_hold();
        let through = earlier.map_or(from, |earlier| earlier.through.min(from));
        let hold = ExpiryHold { through, until: HoldEnd::Confirmed };
        drop(self.store.step(from, &Command::HoldExpiry(Some(hold))));
        let look = self.clock.look();
        *self.expiry.lock() = Expiry::held(hold, look);
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
        let look = self.clock.look();
        if self.clock.has_leapt() {
            self.hold_expiry_after_leap(&self.pass());
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
            drop(self.submit(&Command::HoldExpiry(self.store.expiry_hold())));
        }
    }
}
