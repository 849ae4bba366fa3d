//! Live figures: server-sent events, each in a reply of its own.
//!
//! A page that watches asks for an event; the request is held until the next look at the queues (every five seconds),
//! and the browser asks again at once. So a watcher is one bounded request of the admin listener, costs nothing where
//! messages pass, and reads what the looks have gathered anyway.

use std::sync::Arc;
use std::time::Duration;

use kew_http::{HeaderValue, Reply, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ask::of_queue;
use super::layout::guarded;
use super::trouble::Trouble;
use super::{PageReply, Visit, queues, read, spark, text};
use crate::board::Phase;
use crate::error::ApiError;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
/// Pages that watch at once; further ones are refused and try again later.
const WATCHERS_MAX: usize = 64;
/// A request is held for this long at most: longer than the time between two looks.
const HELD_MAX: Duration = Duration::from_secs(8);
/// How often a held request sees whether the server still serves.
const LOOKS_UP_EACH: Duration = Duration::from_millis(500);
/// When the browser asks again, in milliseconds.
const AGAIN_IN_MS: u32 = 200;

/// Places of pages that watch.
pub(super) struct Watchers(Arc<Semaphore>);

impl Default for Watchers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WATCHERS_MAX)))
    }
}

impl Watchers {
    fn place(&self) -> Result<OwnedSemaphorePermit, Trouble> {
        let place = Arc::clone(&self.0).try_acquire_owned();
        place.map_err(|_| ApiError::unavailable("too many pages watch live figures").retry_after(30).into())
    }
}

/// `GET /live/queues`: a page of the table.
pub(super) async fn queues(visit: &Visit<'_>) -> PageReply {
    let (place, look) = next_look(visit).await?;
    let prefix = visit.asked("prefix").unwrap_or_default();
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = queues::page_of(visit, prefix, cursor).await?;
    let rows: Vec<&Value> = read::list(&found, "queues").iter().collect();
    drop(place);
    Ok(event(visit, look, &rows, true).await)
}

/// `GET /live/queue?q=`: one queue.
pub(super) async fn queue(visit: &Visit<'_>) -> PageReply {
    let (place, look) = next_look(visit).await?;
    let shown = visit.read(&of_queue(visit.asked("q").unwrap_or_default(), ""), &[]).await?;
    drop(place);
    Ok(event(visit, look, &[&shown], false).await)
}

/// Waits until there has been a look that the page has not seen; the number of the latest.
async fn next_look(visit: &Visit<'_>) -> Result<(OwnedSemaphorePermit, u64), Trouble> {
    let place = visit.console.pages.watchers.place()?;
    let mut looks = visit.console.looks.samples.looks();
    let seen = visit.request.header("last-event-id").and_then(|id| id.parse::<u64>().ok());
    let now = *looks.borrow_and_update();
    if seen.is_some_and(|seen| seen != now) {
        return Ok((place, now));
    }
    let changed = async {
        loop {
            match tokio::time::timeout(LOOKS_UP_EACH, looks.changed()).await {
                Ok(_) => break,
                Err(_) if !matches!(visit.console.board.phase(), Phase::Serving(_)) => break,
                Err(_) => {}
            }
        }
    };
    // Without a look in that time the figures are those of before: the browser hears that we are there.
    let _in_time = tokio::time::timeout(HELD_MAX, changed).await;
    let latest = *visit.console.looks.samples.looks().borrow();
    Ok((place, latest))
}

/// The figures of queues as one event. A table says which queues it has, so that a page can tell that others are there.
async fn event(visit: &Visit<'_>, look: u64, rows: &[&Value], is_table: bool) -> Reply {
    let names: Vec<&str> = rows.iter().map(|row| read::text(row, "queue")).collect();
    let mut sparks = spark::of_queues(visit.console, &names).await;
    let (mut texts, mut points) = (Map::new(), Map::new());
    for row in rows {
        let queue = read::text(row, "queue");
        for (figure, value) in queues::figures(row) {
            texts.insert(format!("{queue}/{figure}"), value.into());
        }
        texts.insert(format!("{queue}/bytes"), text::bytes(read::whole(row, "body_bytes")).into());
        let spark = sparks.remove(queue).unwrap_or_default();
        points.insert(queue.to_owned(), spark.points.into());
    }
    let names = if is_table { json!(names) } else { Value::Null };
    let data = json!({ "texts": texts, "points": points, "queues": names });
    let body = format!("retry: {AGAIN_IN_MS}\nid: {look}\ndata: {data}\n\n");
    guarded(Reply::new(StatusCode::OK, EVENTS, body))
}
