//! StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask: bringing dead letters back.

use std::sync::Arc;

use kew_core::command::{ListMoves, StartMove};
use kew_core::{MoveTask, Queue, TaskState};
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::encode::{Name, Shape, Writer};
use crate::error::{Code, WireError};
use crate::limits::IntegerRange;
use crate::names::Arn;
use crate::tasks::{self, Handle, Role};

const MESSAGES_PER_SECOND: IntegerRange = IntegerRange {
    name: "MaxNumberOfMessagesPerSecond",
    min: 1,
    max: 500,
    reason: "Must be between 1 and 500, if provided.",
};

const MAX_RESULTS: IntegerRange =
    IntegerRange { name: "MaxResults", min: 1, max: 10, reason: "Must be between 1 and 10, if provided." };

/// Tasks of an account that run at once.
const RUNNING_MAX: u32 = 100;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StartRequest<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    #[serde(borrow)]
    destination_arn: Option<Text<'a>>,
    max_number_of_messages_per_second: Option<i64>,
}

struct Started(String);

impl Shape for Started {
    fn write<W: Writer>(&self, out: &mut W) {
        out.text("TaskHandle", &self.0);
    }
}

/// StartMessageMoveTask.
pub(crate) async fn start_message_move_task(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: StartRequest<'_> = cx.read()?;
    let source = source(cx, request.source_arn.as_deref())?;
    let destination = request.destination_arn.as_deref();
    let destination = destination.map(|arn| tasks::queue(cx, arn, Role::Destination)).transpose()?;
    let rate_max = MESSAGES_PER_SECOND.check(request.max_number_of_messages_per_second)?;
    check_is_dead_letter_queue(cx, &source)?;
    match &destination {
        Some(destination) => check_kinds(&source, destination)?,
        None => tasks::may_send_back(cx, &source).await?,
    }
    let destination = destination.map(|queue| queue.key.clone());
    let start = StartMove { source: source.id, destination, rate_max, running_max: RUNNING_MAX };
    let task = cx.engine.start_move(start).await?;
    Ok(cx.result(&Started(Handle::of(&task))))
}

fn source(cx: &Context<'_>, arn: Option<&str>) -> Result<Arc<Queue>, WireError> {
    let arn = arn.filter(|arn| !arn.is_empty()).ok_or_else(|| WireError::missing("SourceArn"))?;
    tasks::queue(cx, arn, Role::Source)
}

fn check_is_dead_letter_queue(cx: &Context<'_>, queue: &Queue) -> Result<(), WireError> {
    if cx.engine.dead_letter_sources(&queue.key, None, 1).is_empty() {
        cx.engine.check_knows_all()?;
        let text = "Source queue must be configured as a Dead Letter Queue.";
        return Err(WireError::new(Code::InvalidParameterValue).saying(text));
    }
    Ok(())
}

fn check_kinds(source: &Queue, destination: &Queue) -> Result<(), WireError> {
    if source.policy.kind.is_fifo() != destination.policy.kind.is_fifo() {
        let text = "Source queue and destination queue must be of the same type.";
        return Err(WireError::new(Code::InvalidParameterValue).saying(text));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListRequest<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    max_results: Option<i64>,
}

struct Tasks(Vec<Arc<MoveTask>>);

impl Shape for Tasks {
    fn write<W: Writer>(&self, out: &mut W) {
        out.list(Name { json: "Results", xml: "ListMessageMoveTasksResultEntry" }, &self.0, |out, task| {
            write_task(task, out);
        });
    }

    fn size_hint(&self) -> usize {
        const A_TASK: usize = 512;
        self.0.len() * A_TASK + 64
    }
}

fn write_task<W: Writer>(task: &MoveTask, out: &mut W) {
    if task.state == TaskState::Running {
        out.text("TaskHandle", &Handle::of(task));
    }
    out.text("Status", tasks::status(task.state));
    out.text("SourceArn", &Arn::of(&task.source_key).to_string());
    if let Some(destination) = &task.destination {
        out.text("DestinationArn", &Arn::of(destination).to_string());
    }
    if let Some(rate) = task.rate_max {
        out.number("MaxNumberOfMessagesPerSecond", u64::from(rate));
    }
    out.number("ApproximateNumberOfMessagesMoved", task.moved);
    out.number("ApproximateNumberOfMessagesToMove", task.to_move);
    if let Some(reason) = tasks::failure_reason(task.state) {
        out.text("FailureReason", reason);
    }
    out.number("StartedTimestamp", task.started_at.0);
}

/// ListMessageMoveTasks: newest first.
pub(crate) async fn list_message_move_tasks(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: ListRequest<'_> = cx.read()?;
    let source = source(cx, request.source_arn.as_deref())?;
    let max = MAX_RESULTS.check(request.max_results)?.unwrap_or(1);
    let mut tasks = cx.engine.list_moves(ListMoves { source: Some(source.id) }).await?;
    tasks.truncate(max as usize);
    Ok(cx.result(&Tasks(tasks)))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CancelRequest<'a> {
    #[serde(borrow)]
    task_handle: Option<Text<'a>>,
}

struct Cancelled {
    moved: u64,
}

impl Shape for Cancelled {
    fn write<W: Writer>(&self, out: &mut W) {
        out.number("ApproximateNumberOfMessagesMoved", self.moved);
    }
}

/// CancelMessageMoveTask: what was moved stays moved.
pub(crate) async fn cancel_message_move_task(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: CancelRequest<'_> = cx.read()?;
    let handle = request.task_handle.as_deref().filter(|handle| !handle.is_empty());
    let handle = Handle::read(handle.ok_or_else(|| WireError::missing("TaskHandle"))?)?;
    let source = tasks::queue(cx, &handle.source_arn, Role::Source)?;
    let unknown = || WireError::new(Code::ResourceNotFound).saying("Task does not exist.");
    let id = handle.task().ok_or_else(unknown)?;
    // A handle that joins one queue with another queue's task names no task.
    let tasks = cx.engine.list_moves(ListMoves { source: Some(source.id) }).await?;
    let is_of_source = tasks.iter().any(|task| task.id == id);
    let task = cx.engine.cancel_move(is_of_source.then_some(id).ok_or_else(unknown)?).await?;
    Ok(cx.result(&Cancelled { moved: task.moved }))
}
