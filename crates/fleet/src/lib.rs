//! Many nodes: which one keeps which shard, and how a step reaches it.
//!
//! A node has one engine. Under it stands a [`Fleet`], a store that gives each step to the shard of its queue: to the
//! store of a shard that this node keeps, or to the node that keeps it. So any node serves any request. A request
//! reaches its shard by one hop: a node that is asked for a shard it does not keep says so, and the asker looks again.
//!
//! How requests reach other nodes ([`Carrier`]), where shards are kept ([`Home`]) and where names are agreed upon
//! ([`Names`]) are contracts of this crate. The program keeps them with sockets and PostgreSQL; tests keep them in
//! memory.
//!
//! First to read: `fleet.rs`, then `asking.rs` (a step that goes elsewhere), `defining.rs` (queues made and deleted),
//! `directory.rs` (what each node knows of all queues), `keeper.rs` with `plan.rs` (shards that come and go),
//! `operator.rs` (what people ask of a fleet). The shards of one process are a fleet of event loops: `one_process.rs`.

mod ahead;
mod asking;
mod bringing;
mod carrying;
mod commits;
mod committing;
mod contracts;
mod defining;
mod directory;
mod fleet;
mod holds;
mod inner;
mod keeper;
mod known;
mod map;
mod one_process;
mod operator;
mod places;
mod plan;
mod renamed;
mod serving;
mod silent;
mod times;
mod unreleased;
mod upkeep;

pub use contracts::{
    Agreed, Carried, Carrier, Close, CopiedShard, CopyTo, Goes, Home, Kept, Lost, Names, Shown, Shows,
};
pub use fleet::Fleet;
pub use keeper::{Keeper, Phase, ShardNews};
pub use map::{FleetMap, MapPart, MovedRow, NodeId, NodeRow, ShardRow};
pub use one_process::{LoopStore, loops_of_process};
pub use times::{CUT_OFF_AFTER, MAP_AGE_MAX, TOLD_FOR, UNREADY_AFTER, WANTED_FOR};
