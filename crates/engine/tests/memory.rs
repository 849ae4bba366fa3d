//! The same tests over the in-memory store.

#[path = "engine/bench.rs"]
mod bench;
#[path = "engine/crowded.rs"]
mod crowded;
#[path = "engine/cut_short.rs"]
mod cut_short;
#[path = "engine/moves.rs"]
mod moves;
#[path = "engine/queues.rs"]
mod queues;
#[path = "engine/remote.rs"]
mod remote;
#[path = "engine/storm.rs"]
mod storm;
#[path = "engine/time.rs"]
mod time;
#[path = "engine/waiters.rs"]
mod waiters;

const OVER: bench::Over = bench::Over::Memory;
