//! Messages as an operator looks at them: in every state, of every kind of queue, without consuming any.

use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::command::Browse;
use kew_core::event::Tag;
use kew_core::outcome::{Page, Seen};
use kew_core::{MoveReason, Sequence, State, Timestamp};
use kew_http::{Reply, StatusCode};
use serde_json::{Map, Value, json};

use super::Context;
use super::messages::put_content;
use super::names::Home;
use super::wanted::Wanted;
use crate::error::{ApiError, answer};
use crate::{Console, MessageNotes};

/// Messages of a page that does not say.
const LIMIT_USUAL: u64 = 100;

/// `GET /queues/{q}/messages`.
pub(super) async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let from = cx.query.text("cursor").map(sequence).transpose()?.unwrap_or_default();
    let limit = u32::try_from(cx.query.whole("limit").unwrap_or(LIMIT_USUAL)).unwrap_or(u32::MAX);
    let Wanted { browse, filter } = Wanted::of(&cx.query, queue.id, running.engine.now())?;
    let browse = Browse { from, max: limit, ..browse };
    let engine = Arc::clone(&running.engine);
    let console = cx.console.clone();
    let work = move || async move {
        let page = engine.browse(browse, |seen| filter.fits(&seen.message.content)).await?;
        let holders = engine.holders(queue.id, leased(&page.messages)).await?;
        Ok(written(&console, &page, &holders))
    };
    cx.console.work.run(work).await
}

/// A page of messages; megabytes of them are not written on the admin thread.
fn written(console: &Console, page: &Page, holders: &BTreeMap<Sequence, Tag>) -> Reply {
    let (home, notes) = (console.home(), &*console.settings.notes);
    let shown = |seen: &Seen| {
        let mut row = row(seen, &home, notes);
        if let Some(by) = holders.get(&seen.message.sequence) {
            put_holder(&mut row, by);
        }
        Value::Object(row)
    };
    let messages: Vec<Value> = page.messages.iter().map(shown).collect();
    let next = page.next.map(|next| next.0.to_string());
    answer(StatusCode::OK, &json!({ "messages": messages, "next": next }))
}

/// The messages that are leased, each with when its lease was taken.
pub(super) fn leased(seen: &[Seen]) -> BTreeMap<Sequence, Option<Timestamp>> {
    let is_leased = |seen: &&Seen| matches!(seen.message.state, State::Leased { .. });
    seen.iter().filter(is_leased).map(|seen| (seen.message.sequence, seen.leased_at)).collect()
}

/// Says who holds the lease of a message.
pub(super) fn put_holder(row: &mut Map<String, Value>, by: &Tag) {
    if let Some(Value::Object(lease)) = row.get_mut("lease")
        && !by.is_empty()
    {
        lease.insert("by".to_owned(), by.as_str().into());
    }
}

pub(super) fn sequence(cursor: &str) -> Result<Sequence, ApiError> {
    let malformed = |_| ApiError::bad_request("cursor is not one of this API");
    cursor.parse().map(Sequence).map_err(malformed)
}

/// What a message is doing, in the words of the API, and until when.
pub(super) fn state_of(state: &State) -> (&'static str, Option<Timestamp>) {
    match *state {
        State::Ready => ("visible", None),
        State::Delayed { until } => ("delayed", Some(until)),
        State::Leased { until } => ("in_flight", Some(until)),
    }
}

/// What every look shows of a message.
pub(super) fn row(seen: &Seen, home: &Home<'_>, notes: &dyn MessageNotes) -> Map<String, Value> {
    let message = &seen.message;
    let (state, until) = state_of(&message.state);
    let until = until.and_then(instant);
    let is_leased = matches!(message.state, State::Leased { .. });
    let lease = is_leased
        .then(|| json!({ "by": null, "since_ms": seen.leased_at.and_then(instant), "until_ms": until }));
    let origin = message.origin.as_ref();
    let reason = origin.map(|origin| match origin.reason {
        MoveReason::AttemptsExhausted => "attempts_exhausted",
        MoveReason::Redriven => "redriven",
    });
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    put("id", message.id.to_string().into());
    put("sequence", message.sequence.0.into());
    put("state", state.into());
    put("readable", seen.is_readable.into());
    put("attempts", message.attempts.into());
    put("sent_at_ms", message.sent_at.0.into());
    put("visible_at_ms", until.into());
    put("expires_at_ms", message.expires_at.and_then(instant).into());
    put("lease", lease.into());
    put("group", message.group.as_ref().map(|group| group.0.as_str()).into());
    put("deduplication_id", message.deduplication.as_ref().map(|id| id.0.as_str()).into());
    put("origin", origin.map(|origin| home.text(&origin.queue)).into());
    put("reason", reason.into());
    put_content(&mut row, &message.content, notes);
    row
}

/// Milliseconds of an instant that will come; none of one that will not.
pub(super) fn instant(at: Timestamp) -> Option<u64> {
    (at != Timestamp::NEVER).then_some(at.0)
}
