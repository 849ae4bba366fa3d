//! How much of a link the steps of one shard may take, and those of all shards in one database, so that those whose
//! owner puts steps off leave room for others.

use std::sync::Arc;

use kew_core::{ShardCount, ShardId};
use kew_peer::link::limits::ASK_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one shard's steps that have no answer yet. One more waits until it fits.
const OF_SHARD: usize = ASK_BYTES_MAX / 4;
/// Bytes that are left where all databases but one are slow.
const LEFT_FOR_ONE: usize = ASK_BYTES_MAX / 4;

/// The share of each shard, whichever node keeps it, and of each database.
pub(super) struct Shares {
    shards: Box<[Arc<Semaphore>]>,
    /// None where all shards lie in one.
    databases: Box<[Arc<Semaphore>]>,
    step_max: usize,
}

/// What a step takes of its shard's share and its database's, until it is dropped.
pub(super) struct Taken {
    _of_shard: OwnedSemaphorePermit,
    _of_database: Option<OwnedSemaphorePermit>,
}

impl Shares {
    pub fn of(shards: ShardCount, databases: u16) -> Self {
        let semaphores = |count: usize, bytes| (0..count).map(&|_| Arc::new(Semaphore::new(bytes))).collect();
        let (databases, of_database) = match usize::from(databases) {
            0 | 1 => (0, ASK_BYTES_MAX),
            several => (several, (ASK_BYTES_MAX - LEFT_FOR_ONE) / (several - 1)),
        };
        Self {
            shards: semaphores(shards.all().count(), OF_SHARD),
            databases: semaphores(databases, of_database),
            step_max: OF_SHARD.min(of_database),
        }
    }

    /// Waits until a step of this many bytes fits into its shard's share and its database's. One that is larger needs
    /// all of the smaller one. None where there is no such shard.
    pub fn take(
        &self,
        shard: ShardId,
        database: &dyn Fn(ShardId) -> u16,
        bytes: usize,
    ) -> impl Future<Output = Option<Taken>> + Send + use<> {
        let of_shard = self.shards.get(usize::from(shard.0)).map(Arc::clone);
        let of_database = match self.databases.is_empty() {
            true => None,
            false => self.databases.get(usize::from(database(shard))).map(Arc::clone),
        };
        let bytes = u32::try_from(bytes.min(self.step_max)).expect("a share fits in 32 bits");
        async move {
            let of_shard = of_shard?.acquire_many_owned(bytes).await.ok()?;
            let of_database = match of_database {
                Some(share) => Some(share.acquire_many_owned(bytes).await.ok()?),
                None => None,
            };
            Some(Taken { _of_shard: of_shard, _of_database: of_database })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    async fn waits(taking: impl Future<Output = Option<Taken>>) -> bool {
        let mut taking = pin!(tokio::task::unconstrained(taking));
        poll_fn(|cx| Poll::Ready(taking.as_mut().poll(cx).is_pending())).await
    }

    fn shards(count: u16) -> ShardCount {
        ShardCount::new(count).expect("stores have from 1 to 256 shards")
    }

    #[tokio::test]
    async fn shard_whose_share_is_taken_waits_and_leaves_others_theirs() {
        let shares = Shares::of(shards(2), 1);
        let (slow, other) = (ShardId(0), ShardId(1));
        let mut under_way = Vec::new();
        for _ in 0..4 {
            under_way.push(shares.take(slow, &|_| 0, OF_SHARD / 4).await);
        }
        assert!(waits(shares.take(slow, &|_| 0, 1)).await, "its share is taken");
        assert!(
            shares.take(other, &|_| 0, 2 * OF_SHARD).await.is_some(),
            "a large step needs no more than there is"
        );
        under_way.pop();
        assert!(shares.take(slow, &|_| 0, 1).await.is_some());
        assert!(shares.take(ShardId(2), &|_| 0, 1).await.is_none(), "there is no such shard");
    }

    #[tokio::test]
    async fn all_databases_but_one_that_are_slow_leave_the_last_one_its_quarter() {
        for databases in 2_u16..=9 {
            let shares = Shares::of(shards(64), databases);
            let mut under_way = Vec::new();
            let mut taken = 0;
            for number in 0..64 {
                let database = number % databases;
                let step = 1 << 20;
                while database > 0 && !waits(shares.take(ShardId(number), &|_| database, step)).await {
                    under_way.push(shares.take(ShardId(number), &|_| database, step).await);
                    taken += step;
                }
            }
            let most = ASK_BYTES_MAX - LEFT_FOR_ONE;
            assert!((most - (usize::from(databases) << 20)..=most).contains(&taken), "{databases}: {taken}");
            assert!(!waits(shares.take(ShardId(0), &|_| 0, 2 * OF_SHARD)).await, "{databases}");
        }
    }
}
