//! What a fleet builds on: the way to other nodes, the place where shards are kept, and the table of names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{QueueKey, ShardId};
use kew_store::{Store, StoreError};

use crate::map::NodeId;
use kew_peer::{Refusal, Reply, Request};

/// An answer of another node on its way. Dropped, it is cancelled there.
pub type Carried = Pin<Box<dyn Future<Output = Result<Result<Reply, Refusal>, Lost>> + Send>>;

/// An answer about names on its way.
pub type Agreed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// What this node shows to another one, on its way.
pub type Shown = Pin<Box<dyn Future<Output = String> + Send>>;

/// Says what this node shows to the others. What they ask is agreed upon by those who call.
pub type Shows = dyn Fn(String) -> Shown + Send + Sync;

/// What became of a request that got no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The other node never had it.
    NotSent,
    /// The other node may have done it.
    Unknown,
}

/// A node that no change reaches for this long knows by itself that it is cut off.
pub const CUT_OFF_AFTER: Duration = Duration::from_millis(1_250);

/// Carries requests to other nodes.
pub trait Carrier: Send + Sync + 'static {
    /// Asks a node.
    fn carry(&self, node: &NodeId, request: Request) -> Carried;

    /// The conversation in which a node is heard of, which has another number after each time it was cut off. `None` at
    /// the latest [`CUT_OFF_AFTER`] after that node sent something that arrived here.
    fn heard_in(&self, node: &NodeId) -> Option<u64>;
}

/// Names of queues, agreed upon by all nodes: each belongs to one shard. Only the owner of a shard writes names of it.
pub trait Names: Send + Sync + 'static {
    /// Gives a name to a shard unless another one has it. Answers the shard that has it then.
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId>;
    /// Takes a name from a shard.
    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()>;
    /// Gives a shard exactly the names of these queues, which its ledger has: its owner before may have died between
    /// the two.
    fn settle(&self, shard: ShardId, keys: Vec<QueueKey>) -> Agreed<()>;
}

/// Closes a store and gives its shard away, to a node if one is named.
pub type Close = Box<dyn FnOnce(Option<&NodeId>) + Send>;

/// A shard that this node owns.
pub struct Kept {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Why it is owned no more, if so.
    pub over: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Makes its end short, while it is served. It may take long.
    pub prepare: Arc<dyn Fn() + Send + Sync>,
    /// Ends it. It may take long.
    pub close: Close,
}

/// Where shards are kept. Its calls may take long.
pub trait Home: Send + Sync + 'static {
    /// Owns a shard and opens its store; `None` when another node owns it.
    fn take(&self, shard: ShardId) -> Result<Option<Kept>, String>;
}
