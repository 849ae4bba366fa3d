//! Redrives: tasks that bring a queue's messages back to where they came from, or to another queue. Those of a whole
//! queue are the engine's; those of the messages that fit a filter are the console's.

use std::sync::Arc;

use kew_core::command::{Browse, ListMoves, StartMove};
use kew_core::outcome::Seen;
use kew_core::{MoveTask, Queue, QueueKey, RuleError, Sequence, TaskFailure, TaskId, TaskState};
use kew_engine::{Engine, EngineError, Matching};
use kew_http::{Reply, StatusCode};
use serde_json::{Map, Value, json};

use super::Context;
use super::fields::Members;
use super::filtered::{Filtered, Order, Task};
use super::names::Home;
use super::wanted::Wanted;
use crate::error::{ApiError, answer};

/// Tasks of an account that run at once, by whichever interface they began.
const RUNNING_MAX: u32 = 100;
/// What stands for the queues that messages came from.
const ORIGIN: &str = "origin";

/// The name of a dry run of a redrive in the audit log, which only has those that were refused.
pub(super) const DRY_RUN: &str = "countRedrive";

/// The name of a redrive in the audit log: a dry run moves nothing.
pub(super) fn action(body: &[u8]) -> &'static str {
    let asked = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if asked["dry_run"] == true { DRY_RUN } else { "redrive" }
}

/// `POST /queues/{q}/redrive`.
pub(super) async fn start(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let source = cx.queue(&running.engine)?;
    let to = destination(cx, &running.engine, &source)?;
    let is_dry = cx.body.is_set("dry_run");
    let rate_max = cx.body.whole("per_second").and_then(|rate| u32::try_from(rate).ok());
    let engine = Arc::clone(&running.engine);
    if let Some(filter) = cx.body.object("filter") {
        let asked = Asked { source, to, rate_max, filter: filter.clone(), is_dry };
        let filtered = Arc::clone(&cx.console.filtered);
        let work = move || async move { start_filtered(&engine, &filtered, asked).await };
        return Ok(answer(StatusCode::OK, &cx.console.work.run(work).await?));
    }
    let start = StartMove { source: source.id, destination: to, rate_max, running_max: RUNNING_MAX };
    let filtered = Arc::clone(&cx.console.filtered);
    let work = move || async move {
        if is_dry {
            let every = Browse::of(start.source, 1);
            let found = engine.count_matching(&every, start.destination.as_ref(), |_| true).await?;
            return Ok(counted(&found));
        }
        filtered.resume(&engine).await?;
        if filtered.runs_on(start.source) {
            return Err(RuleError::TaskRunning.into());
        }
        let task = engine.start_move(start).await?;
        Ok(json!({ "matched": task.to_move, "task": task.id.0.to_string() }))
    };
    Ok(answer(StatusCode::OK, &cx.console.work.run(work).await?))
}

/// Where messages are to go; `None` is back to their origins.
fn destination(cx: &Context<'_>, engine: &Engine, source: &Queue) -> Result<Option<QueueKey>, ApiError> {
    let to = match cx.body.text("to") {
        // It is required: without it nothing would have come here.
        None | Some(ORIGIN) => return Ok(None),
        Some(name) => cx.queue_named(engine, name)?,
    };
    if to.id == source.id {
        return Err(ApiError::bad_request("`to` is the queue itself"));
    }
    if to.policy.kind.is_fifo() != source.policy.kind.is_fifo() {
        let message = "a standard and a FIFO queue cannot exchange messages";
        return Err(ApiError::conflict("kind_mismatch", message));
    }
    Ok(Some(to.key.clone()))
}

/// A redrive by filter that is asked for.
struct Asked {
    source: Arc<Queue>,
    to: Option<QueueKey>,
    rate_max: Option<u32>,
    filter: Map<String, Value>,
    is_dry: bool,
}

