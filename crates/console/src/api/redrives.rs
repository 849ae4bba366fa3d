//! Redrives: the engine's tasks that bring a queue's messages back to where they came from, or to another queue.

use std::sync::Arc;

use kew_core::command::{ListMoves, StartMove};
use kew_core::{MoveTask, TaskFailure, TaskId, TaskState};
use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::names::Home;
use crate::error::{ApiError, answer};

/// Tasks of an account that run at once, by whichever interface they began.
const RUNNING_MAX: u32 = 100;
/// What stands for the queues that messages came from.
const ORIGIN: &str = "origin";

/// `POST /queues/{q}/redrive`.
pub(super) async fn start(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let source = cx.queue(&running.engine)?;
    let destination = match cx.body.text("to") {
        None | Some(ORIGIN) => None,
        Some(name) => Some(cx.queue_named(&running.engine, name)?),
    };
    if let Some(destination) = &destination {
        if destination.id == source.id {
            return Err(ApiError::bad_request("`to` is the queue itself"));
        }
        if destination.policy.kind.is_fifo() != source.policy.kind.is_fifo() {
            return Err(ApiError::conflict(
                "kind_mismatch",
                "a standard and a FIFO queue cannot exchange messages",
            ));
        }
    }
    let is_dry = cx.body.is_set("dry_run");
    let rate_max = cx.body.whole("per_second").and_then(|rate| u32::try_from(rate).ok());
    let destination = destination.map(|queue| queue.key.clone());
    let start = StartMove { source: source.id, destination, rate_max, running_max: RUNNING_MAX };
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        if is_dry {
            return Ok(json!({ "matched": engine.counts_so_far(start.source).await?.visible, "task": null }));
        }
        let task = engine.start_move(start).await?;
        Ok(json!({ "matched": task.to_move, "task": task.id.0.to_string() }))
    };
    Ok(answer(StatusCode::OK, &cx.console.work.run(work).await?))
}

/// `GET /redrives/{task}`.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let id = task_of(cx)?;
    let engine = Arc::clone(&running.engine);
    let work = move || async move { Ok(engine.list_moves(ListMoves { source: None }).await?) };
    let tasks = cx.console.work.run(work).await?;
    let task = tasks.iter().find(|task| task.id == id).ok_or_else(|| not_found(id))?;
    Ok(answer(StatusCode::OK, &shown(task, &cx.home())))
}

/// `POST /redrives/{task}/cancel`.
pub(super) async fn cancel(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let id = task_of(cx)?;
    let engine = Arc::clone(&running.engine);
    let task = cx.console.work.run(move || async move { Ok(engine.cancel_move(id).await?) }).await?;
    Ok(answer(StatusCode::OK, &shown(&task, &cx.home())))
}

fn task_of(cx: &Context<'_>) -> Result<TaskId, ApiError> {
    let text = cx.parts.first().map_or("", String::as_str);
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.map(TaskId).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::new(StatusCode::NOT_FOUND, "task_not_found", format!("{shown:?} is no task"))
    })
}

fn not_found(id: TaskId) -> ApiError {
    let message = format!("there is no task {}; of tasks that ended only the latest are remembered", id.0);
    ApiError::new(StatusCode::NOT_FOUND, "task_not_found", message)
}

fn shown(task: &MoveTask, home: &Home<'_>) -> Value {
    let (state, reason) = match task.state {
        TaskState::Running => ("running", None),
        TaskState::Completed => ("done", None),
        TaskState::Cancelled => ("cancelled", None),
        TaskState::Failed(failure) => ("failed", Some(reason(failure))),
    };
    let left = if task.state == TaskState::Completed { 0 } else { task.to_move.saturating_sub(task.moved) };
    json!({
        "task": task.id.0.to_string(),
        "source": home.text(&task.source_key),
        "to": task.destination.as_ref().map_or_else(|| ORIGIN.to_owned(), |key| home.text(key)),
        "state": state,
        "moved": task.moved,
        "left": left,
        "reason": reason,
    })
}

fn reason(failure: TaskFailure) -> &'static str {
    match failure {
        TaskFailure::DestinationMissing => "the queue to move to does not exist",
        TaskFailure::OriginUnknown => "a message came from no other queue, so it has no origin to return to",
        TaskFailure::KindMismatch => "a standard and a FIFO queue cannot exchange messages",
        TaskFailure::SourceMissing => "the queue to move from was deleted",
        TaskFailure::TookTooLong => "it ran for 36 hours, which is the longest",
    }
}
