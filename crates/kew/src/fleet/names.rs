//! Names of queues in the table that all nodes share.

use std::collections::BTreeSet;
use std::sync::Arc;

use kew_core::{QueueKey, ShardId};
use kew_fleet::{Agreed, Names};
use kew_log_pg::{NAMES_MAX, PgDisk, PgError, PgNode};
use kew_store::StoreError;

use super::home::PgHome;

/// The table of names.
pub(super) struct PgNames {
    node: PgNode,
    home: Arc<PgHome>,
}

impl PgNames {
    pub fn new(node: PgNode, home: Arc<PgHome>) -> Self {
        Self { node, home }
    }

    /// The log of a shard, whose owner alone writes its names.
    fn disk(&self, shard: ShardId) -> Result<PgDisk, StoreError> {
        self.home.disk(shard).ok_or_else(|| away("this node does not own the shard of the name".to_owned()))
    }
}

impl Names for PgNames {
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        let (disk, key) = (self.disk(shard), key.clone());
        Box::pin(async move { disk?.claim_name(key).await.map_err(unsaid) })
    }

    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()> {
        let (disk, key) = (self.disk(shard), key.clone());
        Box::pin(async move { disk?.release_name(key).await.map_err(unsaid) })
    }

    fn settle(&self, shard: ShardId, keys: Vec<QueueKey>) -> Agreed<()> {
        let (disk, node) = (self.disk(shard), self.node.clone());
        Box::pin(async move {
            let disk = disk?;
            if (node.database_of(shard) > 0 || node.was_moved(shard))
                // The names are in another database, where the shard's epoch fences no earlier owner, or were when an
                // earlier one wrote them: from now on they are this one's.
                && let Some(other) = disk.claim_all(&keys).await.map_err(unsaid)?
            {
                let what = format!("the name of a queue in shard {shard} is in shard {other}");
                return Err(StoreError::Damaged { what });
            }
            let mut there: BTreeSet<QueueKey> = BTreeSet::new();
            loop {
                let after = there.last().cloned();
                let some = node.names_of(shard, after).await.map_err(unsaid)?;
                let is_last = some.len() < NAMES_MAX;
                there.extend(some);
                if is_last {
                    break;
                }
            }
            let wanted: BTreeSet<QueueKey> = keys.into_iter().collect();
            for key in there.difference(&wanted) {
                disk.release_name(key.clone()).await.map_err(unsaid)?;
            }
            for key in wanted.difference(&there) {
                let owner = disk.claim_name(key.clone()).await.map_err(unsaid)?;
                if owner != shard {
                    let what =
                        format!("the queue {} is in shard {shard}, its name in shard {owner}", key.name);
                    return Err(StoreError::Damaged { what });
                }
            }
            Ok(())
        })
    }
}

fn unsaid(error: PgError) -> StoreError {
    away(error.to_string())
}

fn away(cause: String) -> StoreError {
    StoreError::Unavailable { cause }
}
