//! The lines of an export that say what messages and queues are doing: leases, turns, receives that may be repeated,
//! and move tasks.

use std::time::Duration;

use kew_core::time::millis;
use kew_core::{
    GroupId, MoveTask, OwnerId, QueueId, Return, Sequence, TaskFailure, TaskId, TaskState, Text, Timestamp,
};
use kew_store::ledger::{CarriedLease, CarriedOrder};
use serde::{Deserialize, Serialize};

use super::KeyLine;

/// The terms of a lease that runs.
#[derive(Serialize, Deserialize)]
pub(crate) struct LeaseLine {
    pub received_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_ms: Option<u64>,
    pub lapse_delay_ms: u64,
    pub returns_behind: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u64>,
    /// What it took the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BeforeLine>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BeforeLine {
    pub nonce: u64,
    pub first_leased_ms: Option<u64>,
    pub lease_end_ms: Option<u64>,
}

/// What stands between the messages of a queue, behind all of them.
#[derive(Serialize, Deserialize)]
pub(crate) struct OrderLine {
    pub queue: u64,
    /// Groups in the order of their turns.
    pub turns: Vec<String>,
    /// Messages that leave for the dead-letter queue: when, and which.
    pub departures: Vec<(u64, u64)>,
    /// Receives that may be repeated.
    pub attempts: Vec<AttemptLine>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AttemptLine {
    pub id: String,
    pub first_ms: u64,
    pub sequences: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TaskLine {
    pub id: u64,
    pub source: u64,
    pub source_key: KeyLine,
    pub destination: Option<KeyLine>,
    pub rate_max: Option<u32>,
    pub state: TaskStateLine,
    pub moved: u64,
    pub to_move: u64,
    pub started_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStateLine {
    Running,
    Completed,
    Cancelled,
    DestinationMissing,
    OriginUnknown,
    KindMismatch,
    SourceMissing,
    TookTooLong,
}

impl LeaseLine {
    pub fn of(lease: &CarriedLease) -> Self {
        let before = lease.before.map(|(nonce, first, end)| BeforeLine {
            nonce,
            first_leased_ms: first.map(|at| at.0),
            lease_end_ms: end.map(|at| at.0),
        });
        Self {
            received_ms: lease.received_at.0,
            cap_ms: lease.cap.map(millis),
            lapse_delay_ms: millis(lease.lapse_delay),
            returns_behind: lease.returns == Return::Behind,
            owner: lease.owner.map(|owner| owner.0),
            before,
        }
    }

    pub fn lease(self) -> CarriedLease {
        let instant = |at: Option<u64>| at.map(Timestamp);
        let before = self
            .before
            .map(|before| (before.nonce, instant(before.first_leased_ms), instant(before.lease_end_ms)));
        CarriedLease {
            received_at: Timestamp(self.received_ms),
            cap: self.cap_ms.map(Duration::from_millis),
            lapse_delay: Duration::from_millis(self.lapse_delay_ms),
            returns: if self.returns_behind { Return::Behind } else { Return::InPlace },
            owner: self.owner.map(OwnerId),
            before,
        }
    }
}

impl OrderLine {
    pub fn of(queue: QueueId, order: &CarriedOrder) -> Self {
        let attempt = |(id, first_at, sequences): &(Text, Timestamp, Vec<Sequence>)| AttemptLine {
            id: id.to_string(),
            first_ms: first_at.0,
            sequences: sequences.iter().map(|sequence| sequence.0).collect(),
        };
        Self {
            queue: queue.0,
            turns: order.turns.iter().map(|group| group.0.to_string()).collect(),
            departures: order.departures.iter().map(|(at, sequence)| (at.0, sequence.0)).collect(),
            attempts: order.attempts.iter().map(attempt).collect(),
        }
    }

    pub fn order(self) -> CarriedOrder {
        let attempt = |line: AttemptLine| {
            let sequences = line.sequences.into_iter().map(Sequence).collect();
            (Text::from(line.id), Timestamp(line.first_ms), sequences)
        };
        CarriedOrder {
            turns: self.turns.into_iter().map(|name| GroupId(Text::from(name))).collect(),
            departures: self
                .departures
                .iter()
                .map(|(at, sequence)| (Timestamp(*at), Sequence(*sequence)))
                .collect(),
            attempts: self.attempts.into_iter().map(attempt).collect(),
        }
    }
}

impl TaskLine {
    pub fn of(task: &MoveTask) -> Self {
        Self {
            id: task.id.0,
            source: task.source.0,
            source_key: KeyLine::of(&task.source_key),
            destination: task.destination.as_ref().map(KeyLine::of),
            rate_max: task.rate_max,
            state: match task.state {
                TaskState::Running => TaskStateLine::Running,
                TaskState::Completed => TaskStateLine::Completed,
                TaskState::Cancelled => TaskStateLine::Cancelled,
                TaskState::Failed(TaskFailure::DestinationMissing) => TaskStateLine::DestinationMissing,
                TaskState::Failed(TaskFailure::OriginUnknown) => TaskStateLine::OriginUnknown,
                TaskState::Failed(TaskFailure::KindMismatch) => TaskStateLine::KindMismatch,
                TaskState::Failed(TaskFailure::SourceMissing) => TaskStateLine::SourceMissing,
                TaskState::Failed(TaskFailure::TookTooLong) => TaskStateLine::TookTooLong,
            },
            moved: task.moved,
            to_move: task.to_move,
            started_ms: task.started_at.0,
        }
    }

    pub fn task(self) -> MoveTask {
        MoveTask {
            id: TaskId(self.id),
            source: QueueId(self.source),
            source_key: self.source_key.key(),
            destination: self.destination.map(|key| key.key()),
            rate_max: self.rate_max,
            state: match self.state {
                TaskStateLine::Running => TaskState::Running,
                TaskStateLine::Completed => TaskState::Completed,
                TaskStateLine::Cancelled => TaskState::Cancelled,
                TaskStateLine::DestinationMissing => TaskState::Failed(TaskFailure::DestinationMissing),
                TaskStateLine::OriginUnknown => TaskState::Failed(TaskFailure::OriginUnknown),
                TaskStateLine::KindMismatch => TaskState::Failed(TaskFailure::KindMismatch),
                TaskStateLine::SourceMissing => TaskState::Failed(TaskFailure::SourceMissing),
                TaskStateLine::TookTooLong => TaskState::Failed(TaskFailure::TookTooLong),
            },
            moved: self.moved,
            to_move: self.to_move,
            started_at: Timestamp(self.started_ms),
        }
    }
}
