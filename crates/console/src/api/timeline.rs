//! One message with what happened to it, in words and as events.

use std::collections::BTreeSet;
use std::sync::Arc;

use kew_core::event::Tag;
use kew_core::outcome::Seen;
use kew_core::{Event, EventKind, Failure, MessageId, QueueId, Sequence, Timestamp, why};
use kew_engine::Engine;
use kew_http::{Reply, StatusCode};
use serde_json::{Map, Value, json};

use super::Context;
use super::browse::{instant, put_holder, row};
use super::locate::{Cursor, Located, locate, message_id};
use super::names::Home;
use crate::Console;
use crate::board::Running;
use crate::error::{ApiError, answer};
use crate::peers::Taken;

/// `GET /queues/{q}/messages/{id}`.
pub(super) async fn show_in_queue(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    show(cx, Some(queue)).await
}

/// `GET /messages/{id}`.
pub(super) async fn show_anywhere(cx: &Context<'_>) -> Result<Reply, ApiError> {
    show(cx, None).await
}

async fn show(cx: &Context<'_>, only: Option<Arc<kew_core::Queue>>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let id = message_id(cx.parts.last().map_or("", String::as_str))?;
    let cursor = cx.query.text("cursor").map(Cursor::read).transpose()?;
    let console = cx.console.clone();
    let work = move || async move {
        let located = locate(&running.engine, only.as_ref(), id, cursor).await?;
        written(&console, &running, id, located).await
    };
    cx.console.work.run(work).await
}

/// A message that was looked for; a megabyte of it is not written on the admin thread.
async fn written(
    console: &Console,
    running: &Running,
    id: MessageId,
    located: Located,
) -> Result<Reply, ApiError> {
    let (home, engine) = (console.home(), &*running.engine);
    let (mut shown, queue, events) = match located {
        Located::Here { queue, seen, mut events } => {
            if let Some(at) = imported(engine, &seen, &events).await? {
                let (queue, sequence) = (queue.id, seen.message.sequence);
                events.insert(0, Event { at, queue, sequence, kind: EventKind::Imported });
            }
            let mut shown = row(&seen, &home, &*console.settings.notes);
            if let Some(by) = holder(&events) {
                put_holder(&mut shown, by);
            }
            (shown, queue.id, events)
        }
        Located::Gone { queue, events } => {
            (Map::from_iter([("state".to_owned(), "gone".into())]), queue, events)
        }
        Located::Unfinished(cursor) => {
            let body = json!({ "id": id.to_string(), "state": "searching", "next": cursor.text() });
            return Ok(answer(StatusCode::ACCEPTED, &body));
        }
        Located::Missing => {
            let message = format!("no message {id} is there, and the history does not know it");
            return Err(ApiError::new(StatusCode::NOT_FOUND, "message_not_found", message));
        }
    };
    let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    put("id", id.to_string().into());
    put("queue", queue_name(engine, &home, queue).into());
    let taken = console.peers.taken(running, &console.settings.store_syncs, queue).await;
    put("timeline", timeline(&events, taken, engine, &home));
    put("why", redeliveries(&events));
    Ok(answer(StatusCode::OK, &Value::Object(shown)))
}

/// When a message was imported, if the history does not hold its beginning for that reason.
async fn imported(engine: &Engine, seen: &Seen, events: &[Event]) -> Result<Option<Timestamp>, ApiError> {
    let is_beginning =
        |event: &Event| matches!(event.kind, EventKind::Sent { .. } | EventKind::Arrived { .. });
    if events.first().is_some_and(is_beginning) {
        return Ok(None);
    }
    Ok(engine.imported_at().await?.filter(|at| seen.message.sent_at <= *at))
}

/// Who took the newest lease.
fn holder(events: &[Event]) -> Option<&Tag> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::Leased { by, .. } => Some(by),
        _ => None,
    })
}

fn queue_name(engine: &Engine, home: &Home<'_>, queue: QueueId) -> Option<String> {
    engine.queue_by_id(queue).map(|queue| home.text(&queue.key))
}

