//! What each node knows of all queues, and how it comes to know it.
//!
//! Every node shows every queue of the fleet. The owner of a shard tells of each change before it answers the client
//! that asked for it: to all nodes that live, until each has confirmed or is cut off. A node that is cut off knows that
//! itself, and from then on does not know all names. It knows them again when it has read the lists of those shards'
//! owners.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Queue, QueueId, ShardCount, ShardId};
use parking_lot::Mutex;
use tokio::sync::{Mutex as LongMutex, MutexGuard as LongGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::contracts::Lost;
use crate::fleet::Inner;
use crate::map::NodeId;
use crate::places::Place;
use kew_peer::{Refusal, Reply, Request};

/// The pause before what a node has to know is told, or asked for, again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a node is told of one change. By then it is cut off, and knows that.
const TELLS_MAX: Duration = Duration::from_secs(3);
/// A map of the fleet that is older than this may not know of a new owner.
const MAP_AGE_MAX: Duration = Duration::from_secs(2);

/// What is known of the shards that other nodes keep.
pub(crate) struct Directory {
    /// Guards what is known; held for a moment.
    state: Mutex<State>,
    /// One name of a shard is claimed or released at a time.
    naming: Vec<LongMutex<()>>,
}

/// A node whose list was read, and the conversation in which its changes were heard since then.
#[derive(Clone, PartialEq, Eq)]
struct Known {
    from: NodeId,
    heard_in: Option<u64>,
}

struct State {
    /// What is known of each shard.
    known_from: Vec<Option<Known>>,
    /// What was heard while a list is being read.
    meanwhile: Option<Meanwhile>,
    /// When the map of the fleet was read last.
    map_at: Option<Instant>,
}

#[derive(Default)]
struct Meanwhile {
    shown: HashMap<QueueId, Arc<Queue>>,
    hidden: HashSet<QueueId>,
}

impl Directory {
    pub(crate) fn new(shards: ShardCount) -> Self {
        let state = State { known_from: shards.all().map(|_| None).collect(), meanwhile: None, map_at: None };
        let naming = shards.all().map(|_| LongMutex::new(())).collect();
        Self { state: Mutex::new(state), naming }
    }

    /// Holds the names of a shard.
    pub(crate) async fn naming(&self, shard: ShardId) -> Option<LongGuard<'_, ()>> {
        match self.naming.get(usize::from(shard.0)) {
            Some(lock) => Some(lock.lock().await),
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

    /// The map of the fleet was read.
    pub(crate) fn map_read(&self) {
        self.state.lock().map_at = Some(Instant::now());
    }

    fn known(&self, shard: ShardId) -> Option<Known> {
        self.state.lock().known_from.get(usize::from(shard.0)).cloned().flatten()
    }

    /// This node keeps a shard no more. It knows all its queues until another node does.
    pub(crate) fn left(&self, shard: ShardId, me: NodeId) {
        self.set_known(shard, Known { from: me, heard_in: None });
    }

    fn set_known(&self, shard: ShardId, is_known: Known) {
        if let Some(known) = self.state.lock().known_from.get_mut(usize::from(shard.0)) {
            *known = Some(is_known);
        }
    }
}

impl Inner {
    /// Whether every queue there is is known here.
    pub(crate) fn knows_all(&self) -> bool {
        let map_at = self.directory.state.lock().map_at;
        let is_fresh = map_at.is_some_and(|at| at.elapsed() <= MAP_AGE_MAX);
        is_fresh && self.places.count.all().all(|shard| self.knows(shard))
    }

    fn knows(&self, shard: ShardId) -> bool {
        match self.places.of(shard) {
            Place::Here(_) => true,
            Place::At(node) => self.is_known(shard, &node),
            // Its last owner told of all it answered for, and no other has answered for anything yet.
            Place::Nowhere => self.directory.known(shard).is_some(),
        }
    }

    /// Whether a shard's list was read from the node that keeps it, and nothing was missed since then.
    fn is_known(&self, shard: ShardId, node: &NodeId) -> bool {
        let heard_in = self.carrier.heard_in(node);
        heard_in.is_some() && self.directory.known(shard) == Some(Known { from: node.clone(), heard_in })
    }

    /// Reads the lists of shards that are not known, for as long as it is polled.
    pub(crate) async fn stay_informed(self: Arc<Self>) {
        let mut changes = self.places.changes();
        loop {
            changes.mark_unchanged();
            for shard in self.places.count.all() {
                let Place::At(node) = self.places.of(shard) else { continue };
                if self.is_known(shard, &node) {
                    continue;
                }
                // Of before the list is read: what is told in a later conversation is not missed.
                let heard_in = self.carrier.heard_in(&node);
                if heard_in.is_some() && self.read_list(shard, &node).await {
                    self.directory.set_known(shard, Known { from: node, heard_in });
                }
            }
            let _changed = tokio::time::timeout(PAUSE, changes.changed()).await;
        }
    }

    /// Reads the list of a shard's queues; false if that failed.
    async fn read_list(&self, shard: ShardId, node: &NodeId) -> bool {
        self.directory.state.lock().meanwhile = Some(Meanwhile::default());
        let read = self.read_pages(shard, node).await;
        // From here to its end what is heard is shown at once, and this list knows all that was heard before.
        let mut state = self.directory.state.lock();
        let meanwhile = state.meanwhile.take().unwrap_or_default();
        let (Some(mut queues), Some(engine)) = (read, self.engine()) else { return false };
        queues.retain(|queue| !meanwhile.hidden.contains(&queue.id));
        let is_of = |queue: QueueId| self.places.count.of_queue(queue) == shard;
        queues.extend(meanwhile.shown.into_values().filter(|queue| is_of(queue.id)));
        engine.show_all(&queues, is_of);
        drop(state);
        true
    }

    async fn read_pages(&self, shard: ShardId, node: &NodeId) -> Option<Vec<Arc<Queue>>> {
        let (mut queues, mut after) = (Vec::new(), QueueId(0));
        loop {
            let page = self.carrier.carry(node, Request::Queues { shard, after }).await;
            let Ok(Ok(Reply::Queues(some, is_last))) = page else { return None };
            queues.extend(some);
            after = match queues.last() {
                Some(last) if !is_last => last.id,
                _ => return Some(queues),
            };
        }
    }

    /// Tells all other nodes of a change. Returns when each of them knows it, or knows that it is cut off.
    pub(crate) async fn tell_all(self: &Arc<Self>, news: Request) {
        let map = Arc::clone(&self.map.read());
        let others = map.nodes.iter().map(|node| node.id.clone()).filter(|node| *node != self.me);
        let mut telling = JoinSet::new();
        for node in others {
            telling.spawn(Arc::clone(self).tell(node, news.clone()));
        }
        let _all = telling.join_all().await;
    }

    async fn tell(self: Arc<Self>, node: NodeId, news: Request) {
        let until = Instant::now() + TELLS_MAX;
        while self.carrier.heard_in(&node).is_some() && Instant::now() < until {
            let told = tokio::time::timeout_at(until, self.carrier.carry(&node, news.clone())).await;
            match told {
                Ok(Ok(Ok(_))) => return,
                // A node that ends shows nothing any more.
                Ok(Ok(Err(Refusal::Store(_) | Refusal::NotTheOwner | Refusal::NameIsIn(_)))) => return,
                Ok(Err(Lost::NotSent | Lost::Unknown)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
