//! Move tasks, as SQS speaks of them: handles, the names of queues, how tasks end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::{MoveTask, Queue, TaskFailure, TaskId, TaskState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::error::{Code, WireError};
use crate::names::Arn;
use crate::{Action, Context};

/// Which parameter names a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Source,
    Destination,
}

impl Role {
    pub(crate) fn parameter(self) -> &'static str {
        match self {
            Self::Source => "SourceArn",
            Self::Destination => "DestinationArn",
        }
    }

    /// What a caller must be allowed to do with the queue, beside the action itself.
    fn needs(self) -> &'static [Action] {
        match self {
            Self::Source => &[Action::ReceiveMessage, Action::DeleteMessage, Action::GetQueueAttributes],
            Self::Destination => &[Action::SendMessage],
        }
    }

    fn missing(self) -> WireError {
        let name = self.parameter();
        let text = format!("The resource that you specified for the {name} parameter doesn't exist.");
        WireError::new(Code::ResourceNotFound).saying(text)
    }

    fn malformed(self) -> WireError {
        let name = self.parameter();
        let text = format!(
            "You must use this format to specify the {name}: arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        );
        WireError::new(Code::InvalidParameterValue).saying(text)
    }
}

/// The queue of the caller's that an ARN names. Tasks are the owner's own: another account's queue is not there.
pub(crate) fn queue(cx: &Context<'_>, arn: &str, role: Role) -> Result<Arc<Queue>, WireError> {
    let arn = Arn::read(arn).ok_or_else(|| role.malformed())?;
    let is_here = arn.account == cx.caller.account && *arn.region == *cx.caller.region;
    let queue = if is_here { cx.engine.find(&arn.key())? } else { None };
    let queue = queue.ok_or_else(|| role.missing())?;
    cx.authorize(&queue)?;
    role.needs().iter().try_for_each(|action| cx.authorize_for(*action, &queue))?;
    Ok(queue)
}

/// Whether the caller may send to every queue whose messages come back from `source` when a task names no other.
pub(crate) async fn may_send_back(cx: &Context<'_>, source: &Queue) -> Result<(), WireError> {
    if cx.caller.principal.is_none() {
        return Ok(());
    }
    let may_send = |queue: &Queue| cx.authorize_for(Action::SendMessage, queue);
    cx.engine.each_dead_letter_source(&source.key, may_send).await
}

/// What a task handle says, in Base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Handle {
    task_id: String,
    pub(crate) source_arn: String,
}

impl Handle {
    /// The longest text that may be a handle.
    const LENGTH: usize = 1_024;

    /// The handle of a task.
    pub(crate) fn of(task: &MoveTask) -> String {
        let source_arn = Arn::of(&task.source_key).to_string();
        let handle = Self { task_id: format!("{:032x}", task.id.0), source_arn };
        STANDARD.encode(serde_json::json!(handle).to_string())
    }

    /// Reads a handle, ours or one that only looks like it.
    pub(crate) fn read(text: &str) -> Result<Self, WireError> {
        let bytes = (text.len() <= Self::LENGTH).then(|| STANDARD.decode(text).ok()).flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
            WireError::new(Code::InvalidParameterValue).saying("Value for parameter TaskHandle is invalid.")
        })
    }

    /// The task's number, when it is one.
    pub(crate) fn task(&self) -> Option<TaskId> {
        let is_number = self.task_id.len() == 32;
        is_number.then(|| u64::from_str_radix(&self.task_id, 16).ok().map(TaskId)).flatten()
    }
}

/// A task's status. Cancelling is one step, so no reply shows a task that is only about to be cancelled.
pub(crate) fn status(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "RUNNING",
        TaskState::Completed => "COMPLETED",
        TaskState::Cancelled => "CANCELLED",
        TaskState::Failed(_) => "FAILED",
    }
}

/// Why a task could not go on.
pub(crate) fn failure_reason(state: TaskState) -> Option<&'static str> {
    let TaskState::Failed(failure) = state else { return None };
    Some(match failure {
        TaskFailure::DestinationMissing | TaskFailure::SourceMissing => {
            "AWS.SimpleQueueService.NonExistentQueue"
        }
        TaskFailure::OriginUnknown => "CouldNotDetermineMessageSource",
        TaskFailure::KindMismatch => "AWS.SimpleQueueService.UnsupportedOperation",
        TaskFailure::TookTooLong => "TaskTimedOut",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{AccountId, QueueId, QueueKey, Timestamp};

    #[test]
    fn handles_name_a_task_and_its_source() {
        let task = MoveTask {
            id: TaskId(u64::MAX),
            source: QueueId(1),
            source_key: QueueKey::new(AccountId(0), "us-east-1", "dead"),
            destination: None,
            rate_max: None,
            state: TaskState::Running,
            moved: 0,
            to_move: 1,
            started_at: Timestamp::ZERO,
        };
        let handle = Handle::read(&Handle::of(&task)).expect("a handle is read back from its text");
        assert_eq!(handle.task(), Some(task.id));
        assert_eq!(handle.source_arn, "arn:aws:sqs:us-east-1:000000000000:dead");
    }

    // [rec] spec 8: an undecodable handle is not one of an unknown task.
    #[test]
    fn garbage_is_no_handle_and_a_foreign_id_no_task() {
        for garbage in ["", "x", "eA==", &STANDARD.encode("{}"), &STANDARD.encode("[]"), &"A".repeat(2_000)] {
            assert!(Handle::read(garbage).is_err(), "{garbage}");
        }
        for id in ["10f57157-fc31-4232-8b50-0e2b5a3b0f56", "", "é", &"+".repeat(32), &"f".repeat(32)] {
            let json = format!(r#"{{"taskId":"{id}","sourceArn":"a"}}"#);
            assert_eq!(Handle::read(&STANDARD.encode(json)).map(|handle| handle.task()), Ok(None), "{id}");
        }
    }
}
