//! A move task and how far it has come.

use kew_core::{MoveTask, QueueId, TaskFailure, TaskId, TaskState, Timestamp};

use super::pieces::{put_key, put_option, read_key, read_option};
use crate::ledger::varint::{Reader, put};

/// Writes a move task.
pub(in crate::ledger) fn put_task(out: &mut Vec<u8>, task: &MoveTask) {
    put(out, task.id.0);
    put(out, task.source.0);
    put_key(out, &task.source_key);
    put_option(out, task.destination.as_ref(), put_key);
    put_option(out, task.rate_max, |out, rate| put(out, u64::from(rate)));
    out.push(match task.state {
        TaskState::Running => 0,
        TaskState::Completed => 1,
        TaskState::Cancelled => 2,
        TaskState::Failed(TaskFailure::DestinationMissing) => 3,
        TaskState::Failed(TaskFailure::OriginUnknown) => 4,
        TaskState::Failed(TaskFailure::KindMismatch) => 5,
        TaskState::Failed(TaskFailure::SourceMissing) => 6,
        TaskState::Failed(TaskFailure::TookTooLong) => 7,
    });
    put(out, task.moved);
    put(out, task.to_move);
    put(out, task.started_at.0);
}

/// Reads a move task.
pub(in crate::ledger) fn read_task(from: &mut Reader<'_>) -> Option<MoveTask> {
    Some(MoveTask {
        id: TaskId(from.number()?),
        source: QueueId(from.number()?),
        source_key: read_key(from)?,
        destination: read_option(from, read_key)?,
        rate_max: read_option(from, |from| u32::try_from(from.number()?).ok())?,
        state: match from.byte()? {
            0 => TaskState::Running,
            1 => TaskState::Completed,
            2 => TaskState::Cancelled,
            3 => TaskState::Failed(TaskFailure::DestinationMissing),
            4 => TaskState::Failed(TaskFailure::OriginUnknown),
            5 => TaskState::Failed(TaskFailure::KindMismatch),
            6 => TaskState::Failed(TaskFailure::SourceMissing),
            7 => TaskState::Failed(TaskFailure::TookTooLong),
            _ => return None,
        },
        moved: from.number()?,
        to_move: from.number()?,
        started_at: Timestamp(from.number()?),
    })
}
