//! What the server shows of itself: store, samples, alarms, settings, the audit log, and who asks.

use std::sync::Arc;

use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::work::render;
use crate::alarms::Alarm;
use crate::error::{ApiError, answer};
use crate::peers::Span;

/// Entries of a page that does not say.
const LIMIT_USUAL: u64 = 100;
/// How far samples look back that do not say.
const SECONDS_USUAL: u64 = 300;

/// `GET /store`.
pub(super) async fn store(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let damaged = cx.console.settings.upkeep.damaged_records();
    let work = move || async move {
        let (live, dead) = match &running.store_bytes {
            Some(bytes) => bytes(),
            None => (0, 0),
        };
        let tally = running.engine.tally();
        Ok(json!({
            "kind": running.place.kind,
            "place": running.place.text,
            "queues": running.engine.queue_count(),
            "live_bytes": live,
            "dead_bytes": dead,
            "sent": tally.sent,
            "leased": tally.leased,
            "acked": tally.acked,
            "expired": tally.expired,
            "deduplicated": tally.deduplicated,
            "dead_lettered": tally.dead_lettered,
            "dropped": tally.dropped,
            "damaged_records": damaged,
        }))
    };
    Ok(answer(StatusCode::OK, &cx.console.work.run(work).await?))
}

/// `GET /queues/{q}/samples`.
pub(super) async fn samples(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?.id;
    let seconds = cx.query.whole("seconds").unwrap_or(SECONDS_USUAL);
    let (step, samples) = (cx.query.whole("step"), Arc::clone(&cx.console.looks.samples));
    let span = Span { queue, seconds, step };
    let shown = cx.console.peers.samples(&running, &samples, span).await;
    let shown = shown.ok_or_else(|| {
        ApiError::unavailable("the node that keeps the queue does not answer: try again").retry_after(1)
    })?;
    render(move || Value::clone(&shown)).await
}

/// `GET /alarms`.
pub(super) async fn alarms(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let looks = Arc::clone(&cx.console.looks);
    let shown = |alarm: &Alarm| {
        json!({
            "name": &*alarm.rule.name,
            "queue": alarm.queue.as_deref(),
            "metric": alarm.rule.metric.name(),
            "state": if alarm.is_firing { "firing" } else { "ok" },
            "since_ms": alarm.since.0,
            "value": alarm.value,
            "bound": alarm.rule.above,
            "for_seconds": alarm.rule.lasting.as_secs(),
        })
    };
    render(move || {
        let alarms: Vec<Value> = looks.alarms.all().iter().map(shown).collect();
        json!({ "alarms": alarms })
    })
    .await
}

/// `GET /config`.
pub(super) fn config(cx: &Context<'_>) -> Reply {
    let settings = cx.console.settings.shown.iter();
    let settings: Vec<Value> = settings
        .map(
            |one| json!({ "section": one.section, "key": one.key, "value": one.value, "origin": one.origin }),
        )
        .collect();
    answer(StatusCode::OK, &json!({ "settings": settings }))
}

/// `GET /audit`.
pub(super) async fn audit(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let limit = usize::try_from(cx.query.whole("limit").unwrap_or(LIMIT_USUAL)).unwrap_or(usize::MAX);
    let number =
        |text: &str| text.parse().map_err(|_| ApiError::bad_request("cursor is not one of this API"));
    let before = cx.query.text("cursor").map(number).transpose()?;
    let mut page = cx.console.audit.page(before, limit.saturating_add(1));
    let has_more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| has_more).map(|entry| entry.number.to_string());
    let shown = |entry: &Arc<crate::AuditEntry>| {
        json!({
            "at_ms": entry.at.0,
            "who": entry.who,
            "action": entry.action,
            "target": entry.target,
            "outcome": entry.outcome,
            "times": entry.times,
        })
    };
    render(move || {
        let entries: Vec<Value> = page.iter().map(shown).collect();
        json!({ "entries": entries, "next": next })
    })
    .await
}

/// `GET /session`.
pub(super) fn session(cx: &Context<'_>) -> Reply {
    let csrf = cx.caller.session.as_ref().map(|session| session.csrf.as_str());
    let body = json!({ "user": cx.caller.name, "role": cx.caller.role.name(), "csrf": csrf });
    answer(StatusCode::OK, &body)
}
