//! Where each shard is, as far as this node knows.

use std::sync::Arc;

use kew_core::{ShardCount, ShardId};
use kew_store::Store;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::map::NodeId;

/// Where a shard is.
#[derive(Clone)]
pub(crate) enum Place {
    /// This node keeps it.
    Here(Arc<dyn Store>),
    /// Another node does.
    At(NodeId),
    /// No node does, or this node has not heard of it.
    Nowhere,
}

/// The shards of this node, with their stores.
pub(crate) type Here = Arc<[(ShardId, Arc<dyn Store>)]>;

/// Where all shards are.
pub(crate) struct Places {
    pub(crate) count: ShardCount,
    /// Guards the places, one for each shard in order; held for a moment.
    places: RwLock<Vec<Place>>,
    /// Guards the list of those that are kept here, in order; held for a moment.
    here: RwLock<Here>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

impl Places {
    pub(crate) fn new(count: ShardCount) -> Self {
        let places = RwLock::new(count.all().map(|_| Place::Nowhere).collect());
        Self { count, places, here: RwLock::new(Arc::new([])), changes: watch::Sender::new(0) }
    }

    /// Where a shard is. A number that no shard has is nowhere.
    pub(crate) fn of(&self, shard: ShardId) -> Place {
        self.places.read().get(usize::from(shard.0)).cloned().unwrap_or(Place::Nowhere)
    }

    /// The store of a shard that is kept here.
    pub(crate) fn here(&self, shard: ShardId) -> Option<Arc<dyn Store>> {
        match self.places.read().get(usize::from(shard.0)) {
            Some(Place::Here(store)) => Some(Arc::clone(store)),
            _ => None,
        }
    }

    pub(crate) fn is_here(&self, shard: ShardId) -> bool {
        matches!(self.places.read().get(usize::from(shard.0)), Some(Place::Here(_)))
    }

    /// All shards that are kept here, with their stores, in order.
    pub(crate) fn all_here(&self) -> Here {
        Arc::clone(&self.here.read())
    }

    /// Changes where a shard is. What waits for that looks again.
    pub(crate) fn set(&self, shard: ShardId, place: Place) {
        {
            let mut places = self.places.write();
            if let Some(known) = places.get_mut(usize::from(shard.0)) {
                *known = place;
            }
            let here = self.count.all().zip(places.iter()).filter_map(|(shard, place)| match place {
                Place::Here(store) => Some((shard, Arc::clone(store))),
                Place::At(_) | Place::Nowhere => None,
            });
            *self.here.write() = here.collect();
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The same, unless the shard is there already.
    pub(crate) fn set_if_other(&self, shard: ShardId, place: Place) {
        let is_same = match (self.of(shard), &place) {
            (Place::At(known), Place::At(node)) => known == *node,
            (Place::Nowhere, Place::Nowhere) => true,
            _ => false,
        };
        if !is_same {
            self.set(shard, place);
        }
    }

    /// What changes when a place does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
