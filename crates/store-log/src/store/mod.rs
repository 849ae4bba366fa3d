//! The log store: the ledger with a journal under it, and group commit.
//!
//! A step is applied at once, on the caller's thread, under the writer's lock. Its records ride in the batch being
//! filled; its answer waits at the gate until that batch is written and, if anything in it or before it must be,
//! synced. A lease waits for the syncs of what it rests on alone (`arrivals.rs`). One commit runs at a time: while it
//! syncs, the next batch fills.
//!
//! This is the lowest layer that knows queues and messages. It knows no tool: what people do with a store is built on
//! its public face. First to read: `steps.rs`, then `commit.rs`; `recover.rs` for the start.

mod arrivals;
mod commit;
mod figures;
mod gate;
mod gathering;
mod ids_aside;
mod inner;
mod live;
pub(crate) mod load;
mod log_store;
mod options;
mod owed;
mod reads;
mod recent;
pub(crate) mod recover;
mod shelf;
mod steps;
mod threads;
mod upkeep;
mod writer;

pub use figures::LogStats;
pub(crate) use load::Reaches;
pub use log_store::LogStore;
pub use options::{Drive, Durability, LogOptions};
pub use recover::OpenReport;
pub(crate) use recover::is_left_of_a_store;
pub(crate) use shelf::LogShelf;
pub use upkeep::Upkeep;
pub(crate) use upkeep::put_away::heads_of;
pub use upkeep::scrub::{Scrub, ScrubPace};
