//! Shards whose due work was refused rest for a while, so that they hold up no other.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kew_core::{ShardId, Timestamp};
use kew_store::{Store, Submission};
use parking_lot::Mutex;

/// How long a shard rests.
const REST: Duration = Duration::from_secs(1);

/// Shards that rest.
#[derive(Default)]
pub(crate) struct Resting {
    /// Guards until when each of them rests, in the time of this node.
    until: Mutex<BTreeMap<ShardId, Timestamp>>,
}

impl Resting {
    /// When a shard has something to do next: not before it has rested.
    pub(crate) fn next_due(&self, shard: ShardId, store: &dyn Store) -> Option<Timestamp> {
        let due = store.next_due()?;
        Some(self.until.lock().get(&shard).map_or(due, |until| due.max(*until)))
    }

    /// Whether a shard has something to do by now, and has rested.
    pub(crate) fn is_due(&self, shard: ShardId, store: &dyn Store, now: Timestamp) -> bool {
        let is_due = self.next_due(shard, store).is_some_and(|due| due <= now);
        if is_due {
            self.until.lock().remove(&shard);
        }
        is_due
    }

    /// A step of a shard was refused at `now`: the shard rests.
    pub(crate) fn begin(&self, shard: ShardId, now: Timestamp) {
        self.until.lock().insert(shard, now.plus(REST));
    }

    /// A shard has left.
    pub(crate) fn forget(&self, shard: ShardId) {
        self.until.lock().remove(&shard);
    }
}

/// Whether a step was refused at once. An answer that is there is taken by this.
pub(crate) fn is_refused(submission: &mut Submission) -> bool {
    // What is known to be done is only not durable yet.
    submission.peek().is_none()
        && matches!(Pin::new(submission).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_)))
}
