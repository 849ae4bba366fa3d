//! Where each shard is, as far as this node knows.

use std::sync::Arc;

use kew_core::{ShardCount, ShardId};
use kew_store::{Ring, Store};
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

impl Place {
    /// The store of a shard that this node keeps.
    fn store(&self) -> Option<&Arc<dyn Store>> {
        match self {
            Self::Here(store) => Some(store),
            Self::At(_) | Self::Nowhere => None,
        }
    }
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
    /// Guards what tells the event loop that a shard that is kept here has room for what filled; held for a moment.
    ring: RwLock<Option<Arc<Ring>>>,
}

impl Places {
    pub(crate) fn new(count: ShardCount) -> Self {
        let places = RwLock::new(count.all().map(|_| Place::Nowhere).collect());
        let (changes, ring) = (watch::Sender::new(0), RwLock::new(None));
        Self { count, places, here: RwLock::new(Arc::new([])), changes, ring }
    }

    /// Where a shard is. A number that no shard has is nowhere.
    pub(crate) fn of(&self, shard: ShardId) -> Place {
        self.places.read().get(usize::from(shard.0)).cloned().unwrap_or(Place::Nowhere)
    }

    /// The store of a shard that is kept here.
    pub(crate) fn here(&self, shard: ShardId) -> Option<Arc<dyn Store>> {
        self.places.read().get(usize::from(shard.0)).and_then(Place::store).cloned()
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
        let came = place.store().cloned();
        let left = {
            let mut places = self.places.write();
            let known = places.get_mut(usize::from(shard.0));
            let before = known.map(|known| std::mem::replace(known, place));
            let here = self.count.all().zip(places.iter());
            let here = here.filter_map(|(shard, place)| Some((shard, Arc::clone(place.store()?))));
            *self.here.write() = here.collect();
            before.and_then(|before| before.store().cloned())
        };
        // The event loop commits no store that has left.
        if let Some(store) = left {
            store.ring_when_free(None);
        }
        // Behind that, so that one that comes while the ring does has it too.
        let ring = self.ring.read().clone();
        if let (Some(store), Some(ring)) = (came, ring) {
            store.ring_when_free(Some(Arc::clone(&ring)));
            // What was applied before is committed too.
            ring();
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The stores of shards that are kept here, now and later, ring when they have room for what filled.
    pub(crate) fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.ring.write().clone_from(&ring);
        self.all_here().iter().for_each(|(_, store)| store.ring_when_free(ring.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{Command, Timestamp};
    use kew_store::{StoreError, Submission};
    use parking_lot::Mutex;

    /// A store that keeps the ring it was given last, and nothing else.
    #[derive(Default)]
    struct Rung(Mutex<Option<Arc<Ring>>>);

    impl Store for Rung {
        fn step(&self, _: Timestamp, _: &Command) -> Submission {
            Submission::settled(Err(StoreError::NoSpace))
        }

        fn next_due(&self) -> Option<Timestamp> {
            None
        }

        fn newest_instant(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
            *self.0.lock() = ring;
        }
    }

    #[test]
    fn a_shard_has_the_ring_whether_it_comes_before_it_or_later_and_only_while_it_is_here() {
        let places = Places::new(ShardCount::new(2).expect("two shards"));
        let stores = [Arc::new(Rung::default()), Arc::new(Rung::default())];
        let has_rings = || stores.each_ref().map(|store| store.0.lock().is_some());
        places.set(ShardId(0), Place::Here(Arc::clone(&stores[0]) as _));
        assert_eq!(has_rings(), [false, false]);
        places.ring_when_free(Some(Arc::new(|| true)));
        assert_eq!(has_rings(), [true, false]);
        places.set(ShardId(1), Place::Here(Arc::clone(&stores[1]) as _));
        assert_eq!(has_rings(), [true, true]);
        places.set(ShardId(0), Place::Nowhere);
        assert_eq!(has_rings(), [false, true]);
        places.ring_when_free(None);
        assert_eq!(has_rings(), [false, false]);
    }
}
