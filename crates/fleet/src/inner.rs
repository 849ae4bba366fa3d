//! What one node of a fleet knows and reaches. The steps that are taken with it stand in the files of their subjects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kew_core::{Queue, QueueId, QueueKey, ShardId};
use kew_engine::Engine;
use kew_store::{SOMETHING_IS_OWED, Submission};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::commits::Commits;
use crate::contracts::{Carrier, Names, Shows};
use crate::holds::Holds;
use crate::known::{Directory, Found};
use crate::map::{FleetMap, NodeId};
use crate::places::{Here, Places};
use crate::unreleased::Unreleased;
use crate::upkeep::Resting;

/// How long a node that is about to stop is remembered although no map shows it: it may just have started.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

/// Queues by their numbers.
pub(crate) type Listed = BTreeMap<QueueId, Arc<Queue>>;

pub(crate) struct Inner {
    pub(crate) me: NodeId,
    pub(crate) places: Places,
    /// All shards with their stores, where every node of the fleet is an event loop of this process: figures are read
    /// from them all. `None` where nodes are processes.
    pub(crate) of_one_process: Option<Here>,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) names: Arc<dyn Names>,
    /// The engine, and the event loop that it is on.
    pub(crate) engine: OnceLock<(Weak<Engine>, Handle)>,
    pub(crate) directory: Directory,
    /// Guards the names that are being given to queues, each with its shard.
    pub(crate) making: Mutex<HashMap<QueueKey, ShardId>>,
    pub(crate) unreleased: Unreleased,
    /// Guards what the database said last; held for a moment.
    pub(crate) map: RwLock<Arc<FleetMap>>,
    /// Guards the queues of shards of which pages are being read; held for a moment.
    pub(crate) lists: Mutex<BTreeMap<ShardId, Listed>>,
    /// Guards the owners of shards whose database is silent, as they say themselves; held for a moment.
    pub(crate) found: Mutex<BTreeMap<ShardId, Found>>,
    pub(crate) resting: Resting,
    /// Guards the shards that an operator wants to be elsewhere, until the keeper has begun; held for a moment.
    pub(crate) orders: Mutex<BTreeMap<ShardId, NodeId>>,
    /// An operator gave this node a shard: it keeps all it has until a node joins or leaves.
    pub(crate) by_hand: AtomicBool,
    /// What this node shows to others.
    pub(crate) shows: OnceLock<Box<Shows>>,
    pub(crate) holds: Holds,
    pub(crate) commits: Commits,
    /// Guards the nodes that are about to stop, and when each said so; held for a moment.
    pub(crate) leaving: Mutex<BTreeMap<NodeId, Instant>>,
    /// Rings when a shard of this node left messages for another shard.
    pub(crate) owed: Notify,
    /// For each shard, permits of the batches that are under way to it.
    pub(crate) carries: Vec<Semaphore>,
    /// Whether every queue was known when this was last looked at: asked where no lock may be taken.
    pub(crate) knew_all: AtomicBool,
}

impl Inner {
    /// The engine over this store. `None` when the node ends.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get()?.0.upgrade()
    }

    /// The event loop that the engine is on: what must go on although its asker went away is done there.
    pub(crate) fn event_loop(&self) -> Option<&Handle> {
        self.engine.get().map(|(_, event_loop)| event_loop)
    }

    /// A node is about to stop.
    pub(crate) fn note_leaving(&self, node: NodeId) {
        self.leaving.lock().insert(node, Instant::now());
    }

    /// Nodes that are about to stop.
    pub(crate) fn leaving(&self, map: &FleetMap) -> BTreeSet<NodeId> {
        let mut leaving = self.leaving.lock();
        leaving.retain(|node, said| {
            *node == self.me || map.node(node).is_some() || said.elapsed() <= REMEMBERED_FOR
        });
        leaving.keys().cloned().collect()
    }

    /// The queues of a shard. Others have their turn while all queues are looked through.
    pub(crate) async fn list(&self, engine: &Engine, shard: ShardId) -> Listed {
        let count = self.places.count;
        let mut list = Listed::new();
        for some in engine.queues_in_slices(move |queue| count.of_queue(queue) == shard) {
            list.extend(some.into_iter().map(|queue| (queue.id, queue)));
            tokio::task::yield_now().await;
        }
        list
    }

    pub(crate) fn knew_all(&self) -> bool {
        self.knew_all.load(Ordering::Acquire)
    }

    /// Has what a step left for another shard carried there.
    pub(crate) fn note_owed(&self, submission: &Submission) {
        if submission.freed.contains(&SOMETHING_IS_OWED) {
            self.owed.notify_one();
        }
    }
}
