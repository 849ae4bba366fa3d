//! The kinds of record, as the byte in a frame's header.

use crate::ledger::change::Change;

/// [`Change::QueueSet`]
pub const QUEUE_SET: u8 = 1;
/// [`Change::QueueDeleted`]
pub const QUEUE_DELETED: u8 = 2;
/// [`Change::Sent`]
pub const SENT: u8 = 3;
/// [`Change::Leased`]
pub const LEASED: u8 = 4;
/// [`Change::Repeated`]
pub const REPEATED: u8 = 5;
/// [`Change::Withdrawn`]
pub const WITHDRAWN: u8 = 6;
/// [`Change::Acked`]
pub const ACKED: u8 = 7;
/// [`Change::Extended`]
pub const EXTENDED: u8 = 8;
/// [`Change::Released`]
pub const RELEASED: u8 = 9;
/// [`Change::DeadLettered`]
pub const DEAD_LETTERED: u8 = 10;
/// [`Change::Dropped`]
pub const DROPPED: u8 = 11;
/// [`Change::Redriven`]
pub const REDRIVEN: u8 = 12;
/// [`Change::Purged`]
pub const PURGED: u8 = 13;
/// [`Change::TaskSet`]
pub const TASK_SET: u8 = 14;
/// [`Change::DocumentSet`]
pub const DOCUMENT_SET: u8 = 15;
/// The time, for a journal that had nothing else to say.
pub const TICK: u8 = 16;

/// [`Change::Brought`]
pub const BROUGHT: u8 = 17;
/// [`Change::Stayed`]
pub const STAYED: u8 = 18;

/// The kind of a change's record.
pub fn kind_of(change: &Change<'_>) -> u8 {
    match change {
        Change::QueueSet(_) => QUEUE_SET,
        Change::QueueDeleted(_) => QUEUE_DELETED,
        Change::Sent(_) => SENT,
        Change::Leased(_) => LEASED,
        Change::Repeated { .. } => REPEATED,
        Change::Withdrawn { .. } => WITHDRAWN,
        Change::Acked { .. } => ACKED,
        Change::Extended(_) => EXTENDED,
        Change::Released { .. } => RELEASED,
        Change::DeadLettered(_) => DEAD_LETTERED,
        Change::Brought(_) => BROUGHT,
        Change::Dropped { .. } => DROPPED,
        Change::Stayed { .. } => STAYED,
        Change::Redriven { .. } => REDRIVEN,
        Change::Purged(_) => PURGED,
        Change::TaskSet(_) => TASK_SET,
        Change::DocumentSet { .. } => DOCUMENT_SET,
    }
}
