//! The leases of a queue, counted by who holds them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::command::{Browse, StateKind};
use kew_core::event::Tag;
use kew_core::{Sequence, State, Timestamp};
use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::browse::instant;
use crate::error::{ApiError, answer};

/// Consumers of one reply, those with the most leases. Each is a text of at most 16 bytes that a client may choose.
const CONSUMERS_MAX: usize = 100;

/// A lease: when it was taken, if that is known, and when it ends.
type Lease = (Option<Timestamp>, Timestamp);

/// `GET /queues/{q}/leases`. No body is read into the reply, and one request looks at a bounded number of messages.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let browse = Browse { state: Some(StateKind::InFlight), ..Browse::of(queue.id, 1) };
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        let leases = RefCell::new(BTreeMap::<Sequence, Lease>::new());
        let page = engine
            .browse(browse, |seen| {
                if let State::Leased { until } = seen.message.state {
                    leases.borrow_mut().insert(seen.message.sequence, (seen.leased_at, until));
                }
                // Counted and let go: nothing else of it is kept.
                false
            })
            .await?;
        let leases = leases.into_inner();
        let since = leases.iter().map(|(sequence, (since, _))| (*sequence, *since)).collect();
        let holders = engine.holders(queue.id, since).await?;
        Ok(answer(StatusCode::OK, &written(&leases, &holders, page.next.is_none())))
    };
    cx.console.work.run(work).await
}

/// What one consumer holds.
struct Held<'h> {
    by: &'h str,
    leases: u64,
    since: Option<Timestamp>,
    until: Timestamp,
}

fn written(
    leases: &BTreeMap<Sequence, Lease>,
    holders: &BTreeMap<Sequence, Tag>,
    counted_all: bool,
) -> Value {
    let mut held = BTreeMap::<&str, Held<'_>>::new();
    for (sequence, (since, until)) in leases {
        let by = holders.get(sequence).map_or("", Tag::as_str);
        let first = Held { by, leases: 0, since: *since, until: *until };
        let of_consumer = held.entry(by).or_insert(first);
        of_consumer.leases += 1;
        of_consumer.since = [of_consumer.since, *since].into_iter().flatten().min();
        of_consumer.until = of_consumer.until.min(*until);
    }
    let mut consumers: Vec<Held<'_>> = held.into_values().collect();
    consumers.sort_by_key(|held| std::cmp::Reverse(held.leases));
    let shown = |held: &Held<'_>| {
        json!({
            "by": (!held.by.is_empty()).then_some(held.by),
            "leases": held.leases,
            "since_ms": held.since.and_then(instant),
            "until_ms": instant(held.until),
        })
    };
    json!({
        "consumers": consumers.iter().take(CONSUMERS_MAX).map(shown).collect::<Vec<_>>(),
        "leases": leases.len(),
        "counted_all": counted_all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_counted_by_holder_those_with_the_most_first() {
        let lease = |since: u64, until: u64| (Some(Timestamp(since)), Timestamp(until));
        let leases = BTreeMap::from([
            (Sequence(1), lease(5, 90)),
            (Sequence(2), lease(3, 80)),
            (Sequence(3), lease(4, 70)),
            (Sequence(4), (None, Timestamp::NEVER)),
        ]);
        let holders = BTreeMap::from([
            (Sequence(1), Tag::new("anna")),
            (Sequence(2), Tag::new("bert")),
            (Sequence(3), Tag::new("bert")),
        ]);
        let expected = json!({
            "consumers": [
                { "by": "bert", "leases": 2, "since_ms": 3, "until_ms": 70 },
                { "by": null, "leases": 1, "since_ms": null, "until_ms": null },
                { "by": "anna", "leases": 1, "since_ms": 5, "until_ms": 90 },
            ],
            "leases": 4,
            "counted_all": true,
        });
        assert_eq!(written(&leases, &holders, true), expected);
    }

    #[test]
    fn a_reply_tells_of_a_bounded_number_of_consumers() {
        let all = |number: u64| (Sequence(number), (None, Timestamp(number)));
        let leases: BTreeMap<_, _> = (0..500).map(all).collect();
        let holders = (0..500).map(|number| (Sequence(number), Tag::new(&number.to_string()))).collect();
        let shown = written(&leases, &holders, false);
        assert_eq!(shown["consumers"].as_array().map(Vec::len), Some(CONSUMERS_MAX));
        assert_eq!((&shown["leases"], &shown["counted_all"]), (&json!(500), &json!(false)));
    }
}