/// Why it was delivered again, for each time it was.
fn redeliveries(events: &[Event]) -> Value {
    let sentence = |again: &why::Redelivery| json!({ "at_ms": again.at.0, "attempts": again.attempts, "because": again.because });
    why::redeliveries(events).iter().map(sentence).collect()
}

/// The events in words. Where the shard of the queue was `taken` by another node while the message was leased, that is
/// said too: nothing was written of it.
fn timeline(events: &[Event], taken: Option<Taken>, engine: &Engine, home: &Home<'_>) -> Value {
    // A move is shown by the queue that it left, unless that is forgotten.
    let departures: BTreeSet<(QueueId, Sequence)> = events
        .iter()
        .filter_map(|event| event.moved_to().map(|to| [(event.queue, event.sequence), to]))
        .flatten()
        .collect();
    let is_told = |event: &&Event| event.came_from().is_none_or(|from| !departures.contains(&from));
    let name = |queue| queue_name(engine, home, queue);
    let mut entries: Vec<Value> = events
        .iter()
        .filter(is_told)
        .map(|event| Value::Object(entry(event, through(event, events), &name)))
        .collect();
    if let Some(Taken { at, node }) = taken.filter(|taken| is_leased_at(events, taken.at)) {
        let place = events.iter().filter(is_told).take_while(|event| event.at <= at).count();
        let detail = "the lease goes on";
        let entry =
            json!({ "at_ms": at.0, "event": "taken_over", "by": node, "reason": "shard", "detail": detail });
        entries.insert(place.min(entries.len()), entry);
    }
    entries.into()
}

/// The queue that a move leads to. Between two shards that is where the message arrived from the place that it left
/// for. On its way it leads to that place, which is in no list.
fn through(event: &Event, events: &[Event]) -> Option<QueueId> {
    let to = event.moved_to()?;
    let arrival = events.iter().find(|arrival| arrival.came_from() == Some(to));
    Some(arrival.map_or(to.0, |arrival| arrival.queue))
}

/// Whether a lease that ends by itself went on at an instant.
fn is_leased_at(events: &[Event], at: Timestamp) -> bool {
    let until =
        events.iter().take_while(|event| event.at <= at).fold(None, |until, event| match event.kind {
            EventKind::Leased { until, .. } | EventKind::Extended { until } => Some(until),
            EventKind::Failed { .. } | EventKind::Rewritten | EventKind::Imported => until,
            _ => None,
        });
    until.is_some_and(|until| until > at && until != Timestamp::NEVER)
}

