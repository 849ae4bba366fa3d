//! How long consumers kept the messages that they deleted, from what the history remembers, and which visibility
//! timeout would suit that.

use std::collections::HashMap;
use std::sync::Arc;

use kew_core::{Event, EventKind, Sequence, Timestamp};
use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use crate::error::{ApiError, answer};

/// Events of the queue that are looked at.
const EVENTS_MAX: usize = 50_000;
/// Parts of the time that is shown.
const SLOTS: u64 = 12;
/// Times are counted as below one of these, in milliseconds; the last one takes all others.
const BOUNDS_MS: [u64; 10] =
    [100, 1_000, 5_000, 15_000, 30_000, 60_000, 120_000, 300_000, 900_000, 43_200_000];
/// With fewer messages nothing is suggested.
const MESSAGES_MIN: usize = 20;
/// Visibility timeouts that are suggested, in seconds.
const SUGGESTED: [u64; 13] = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 14_400, 43_200];

/// What was observed.
#[derive(Default)]
struct Observed {
    /// When a message was deleted, and for how many milliseconds its consumer had it.
    times: Vec<(Timestamp, u64)>,
    /// Leases that ended by themselves.
    lapsed: u64,
    /// Of each message that no consumer deleted after that: how many milliseconds its longest such lease lasted. So
    /// long at least a consumer would have needed.
    ran_out: HashMap<Sequence, u64>,
}

/// A lease, until its message is deleted or leased again.
struct Lease {
    since: Timestamp,
    lapsed_at: Option<Timestamp>,
}

impl Lease {
    /// For how long a consumer had a message that is deleted now; none where that is no consumer any more. A deletion
    /// that is late by more than the lease's length is an operator's.
    fn took(&self, at: Timestamp) -> Option<u64> {
        let is_late = |lapsed: Timestamp| at > lapsed.plus(lapsed.since(self.since));
        (!self.lapsed_at.is_some_and(is_late)).then(|| millis(at, self.since))
    }
}

/// `GET /queues/{q}/processing`.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        let events = engine.latest_events(queue.id, EVENTS_MAX).await?;
        let now = queue.policy.lease_length.as_secs();
        Ok(answer(StatusCode::OK, &written(&observed(&events), now)))
    };
    cx.console.work.run(work).await
}

/// Reads events, oldest first.
fn observed(events: &[Event]) -> Observed {
    let (mut leased, mut observed) = (HashMap::<Sequence, Lease>::new(), Observed::default());
    for event in events {
        let (at, sequence) = (event.at, event.sequence);
        match event.kind {
            EventKind::Leased { .. } => {
                leased.insert(sequence, Lease { since: at, lapsed_at: None });
            }
            EventKind::Acked => {
                if let Some(took) = leased.remove(&sequence).and_then(|lease| lease.took(at)) {
                    observed.times.push((at, took));
                    observed.ran_out.remove(&sequence);
                }
            }
            // A consumer may still delete it afterwards: then this is how long it took.
            EventKind::Lapsed { .. } => {
                if let Some(lease) = leased.get_mut(&sequence) {
                    lease.lapsed_at = Some(at);
                    observed.lapsed += 1;
                    let longest = observed.ran_out.entry(sequence).or_default();
                    *longest = millis(at, lease.since).max(*longest);
                }
            }
            EventKind::Rewritten => {}
            EventKind::Extended { until } if until > at => {}
            _ => {
                leased.remove(&sequence);
            }
        }
    }
    observed
}

fn millis(at: Timestamp, since: Timestamp) -> u64 {
    u64::try_from(at.since(since).as_millis()).unwrap_or(u64::MAX)
}

fn written(observed: &Observed, visibility_seconds: u64) -> Value {
    let mut times: Vec<u64> = observed.times.iter().map(|(_, took)| *took).collect();
    times.sort_unstable();
    json!({
        "messages": times.len(),
        "lapsed": observed.lapsed,
        "p50_ms": quantile(&times, 50),
        "p99_ms": quantile(&times, 99),
        "visibility_seconds": visibility_seconds,
        "suggested_seconds": suggestion(&observed.ran_out, times.clone()),
        "bounds_ms": BOUNDS_MS,
        "slots": slots(&observed.times),
    })
}

/// What is suggested once enough was observed. Without the leases that ran out only the fast consumers would count.
fn suggestion(ran_out: &HashMap<Sequence, u64>, mut times: Vec<u64>) -> Option<u64> {
    times.extend(ran_out.values());
    times.sort_unstable();
    quantile(&times, 99).filter(|_| times.len() >= MESSAGES_MIN).map(suggested)
}

/// The time that this share of all did not exceed; `times` are sorted.
fn quantile(times: &[u64], percent: usize) -> Option<u64> {
    let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(place).copied()
}

/// Twice the time that 99 % need, rounded up.
fn suggested(most_ms: u64) -> u64 {
    let wanted = most_ms.saturating_mul(2).div_ceil(1_000);
    SUGGESTED.into_iter().find(|seconds| *seconds >= wanted).unwrap_or(43_200)
}

