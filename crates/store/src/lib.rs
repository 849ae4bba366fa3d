//! The one contract every store keeps, and what the embedded stores share.
//!
//! [`Store`] is the contract: one atomic step at a time, in Kew's own words. [`ledger`] holds all queues in memory: it
//! applies the laws, says what changed, and can be rebuilt from those changes. The in-memory store is the ledger alone;
//! the log store is the ledger with a journal under it. `contract` is the suite all stores pass.

#[cfg(feature = "contract")]
pub mod contract;
pub mod elsewhere;
pub mod error;
pub mod groups;
pub mod ledger;
pub mod memory;
pub mod submission;
pub mod token;

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, Pause, QueueId, ShardId, Tally, Timestamp, Traffic, Waits};

pub use elsewhere::Elsewhere;
pub use error::StoreError;
pub use groups::{Fill, Groups, Ring};
pub use memory::MemoryStore;
pub use submission::{BatchNumber, Freed, Gate, SOMETHING_IS_OWED, Submission, Through, Unread, Wait};

/// A place that keeps queues and their messages.
///
/// A step is applied in the order of calls. Its answer may be used once its [`Submission`] resolves: then everything
/// it tells is as durable as it must be (sends, deletes and settings synced; leases written).
pub trait Store: Send + Sync {
    /// Applies one command, all of it or nothing. A lease that is refused because a message cannot be read sets that
    /// one aside.
    fn step(&self, now: Timestamp, command: &Command) -> Submission;

    /// The same in one shard only, for a look that is otherwise taken in all of them. A store is one shard unless it
    /// says otherwise.
    fn step_in(&self, shard: ShardId, now: Timestamp, command: &Command) -> Submission {
        let _it_is_the_only_one = shard;
        self.step(now, command)
    }

    /// The next instant at which something becomes due by itself, or an earlier one.
    fn next_due(&self) -> Option<Timestamp>;

    /// The newest instant recorded: engine time goes on from here after a restart.
    fn newest_instant(&self) -> Timestamp;

    /// Whether and how expiry is held. A store that cannot hold it never does.
    fn expiry_hold(&self) -> Option<ExpiryHold> {
        None
    }

    /// Records the time for its own sake, so that the next start knows when it was last in use.
    fn record_time(&self, now: Timestamp) -> Submission {
        self.step(now, &Command::HoldExpiry(self.expiry_hold()))
    }

    /// Writes and syncs what was applied so far, on this thread. Stores that do so by themselves have nothing to do.
    /// True when something was waiting.
    fn commit(&self) -> bool {
        false
    }

    /// The same for an event loop, unless it takes longer: what waits for another thread, or for more than one write
    /// and, with `may_sync`, one sync, is left for [`Store::commit`] on a thread that may wait. False when there is
    /// such.
    fn commit_at_once(&self, may_sync: bool) -> bool {
        let _is_all_the_same = may_sync;
        self.commit();
        true
    }

    /// Hands over what was applied and is not let fill, where commits end later and elsewhere. Says whether some is let
    /// fill, so that the next append serves more.
    fn hand_over(&self) -> Fill {
        Fill::ByCaller
    }

    /// From now on `ring` rings whenever an append has ended elsewhere, and its owner hands over what filled meanwhile.
    /// With `None` the store does so by itself, as at first. Where commits end before they return there is nothing to
    /// ring for.
    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        drop(ring);
    }

    /// Number of syncs that commits have waited for since it was opened; 0 where commits sync nothing.
    fn syncs(&self) -> u64 {
        0
    }

    /// What has happened since it was opened. A store that does not count shows nothing.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// The same of each of these queues: at most a few hundred at once, since a lock is held meanwhile.
    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        vec![Tally::default(); queues.len()]
    }

    /// How long messages of each of these queues waited for their first lease, for figures.
    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        vec![Waits::default(); queues.len()]
    }

    /// Messages that left their queues because they were leased too often, since it was last asked.
    fn take_departures(&self) -> Departures {
        Departures::default()
    }

    /// What came and went in each of these queues, for figures: at most a few hundred at once, since a lock is held
    /// meanwhile. A store that does not count shows nothing.
    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        vec![Traffic::default(); queues.len()]
    }

    /// Why it takes no more work until a restart, if so. Never waits for a disk.
    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The same of the part of it that this queue is in, where the parts of a store stop one by one.
    fn health_for(&self, queue: QueueId) -> Result<(), StoreError> {
        let _all_alike = queue;
        self.health()
    }

    /// Whether what is known of it may leave this process now. A store that several nodes may own says no to a node
    /// that owns it no more: what that one knows may be old. Asked for each reply, so it waits for nothing.
    fn may_answer(&self) -> bool {
        true
    }

    /// Whether it keeps this queue, and what it knows of it may leave this process now.
    fn may_answer_for(&self, queue: QueueId) -> bool {
        let _all_alike = queue;
        self.may_answer()
    }

    /// Whether it keeps this queue itself. What it does not keep it asks another node for.
    fn keeps(&self, queue: QueueId) -> bool {
        let _all_are_kept = queue;
        true
    }

    /// The shard that this queue is in. A store is one shard unless it says otherwise.
    fn shard_of(&self, queue: QueueId) -> ShardId {
        let _all_are_in_one = queue;
        ShardId::OF_ACCOUNTS
    }

    /// Whether figures of this queue are read here: of those it keeps, unless it says otherwise.
    fn sees(&self, queue: QueueId) -> bool {
        self.keeps(queue)
    }

    /// From now on queues of other shards are found there. A store that has no others has no use for it.
    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        drop(elsewhere);
    }

    /// Whether every queue is known that there is. Where it is not, one that is not found may have been made by another
    /// node just now.
    fn knows_all(&self) -> bool {
        true
    }

    /// The answer of a command that makes, changes or deletes a queue where other nodes have to agree to it first:
    /// `None` where the step may be taken at once.
    fn define(&self, command: &Command) -> Option<Submission> {
        let _is_ours_alone = command;
        None
    }

    /// Tells the other nodes that something is paused up to an instant: `None` where there are no others.
    fn share(&self, pause: &Pause, until: Timestamp) -> Option<Submission> {
        let _there_are_no_others = (pause, until);
        None
    }

    /// The answer of a lease that waits where its queue is kept: `None` where that is here, and the caller waits.
    fn lease_elsewhere(&self, lease: &Lease, wait: Duration) -> Option<Submission> {
        let _waits_here = (lease, wait);
        None
    }

    /// Writes what was applied so far without syncing it, so that answers which need no more leave, also while another
    /// thread commits. A commit must follow. Where commits end later and elsewhere it does nothing.
    fn write(&self) {}
}