/// One event; what is not known is left out.
fn entry(
    event: &Event,
    to: Option<QueueId>,
    name: &impl Fn(QueueId) -> Option<String>,
) -> Map<String, Value> {
    let Told { word, by, until, reason, detail } = told_of(event, to, name);
    let by = by.filter(|by| !by.is_empty()).map(Value::from);
    let detail = detail.filter(|detail| !detail.is_empty()).map(Value::from);
    let all = [
        ("at_ms", Some(event.at.0.into())),
        ("event", Some(word.into())),
        ("queue", name(event.queue).map(Value::from)),
        ("by", by),
        ("until_ms", until.map(Value::from)),
        ("reason", reason.map(Value::from)),
        ("detail", detail),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// What is said of an event.
fn told_of(event: &Event, to: Option<QueueId>, name: &impl Fn(QueueId) -> Option<String>) -> Told {
    let later = |until: Timestamp| instant(until).filter(|until| *until > event.at.0);
    let named = |queue| {
        name(queue).unwrap_or_else(|| "a queue that is deleted, or that it has not reached yet".to_owned())
    };
    let to = || format!("to {}", to.map_or_else(String::new, named));
    match event.kind {
        EventKind::Sent { visible_at, .. } => Told { until: later(visible_at), ..told("sent") },
        EventKind::Leased { by, until, attempts } => Told {
            by: Some(by.as_str().to_owned()),
            until: instant(until),
            detail: Some(format!("attempt {attempts}")),
            ..told("leased")
        },
        EventKind::Lapsed { visible_at } => {
            Told { until: later(visible_at), reason: Some("expired"), ..told("lease_ended") }
        }
        EventKind::Extended { until } => Told { until: instant(until), ..told("extended") },
        EventKind::Released { visible_at } => Told { until: later(visible_at), ..told("released") },
        EventKind::Failed { why: Failure::PutAside, ref detail } => {
            Told { detail: Some(format!("to {}", detail.as_str())), ..failed(Failure::PutAside) }
        }
        EventKind::Failed { why, ref detail } => {
            Told { detail: Some(detail.as_str().to_owned()), ..failed(why) }
        }
        EventKind::Promoted => told("promoted"),
        EventKind::Rewritten => told("rewritten"),
        EventKind::Acked => told("acked"),
        EventKind::Imported => told("imported"),
        EventKind::Expired => told("expired"),
        EventKind::Purged => {
            Told { reason: event.deletes_queue().then_some("queue_deleted"), ..told("purged") }
        }
        EventKind::Dropped => Told { reason: Some("attempts_exhausted"), ..told("dropped") },
        EventKind::DeadLettered { .. } => {
            Told { reason: Some("attempts_exhausted"), detail: Some(to()), ..told("dead_lettered") }
        }
        EventKind::Redriven { .. } => Told { detail: Some(to()), ..told("moved") },
        EventKind::Arrived { from, .. } => {
            Told { detail: Some(format!("from {}", named(from))), ..told("moved") }
        }
    }
}

struct Told {
    word: &'static str,
    by: Option<String>,
    until: Option<u64>,
    reason: Option<&'static str>,
    detail: Option<String>,
}

fn told(word: &'static str) -> Told {
    Told { word, by: None, until: None, reason: None, detail: None }
}

fn failed(why: Failure) -> Told {
    match why {
        Failure::Retried => told("retried"),
        Failure::Threw => Told { reason: Some("threw"), ..told("failed") },
        Failure::Status => Told { reason: Some("status"), ..told("failed") },
        Failure::Unreachable => Told { reason: Some("unreachable"), ..told("failed") },
        Failure::OwnerGone => told("taken_over"),
        Failure::TimedOut => Told { reason: Some("timed_out"), ..told("failed") },
        Failure::PutAside => Told { reason: Some("put_aside"), ..told("dead_lettered") },
        Failure::BadReply => Told { reason: Some("bad_reply"), ..told("failed") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_that_was_ended_or_had_ended_does_not_go_on() {
        let at = |second: u64, kind: EventKind| Event {
            at: Timestamp(second * 1_000),
            queue: QueueId(1),
            sequence: Sequence(1),
            kind,
        };
        let leased = at(10, EventKind::Leased { by: Tag::default(), until: Timestamp(40_000), attempts: 1 });
        let extended = at(20, EventKind::Extended { until: Timestamp(90_000) });
        let acked = at(30, EventKind::Acked);
        let is_leased = |events: &[&Event], second: u64| {
            let events: Vec<Event> = events.iter().map(|event| (*event).clone()).collect();
            is_leased_at(&events, Timestamp(second * 1_000))
        };
        assert!(!is_leased(&[&leased], 9) && is_leased(&[&leased], 10) && is_leased(&[&leased], 39));
        assert!(!is_leased(&[&leased], 40));
        assert!(is_leased(&[&leased, &extended], 89) && !is_leased(&[&leased, &extended], 90));
        assert!(
            is_leased(&[&leased, &extended, &acked], 29) && !is_leased(&[&leased, &extended, &acked], 30)
        );
        let endless = at(10, EventKind::Leased { by: Tag::default(), until: Timestamp::NEVER, attempts: 1 });
        assert!(!is_leased(&[&endless], 11), "the ledger itself says what became of it");
    }
}
