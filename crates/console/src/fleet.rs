//! The fleet that a server is a node of, as the program knows it: what the console reads of it and asks of it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kew_core::{QueueId, Timestamp};

/// An answer of another node, on its way. `None` where it does not come in time.
pub type Seen = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Whether a hand-over or a move has begun, on its way; or why not.
pub type Begun = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A fleet of nodes that serve one store.
pub trait Fleet: Send + Sync {
    /// Nodes and shards at this moment.
    fn now(&self) -> FleetNow;

    /// The number of the shard that a queue is in.
    fn shard_of(&self, queue: QueueId) -> u64;

    /// What this node knows of itself.
    fn own(&self) -> OwnNode;

    /// Asks another node what it shows, by its id. Its console answers what ours asks
    /// ([`crate::Console::show_to_node`]).
    fn look_at(&self, node: &str, question: &str) -> Seen;

    /// Has the owner of a shard hand it over to a node, by its id.
    fn hand_over(&self, shard: u64, to: &str) -> Begun;

    /// Has the owner of a shard move it to a database, by its number from 1; one that lies there stays there.
    fn move_shard(&self, shard: u64, database: u64) -> Begun;
}

/// Nodes and shards at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetNow {
    /// The id of the node that answers.
    pub me: String,
    /// How many databases the store lies in.
    pub databases: u64,
    /// Nodes that live.
    pub nodes: Vec<FleetNode>,
    /// All shards, in order.
    pub shards: Vec<FleetShard>,
}

/// A node that lives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetNode {
    /// This run of it, unlike any other.
    pub id: String,
    /// Its name, for people. Two may have the same.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// It hands its shards to others and stops.
    pub is_leaving: bool,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetShard {
    /// Its number.
    pub shard: u64,
    /// The number of the database that it lies in, from 1.
    pub database: u64,
    /// The number of the database that it is being moved to.
    pub moving_to: Option<u64>,
    /// Raised by every owner.
    pub epoch: u64,
    /// The id of the node that owns it, if that lives.
    pub owner: Option<String>,
}

/// What a node knows of itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OwnNode {
    /// How long ago it last renewed its row in the database.
    pub heard: Duration,
    /// The shards that it serves.
    pub shards: Vec<OwnShard>,
}

/// A shard that a node serves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OwnShard {
    /// Its number.
    pub shard: u64,
    /// Raised by every owner.
    pub epoch: u64,
    /// Why requests to it are refused just now, if they are.
    pub refusal: Option<String>,
    /// How many milliseconds the median append took lately, and the 99th percentile of them.
    pub append_ms: Option<(f64, f64)>,
    /// When the node took it.
    pub taken_at: Timestamp,
}

impl FleetNow {
    /// A node that lives, by its id.
    pub(crate) fn node(&self, id: &str) -> Option<&FleetNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// What a node is called: its name, unless another one has it too.
    pub fn called(&self, id: &str) -> String {
        let Some(node) = self.node(id) else { return id.to_owned() };
        let is_alone = self.nodes.iter().filter(|other| other.name == node.name).count() == 1;
        if is_alone { node.name.clone() } else { node.id.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_called_by_its_name_unless_another_has_it_too() {
        let node =
            |id: &str, name: &str| FleetNode { id: id.into(), name: name.into(), ..Default::default() };
        let nodes = vec![node("a-1", "a"), node("b-1", "b"), node("b-2", "b")];
        let now = FleetNow { nodes, ..FleetNow::default() };
        let called = ["a-1", "b-1", "b-2", "gone"].map(|id| now.called(id));
        assert_eq!(called, ["a", "b-1", "b-2", "gone"]);
    }
}
