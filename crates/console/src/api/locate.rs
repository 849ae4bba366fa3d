//! Where a message is that is named by its id alone.
//!
//! The history knows where a message was sent and moved to, which needs no search. What the history has forgotten is
//! searched for in one queue or in all; the work of one request is bounded, and a cursor says where to go on.

use std::sync::Arc;

use kew_core::command::Browse;
use kew_core::outcome::Seen;
use kew_core::{Event, MessageId, Queue, QueueId, RuleError, Sequence};
use kew_engine::{Engine, EngineError, Search};
use kew_http::hex;

use crate::error::ApiError;

/// Queues that one request searches.
const QUEUES_MAX: usize = 500;
/// When this number of messages was looked at, the search pauses.
const MESSAGES_MAX: u64 = 100_000;

/// What became of a search.
pub(super) enum Located {
    /// It is there.
    Here { queue: Arc<Queue>, seen: Box<Seen>, events: Vec<Event> },
    /// It is gone; where it was last, and what happened to it.
    Gone { queue: QueueId, events: Vec<Event> },
    /// It was not found so far.
    Unfinished(Cursor),
    /// It is in no queue, and the history does not know it.
    Missing,
}

/// Where a search goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    queue: QueueId,
    from: Sequence,
}

impl Cursor {
    pub(super) fn read(text: &str) -> Result<Self, ApiError> {
        let parts =
            text.split_once('-').and_then(|(queue, from)| Some((queue.parse().ok()?, from.parse().ok()?)));
        let (queue, from) = parts.ok_or_else(|| ApiError::bad_request("cursor is not one of this API"))?;
        Ok(Self { queue: QueueId(queue), from: Sequence(from) })
    }

    pub(super) fn text(self) -> String {
        format!("{}-{}", self.queue.0, self.from.0)
    }
}

/// An id in either spelling: as a UUID, or as 32 hex digits.
pub(super) fn message_id(text: &str) -> Result<MessageId, ApiError> {
    let malformed =
        || ApiError::bad_request("a message's id is a UUID, or its 32 hex digits without hyphens");
    let has_hyphens = text.len() == 36
        && text.char_indices().all(|(at, one)| (one == '-') == matches!(at, 8 | 13 | 18 | 23));
    let digits: String = if has_hyphens { text.replace('-', "") } else { text.to_owned() };
    hex::sixteen(&digits).map(MessageId).ok_or_else(malformed)
}

/// Finds a message, in one queue or in all.
pub(super) async fn locate(
    engine: &Engine,
    only: Option<&Arc<Queue>>,
    id: MessageId,
    cursor: Option<Cursor>,
) -> Result<Located, ApiError> {
    if cursor.is_none()
        && let Some((queue, sequence)) = engine.sent_to(id).await?
    {
        return remembered(engine, only, queue, sequence).await;
    }
    let (queue, seen) = match search(engine, only, id, cursor).await? {
        Searched::Found(queue, seen) => (queue, seen),
        Searched::Unfinished(cursor) => return Ok(Located::Unfinished(cursor)),
        Searched::Missing => return Ok(Located::Missing),
    };
    let events = engine.timeline(queue.id, seen.message.sequence).await?;
    Ok(Located::Here { queue, seen, events })
}

/// A message whose way the history knows.
async fn remembered(
    engine: &Engine,
    only: Option<&Arc<Queue>>,
    queue: QueueId,
    sequence: Sequence,
) -> Result<Located, ApiError> {
    let events = engine.timeline(queue, sequence).await?;
    let is_asked_for = |queue: QueueId| only.is_none_or(|only| only.id == queue);
    if !events.iter().any(|event| is_asked_for(event.queue)) {
        return Ok(Located::Missing);
    }
    let last = last_place(&events, (queue, sequence));
    Ok(match at(engine, last).await? {
        Some((queue, seen)) if is_asked_for(queue.id) => Located::Here { queue, seen, events },
        // Seen from a queue that it has left it is gone.
        _ => Located::Gone { queue: last.0, events },
    })
}

