//! What an operator does to one message, whatever its receipts are, and to the deliveries of a queue.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{LeaseToken, MessageId, Queue};
use kew_engine::{Engine, EngineError};
use kew_http::{Reply, StatusCode};
use serde_json::json;

use super::Context;
use super::browse::{instant, state_of};
use super::locate::{Cursor, Located, locate, message_id};
use super::queues;
use crate::error::{ApiError, answer};

/// What is done to a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Delete,
    Release,
    Extend,
    Promote,
}

/// What a message is doing after an act, and until when.
type Done = (&'static str, Option<u64>);

/// `POST /queues/{q}/messages/{id}/…`.
pub(super) async fn act(cx: &Context<'_>, act: Act) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let id = message_id(cx.parts.get(1).map_or("", String::as_str))?;
    let cursor = cx.body.text("cursor").map(Cursor::read).transpose()?;
    let length = Duration::from_secs(cx.body.whole("seconds").unwrap_or_default());
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        match locate(&engine, Some(&queue), id, cursor).await? {
            Located::Here { seen, .. } => {
                let done = perform(&engine, act, seen.token, length).await?;
                Ok(now_true(&engine, &queue, (id, cursor), done).await)
            }
            Located::Unfinished(cursor) => Err(ApiError::conflict("search_unfinished", unfinished(cursor))),
            Located::Gone { .. } | Located::Missing => {
                let message = format!("the queue has no message {id}");
                Err(ApiError::new(StatusCode::NOT_FOUND, "message_not_found", message))
            }
        }
    };
    let (state, until) = cx.console.work.run(work).await?;
    Ok(answer(StatusCode::OK, &json!({ "id": id.to_string(), "state": state, "until_ms": until })))
}

fn unfinished(cursor: Cursor) -> String {
    format!(
        "the message was not found so far in a long queue: send \"cursor\":\"{}\" to go on",
        cursor.text()
    )
}

async fn perform(
    engine: &Engine,
    act: Act,
    token: LeaseToken,
    length: Duration,
) -> Result<Done, EngineError> {
    match act {
        Act::Delete => engine.delete_message(token).await.map(|()| ("gone", None)),
        Act::Release => engine.release_message(token).await.map(|_| ("visible", None)),
        Act::Extend => engine.extend_message(token, length).await.map(|until| ("in_flight", instant(until))),
        Act::Promote => engine.promote_message(token).await.map(|()| ("visible", None)),
    }
}

/// What the message is doing now: its last attempt may have been ended, and the end of a lease may be this instant.
async fn now_true(
    engine: &Engine,
    queue: &Arc<Queue>,
    (id, cursor): (MessageId, Option<Cursor>),
    done: Done,
) -> Done {
    if done.0 == "gone" {
        return done;
    }
    match locate(engine, Some(queue), id, cursor).await {
        Ok(Located::Here { seen, .. }) => {
            let (state, until) = state_of(&seen.message.state);
            (state, until.and_then(instant))
        }
        Ok(Located::Gone { .. } | Located::Missing) => ("gone", None),
        // It was there a moment ago, and the act is done.
        Ok(Located::Unfinished(_)) | Err(_) => done,
    }
}

/// `POST /queues/{q}/pause` and `/resume`.
pub(super) async fn set_paused(cx: &Context<'_>, paused: bool) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?.id;
    let engine = Arc::clone(&running.engine);
    let work = move || async move { Ok(engine.set_paused(queue, paused).await?) };
    let changed = cx.console.work.run(work).await?;
    queues::shown(cx, StatusCode::OK, &changed).await
}
