//! What a node knows of the shards that other nodes keep.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kew_core::{Queue, QueueId, ShardCount, ShardId};
use parking_lot::Mutex;
use tokio::sync::{Mutex as LongMutex, OwnedMutexGuard as LongGuard};
use tokio::time::Instant;

use crate::map::{FleetMap, NodeId};
use crate::times::{MAP_AGE_MAX, TOLD_FOR};

/// What is known of the shards that other nodes keep.
pub(crate) struct Directory {
    /// Guards what is known; held for a moment.
    state: Mutex<State>,
    /// One name of a shard is claimed or released at a time.
    naming: Vec<Arc<LongMutex<()>>>,
}

/// A node whose list was read, and the conversation in which its changes were heard since then.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) from: NodeId,
    /// `None` where that is this node itself.
    pub(crate) heard_in: Option<u64>,
    /// The epoch of the shard's newest owner, as the map said before the list was read. Another owner may have
    /// answered for changes that this node did not hear of, also where the same one is owner again.
    pub(crate) epoch: Option<i64>,
}

/// A node that keeps a shard whose database is silent here.
pub(crate) struct Found {
    pub(crate) node: NodeId,
    /// When it was asked.
    pub(crate) at: Instant,
}

struct State {
    /// What is known of each shard.
    known_from: Vec<Option<Known>>,
    /// What was heard while a list is being read.
    meanwhile: Option<Meanwhile>,
    /// The instant of the newest map of each database.
    maps_at: Vec<Option<Instant>>,
    /// Nodes that have asked for lists, and when each did last.
    askers: BTreeMap<NodeId, Instant>,
}

/// What was heard while a list was read.
#[derive(Default)]
pub(crate) struct Meanwhile {
    pub(crate) shown: HashSet<QueueId>,
    pub(crate) hidden: HashSet<QueueId>,
}

impl Directory {
    pub(crate) fn new(shards: ShardCount) -> Self {
        let known_from = shards.all().map(|_| None).collect();
        let state = State { known_from, meanwhile: None, maps_at: Vec::new(), askers: BTreeMap::new() };
        let naming = shards.all().map(|_| Arc::default()).collect();
        Self { state: Mutex::new(state), naming }
    }

    /// Holds the names of a shard.
    pub(crate) async fn naming(&self, shard: ShardId) -> Option<LongGuard<()>> {
        match self.naming.get(usize::from(shard.0)) {
            Some(lock) => Some(Arc::clone(lock).lock_owned().await),
            None => None,
        }
    }

    /// Another node has made or changed a queue.
    pub(crate) fn shown(&self, queue: &Arc<Queue>) {
        if let Some(meanwhile) = &mut self.state.lock().meanwhile {
            meanwhile.hidden.remove(&queue.id);
            meanwhile.shown.insert(queue.id);
        }
    }

    /// Another node has deleted a queue.
    pub(crate) fn hidden(&self, queue: QueueId) {
        if let Some(meanwhile) = &mut self.state.lock().meanwhile {
            meanwhile.shown.remove(&queue);
            meanwhile.hidden.insert(queue);
        }
    }

    /// Notes what is heard from now on beside a list that is being read.
    pub(crate) fn begin_list(&self) {
        self.state.lock().meanwhile = Some(Meanwhile::default());
    }

    /// Lets `look` see what was heard since the list is being read. What is heard later waits for it.
    pub(crate) fn beside_list(&self, look: impl FnOnce(&Meanwhile)) {
        if let Some(meanwhile) = &self.state.lock().meanwhile {
            look(meanwhile);
        }
    }

    /// The list was read, or could not be.
    pub(crate) fn end_list(&self) {
        self.state.lock().meanwhile = None;
    }

    /// Whether the maps of all databases were read a moment ago.
    pub(crate) fn are_maps_fresh(&self) -> bool {
        let maps_at = &self.state.lock().maps_at;
        !maps_at.is_empty()
            && maps_at.iter().all(|read| read.is_some_and(|read| read.elapsed() <= MAP_AGE_MAX))
    }

    /// The map of the fleet was read, as the databases were at its instants. After one that came late the lists of
    /// other nodes are not known: in between these may have taken this one for gone, and sent it no changes.
    pub(crate) fn map_read(&self, map: &FleetMap) {
        let State { maps_at, known_from, .. } = &mut *self.state.lock();
        maps_at.resize(map.parts().len(), None);
        for (newest, part) in maps_at.iter_mut().zip(map.parts()) {
            // By the time that has passed on the whole: how long the database took to read this one counts too.
            if part.read_at > *newest && newest.is_some_and(|before| before.elapsed() > MAP_AGE_MAX) {
                let lists = known_from.iter_mut();
                lists.for_each(|known| drop(known.take_if(|known| known.heard_in.is_some())));
            }
            *newest = (*newest).max(part.read_at);
        }
    }

    /// A node asks for a list: it gets changes from now on, although the map may not show it yet.
    pub(crate) fn asked(&self, node: &NodeId) {
        let askers = &mut self.state.lock().askers;
        askers.retain(|_, asked| asked.elapsed() <= TOLD_FOR);
        askers.insert(node.clone(), Instant::now());
    }

    /// Nodes that have asked for lists a moment ago.
    pub(crate) fn askers(&self) -> Vec<NodeId> {
        let state = self.state.lock();
        let lately = state.askers.iter().filter(|(_, asked)| asked.elapsed() <= TOLD_FOR);
        lately.map(|(node, _)| node.clone()).collect()
    }

    pub(crate) fn known(&self, shard: ShardId) -> Option<Known> {
        self.state.lock().known_from.get(usize::from(shard.0)).cloned().flatten()
    }

    pub(crate) fn set_known(&self, shard: ShardId, is_known: Option<Known>) {
        if let Some(known) = self.state.lock().known_from.get_mut(usize::from(shard.0)) {
            *known = is_known;
        }
    }
}
