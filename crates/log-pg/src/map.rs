//! What the database says of a store's shards and nodes at one moment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{ShardCount, ShardId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// One run of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Names this run, unlike any other: [`crate::node_id`].
    pub id: String,
    /// The node's name, for people.
    pub name: String,
    /// Where other nodes reach it, if they do.
    pub peer: Option<String>,
    /// The version of Kew that it runs.
    pub version: Option<String>,
}

impl Node {
    /// A node that no other one reaches.
    pub fn alone(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), peer: None, version: None }
    }
}

/// By this the nodes of a store know each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PeerSecret(pub [u8; 32]);

impl PeerSecret {
    /// The secret of 32 bytes of chance.
    pub fn from_chance(first: u128, second: u128) -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&first.to_be_bytes());
        bytes[16..].copy_from_slice(&second.to_be_bytes());
        Self(bytes)
    }

    /// The key that the shards of a new store seal receipts with. It is one for all of them: their queues may be put
    /// into a store of another number of shards.
    pub fn receipts_key(&self) -> [u8; 16] {
        let digest = Sha256::new().chain_update(b"kew: the key of receipts").chain_update(self.0).finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        key
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret")
    }
}

/// Shards of a store that `kew serve` makes. The step that lets several nodes serve one store raises it.
pub const SHARDS_OF_A_NEW_STORE: ShardCount = ShardCount::ONE;

/// What a store is made with where the database holds none.
#[derive(Clone, Copy, Debug)]
pub struct Founding {
    /// How many shards it has, for ever.
    pub shards: ShardCount,
    /// Its nodes' secret.
    pub secret: PeerSecret,
}

impl Founding {
    /// With as many shards as `kew serve` gives a store.
    pub fn usual(secret: PeerSecret) -> Self {
        Self { shards: SHARDS_OF_A_NEW_STORE, secret }
    }
}

/// A shard, as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardRow {
    /// Which one.
    pub shard: ShardId,
    /// It rises with each owner.
    pub epoch: i64,
    /// The run of a node that took it last and did not give it up. It may have gone: [`Map::owner`].
    pub node: Option<String>,
    /// The run of a node that it is handed over to.
    pub wanted: Option<String>,
}

/// Shards and nodes of a store, read in one statement.
#[derive(Clone, Debug)]
pub struct Map {
    /// All shards, in order.
    pub shards: Vec<ShardRow>,
    /// All nodes that live by the database's clock, in the order of their ids; the one that read this is one of them.
    pub nodes: Vec<Node>,
    /// Milliseconds since 1970 by the database's clock, when it was read.
    pub clock_ms: i64,
    /// When it was asked for.
    pub read_at: Instant,
    /// How long the answer took: by as much at most is `clock_ms` older than it looks.
    pub took: Duration,
}

impl Map {
    /// The row of a shard.
    pub fn shard(&self, shard: ShardId) -> Option<&ShardRow> {
        self.shards.iter().find(|row| row.shard == shard)
    }

    /// A node that lives, by the id of its run.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node that owns a shard and lives.
    pub fn owner(&self, shard: ShardId) -> Option<&Node> {
        self.node(self.shard(shard)?.node.as_deref()?)
    }

    /// Shards that no node that lives owns, in order.
    pub fn without_owner(&self) -> impl Iterator<Item = &ShardRow> {
        self.shards.iter().filter(|row| self.owner(row.shard).is_none())
    }
}

/// What a node knows of the others.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// The newest map; `None` until the first was read.
    pub map: Option<Arc<Map>>,
    /// Why this node's row could not be renewed, since the last time it could.
    pub failing: Option<String>,
}

/// A shard's number as the tables have it.
pub(crate) fn shard_id(number: i32) -> ShardId {
    ShardId(u16::try_from(number).unwrap_or(u16::MAX))
}
