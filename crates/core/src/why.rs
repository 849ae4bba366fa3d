//! "Why was this delivered again?", in words: from what happened to a message, one sentence for each delivery after the
//! first.
//!
//! A pure function of events. What the history does not hold it cannot tell, and says so.

use std::time::Duration;

use crate::event::{Failure, Tag, Words};
use crate::{Event, EventKind, Timestamp};

/// One delivery after the first, and what led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redelivery {
    /// When it was delivered again.
    pub at: Timestamp,
    /// For the how-manieth time.
    pub attempts: u32,
    /// Why, as a sentence.
    pub because: String,
}

/// Why a message was delivered again, for each time it was. The events are those of one message in their order, also
/// from the queues it came through.
pub fn redeliveries(events: &[Event]) -> Vec<Redelivery> {
    let leases = events.iter().enumerate().filter_map(|(place, event)| match event.kind {
        EventKind::Leased { attempts, .. } => Some((place, event.at, attempts)),
        _ => None,
    });
    let (mut told, mut from) = (Vec::new(), None);
    for (place, at, attempts) in leases {
        let since = events.get(from.unwrap_or(0)..place).unwrap_or_default();
        let is_first = from.is_none() && attempts <= 1 && since.iter().all(|event| !is_move(event));
        from = Some(place);
        if !is_first {
            told.push(Redelivery { at, attempts, because: because(since) });
        }
    }
    told
}

fn is_move(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Redriven { .. } | EventKind::DeadLettered { .. } | EventKind::Arrived { .. }
    )
}

/// Why it was delivered after a task or a person moved it.
const MOVED: &str = "It was moved here from another queue.";

fn is_redrive(event: &Event) -> bool {
    matches!(event.kind, EventKind::Redriven { .. })
}

fn is_failure(event: &Event) -> bool {
    matches!(event.kind, EventKind::Failed { .. })
}

/// What ended the delivery that `events` begin with.
fn because(events: &[Event]) -> String {
    let lease = events.iter().find_map(|event| match event.kind {
        EventKind::Leased { by, until, .. } => Some((event.at, by, until)),
        _ => None,
    });
    let was_extended = events.iter().any(|event| matches!(event.kind, EventKind::Extended { .. }));
    let holder = lease.map_or(String::new(), |(_, by, _)| named(by));
    for event in events.iter().rev() {
        match event.kind {
            EventKind::Redriven { .. } => return MOVED.into(),
            // From another shard: an event there says that it was moved by hand.
            EventKind::Arrived { .. } if events.iter().any(is_redrive) => return MOVED.into(),
            EventKind::Arrived { .. } | EventKind::DeadLettered { .. } => {
                return "It was leased as often as its queue allows and came here as a dead letter.".into();
            }
            EventKind::Failed { why, ref detail } => return failed(why, detail, delay_after(events)),
            EventKind::Promoted => return "An operator ended its delay.".into(),
            // Which of the two is not known: the history does not reach back to the import.
            EventKind::Imported => {
                return "It had been delivered before it was imported, or since then before the history begins.".into();
            }
            // The failure that led to the end of the lease is named instead.
            EventKind::Released { .. } | EventKind::Lapsed { .. } if events.iter().any(is_failure) => {}
            EventKind::Released { visible_at } => return released(&holder, visible_at.since(event.at)),
            EventKind::Lapsed { visible_at } => {
                let back = visible_at.since(event.at);
                let lasted = lease.map(|(at, _, until)| until.since(at));
                return ran_out(&holder, lasted, was_extended, back);
            }
            _ => {}
        }
    }
    match lease {
        Some(_) => format!("Its lease{holder} was undone, as if it had never been delivered."),
        None => "It was delivered before the history begins, which does not reach far behind the last start."
            .into(),
    }
}

fn released(holder: &str, delay: Duration) -> String {
    match delay {
        Duration::ZERO => format!("Its lease{holder} was released."),
        delay => format!("Its lease{holder} was released, to be retried after {}.", length(delay)),
    }
}

