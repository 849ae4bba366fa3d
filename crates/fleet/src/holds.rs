//! Expiry of the shards of this node, which is held shard by shard: one's messages must not end by another's time.
//!
//! A shard that cannot be reached just now, such as one whose row is locked, gets the news before its next step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{Command, ShardId, Timestamp};
use kew_store::{Store, Submission};
use parking_lot::Mutex;

use crate::upkeep::is_refused;

/// Shards that do not know yet how their expiry is held.
#[derive(Default)]
pub(crate) struct Holds {
    /// Guards the news for each of them, and its instant.
    owed: Mutex<BTreeMap<ShardId, (Timestamp, Option<ExpiryHold>)>>,
    is_any_owed: AtomicBool,
}

impl Holds {
    /// Holds expiry of a shard as a node is to hold it. One that a person is to confirm never lets a shard expire more
    /// than it did.
    pub(crate) fn hold(
        &self,
        (shard, store): (ShardId, &dyn Store),
        now: Timestamp,
        hold: Option<ExpiryHold>,
    ) -> Submission {
        let hold = match (hold, store.expiry_hold()) {
            (Some(hold), Some(own)) if hold.until == HoldEnd::Confirmed => {
                Some(ExpiryHold { through: hold.through.min(own.through), ..hold })
            }
            (hold, _) => hold,
        };
        let mut submission = store.step(now, &Command::HoldExpiry(hold));
        if is_refused(&mut submission) {
            self.owed.lock().insert(shard, (now, hold));
            self.is_any_owed.store(true, Ordering::Release);
        }
        submission
    }

    /// Sends a shard the news it missed, before its next step. The refusal, if it still cannot be reached.
    #[inline]
    pub(crate) fn before_step(&self, shard: ShardId, store: &dyn Store) -> Option<Submission> {
        if self.is_any_owed.load(Ordering::Acquire) { self.tell(shard, store) } else { None }
    }

    #[cold]
    fn tell(&self, shard: ShardId, store: &dyn Store) -> Option<Submission> {
        let (at, hold) = *self.owed.lock().get(&shard)?;
        let mut told = store.step(at, &Command::HoldExpiry(hold));
        if is_refused(&mut told) {
            return Some(store.step(at, &Command::HoldExpiry(hold)));
        }
        self.forget(shard);
        None
    }

    /// A shard has left: its next owner sees for itself how long nothing was recorded in it.
    pub(crate) fn forget(&self, shard: ShardId) {
        let mut owed = self.owed.lock();
        owed.remove(&shard);
        self.is_any_owed.store(!owed.is_empty(), Ordering::Release);
    }

    /// How expiry of a shard is held, or will be before its next step.
    pub(crate) fn of(&self, shard: ShardId, store: &dyn Store) -> Option<ExpiryHold> {
        let owed = self.owed.lock().get(&shard).and_then(|(_, hold)| *hold);
        owed.or_else(|| store.expiry_hold())
    }
}
