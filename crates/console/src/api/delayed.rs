//! When delayed messages become visible, counted: by the minute for an hour, by the hour for two days, then by the day.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::command::{Browse, StateKind};
use kew_core::{State, Timestamp};
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
    let from = cx.query.text("cursor").map(sequence).transpose()?.unwrap_or_default();
    let browse = Browse { from, state: Some(StateKind::Delayed), ..Browse::of(queue.id, 1) };
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        let (now, slots) = (engine.now(), RefCell::new(Slots::new()));
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
        Ok(written(&slots.into_inner(), page.next.map(|next| next.0.to_string())))
    };
    cx.console.work.run(work).await
}

/// The slot that an instant is in, seen from now.
fn slot(at_ms: u64, now_ms: u64) -> (u64, u64) {
    let length = match at_ms.saturating_sub(now_ms) {
        0..HOUR_MS => MINUTE_MS,
        HOUR_MS..172_800_000 => HOUR_MS,
        _ => DAY_MS,
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
    fn slots_are_the_longer_the_later_they_are() {
        let now = 10 * DAY_MS + 30_000;
        for (at, expected) in [
            (now, (10 * DAY_MS, 10 * DAY_MS + MINUTE_MS)),
            (now + 30_000, (10 * DAY_MS + MINUTE_MS, 10 * DAY_MS + 2 * MINUTE_MS)),
            (now + HOUR_MS, (10 * DAY_MS + HOUR_MS, 10 * DAY_MS + 2 * HOUR_MS)),
            (now + 2 * DAY_MS, (12 * DAY_MS, 13 * DAY_MS)),
        ] {
            assert_eq!(slot(at, now), expected, "{at}");
        }
    }

    #[test]
    fn slots_are_bounded_and_no_message_is_left_out() {
        let mut slots = Slots::new();
        (0..2 * SLOTS_MAX as u64).for_each(|day| note(&mut slots, (day, day + 1)));
        assert_eq!((slots.len(), slots.values().sum::<u64>()), (SLOTS_MAX, 2 * SLOTS_MAX as u64));
    }
}
