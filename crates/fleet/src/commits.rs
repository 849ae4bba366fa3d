//! Commits of the shards of this node, each by itself: what one of them waits for holds no other up.

use std::any::Any;
use std::collections::BTreeMap;

use kew_core::ShardId;
use parking_lot::Mutex;

/// Commits that go on beside the event loop.
#[derive(Default)]
pub(crate) struct Commits {
    /// Guards the shards that are committed on threads of their own, and whether each is to be committed once more.
    pub(crate) beside: Mutex<BTreeMap<ShardId, bool>>,
    /// A commit that panicked may have left anything half done.
    pub(crate) panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Commits {
    /// Whether a shard is committed elsewhere just now. It is once more then, for what came meanwhile.
    pub(crate) fn is_beside(&self, shard: ShardId) -> bool {
        self.beside.lock().get_mut(&shard).map(|again| *again = true).is_some()
    }

    /// Whether nothing came while a shard was committed elsewhere.
    pub(crate) fn is_done(&self, shard: ShardId) -> bool {
        let mut beside = self.beside.lock();
        match beside.get_mut(&shard) {
            Some(again) if *again => {
                *again = false;
                false
            }
            _ => {
                beside.remove(&shard);
                true
            }
        }
    }
}
