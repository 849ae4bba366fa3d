//! How much of a link the steps of one shard may take, so that one whose owner puts steps off leaves room for others.

use std::sync::Arc;

use kew_core::{ShardCount, ShardId};
use kew_peer::link::limits::ASK_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one shard's steps that have no answer yet. One more waits until it fits.
const SHARE: usize = ASK_BYTES_MAX / 4;

/// The share of each shard, whichever node keeps it.
pub(super) struct Shares(Box<[Arc<Semaphore>]>);

/// What a step takes of its shard's share, until it is dropped.
pub(super) type Taken = Option<OwnedSemaphorePermit>;

impl Shares {
    pub fn of(shards: ShardCount) -> Self {
        Self(shards.all().map(|_| Arc::new(Semaphore::new(SHARE))).collect())
    }

    /// Waits until a step of this many bytes fits into its shard's share. One that is larger needs all of it.
    pub fn take(&self, shard: ShardId, bytes: usize) -> impl Future<Output = Taken> + Send + use<> {
        let share = self.0.get(usize::from(shard.0)).map(Arc::clone);
        let bytes = u32::try_from(bytes.min(SHARE)).expect("a share fits in 32 bits");
        async move { share?.acquire_many_owned(bytes).await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn shard_whose_share_is_taken_waits_and_leaves_others_theirs() {
        let shares = Shares::of(ShardCount::new(2).expect("2 is a number of shards"));
        let (slow, other) = (ShardId(0), ShardId(1));
        let mut under_way: Vec<Taken> = Vec::new();
        for _ in 0..4 {
            under_way.push(shares.take(slow, SHARE / 4).await);
        }
        let mut one_more = pin!(shares.take(slow, 1));
        let waits = poll_fn(|cx| Poll::Ready(one_more.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "its share is taken");
        assert!(shares.take(other, 2 * SHARE).await.is_some(), "a large step needs no more than there is");
        under_way.pop();
        assert!(one_more.await.is_some());
        assert!(shares.take(ShardId(2), 1).await.is_none(), "there is no such shard");
    }
}
