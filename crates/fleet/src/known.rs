//! What a node knows of the shards that other nodes keep.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Queue, QueueId, ShardCount, ShardId};
use parking_lot::Mutex;
use tokio::sync::{Mutex as LongMutex, OwnedMutexGuard as LongGuard};
use tokio::time::Instant;

use crate::map::NodeId;

/// A map of the fleet that is older than this may not know of a new owner.
const MAP_AGE_MAX: Duration = Duration::from_secs(2);
/// How long a node that has asked for a list gets changes, whatever the map says. By then the map shows it, or is
/// so old that this node may answer for no shard.
const TOLD_FOR: Duration = Duration::from_secs(5);

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
    pub(crate) heard_in: Option<u64>,
}

struct State {
    /// What is known of each shard.
    known_from: Vec<Option<Known>>,
    /// What was heard while a list is being read.
    meanwhile: Option<Meanwhile>,
    /// The instant of the newest map of the fleet.
    map_at: Option<Instant>,
    /// Nodes that have asked for lists, and when each did last.
    askers: BTreeMap<NodeId, Instant>,
}

/// What was heard while a list was read.
#[derive(Default)]
pub(crate) struct Meanwhile {
    pub(crate) shown: HashMap<QueueId, Arc<Queue>>,
    pub(crate) hidden: HashSet<QueueId>,
}

impl Directory {
    pub(crate) fn new(shards: ShardCount) -> Self {
        let known_from = shards.all().map(|_| None).collect();
        let state = State { known_from, meanwhile: None, map_at: None, askers: BTreeMap::new() };
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
            meanwhile.shown.insert(queue.id, Arc::clone(queue));
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

    /// The list was read, or could not be: `show` gets what was heard meanwhile. What is heard later waits for it.
    pub(crate) fn end_list(&self, show: impl FnOnce(Meanwhile)) {
        let mut state = self.state.lock();
        show(state.meanwhile.take().unwrap_or_default());
    }

    /// Whether the map of the fleet was read a moment ago.
    pub(crate) fn is_map_fresh(&self) -> bool {
        let map_at = self.state.lock().map_at;
        map_at.is_some_and(|at| at.elapsed() <= MAP_AGE_MAX)
    }

    /// The map of the fleet was read, as it was at this instant.
    pub(crate) fn map_read(&self, at: Option<Instant>) {
        let map_at = &mut self.state.lock().map_at;
        *map_at = (*map_at).max(at);
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

    /// This node keeps a shard no more. It knows all its queues until another node does.
    pub(crate) fn left(&self, shard: ShardId, me: NodeId) {
        self.set_known(shard, Known { from: me, heard_in: None });
    }

    pub(crate) fn set_known(&self, shard: ShardId, is_known: Known) {
        if let Some(known) = self.state.lock().known_from.get_mut(usize::from(shard.0)) {
            *known = Some(is_known);
        }
    }
}