/// `lasted` is the length that the lease was taken with, if that is known.
fn ran_out(holder: &str, lasted: Option<Duration>, was_extended: bool, back: Duration) -> String {
    let back = match back {
        Duration::ZERO => String::new(),
        delay => format!("; it came back after {}", length(delay)),
    };
    match lasted {
        _ if was_extended => format!("Its lease{holder} was extended and then ran out{back}."),
        Some(lasted) => format!("Its lease{holder} ran out after {}{back}.", length(lasted)),
        None => format!("A lease of it ran out{back}."),
    }
}

fn failed(why: Failure, detail: &Words, delay: Option<Duration>) -> String {
    let what = match why {
        Failure::Retried => "The consumer asked for it again".to_owned(),
        Failure::Threw => with("The handler failed", detail),
        Failure::TimedOut => with("The consumer timed out", detail),
        Failure::BadReply => with("The consumer failed", detail),
        Failure::Status => format!("The webhook answered {}", detail.as_str()),
        Failure::Unreachable => {
            let what = with("The target could not be reached", detail);
            return format!("{what}; the delivery does not count as an attempt.");
        }
        Failure::PutAside => format!("It failed too often, and its consumer put it into {}", detail.as_str()),
        Failure::OwnerGone => {
            "The server that held its lease ended, or another node took its place".to_owned()
        }
    };
    match delay.filter(|delay| !delay.is_zero()) {
        Some(delay) => format!("{what}; it was retried after {}.", length(delay)),
        None => format!("{what}."),
    }
}

fn with(what: &str, detail: &Words) -> String {
    match detail.as_str().trim_end_matches('.') {
        "" => what.to_owned(),
        detail => format!("{what}: {detail}"),
    }
}

/// The delay that a failed message was given: by a release, or by another end of its lease.
fn delay_after(events: &[Event]) -> Option<Duration> {
    events.iter().rev().find_map(|event| match event.kind {
        EventKind::Released { visible_at: end } | EventKind::Extended { until: end } => {
            Some(end.since(event.at))
        }
        _ => None,
    })
}

fn named(by: Tag) -> String {
    if by.is_empty() { String::new() } else { format!(" (of {})", by.as_str()) }
}

