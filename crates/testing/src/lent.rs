//! A store that is taken from its node, as the shard of an owner whose tenure ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_store::{MemoryStore, Store};

use crate::{CountingEntropy, Wrap, Wrapped};

/// A store in memory. It takes steps also while it is away, as those of an owner may that were begun before.
pub type LentStore = Wrapped<MemoryStore, Lent>;

/// Whether a store is away.
#[derive(Debug, Default)]
pub struct Lent {
    is_away: AtomicBool,
}

impl LentStore {
    /// An empty store that is there.
    pub fn new() -> Arc<Self> {
        let store = MemoryStore::new(Arc::new(CountingEntropy::default()));
        Arc::new(Self { store, wrap: Lent::default() })
    }

    /// From now on its node may not answer for it, or may again.
    pub fn set_away(&self, is_away: bool) {
        self.wrap.is_away.store(is_away, Ordering::Release);
    }
}

impl<S: Store> Wrap<S> for Lent {
    fn may_answer(&self, _store: &S) -> bool {
        !self.is_away.load(Ordering::Acquire)
    }
}
