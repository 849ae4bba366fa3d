//! Which shard the name of a queue belongs to. Names are unique in a store, and a shard's ledger knows its own only.
//!
//! Only the owner of a shard writes rows of its shard, under its epoch. Names are in the first database of a store: for
//! a shard of another one the name's row tells the newest epoch (`postgres/afar.rs`). An act whose outcome is not
//! known is done again, and twice is the same as once. Each act has a number, and a name has that of its last claim: a
//! release that the database carries out late frees no name that was claimed since. A claim that it carries out late
//! may leave a name without a queue; a new queue of that name is then made in the same shard.

use std::sync::Arc;

use kew_core::{QueueKey, ShardId};

use super::{PgDisk, PgNode};
use crate::PgError;
use crate::database::{Claimant, Naming};
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
        let disk = self.clone();
        let claimed = self.shared().home.driver.wait(async move { disk.claim_all(&keys).await });
        claimed.unwrap_or(Err(PgError::Closed))
    }

    /// The same, not waited for here. Names that this shard has already are this owner's from then on: what an earlier
    /// owner does late to a name frees it no more.
    pub async fn claim_all(&self, keys: &[QueueKey]) -> Result<Option<ShardId>, PgError> {
        for keys in keys.chunks(NAMES_MAX) {
            if let Some(other) = self.name(Naming::ClaimAll(Arc::from(keys))).await? {
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
        let claimant = shared.tenure.next_claimant();
        if !shared.home.place.is_first() {
            return self.name_afar(claimant, naming).await;
        }
        let naming = Arc::new(naming);
        let named = self.shared().home.driver.run(async move {
            let pool = Arc::clone(&shared.home.pool);
            let named = pool.work(Some(&shared.holder), Patience::WhileHeld, move |session| {
                let naming = Arc::clone(&naming);
                Box::pin(async move { session.name(claimant, &naming).await })
            });
            named.await
        });
        Ok(named.await.unwrap_or(Err(PgError::Closed))?.map(shard_id))
    }

    /// The same for a shard of another database than the first one, which has the names. How long that one takes says
    /// nothing of the shard's own.
    async fn name_afar(&self, claimant: Claimant, naming: Naming) -> Result<Option<ShardId>, PgError> {
        let naming = Arc::new(naming);
        let home = Arc::clone(self.shared().home.of_names());
        let (pool, place) = (Arc::clone(&home.pool), home.place);
        let named = home.driver.run(async move {
            let named = pool.work(None, Patience::WhileHeld, move |session| {
                let naming = Arc::clone(&naming);
                Box::pin(async move { session.name_afar(claimant, &naming).await })
            });
            named.await
        });
        Ok(named.await.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(place))?.map(shard_id))
    }
}

impl PgNode {
    /// The shard that has the name of a queue, whichever node owns it.
    pub async fn shard_of_name(&self, key: QueueKey) -> Result<Option<ShardId>, PgError> {
        let (pool, key) = (Arc::clone(&self.first().pool), Arc::new(key));
        let read = self.first().driver.run(async move {
            let read = pool.work(None, Patience::WhileHeld, move |session| {
                let key = Arc::clone(&key);
                Box::pin(async move { session.shard_of_name(&key).await })
            });
            read.await
        });
        let read = read.await.unwrap_or(Err(PgError::Closed));
        Ok(read.map_err(|error| error.of(self.first().place))?.map(shard_id))
    }

    /// Names that a shard has, in order, behind one of them; [`NAMES_MAX`] at most.
    pub async fn names_of(&self, shard: ShardId, after: Option<QueueKey>) -> Result<Vec<QueueKey>, PgError> {
        let number = self.first().number(shard)?;
        let (pool, after) = (Arc::clone(&self.first().pool), Arc::new(after));
        let read = self.first().driver.run(async move {
            let read = pool.work(None, Patience::WhileHeld, move |session| {
                let after = Arc::clone(&after);
                Box::pin(async move { session.names(number, (*after).as_ref(), NAMES_MAX).await })
            });
            read.await
        });
        read.await.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(self.first().place))
    }
}