fn length(length: Duration) -> String {
    match (length.as_secs(), length.subsec_millis()) {
        (seconds @ 60.., 0) if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        (0, millis) => format!("{millis} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, millis) => format!("{seconds}.{millis:03} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageId, QueueId, Sequence};

    /// The events of one message, each a second after the one before.
    fn events(kinds: &[EventKind]) -> Vec<Event> {
        let event = |(second, kind): (u64, &EventKind)| Event {
            at: Timestamp(1_000 * second),
            queue: QueueId(1),
            sequence: Sequence(1),
            kind: kind.clone(),
        };
        (0..).zip(kinds).map(event).collect()
    }

    fn sent() -> EventKind {
        EventKind::Sent { id: MessageId::from_chance(1), visible_at: Timestamp(0) }
    }

    fn leased(attempts: u32) -> EventKind {
        EventKind::Leased { by: Tag::new("me"), until: Timestamp(31_000), attempts }
    }

    /// A lease that ran out, of a message that came back at once.
    fn lapsed() -> EventKind {
        EventKind::Lapsed { visible_at: Timestamp(0) }
    }

    fn released(second: u64) -> EventKind {
        EventKind::Released { visible_at: Timestamp(1_000 * second) }
    }

    fn failure(why: Failure, detail: &str) -> EventKind {
        EventKind::Failed { why, detail: Words::new(detail) }
    }

    /// Why a message was leased a second time after these.
    fn why(between: &[EventKind]) -> String {
        let kinds: Vec<EventKind> =
            [sent(), leased(1)].into_iter().chain(between.iter().cloned()).chain([leased(2)]).collect();
        let told = redeliveries(&events(&kinds));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].attempts, 2);
        told[0].because.clone()
    }

    #[test]
    fn first_delivery_needs_no_reason() {
        assert!(redeliveries(&events(&[sent(), leased(1)])).is_empty());
        assert!(redeliveries(&[]).is_empty());
    }

    #[test]
    fn lease_that_ran_out_is_told_from_one_that_was_released_or_extended() {
        assert_eq!(why(&[lapsed()]), "Its lease (of me) ran out after 30 s.");
        // It ran out at the third event, at 2 s.
        let delayed = EventKind::Lapsed { visible_at: Timestamp(22_000) };
        assert_eq!(why(&[delayed]), "Its lease (of me) ran out after 30 s; it came back after 20 s.");
        assert_eq!(why(&[released(2)]), "Its lease (of me) was released.");
        assert_eq!(why(&[released(9)]), "Its lease (of me) was released, to be retried after 7 s.");
        let extended = EventKind::Extended { until: Timestamp(60_000) };
        assert_eq!(why(&[extended, lapsed()]), "Its lease (of me) was extended and then ran out.");
        assert_eq!(why(&[]), "Its lease (of me) was undone, as if it had never been delivered.");
    }

    #[test]
    fn failures_of_push_consumers_are_told_with_their_delay() {
        let with_delay = |why_, detail| why(&[failure(why_, detail), released(10)]);
        assert_eq!(with_delay(Failure::Status, "500"), "The webhook answered 500; it was retried after 7 s.");
        assert_eq!(
            why(&[failure(Failure::Threw, "TypeError"), released(3)]),
            "The handler failed: TypeError."
        );
        assert_eq!(
            with_delay(Failure::Retried, ""),
            "The consumer asked for it again; it was retried after 7 s."
        );
        // A consumer that hides the message for a while instead of releasing it.
        let hidden = EventKind::Extended { until: Timestamp(9_000) };
        assert_eq!(
            why(&[failure(Failure::Threw, "Boom"), hidden, lapsed()]),
            "The handler failed: Boom; it was retried after 6 s."
        );
        for (cause, detail, expected) in [
            (
                Failure::Unreachable,
                "",
                "The target could not be reached; the delivery does not count as an attempt.",
            ),
            (
                Failure::Unreachable,
                "cannot connect to 127.0.0.1:9",
                "The target could not be reached: cannot connect to 127.0.0.1:9; \
                 the delivery does not count as an attempt.",
            ),
            (
                Failure::Threw,
                "the queue handler threw an exception: Error: no such order.",
                "The handler failed: the queue handler threw an exception: Error: no such order.",
            ),
            (
                Failure::TimedOut,
                "no whole reply within 30s",
                "The consumer timed out: no whole reply within 30s.",
            ),
            (
                Failure::BadReply,
                "the reply cannot be understood: it is not a JSON object",
                "The consumer failed: the reply cannot be understood: it is not a JSON object.",
            ),
        ] {
            assert_eq!(why(&[failure(cause, detail)]), expected);
        }
        assert_eq!(
            why(&[failure(Failure::OwnerGone, ""), released(3)]),
            "The server that held its lease ended, or another node took its place."
        );
    }

    #[test]
    fn moves_and_what_was_before_the_history_are_told() {
        let to = EventKind::Redriven { to: QueueId(2), sequence: Sequence(9) };
        let told = redeliveries(&events(&[sent(), leased(1), to, sent(), leased(1)]));
        assert_eq!(told[0].because, "It was moved here from another queue.");
        let told = redeliveries(&events(&[leased(3)]));
        let before =
            "It was delivered before the history begins, which does not reach far behind the last start.";
        assert_eq!(told[0].because, before);
        let told = redeliveries(&events(&[EventKind::Imported, leased(3)]));
        let imported =
            "It had been delivered before it was imported, or since then before the history begins.";
        assert_eq!(told[0].because, imported);
        assert!(redeliveries(&events(&[EventKind::Imported, leased(1)])).is_empty());
    }

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 64, "{}", size_of::<Event>());
    }
}
