//! The pace of commits: how many answers the next one should gather, and whether syncs are slow.

use std::time::Duration;

use kew_store::Groups;

/// A sync that takes longer than this on average does not happen on the event loop.
pub(super) const SLOW_SYNC: Duration = Duration::from_micros(400);

/// Looks at the sockets that may bring nothing behind an append that has ended, for each answer that is hoped for.
const EMPTY_TURNS_FOR_EACH: u32 = 2;
/// How often they are halved while nothing comes.
const IN_VAIN_MAX: u32 = 5;

/// What the last commits were like, and what the next should be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    pub(super) groups: Groups,
    /// Smoothed over about eight syncs.
    sync: Duration,
    /// How many times in a row nothing came while an append was let fill.
    in_vain: u32,
}

impl Pace {
    /// How many answers the next commit should gather.
    pub(super) fn target(&self) -> u32 {
        self.groups.all_but_one_of(8)
    }

    /// How many looks in a row at the sockets may bring nothing while an append of this many answers is hoped for. An
    /// append costs more than a sync, and clients that are far away come back too late whatever is done. One look is
    /// always taken, to see when that changes.
    pub(super) fn patience(&self, target: u32) -> u32 {
        (target.saturating_mul(EMPTY_TURNS_FOR_EACH) >> self.in_vain.min(IN_VAIN_MAX)).max(1)
    }

    /// Notes whether something came while an append was let fill.
    pub(super) fn filled(&mut self, something_came: bool) {
        self.in_vain = if something_came { 0 } else { self.in_vain.saturating_add(1) };
    }

    /// Notes how long a commit with a sync took. One that took long says little of the next, so none counts for more
    /// than twice the bound.
    pub(super) fn synced(&mut self, took: Duration) {
        let took = took.min(SLOW_SYNC * 2);
        self.sync = if self.sync.is_zero() { took } else { (self.sync * 7 + took) / 8 };
    }

    /// Whether the next sync is better done elsewhere.
    pub(super) fn is_slow(&self) -> bool {
        self.sync > SLOW_SYNC
    }
}
