//! When delayed messages become visible, counted: by the minute to the end of the next hour, by the hour to the end of
//! the day after next, then by the day. So no two slots overlap.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::command::{Browse, StateKind};
use kew_core::{Sequence, State, Timestamp};
use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::browse::sequence;
use crate::error::{ApiError, answer};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Slots of one reply; delays end within days, so only a clock that was set far ahead needs more.
const SLOTS_MAX: usize = 1_000;

/// Messages of each slot, by its beginning and its end.
type Slots = BTreeMap<(u64, u64), u64>;

/// `GET /queues/{q}/delayed`. No body is read into the reply, and one request looks at a bounded number of messages.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let (from, since) = cx.query.text("cursor").map(cursor).transpose()?.unwrap_or_default();
    let browse = Browse { from, state: Some(StateKind::Delayed), ..Browse::of(queue.id, 1) };
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        // The slots of further parts are those of the first.
        let (now, slots) = (since.unwrap_or_else(|| engine.now()), RefCell::new(Slots::new()));
        let count = |until: Timestamp| note(&mut slots.borrow_mut(), slot(until.0, now.0));
        let page = engine
            .browse(browse, |seen| {
                if let State::Delayed { until } = seen.message.state {
                    count(until);
                }
                // Counted and let go: nothing of it is kept.
                false
            })
            .await?;
        Ok(written(&slots.into_inner(), page.next.map(|next| format!("{}-{}", next.0, now.0))))
    };
    cx.console.work.run(work).await
}

/// Where the next part begins, and from which instant its slots are seen.
fn cursor(text: &str) -> Result<(Sequence, Option<Timestamp>), ApiError> {
    let malformed = || ApiError::bad_request("cursor is not one that a reply named as `next`");
    let (from, since) = text.split_once('-').ok_or_else(malformed)?;
    let since = since.parse().map_err(|_| malformed())?;
    Ok((sequence(from)?, Some(Timestamp(since))))
}

/// The slot that an instant is in, seen from now.
fn slot(at_ms: u64, now_ms: u64) -> (u64, u64) {
    let end_of = |length: u64, after: u64| {
        (now_ms.saturating_add(after) / length).saturating_add(1).saturating_mul(length)
    };
    let length = if at_ms < end_of(HOUR_MS, HOUR_MS) {
        MINUTE_MS
    } else if at_ms < end_of(DAY_MS, 2 * DAY_MS) {
        HOUR_MS
    } else {
        DAY_MS
    };
    let from = at_ms / length * length;
    (from, from.saturating_add(length))
}

fn note(slots: &mut Slots, slot: (u64, u64)) {
    if slots.len() < SLOTS_MAX || slots.contains_key(&slot) {
        *slots.entry(slot).or_default() += 1;
    } else if let Some(mut last) = slots.last_entry() {
        *last.get_mut() += 1;
    }
}

fn written(slots: &Slots, next: Option<String>) -> Reply {
    let messages: u64 = slots.values().sum();
    let slots: Vec<Value> = slots
        .iter()
        .map(|((from, until), messages)| json!({ "from_ms": from, "until_ms": until, "messages": messages }))
        .collect();
    answer(StatusCode::OK, &json!({ "slots": slots, "messages": messages, "next": next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_seen_from_the_last_instant_there_is_does_not_overflow() {
        assert_eq!(slot(0, u64::MAX).0, 0);
        assert!(slot(u64::MAX, u64::MAX).0 > 0);
    }

    #[test]
    fn slots_are_the_longer_the_later_they_are() {
        let now = 10 * DAY_MS + 30_000;
        for (at, expected) in [
            (now, (10 * DAY_MS, 10 * DAY_MS + MINUTE_MS)),
            (now + 30_000, (10 * DAY_MS + MINUTE_MS, 10 * DAY_MS + 2 * MINUTE_MS)),
            (now + HOUR_MS, (10 * DAY_MS + HOUR_MS, 10 * DAY_MS + HOUR_MS + MINUTE_MS)),
            (now + 2 * HOUR_MS, (10 * DAY_MS + 2 * HOUR_MS, 10 * DAY_MS + 3 * HOUR_MS)),
            (now + 2 * DAY_MS, (12 * DAY_MS, 12 * DAY_MS + HOUR_MS)),
            (now + 3 * DAY_MS, (13 * DAY_MS, 14 * DAY_MS)),
        ] {
            assert_eq!(slot(at, now), expected, "{at}");
        }
    }

    #[test]
    fn no_two_slots_overlap_at_whatever_instant_they_are_seen() {
        for now in (0..DAY_MS).step_by(7 * 60_000 + 13) {
            let mut end = 0;
            for at in (now..now + 5 * DAY_MS).step_by(60_000) {
                let (from, until) = slot(at, now);
                assert!(from <= at && at < until, "{at} is in its slot");
                assert!(until == end || from >= end, "the slot of {at} seen from {now} begins before {end}");
                end = until;
            }
        }
    }

    #[test]
    fn slots_are_bounded_and_no_message_is_left_out() {
        let mut slots = Slots::new();
        (0..2 * SLOTS_MAX as u64).for_each(|day| note(&mut slots, (day, day + 1)));
        assert_eq!((slots.len(), slots.values().sum::<u64>()), (SLOTS_MAX, 2 * SLOTS_MAX as u64));
    }
}
