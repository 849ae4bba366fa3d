//! The engine: commands in, outcomes out. It decides who waits, who is woken, what is due, and what time it is.
//!
//! It owns no thread and knows no protocol and no back-end. A request task takes its step in place ([`Engine`]) and
//! awaits the outcome; waiting receives, timers and move tasks are engine state fed by outcomes. Every step that
//! may change who gets a message is taken under one lock (the pass), so steps happen in the order of calls.

mod advance;
mod agenda;
mod answers;
mod asked;
mod bells;
mod browse;
mod busy;
mod chosen;
mod commands;
mod commit;
pub mod engine;
pub mod error;
mod expiry;
mod leap;
mod leasing;
mod lines;
mod moves;
pub mod notice;
mod operator;
pub mod options;
mod pace;
mod pass;
mod pauses;
mod pausing;
mod room;
mod shards;
pub mod snapshot;
mod state;
pub mod stats;
pub mod time;
mod timers;
mod waiters;
mod watch;

pub use browse::Search;
pub use busy::Busy;
pub use chosen::{Chosen, Matching, MovedSlice, Slice};
pub use commands::Settled;
pub use engine::Engine;
pub use error::EngineError;
pub use expiry::HeldExpiry;
pub use leasing::UnansweredLease;
pub use notice::Notice;
pub use options::Options;
pub use pace::Pace;
pub use shards::Brought;
pub use snapshot::{Listing, QueueName, WideListing};
pub use stats::{Counter, Stats};
pub use time::{BeforeJumps, ClockKind, ClockState, EngineClock, TimeSource};
pub use watch::{DefinitionWatch, MessageWatch};