/// Where a message that began at one place is after all its moves. One to another shard has two events: it leaves for a
/// place between the shards, and arrives from there.
fn last_place(events: &[Event], start: (QueueId, Sequence)) -> (QueueId, Sequence) {
    let follow = |place, event: &Event| match (event.moved_to(), event.came_from()) {
        (Some(to), _) if (event.queue, event.sequence) == place => to,
        (_, Some(from)) if from == place => (event.queue, event.sequence),
        _ => place,
    };
    // Of one instant an arrival may stand before what led to it: then a second look finds it.
    let mut last = start;
    for _ in events {
        let next = events.iter().fold(last, follow);
        if next == last {
            break;
        }
        last = next;
    }
    last
}

/// The message at a place, if it is there.
async fn at(
    engine: &Engine,
    (queue, sequence): (QueueId, Sequence),
) -> Result<Option<(Arc<Queue>, Box<Seen>)>, ApiError> {
    let Some(known) = engine.find_by_id(queue)? else { return Ok(None) };
    let browse = Browse { from: sequence, ..Browse::of(queue, 1) };
    let page = match engine.browse(browse, |_| true).await {
        // It was deleted a moment ago.
        Err(EngineError::Rule(RuleError::QueueNotFound)) => return Ok(None),
        page => page?,
    };
    let first = page.messages.into_iter().next();
    Ok(first.filter(|seen| seen.message.sequence == sequence).map(|seen| (known, Box::new(seen))))
}

enum Searched {
    Found(Arc<Queue>, Box<Seen>),
    Unfinished(Cursor),
    Missing,
}

/// Looks through messages themselves.
async fn search(
    engine: &Engine,
    only: Option<&Arc<Queue>>,
    id: MessageId,
    cursor: Option<Cursor>,
) -> Result<Searched, ApiError> {
    let mut queues = only.map_or_else(|| engine.all_queues(), |queue| vec![Arc::clone(queue)]);
    queues.sort_by_key(|queue| queue.id);
    queues.retain(|queue| cursor.is_none_or(|cursor| queue.id >= cursor.queue));
    let mut looked = 0;
    for (number, queue) in queues.iter().enumerate() {
        let from =
            cursor.filter(|cursor| cursor.queue == queue.id).map_or_else(Sequence::default, |at| at.from);
        if number >= QUEUES_MAX || looked >= MESSAGES_MAX {
            return Ok(Searched::Unfinished(Cursor { queue: queue.id, from }));
        }
        let counts = engine.counts_so_far(queue.id).await;
        let found = match engine.find_message(queue.id, id, from).await {
            Err(EngineError::Rule(RuleError::QueueNotFound)) => continue,
            found => found?,
        };
        match found {
            Search::Found(seen) => return Ok(Searched::Found(Arc::clone(queue), seen)),
            Search::Unfinished(from) => return Ok(Searched::Unfinished(Cursor { queue: queue.id, from })),
            Search::Missing => looked += counts.map_or(0, |counts| counts.stored()),
        }
    }
    Ok(Searched::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_two_spellings() {
        let spelt = "01234567-89ab-4def-8123-456789abcdef";
        let id = message_id(spelt).expect("a UUID is a message id");
        assert_eq!(id.to_string(), spelt);
        for same in ["0123456789ab4def8123456789abcdef", "01234567-89AB-4DEF-8123-456789ABCDEF"] {
            assert_eq!(message_id(same).ok(), Some(id), "{same}");
        }
        let wrong =
            ["", "x", "+123456789ab4def8123456789abcdef", "0123456-789ab-4def-8123-456789abcdef", "é"];
        for text in wrong {
            assert!(message_id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cursors_are_read_as_they_are_written() {
        let cursor = Cursor { queue: QueueId(7), from: Sequence(u64::MAX) };
        assert_eq!(Cursor::read(&cursor.text()).ok(), Some(cursor));
        for wrong in ["", "7", "7-", "-7", "a-b", "1-2-3"] {
            assert!(Cursor::read(wrong).is_err(), "{wrong}");
        }
    }
}
