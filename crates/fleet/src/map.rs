//! What the database says of a fleet: its nodes that live, and which of them owns which shard.

use std::fmt;
use std::sync::Arc;

use kew_core::ShardId;
use tokio::time::Instant;

/// Names one run of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub Arc<str>);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node that lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRow {
    /// This run of it.
    pub id: NodeId,
    /// Its name, for people.
    pub name: Arc<str>,
    /// Where other nodes reach it.
    pub address: Arc<str>,
    /// The version of its program.
    pub version: Arc<str>,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardRow {
    /// Which one.
    pub shard: ShardId,
    /// The newest epoch of an owner.
    pub epoch: i64,
    /// The node that owns it, if that lives.
    pub owner: Option<NodeId>,
    /// The node that it is handed to, if that lives.
    pub wanted: Option<NodeId>,
}

/// A fleet at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetMap {
    /// Nodes that live, by their ids.
    pub nodes: Vec<NodeRow>,
    /// All shards, in order.
    pub shards: Vec<ShardRow>,
    /// When it was asked for; `None` before the first was read.
    pub read_at: Option<Instant>,
}

impl FleetMap {
    /// The node of this id, if it lives.
    pub fn node(&self, id: &NodeId) -> Option<&NodeRow> {
        self.nodes.iter().find(|node| node.id == *id)
    }

    /// How many shards a node owns.
    pub fn owned_by(&self, id: &NodeId) -> usize {
        self.shards.iter().filter(|row| row.owner.as_ref() == Some(id)).count()
    }
}
