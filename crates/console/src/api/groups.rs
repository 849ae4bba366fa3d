//! What holds messages of a queue back: groups that are locked, and deduplication ids whose windows are open.

use std::sync::Arc;

use kew_core::command::Groups;
use kew_core::outcome::SeenGroup;
use kew_core::{DeduplicationId, DeduplicationScope, GroupId, QueueKind, Text};
use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::browse::instant;
use crate::error::{ApiError, answer};

/// Groups of a page that does not say.
const LIMIT_USUAL: u64 = 100;
/// Groups that one request looks at.
const LOOK_MAX: u32 = 20_000;

/// `GET /queues/{q}/groups`.
pub(super) async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?.id;
    let number =
        |text: &str| text.parse().map_err(|_| ApiError::bad_request("cursor is not one of this API"));
    let groups = Groups {
        queue,
        from: cx.query.text("cursor").map(number).transpose()?.unwrap_or_default(),
        prefix: Text::from(cx.query.text("prefix").unwrap_or_default()),
        max: u32::try_from(cx.query.whole("limit").unwrap_or(LIMIT_USUAL)).unwrap_or(u32::MAX),
        look_max: LOOK_MAX,
    };
    let engine = Arc::clone(&running.engine);
    let page = cx.console.work.run(move || async move { Ok(engine.groups(groups).await?) }).await?;
    let shown = |seen: &SeenGroup| {
        json!({
            "group": seen.group.0.as_str(),
            "waiting": seen.waiting,
            "locked_by": seen.lock.map(|lock| lock.id.to_string()),
            "locked_until_ms": seen.lock.and_then(|lock| instant(lock.until)),
        })
    };
    let groups: Vec<Value> = page.groups.iter().map(shown).collect();
    let next = page.next.map(|next| next.to_string());
    Ok(answer(StatusCode::OK, &json!({ "groups": groups, "next": next })))
}

/// `GET /queues/{q}/deduplication`.
pub(super) async fn deduplication(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let id = cx.query.text("id").filter(|id| !id.is_empty()).ok_or_else(|| {
        ApiError::bad_request(
            "id is missing: ids are kept as hashes, so one can be looked up and none listed",
        )
    })?;
    let group = cx.query.text("group");
    let is_by_group = matches!(queue.policy.kind, QueueKind::Fifo { scope: DeduplicationScope::Group, .. });
    if is_by_group && group.is_none() {
        return Err(ApiError::bad_request("group is missing: on this queue an id counts in one group"));
    }
    // Elsewhere an id counts in all groups.
    let within = group.filter(|_| is_by_group).map(|group| GroupId(Text::from(group)));
    let (engine, wanted) = (Arc::clone(&running.engine), DeduplicationId(Text::from(id)));
    let work = move || async move { Ok(engine.first_send(queue.id, wanted, within).await?) };
    let first = cx.console.work.run(work).await?;
    let shown = first.map(|first| {
        json!({
            "deduplication_id": id,
            "group": group.filter(|_| is_by_group),
            "message": first.id.to_string(),
            "until_ms": first.until.0,
        })
    });
    let ids: Vec<Value> = shown.into_iter().collect();
    Ok(answer(StatusCode::OK, &json!({ "ids": ids, "next": null })))
}
