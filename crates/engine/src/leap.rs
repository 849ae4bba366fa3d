//! What follows from a leap of the clock: expiry is held, and nothing else.
//!
//! A leap is a forward jump of the system clock past the steady clock by more than `clock_leap_max`. Engine
//! time goes along, so leases and delays end. Expiry is held through the true present, as the steady clock shows it, by
//! a step that is taken before any other sees the new time. It stays held until a person confirms the time, or until
//! the clock comes back. A clock that comes back leaves engine time ahead, since that never runs back: until the two
//! meet, expiry follows the system clock and not the engine's.
//!
//! At a start nothing tells how long the store was closed but the system clock. A gap of more than `clock_leap_max`
//! holds expiry too, and lets go by itself when the clock has run evenly for `clock_settle`: by then a wrong one has
//! been set right by whatever sets clocks here.

use std::time::Duration;

use kew_core::Timestamp;
use kew_core::rules::retention::{ExpiryHold, HoldEnd};

/// A clock that differs from the steady one by more than this between two looks does not run evenly.
const UNEVEN: Duration = Duration::from_secs(1);
/// While expiry follows the system clock, it does so in steps of this length.
const FOLLOWS_BY: Duration = Duration::from_secs(60);
/// Engine time and the system clock have met when they differ by less.
const MET: Duration = Duration::from_secs(1);

/// How leaps are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeapRules {
    /// A longer leap is held.
    pub(crate) max: Duration,
    /// How long a clock runs evenly before a gap at the start is believed.
    pub(crate) settle: Duration,
}

/// The clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub(crate) system: Timestamp,
    pub(crate) steady: Duration,
    /// Engine time.
    pub(crate) now: Timestamp,
}

/// Whether expiry is held, and what is known of the clock meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Expiry {
    /// It goes on with engine time.
    #[default]
    Free,
    /// It is held.
    Held {
        hold: ExpiryHold,
        /// The time that has surely passed: the hold's instant, and what the steady clock counted since.
        sure: Timestamp,
        /// Since when the clock runs evenly, on the steady clock.
        even_since: Duration,
        last: Look,
    },
    /// It follows the system clock, which came back; this is the instant it has followed to.
    Follows { through: Timestamp, last: Look },
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// Expiry is held again: the clock leapt once more.
    Hold(ExpiryHold),
    /// The clock came back, and expiry follows it.
    CameBack(ExpiryHold),
    /// Expiry goes on to this instant.
    Follow(ExpiryHold),
    /// Expiry goes on with engine time.
    LetGo,
}

impl Expiry {
    pub(crate) fn held(hold: ExpiryHold, look: Look) -> Self {
        Self::Held { hold, sure: hold.through, even_since: look.steady, last: look }
    }

    /// What the clocks show now, and what follows from it.
    pub(crate) fn look(self, look: Look, rules: LeapRules) -> (Self, Then) {
        match self {
            Self::Free => (self, Then::Nothing),
            Self::Held { hold, sure, even_since, last } => {
                let passed = look.steady.saturating_sub(last.steady);
                let sure = sure.plus(passed);
                let even_since = if is_even(last, look) { even_since } else { look.steady };
                if look.system <= sure.plus(rules.max) {
                    return follow(hold.through, look, Then::CameBack);
                }
                let is_settled = look.steady.saturating_sub(even_since) >= rules.settle;
                if hold.until == HoldEnd::Confirmed || !is_settled {
                    return (Self::Held { hold, sure, even_since, last: look }, Then::Nothing);
                }
                match look.now.since(look.system) > rules.max {
                    true => follow(hold.through, look, Then::CameBack),
                    false => (Self::Free, Then::LetGo),
                }
            }
            Self::Follows { through, last } => {
                let expected = last.system.plus(look.steady.saturating_sub(last.steady));
                if look.system > expected.plus(rules.max) {
                    let hold = ExpiryHold { through, until: HoldEnd::Confirmed };
                    return (Self::held(hold, look), Then::Hold(hold));
                }
                if look.now.since(look.system) < MET {
                    return (Self::Free, Then::LetGo);
                }
                if look.system >= through.plus(FOLLOWS_BY) {
                    return follow(through, look, Then::Follow);
                }
                (Self::Follows { through, last: look }, Then::Nothing)
            }
        }
    }
}

fn follow(through: Timestamp, look: Look, then: fn(ExpiryHold) -> Then) -> (Expiry, Then) {
    let through = through.max(look.system);
    (Expiry::Follows { through, last: look }, then(ExpiryHold { through, until: HoldEnd::Settled }))
}