async fn start_filtered(engine: &Arc<Engine>, filtered: &Filtered, asked: Asked) -> Result<Value, ApiError> {
    let Asked { source, to, rate_max, filter, is_dry } = asked;
    if !is_dry {
        filtered.resume(engine).await?;
        filtered.check(source.id)?;
        let moves = engine.list_moves(ListMoves { source: Some(source.id) }).await?;
        if moves.iter().any(|task| task.state == TaskState::Running) {
            return Err(RuleError::TaskRunning.into());
        }
    }
    let started_at = engine.now();
    let wanted = Wanted::of(&Members::of_checked(filter.clone()), source.id, started_at)?;
    let moved_max = engine.counts_so_far(source.id).await?.visible;
    let fits = |seen: &Seen| wanted.filter.fits(&seen.message.content);
    let found = engine.count_matching(&wanted.browse, to.as_ref(), fits).await?;
    let mut reply = counted(&found);
    if is_dry {
        return Ok(reply);
    }
    // Messages behind those that were counted may fit too.
    let through = if found.next.is_none() { found.last.unwrap_or_default() } else { Sequence(u64::MAX) };
    let (source, source_key) = (source.id, source.key.clone());
    let matched = found.messages + found.stranded;
    let order = Order {
        source,
        source_key,
        to,
        rate_max,
        filter,
        started_at,
        through,
        matched,
        moved_max: moved_max.max(matched),
    };
    reply["task"] = filtered.begin(engine, order).await?.id.clone().into();
    Ok(reply)
}

/// What was counted: what can be moved, and apart from that what has no queue to go to.
fn counted(found: &Matching) -> Value {
    json!({
        "matched": found.messages,
        "cannot_move": found.stranded,
        "counted_all": found.next.is_none(),
        "task": null,
    })
}

/// `GET /redrives/{task}`.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    if let Some(task) = filtered_task(cx, &running.engine).await? {
        return Ok(answer(StatusCode::OK, &task.shown(&cx.home())));
    }
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
    let engine = Arc::clone(&running.engine);
    if filtered_task(cx, &engine).await?.is_some() {
        let (filtered, id) = (Arc::clone(&cx.console.filtered), text_of(cx).to_owned());
        let work = move || async move { filtered.cancel(&engine, &id).await };
        let task = cx.console.work.run(work).await?;
        return Ok(answer(StatusCode::OK, &task.shown(&cx.home())));
    }
    let id = task_of(cx)?;
    let work = move || async move {
        match engine.cancel_move(id).await {
            Err(EngineError::Rule(RuleError::TaskNotFound)) => {}
            cancelled => return Ok(cancelled?),
        }
        let tasks = engine.list_moves(ListMoves { source: None }).await?;
        let ended = tasks.iter().find(|task| task.id == id && task.state != TaskState::Running);
        Err(ended.map_or_else(|| not_found(id), |task| has_ended(&id.0.to_string(), state(task).0)))
    };
    let task = cx.console.work.run(work).await?;
    Ok(answer(StatusCode::OK, &shown(&task, &cx.home())))
}

/// Refuses to stop a task that does not run any more.
pub(super) fn has_ended(task: &str, state: &str) -> ApiError {
    let message = format!("the task {task} has ended: it is {state}, and nothing of it is left to cancel");
    ApiError::conflict("task_ended", message)
}

/// The task by filter that is named, also if an earlier start of the server began it.
async fn filtered_task(cx: &Context<'_>, engine: &Arc<Engine>) -> Result<Option<Arc<Task>>, ApiError> {
    let (filtered, id) = (Arc::clone(&cx.console.filtered), text_of(cx).to_owned());
    if let Some(task) = filtered.task(&id) {
        return Ok(Some(task));
    }
    let engine = Arc::clone(engine);
    let work = move || async move {
        filtered.resume(&engine).await?;
        Ok(filtered.task(&id))
    };
    cx.console.work.run(work).await
}

fn text_of<'a>(cx: &'a Context<'_>) -> &'a str {
    cx.parts.first().map_or("", String::as_str)
}

fn task_of(cx: &Context<'_>) -> Result<TaskId, ApiError> {
    let text = text_of(cx);
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
    let (state, reason) = state(task);
    let left = if task.state == TaskState::Completed { 0 } else { task.to_move.saturating_sub(task.moved) };
    json!({
        "task": task.id.0.to_string(),
        "source": home.text(&task.source_key),
        "to": task.destination.as_ref().map_or_else(|| ORIGIN.to_owned(), |key| home.text(key)),
        "state": state,
        "moved": task.moved,
        "left": left,
        "filter": null,
        "reason": reason,
    })
}

/// A task's state, and why it failed.
fn state(task: &MoveTask) -> (&'static str, Option<&'static str>) {
    match task.state {
        TaskState::Running => ("running", None),
        TaskState::Completed => ("done", None),
        TaskState::Cancelled => ("cancelled", None),
        TaskState::Failed(failure) => ("failed", Some(reason(failure))),
    }
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
