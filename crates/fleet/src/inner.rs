//! What one node of a fleet knows and reaches. The steps that are taken with it stand in the files of their subjects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use kew_core::{QueueKey, ShardId};
use kew_engine::Engine;
use parking_lot::{Mutex, RwLock};

use crate::contracts::{Carrier, Names, Shows};
use crate::known::Directory;
use crate::map::{FleetMap, NodeId};
use crate::places::Places;
use crate::upkeep::Resting;

pub(crate) struct Inner {
    pub(crate) me: NodeId,
    pub(crate) places: Places,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) engine: OnceLock<Weak<Engine>>,
    pub(crate) directory: Directory,
    /// Guards the names that are being given to queues, each with its shard.
    pub(crate) making: Mutex<HashMap<QueueKey, ShardId>>,
    /// Guards what the database said last; held for a moment.
    pub(crate) map: RwLock<Arc<FleetMap>>,
    pub(crate) resting: Resting,
    /// Guards the nodes that are about to stop; held for a moment.
    pub(crate) leaving: Mutex<BTreeSet<NodeId>>,
    /// Guards the shards that an operator wants to be elsewhere, until the keeper has begun; held for a moment.
    pub(crate) orders: Mutex<BTreeMap<ShardId, NodeId>>,
    /// What this node shows to others.
    pub(crate) shows: OnceLock<Box<Shows>>,
}

impl Inner {
    /// The engine over this store. `None` when the node ends.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get()?.upgrade()
    }
}
