//! Shards whose due work was refused rest for a while, so that they hold up no other.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kew_core::{ShardId, Timestamp};
use kew_store::{Store, Submission};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a shard rests.
const REST: Duration = Duration::from_secs(1);

/// Shards that rest.
#[derive(Default)]
pub(crate) struct Resting {
    /// Guards until when each of them rests.
    until: Mutex<BTreeMap<ShardId, Instant>>,
}

impl Resting {
    /// Whether a shard rests now.
    pub(crate) fn rests(&self, shard: ShardId) -> bool {
        let mut until = self.until.lock();
        match until.get(&shard) {
            None => false,
            Some(end) if Instant::now() < *end => true,
            Some(_) => {
                until.remove(&shard);
                false
            }
        }
    }

    /// Whether a shard has something to do by now, and does not rest.
    pub(crate) fn is_due(&self, shard: ShardId, store: &dyn Store, now: Timestamp) -> bool {
        store.next_due().is_some_and(|due| due <= now) && !self.rests(shard)
    }

    /// Looks whether a step of a shard was refused; then the shard rests.
    pub(crate) fn refused(&self, shard: ShardId, submission: &mut Submission) {
        let polled = Pin::new(submission).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(Err(_)) = polled {
            self.until.lock().insert(shard, Instant::now() + REST);
        }
    }
}
