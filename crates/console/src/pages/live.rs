//! Live figures: server-sent events, each in a reply of its own.
//!
//! A page that watches asks for an event; the request is held until the next look at the queues (every five seconds),
//! and the browser asks again at once. So a watcher is one bounded request of the admin listener, costs nothing where
//! messages pass, and reads what the looks have gathered anyway. Pages that show the same get the same event: it is
//! written once for each look.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kew_http::{HeaderValue, Reply, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::ask::of_queue;
use super::layout::guarded;
use super::trouble::Trouble;
use super::{PageReply, Visit, queue as queue_page, queues, read, spark, text};
use crate::board::Phase;
use crate::error::ApiError;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
/// Pages that watch at once; further ones are refused and try again later.
const WATCHERS_MAX: usize = 64;
/// Events of the latest look that are kept for further pages; the oldest goes first.
const EVENTS_MAX: usize = 8;
/// A request is held for this long at most: longer than the time between two looks.
const HELD_MAX: Duration = Duration::from_secs(8);
/// How often a held request sees whether the server still serves.
const LOOKS_UP_EACH: Duration = Duration::from_millis(500);
/// When the browser asks again, in milliseconds.
const AGAIN_IN_MS: u32 = 200;

/// Places of pages that watch, and the events that were written for them.
pub(super) struct Watchers {
    places: Arc<Semaphore>,
    events: Mutex<VecDeque<(Shown, Event)>>,
}

/// What a page shows. Everyone who may look at pages sees the same figures.
#[derive(Clone, PartialEq, Eq)]
enum Shown {
    Table { prefix: String, cursor: String },
    Queue(String),
}

/// The event of one look. The first page that asks writes it; the others wait for it.
#[derive(Clone)]
struct Event {
    look: u64,
    written: Arc<OnceCell<Bytes>>,
}

impl Default for Watchers {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(WATCHERS_MAX)), events: Mutex::default() }
    }
}

impl Watchers {
    fn place(&self) -> Result<OwnedSemaphorePermit, Trouble> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| ApiError::unavailable("too many pages watch live figures").retry_after(30).into())
    }

    /// The event of what is shown at this look; those of looks before are forgotten.
    fn event(&self, look: u64, shown: &Shown) -> Event {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|(_, event)| event.look == look);
        if let Some((_, event)) = events.iter().find(|(of, _)| of == shown) {
            return event.clone();
        }
        let event = Event { look, written: Arc::default() };
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back((shown.clone(), event.clone()));
        event
    }
}

/// `GET /live/queues`: a page of the table.
pub(super) async fn queues(visit: &Visit<'_>) -> PageReply {
    let asked = |name| visit.asked(name).unwrap_or_default().to_owned();
    at_next_look(visit, Shown::Table { prefix: asked("prefix"), cursor: asked("cursor") }).await
}

/// `GET /live/queue?q=`: one queue.
pub(super) async fn queue(visit: &Visit<'_>) -> PageReply {
    at_next_look(visit, Shown::Queue(visit.asked("q").unwrap_or_default().to_owned())).await
}

async fn at_next_look(visit: &Visit<'_>, shown: Shown) -> PageReply {
    let (place, look) = next_look(visit).await?;
    let event = visit.console.pages.watchers.event(look, &shown);
    let written = event.written.get_or_try_init(|| write(visit, look, &shown)).await?;
    drop(place);
    Ok(guarded(Reply::new(StatusCode::OK, EVENTS, written.clone())))
}

async fn write(visit: &Visit<'_>, look: u64, shown: &Shown) -> Result<Bytes, Trouble> {
    match shown {
        Shown::Table { prefix, cursor } => {
            let found = queues::page_of(visit, prefix, cursor).await?;
            let rows: Vec<&Value> = read::list(&found, "queues").iter().collect();
            Ok(text_of(visit, look, &rows, json!({ "queues": names_of(&rows) })).await)
        }
        Shown::Queue(name) => {
            let found = visit.read(&of_queue(name, ""), &[]).await?;
            Ok(text_of(visit, look, &[&found], json!({ "mark": queue_page::mark(&found) })).await)
        }
    }
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

fn names_of<'v>(rows: &[&'v Value]) -> Vec<&'v str> {
    rows.iter().map(|row| read::text(row, "queue")).collect()
}

/// The figures of queues as one event. What a page compares, to tell that it shows what has changed, stands beside
/// them: a table its queues, the page of a queue its mark.
async fn text_of(visit: &Visit<'_>, look: u64, rows: &[&Value], compared: Value) -> Bytes {
    let names = names_of(rows);
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
    let mut data = json!({ "texts": texts, "points": points });
    if let (Value::Object(data), Value::Object(compared)) = (&mut data, compared) {
        data.extend(compared);
    }
    format!("retry: {AGAIN_IN_MS}\nid: {look}\ndata: {data}\n\n").into()
}
