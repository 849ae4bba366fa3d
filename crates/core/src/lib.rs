//! Kew's laws: what a queue is, what may be asked of it, and what it must answer.
//!
//! Everything here is a pure function of its arguments. Time and chance are handed in, so the same
//! commands at the same instants always give the same outcomes; that is what lets the reference
//! [`model`] judge every store. Nothing here knows a service by name: where services differ, the
//! difference is a named rule (`ReceiptRule`, `WhenFree`, `Return`…) that a caller chooses.

pub mod command;
pub mod error;
pub mod event;
pub mod id;
pub mod lease;
pub mod message;
pub mod model;
pub mod outcome;
pub mod owed;
pub mod own;
pub mod pause;
pub mod queue;
pub mod report;
pub mod room;
pub mod rules;
pub mod shard;
pub mod table;
pub mod tally;
pub mod task;
pub mod time;
pub mod why;

pub use error::RuleError;
pub use event::{Event, EventKind, Failure};
pub use id::{
    AccountId, DeduplicationId, GroupId, MessageId, OwnerId, QueueId, QueueKey, Sequence, TaskId, Text,
    is_region,
};
pub use lease::{LeaseTerms, LeaseToken, ReceiptRule, Return, WhenFree};
pub use message::{Content, ContentType, Expiry, Message, MoveReason, NewMessage, Origin, State};
pub use owed::{OwedMessage, Owing};
pub use pause::Pause;
pub use queue::{
    ByName, Carries, Counts, DeadLetterAction, DeadLetterRule, DeduplicationScope, DocumentKey, Policy,
    Queue, QueueKind,
};
pub use report::{Reports, Work};
pub use room::{Room, SMALL_BYTES};
pub use shard::{ShardCount, ShardId, ShardPlace};
pub use table::{Ask, Command, Outcome, Records, ask};
pub use tally::{Departure, Departures, Tally, Traffic, Waits};
pub use task::{MoveTask, TaskFailure, TaskState};
pub use time::{Clock, Entropy, Timestamp};