/// The times of each part of the span, counted below each bound.
fn slots(times: &[(Timestamp, u64)]) -> Vec<Value> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let length = (last.0.0.saturating_sub(first.0.0) / SLOTS).saturating_add(1);
    let mut counts = vec![[0_u64; BOUNDS_MS.len()]; SLOTS as usize];
    for (at, took) in times {
        let slot = usize::try_from(at.0.saturating_sub(first.0.0) / length).unwrap_or(usize::MAX);
        let place = BOUNDS_MS.iter().position(|bound| took < bound).unwrap_or(BOUNDS_MS.len() - 1);
        let count = counts.get_mut(slot).and_then(|counts| counts.get_mut(place));
        count.map(|count| *count += 1).unwrap_or_default();
    }
    let from = |slot: u64| first.0.0.saturating_add(slot.saturating_mul(length));
    let shown = |(slot, counts): (u64, &[u64; BOUNDS_MS.len()])| json!({ "from_ms": from(slot), "until_ms": from(slot + 1), "counts": counts });
    (0..).zip(&counts).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::QueueId;
    use kew_core::event::Tag;

    fn event(at_ms: u64, sequence: u64, kind: EventKind) -> Event {
        Event { at: Timestamp(at_ms), queue: QueueId(1), sequence: Sequence(sequence), kind }
    }

    fn lease(at_ms: u64, sequence: u64) -> Event {
        let kind = EventKind::Leased { by: Tag::new("me"), until: Timestamp(at_ms + 1_000), attempts: 1 };
        event(at_ms, sequence, kind)
    }

    #[test]
    fn a_time_is_from_the_latest_lease_to_the_deletion_also_past_its_end() {
        let events = [
            lease(0, 1),
            lease(0, 2),
            lease(0, 3),
            event(400, 1, EventKind::Rewritten),
            event(500, 1, EventKind::Acked),
            event(1_000, 2, EventKind::Lapsed { visible_at: Timestamp(0) }),
            event(1_000, 3, EventKind::Lapsed { visible_at: Timestamp(0) }),
            event(2_000, 2, EventKind::Acked),
            lease(4_000, 3),
            event(4_100, 3, EventKind::Released { visible_at: Timestamp(4_100) }),
            event(5_000, 3, EventKind::Acked),
            event(6_000, 4, EventKind::Acked),
        ];
        let observed = observed(&events);
        assert_eq!(observed.times, [(Timestamp(500), 500), (Timestamp(2_000), 2_000)]);
        assert_eq!(observed.lapsed, 2);
        assert_eq!(observed.ran_out, HashMap::from([(Sequence(3), 1_000)]));
    }

    #[test]
    fn a_deletion_long_after_the_lease_is_an_operators_and_no_time() {
        let late = |at| {
            let events = [
                lease(0, 1),
                event(1_000, 1, EventKind::Lapsed { visible_at: Timestamp(0) }),
                event(at, 1, EventKind::Acked),
            ];
            let observed = observed(&events);
            (observed.times.len(), observed.ran_out.len())
        };
        assert_eq!(late(2_000), (1, 0));
        assert_eq!(late(2_001), (0, 1));
    }

    #[test]
    fn leases_that_ran_out_count_as_long_as_they_lasted_unless_the_message_was_deleted_later() {
        let fast = |sequence| [lease(0, sequence), event(10, sequence, EventKind::Acked)];
        let slow = |sequence| {
            [lease(0, sequence), event(30_000, sequence, EventKind::Lapsed { visible_at: Timestamp(0) })]
        };
        let again = |sequence| [lease(31_000, sequence), event(31_010, sequence, EventKind::Acked)];
        let mut events: Vec<Event> = (0..98).flat_map(fast).chain((98..100).flat_map(slow)).collect();
        let shown = written(&observed(&events), 30);
        assert_eq!((&shown["p99_ms"], &shown["suggested_seconds"]), (&json!(10), &json!(60)));
        events.extend((98..100).flat_map(again));
        let shown = written(&observed(&events), 30);
        assert_eq!(
            [&shown["lapsed"], &shown["suggested_seconds"]],
            [2, 5],
            "their consumers died: others needed no longer than usual"
        );
    }

    #[test]
    fn twice_what_nearly_all_need_is_suggested_once_enough_was_observed() {
        let times = |count: u64, took: u64| (0..count).map(|at| (Timestamp(at), took)).collect();
        let shown = written(&Observed { times: times(100, 20_000), lapsed: 3, ..Observed::default() }, 30);
        assert_eq!(shown["suggested_seconds"], 60);
        assert_eq!((&shown["p50_ms"], &shown["p99_ms"]), (&json!(20_000), &json!(20_000)));
        let few = written(&Observed { times: times(19, 1), ..Observed::default() }, 30);
        assert_eq!(few["suggested_seconds"], Value::Null);
        assert_eq!(suggested(u64::MAX), 43_200);
        let counted: u64 = shown["slots"]
            .as_array()
            .expect("slots are a list")
            .iter()
            .map(|slot| slot["counts"][4].as_u64().unwrap_or_default())
            .sum();
        assert_eq!(counted, 100, "each message is in one slot, below 30 s");
        assert_eq!(written(&Observed::default(), 30)["slots"], json!([]));
    }
}
