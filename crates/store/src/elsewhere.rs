//! Queues of other shards, as a shard knows them.

use std::sync::Arc;

use kew_core::{Queue, QueueKey};

use crate::StoreError;

/// Finds queues of other shards by their names. It is asked under the lock of a store, so it must not wait.
pub trait Elsewhere: Send + Sync {
    /// The queue of this name, if another shard has one. An error where that cannot be said just now.
    fn find(&self, key: &QueueKey) -> Result<Option<Arc<Queue>>, StoreError>;
}