fn is_even(last: Look, look: Look) -> bool {
    let expected = last.system.plus(look.steady.saturating_sub(last.steady));
    look.system.since(expected).max(expected.since(look.system)) <= UNEVEN
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    const RULES: LeapRules = LeapRules { max: Duration::from_secs(3_600), settle: Duration::from_secs(600) };

    fn look(system: u64, steady: u64, now: u64) -> Look {
        Look { system: Timestamp(system), steady: Duration::from_millis(steady), now: Timestamp(now) }
    }

    fn hold(through: u64, until: HoldEnd) -> ExpiryHold {
        ExpiryHold { through: Timestamp(through), until }
    }

    /// After a leap by thirty days at one day.
    fn leapt(until: HoldEnd) -> Expiry {
        Expiry::held(hold(DAY, until), look(31 * DAY, 0, 31 * DAY))
    }

    #[test]
    fn leap_is_held_for_days_while_nobody_confirms_it() {
        let mut expiry = leapt(HoldEnd::Confirmed);
        for hour in 1..100 {
            let (next, then) =
                expiry.look(look(31 * DAY + hour * HOUR, hour * HOUR, 31 * DAY + hour * HOUR), RULES);
            assert_eq!(then, Then::Nothing);
            expiry = next;
        }
    }

    #[test]
    fn clock_that_comes_back_is_followed_until_engine_time_meets_it() {
        let (expiry, then) = leapt(HoldEnd::Confirmed).look(look(DAY + 2_000, 2_000, 31 * DAY), RULES);
        assert_eq!(then, Then::CameBack(hold(DAY + 2_000, HoldEnd::Settled)));
        let (expiry, then) = expiry.look(look(DAY + 3_000, 3_000, 31 * DAY + 875), RULES);
        assert_eq!(then, Then::Nothing, "not for every second");
        let (expiry, then) = expiry.look(look(DAY + 70_000, 70_000, 31 * DAY + 60_000), RULES);
        assert_eq!(then, Then::Follow(hold(DAY + 70_000, HoldEnd::Settled)));
        let met = 240 * DAY;
        let (expiry, then) = expiry.look(look(met, met - DAY, met + 10), RULES);
        assert_eq!((expiry, then), (Expiry::Free, Then::LetGo));
    }

    #[test]
    fn clock_that_leaps_again_while_it_is_followed_is_held_again() {
        let (expiry, _) = leapt(HoldEnd::Confirmed).look(look(DAY, 0, 31 * DAY), RULES);
        let (expiry, then) = expiry.look(look(31 * DAY, 1_000, 31 * DAY), RULES);
        assert_eq!(then, Then::Hold(hold(DAY, HoldEnd::Confirmed)), "or all that was saved would die now");
        assert!(matches!(expiry, Expiry::Held { .. }));
    }

    #[test]
    fn clock_that_goes_back_by_a_part_is_not_believed() {
        let (expiry, then) = leapt(HoldEnd::Confirmed).look(look(16 * DAY, 1_000, 31 * DAY), RULES);
        assert_eq!(then, Then::Nothing);
        assert!(matches!(expiry, Expiry::Held { .. }));
    }

    #[test]
    fn gap_at_the_start_is_believed_when_the_clock_has_run_evenly_for_ten_minutes() {
        let start =
            |minutes: u64| look(31 * DAY + minutes * 60_000, minutes * 60_000, 31 * DAY + minutes * 60_000);
        let (expiry, then) = leapt(HoldEnd::Settled).look(start(9), RULES);
        assert_eq!(then, Then::Nothing);
        let (expiry, then) = expiry.look(start(10), RULES);
        assert_eq!((expiry, then), (Expiry::Free, Then::LetGo));
    }

    #[test]
    fn gap_at_the_start_waits_again_when_the_clock_is_set_meanwhile() {
        let (expiry, _) = leapt(HoldEnd::Settled).look(look(31 * DAY + HOUR / 12, HOUR / 12, 0), RULES);
        // Five minutes later it is set back by sixteen days: the machine was off for fourteen, and not for thirty.
        let set = |minute: u64| look(15 * DAY + minute * 60_000, minute * 60_000, 31 * DAY + minute * 52_500);
        let (expiry, then) = expiry.look(set(6), RULES);
        assert_eq!(then, Then::Nothing);
        let (expiry, then) = expiry.look(set(15), RULES);
        assert_eq!(then, Then::Nothing, "nine minutes after it was set");
        let (_, then) = expiry.look(set(16), RULES);
        assert_eq!(then, Then::CameBack(hold(15 * DAY + 960_000, HoldEnd::Settled)));
    }
}
