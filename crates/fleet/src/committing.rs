//! The end of a pass: each shard of this node is committed by itself.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use kew_core::ShardId;
use kew_store::Store;

use crate::inner::Inner;

impl Inner {
    /// Commits each shard that is kept here. One that takes longer goes on beside the event loop.
    pub(crate) fn commit_each_at_once(self: &Arc<Self>, may_sync: bool) {
        if let Some(panic) = self.commits.panic.lock().take() {
            // The event loop ends with it, as with a commit of its own.
            resume_unwind(panic);
        }
        for (shard, store) in &*self.places.all_here() {
            if self.commits.is_beside(*shard) {
                // Leases of a directory need no more than that, and it waits for nothing. Over a database it does
                // nothing: the commit beside is repeated.
                store.write();
            } else if !store.commit_at_once(may_sync) {
                self.commit_beside(*shard, Arc::clone(store));
            }
        }
    }

    fn commit_beside(self: &Arc<Self>, shard: ShardId, store: Arc<dyn Store>) {
        // There is one before the first shard comes.
        let Some(event_loop) = self.event_loop() else { return };
        self.commits.beside.lock().insert(shard, false);
        let fleet = Arc::clone(self);
        event_loop.spawn_blocking(move || {
            loop {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| store.commit())) {
                    *fleet.commits.panic.lock() = Some(panic);
                    return;
                }
                if fleet.commits.is_done(shard) {
                    return;
                }
            }
        });
    }
}
