//! Which shard the name of a queue belongs to. Names are unique in a store, and a shard's ledger knows its own only.
//!
//! Only the owner of a shard writes rows of its shard, under its epoch. Everything here may be done twice, and is then
//! done once: one whose outcome is not known is done again.

use std::sync::Arc;

use kew_core::{QueueKey, ShardId};

use super::{PgDisk, PgNode};
use crate::PgError;
use crate::database::Naming;
use crate::map::shard_id;
use crate::pool::Patience;

/// Names that are read at a time, at most.
pub const NAMES_MAX: usize = 1_000;

impl PgDisk {
    /// Claims the name of a queue for this shard, unless another one has it. Answers the shard that has it.
    pub async fn claim_name(&self, key: QueueKey) -> Result<ShardId, PgError> {
        let has = self.name(Naming::Claim(key)).await?;
        Ok(has.unwrap_or_else(|| self.shard()))
    }

    /// Claims the names of queues for this shard, as far as no other one has them. Answers a shard that has one of
    /// them, if one has. It is waited for here.
    pub fn claim_names(&self, keys: Vec<QueueKey>) -> Result<Option<ShardId>, PgError> {
        for keys in keys.chunks(NAMES_MAX) {
            let (disk, keys) = (self.clone(), Arc::from(keys));
            let driver = &self.shared().home.driver;
            let named = driver.wait(async move { disk.name(Naming::ClaimAll(keys)).await });
            if let Some(other) = named.unwrap_or(Err(PgError::Closed))? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Lets a name go, if this shard has it.
    pub async fn release_name(&self, key: QueueKey) -> Result<(), PgError> {
        self.name(Naming::Release(key)).await.map(drop)
    }

    /// Claims a name and lets another one go, in one step. Answers the shard that has the new name: where that is
    /// another one nothing was changed.
    pub async fn change_name(&self, from: QueueKey, to: QueueKey) -> Result<ShardId, PgError> {
        let has = self.name(Naming::Rename { from, to }).await?;
        Ok(has.unwrap_or_else(|| self.shard()))
    }

    async fn name(&self, naming: Naming) -> Result<Option<ShardId>, PgError> {
        let shared = Arc::clone(self.shared());
        shared.tenure.may_change()?;
        let (own, naming) = (shared.tenure.own(), Arc::new(naming));
        let named = self.shared().home.driver.run(async move {
            let pool = Arc::clone(&shared.home.pool);
            let named = pool.work(Some(&shared.holder), Patience::WhileHeld, move |session| {
                let naming = Arc::clone(&naming);
                Box::pin(async move { session.name(own, &naming).await })
            });
            named.await
        });
        Ok(named.await.unwrap_or(Err(PgError::Closed))?.map(shard_id))
    }
}

impl PgNode {
    /// The shard that has the name of a queue, whichever node owns it.
    pub async fn shard_of_name(&self, key: QueueKey) -> Result<Option<ShardId>, PgError> {
        let (pool, key) = (Arc::clone(&self.home.pool), Arc::new(key));
        let read = self.home.driver.run(async move {
            let read = pool.work(None, Patience::WhileHeld, move |session| {
                let key = Arc::clone(&key);
                Box::pin(async move { session.shard_of_name(&key).await })
            });
            read.await
        });
        Ok(read.await.unwrap_or(Err(PgError::Closed))?.map(shard_id))
    }

    /// Names that a shard has, in order, behind one of them; [`NAMES_MAX`] at most.
    pub async fn names_of(&self, shard: ShardId, after: Option<QueueKey>) -> Result<Vec<QueueKey>, PgError> {
        let number = self.home.number(shard)?;
        let (pool, after) = (Arc::clone(&self.home.pool), Arc::new(after));
        let read = self.home.driver.run(async move {
            let read = pool.work(None, Patience::WhileHeld, move |session| {
                let after = Arc::clone(&after);
                Box::pin(async move { session.names(number, (*after).as_ref(), NAMES_MAX).await })
            });
            read.await
        });
        read.await.unwrap_or(Err(PgError::Closed))
    }
}
