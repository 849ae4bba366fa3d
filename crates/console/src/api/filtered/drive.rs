//! The driver of one redrive by filter: step after step at its pace, until it is over, cancelled or the server ends.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{RuleError, Timestamp};
use kew_engine::{Engine, EngineError, MovedSlice, Pace};
use tokio::runtime::Handle;

use super::put;
use super::task::{State, Task};

/// Messages of one step.
const BATCH: u32 = 100;
/// How long a task rests, in engine time, after the store could not go on with it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often, in engine time, the progress is stored: after a crash the number of messages moved is at most this old.
const STORED_EVERY: Duration = Duration::from_secs(1);

/// What follows a step.
enum Next {
    /// Another one, when it is due.
    Step,
    /// Nothing: the task has ended, or its driver has.
    End,
}

/// Drives a task.
pub(super) async fn drive(engine: Arc<Engine>, task: Arc<Task>) {
    let mut pace = Pace::new((task.order.rate_max, BATCH), task.moved(), engine.now());
    let mut stored_at = engine.now();
    // A jump of the virtual clock waits while something is due.
    let mut busy = engine.begin_work();
    loop {
        match step(&engine, &task, &mut pace, &mut stored_at).await {
            Next::Step => {}
            Next::End => return,
        }
        drop(busy);
        busy = tokio::select! {
            busy = engine.wake_at(pace.next_at()) => busy,
            () = task.bell.notified() => engine.begin_work(),
        };
    }
}

async fn step(engine: &Arc<Engine>, task: &Arc<Task>, pace: &mut Pace, stored_at: &mut Timestamp) -> Next {
    let _turn = task.turn.lock().await;
    if !task.is_running() || task.is_resting() || engine.is_shut_down() {
        return Next::End;
    }
    let now = engine.now();
    if pace.next_at() > now {
        return Next::Step;
    }
    let ended = if task.is_over(now) {
        Some(State::Failed("it ran for 36 hours, which is the longest"))
    } else {
        match take_step(engine, task, pace.step(), now).await {
            Ok(slice) => {
                pace.stepped(task.stepped(&slice), engine.now());
                (task.has_met_all() || task.rest_of() == 0).then_some(State::Done)
            }
            Err(EngineError::Rule(RuleError::QueueNotFound)) => Some(State::Failed(missing(engine, task))),
            Err(_) => {
                pace.rest_until(now.plus(REST_AFTER_FAILURE));
                None
            }
        }
    };
    let Some(ended) = ended else {
        store(engine, task, stored_at).await;
        return Next::Step;
    };
    // Its document goes first: a task that has ended does not begin anew at the next start.
    match put(engine, &task.id, None).await {
        Ok(()) => {
            task.end(ended);
            Next::End
        }
        Err(_) => {
            pace.rest_until(now.plus(REST_AFTER_FAILURE));
            Next::Step
        }
    }
}

/// One step, and a look before it where one is needed: on a thread that may wait for the engine's locks and read
/// bodies.
async fn take_step(
    engine: &Arc<Engine>,
    task: &Arc<Task>,
    step: u32,
    now: Timestamp,
) -> Result<MovedSlice, EngineError> {
    let (engine, task) = (Arc::clone(engine), Arc::clone(task));
    let max = u32::try_from(task.rest_of()).unwrap_or(u32::MAX).min(step);
    let work = async move {
        if let Some(slice) = task.next_look(now) {
            task.looked(engine.choose(&slice, |seen| task.is_wanted(seen)).await?, now);
        }
        let (first, tokens) = task.take_chosen(max);
        let moved = engine.move_these(task.order.source, task.order.to.clone(), tokens).await;
        if moved.is_err() {
            // Which of them were moved is not known: another look finds the others.
            task.look_again_from(first);
        }
        moved
    };
    let taken = tokio::task::spawn_blocking(move || Handle::current().block_on(work));
    taken
        .await
        .unwrap_or_else(|_| Err(EngineError::Unavailable { cause: "the server is stopping".to_owned() }))
}

async fn store(engine: &Engine, task: &Task, stored_at: &mut Timestamp) {
    let now = engine.now();
    if now.since(*stored_at) >= STORED_EVERY && put(engine, &task.id, Some(task.document())).await.is_ok() {
        *stored_at = now;
    }
}

fn missing(engine: &Engine, task: &Task) -> &'static str {
    match engine.queue_by_id(task.order.source) {
        Some(_) => "the queue to move to does not exist",
        None => "the queue to move from was deleted",
    }
}
