//! The pace of commits: how many answers the next one should gather, and whether syncs are slow.

use std::time::Duration;

/// Groups that are remembered.
pub(super) const GROUPS: usize = 8;
/// A sync that takes longer than this on average does not happen on the event loop.
pub(super) const SLOW_SYNC: Duration = Duration::from_micros(400);

/// What the last commits were like, and what the next should be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    groups: [u32; GROUPS],
    next: usize,
    /// Smoothed over about eight syncs.
    sync: Duration,
}

impl Pace {
    /// How many answers to hope for: at one connection one, so that no answer waits for a client that is not there.
    pub(super) fn target(&self) -> u32 {
        let largest = self.groups.iter().copied().max().unwrap_or_default();
        largest.saturating_sub(largest / 8).max(1)
    }

    /// Notes how many answers a commit released.
    pub(super) fn grouped(&mut self, group: u32) {
        if let (1.., Some(slot)) = (group, self.groups.get_mut(self.next)) {
            *slot = group;
            self.next = (self.next + 1) % GROUPS;
        }
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
