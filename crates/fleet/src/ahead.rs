//! The time of a shard whose owner before was ahead of this node: after a database with a slower clock took over.
//!
//! A shard's time never runs back, so it goes on from where it is, a little slower than this node's, until the two
//! meet. Other shards of the node are not concerned: nothing of theirs ends early.

use std::sync::Arc;

use kew_core::command::Lease;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, QueueId, Tally, Timestamp, Traffic, Waits};
use kew_store::{Elsewhere, Fill, Ring, Store, StoreError, Submission};

/// Of this many milliseconds of this node's time one is made good.
const SLOWER_BY: u64 = 8;

/// A shard's time beside this node's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slower {
    /// What this node's time was when the shard came.
    from: u64,
    /// What the shard's was.
    at: u64,
}

impl Slower {
    /// The instant from which on both are the same.
    fn met(self) -> u64 {
        let ahead = self.at.saturating_sub(self.from);
        self.from.saturating_add(ahead.saturating_mul(SLOWER_BY))
    }

    /// The shard's time when it is `now` here.
    fn shown(self, now: Timestamp) -> Timestamp {
        if now.0 >= self.met() {
            return now;
        }
        let passed = now.0.saturating_sub(self.from);
        Timestamp(self.at.saturating_add(passed - passed.div_ceil(SLOWER_BY)))
    }

    /// The first instant here at which the shard's time is `at` or later.
    fn reached(self, at: Timestamp) -> Timestamp {
        if at.0 >= self.met() {
            return at;
        }
        let wanted = at.0.saturating_sub(self.at);
        // Seven of its milliseconds take eight of this node's.
        Timestamp(self.from.saturating_add(wanted.saturating_add(wanted.div_ceil(SLOWER_BY - 1))))
    }
}

/// The store of a shard that is ahead of this node, or was when it came.
pub(crate) struct Ahead {
    store: Arc<dyn Store>,
    time: Slower,
}

impl Ahead {
    /// `store`, with a time of its own if it is ahead of `now`.
    pub(crate) fn of(store: Arc<dyn Store>, now: Timestamp) -> Arc<dyn Store> {
        let at = store.newest_instant();
        if at <= now {
            return store;
        }
        Arc::new(Self { store, time: Slower { from: now.0, at: at.0 } })
    }
}

impl Store for Ahead {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let shown = self.time.shown(now);
        match command {
            // Its cap counts from when it arrived, by the shard's time.
            Command::Lease(lease) if shown != now => {
                let received_at = self.time.shown(lease.received_at).min(shown);
                self.store.step(shown, &Command::Lease(Lease { received_at, ..lease.clone() }))
            }
            _ => self.store.step(shown, command),
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due().map(|due| self.time.reached(due))
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.store.expiry_hold()
    }

    fn commit(&self) -> bool {
        self.store.commit()
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.store.commit_at_once(may_sync)
    }

    fn hand_over(&self) -> Fill {
        self.store.hand_over()
    }

    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.store.ring_when_free(ring);
    }

    fn syncs(&self) -> u64 {
        self.store.syncs()
    }

    fn tally(&self) -> Tally {
        self.store.tally()
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.store.tallies(queues)
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.store.waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.store.take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.store.traffic(queues)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }

    fn may_answer(&self) -> bool {
        self.store.may_answer()
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.store.know_others(elsewhere);
    }

    fn write(&self) {
        self.store.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_shard_that_is_ahead_goes_on_slower_until_this_nodes_meets_it() {
        let time = Slower { from: 1_000, at: 1_700 };
        let shown: Vec<u64> =
            [1_000, 1_008, 1_800, 6_592, 6_600, 6_601].map(|now| time.shown(Timestamp(now)).0).to_vec();
        assert_eq!(shown, [1_700, 1_707, 2_400, 6_593, 6_600, 6_601]);
    }

    #[test]
    fn what_is_due_is_due_here_at_the_first_instant_that_shows_it() {
        let time = Slower { from: 1_000, at: 1_700 };
        for due in 1_600..7_000 {
            let here = time.reached(Timestamp(due));
            assert!(time.shown(here).0 >= due, "{due} is not there at {here:?}");
            let just_before = Timestamp(here.0 - 1);
            assert!(here.0 == 1_000 || time.shown(just_before).0 < due, "{due} was there before {here:?}");
        }
    }

    #[test]
    fn time_of_a_shard_never_runs_back() {
        let time = Slower { from: 1_000, at: 1_013 };
        let shown: Vec<u64> = (1_000..1_200).map(|now| time.shown(Timestamp(now)).0).collect();
        assert!(shown.is_sorted());
    }
}
