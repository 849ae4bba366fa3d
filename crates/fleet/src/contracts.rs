//! What a fleet builds on: the way to other nodes, the place where shards are kept, and the table of names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

/// Carries requests to other nodes.
pub trait Carrier: Send + Sync + 'static {
    /// Asks a node.
    fn carry(&self, node: &NodeId, request: Request) -> Carried;

    /// The conversation in which a node is heard of, which has another number after each time it was cut off. `None` at
    /// the latest [`crate::CUT_OFF_AFTER`] after that node sent something that arrived here.
    fn heard_in(&self, node: &NodeId) -> Option<u64>;
}

/// Names of queues, agreed upon by all nodes: each belongs to one shard. Only the owner of a shard writes names of it.
pub trait Names: Send + Sync + 'static {
    /// Gives a name to a shard unless another one has it. Answers the shard that has it then.
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId>;
    /// The same for a queue of that shard, which cannot be in the one that a free name is to come back to.
    fn claim_for_rename(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        self.claim(shard, key)
    }
    /// Takes a name from a shard.
    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()>;
    /// Gives a shard exactly the names of these queues, which its ledger has: its owner before may have died between
    /// the two.
    fn settle(&self, shard: ShardId, keys: Vec<QueueKey>) -> Agreed<()>;
}

/// Closes a store and gives its shard away.
pub type Close = Box<dyn FnOnce(Goes) + Send>;

/// Where a shard goes that this node keeps no longer.
pub enum Goes {
    /// To whichever node takes it.
    Free,
    /// To a node.
    To(NodeId),
    /// To another database, where most of it was copied to.
    Moved(CopiedShard),
}

/// Copies a shard to another database, by its number, while it is served and the flag is set; or says why it cannot.
pub type CopyTo = Arc<dyn Fn(u16, Arc<AtomicBool>) -> Result<CopiedShard, String> + Send + Sync>;

/// A shard that was copied to another database, but for what was written since.
pub struct CopiedShard {
    /// Copies the rest, and lets the shard lie there. Its store is closed. It may take long.
    pub finish: Box<dyn FnOnce() -> Result<(), String> + Send>,
    /// Leaves the shard where it is. It may take long.
    pub give_up: Box<dyn FnOnce() + Send>,
}

/// A shard that this node owns.
pub struct Kept {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Why it is owned no more, if so.
    pub over: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Makes its end short, while it is served. It may take long.
    pub prepare: Arc<dyn Fn() + Send + Sync>,
    /// Copies it to another database, while it is served. It may take long.
    pub copy_to: CopyTo,
    /// Ends it. It may take long.
    pub close: Close,
}

/// Where shards are kept. Its calls may take long.
pub trait Home: Send + Sync + 'static {
    /// Owns a shard and opens its store; `None` when another node owns it.
    fn take(&self, shard: ShardId) -> Result<Option<Kept>, String>;
}
