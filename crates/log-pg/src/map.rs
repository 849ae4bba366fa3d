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

    /// By this the databases of one store know each other. It may be shown, and says nothing of the secret.
    pub(crate) fn mark(&self) -> [u8; 16] {
        // As the migration that brought it computes it.
        let digest = Sha256::new().chain_update(b"kew: the mark of a store").chain_update(self.0).finalize();
        let mut mark = [0; 16];
        mark.copy_from_slice(&digest[..16]);
        mark
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret")
    }
}

/// Shards of a store that `kew serve` makes without `--peer`.
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

/// Which database of its store one is, and how many there are. The shards of a new store are spread over them in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatabasePlace {
    /// Its number, from 0: people count from 1.
    pub number: u16,
    /// How many there are.
    pub of: u16,
}

impl DatabasePlace {
    /// The database of a store that has one.
    pub const ONLY: Self = Self { number: 0, of: 1 };

    /// Whether it is the first one, which knows the others and has the names of all queues.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// Whether a shard lies in it that was never moved.
    pub fn has_at_first(self, shard: ShardId) -> bool {
        first_database_of(shard, self.of) == self.number
    }

    /// All databases of the store.
    pub fn all(of: u16) -> impl Iterator<Item = Self> {
        (0..of).map(move |number| Self { number, of })
    }
}

impl fmt::Display for DatabasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {} of {}", u32::from(self.number) + 1, self.of)
    }
}

/// The number of the database that a shard lies in until it is moved.
pub(crate) fn first_database_of(shard: ShardId, databases: u16) -> u16 {
    shard.0 % databases.max(1)
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
    /// How often the shard was moved from one database to another until it came here.
    pub moves: i32,
    /// The number of the database that it is to be moved to.
    pub wanted_in: Option<u16>,
}

/// The row of a shard that does not lie in this database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AwayRow {
    pub shard: ShardId,
    pub epoch: i64,
    /// How often the shard was moved until it came here, or will have been.
    pub moves: i32,
    pub away: Away,
}

/// Why a shard does not lie in a database that has a row of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Away {
    /// It was moved to this database, where its row had this epoch.
    MovedTo(u16, i64),
    /// Its files are being copied here, by the owner that has this epoch where the shard lies.
    Arriving(i64),
}

/// Shards and nodes of a store, read in one statement.
#[derive(Clone, Debug)]
pub struct Map {
    /// All shards that lie in the database, in order.
    pub shards: Vec<ShardRow>,
    /// Those that have a row there, and lie elsewhere.
    pub(crate) away: Vec<AwayRow>,
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

    /// Shards that were moved from here to another database: how often they had been moved before, and its number.
    pub fn moved(&self) -> impl Iterator<Item = (ShardId, i32, u16)> {
        self.away.iter().filter_map(|row| match row.away {
            Away::MovedTo(to, _) => Some((row.shard, row.moves, to)),
            Away::Arriving(_) => None,
        })
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
    /// Why a shard that was moved to this database does not lie in it, if so.
    pub stuck: Option<String>,
}

/// A shard's number as the tables have it.
pub(crate) fn shard_id(number: i32) -> ShardId {
    ShardId(u16::try_from(number).unwrap_or(u16::MAX))
}
