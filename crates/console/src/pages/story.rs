//! What happened to a message, in words, and why it was delivered again.

use maud::{Markup, html};
use serde_json::Value;

use super::{read, text};

/// The story of a message that the API shows.
pub(super) fn of_message(found: &Value) -> Markup {
    let (why, events) = (read::list(found, "why"), read::list(found, "timeline"));
    html! {
        section aria-labelledby="story-title" {
            h2 #story-title { "What happened" }
            @if !why.is_empty() {
                h3 { "Why was this delivered again?" }
                ol.why {
                    @for one in why {
                        li {
                            (text::instant(read::whole(one, "at_ms"))) ", attempt " (read::whole(one, "attempts")) ": "
                            (text::isolated(read::text(one, "because")))
                        }
                    }
                }
            }
            @if events.is_empty() {
                p.empty { "The history has nothing of it. It begins with the start of the server and forgets the oldest events." }
            } @else {
                ol.timeline { @for (place, event) in events.iter().enumerate() { (moment(event, &events[..place])) } }
            }
        }
    }
}

/// One event in words, after those before it.
fn moment(event: &Value, before: &[Value]) -> Markup {
    let by = read::given(event, "by");
    let until = read::whole_given(event, "until_ms");
    html! {
        li {
            (text::instant(read::whole(event, "at_ms"))) " "
            strong { (words(event, before)) }
            @if let Some(by) = by { " by " (text::isolated(by)) }
            @if let Some(until) = until { " until " (text::instant(until)) }
            @if let Some(why) = read::given(event, "reason") { ", because " (because(why)) }
            @if let Some(detail) = read::given(event, "detail") { ", " (text::isolated(detail)) }
            @if let Some(queue) = read::given(event, "queue") { span.quiet { " in " (text::isolated(queue)) } }
        }
    }
}

fn words<'e>(event: &'e Value, before: &[Value]) -> &'e str {
    match read::text(event, "event") {
        "taken_over" if read::text(event, "reason") == "shard" => "the queue's shard taken over",
        "sent" => "sent",
        "leased" => "leased",
        "extended" => "lease extended",
        "lease_ended" => "lease ended",
        "released" => "released",
        "retried" => "retried by its consumer",
        "failed" => "delivery failed",
        "dead_lettered" => "dead-lettered",
        "dropped" => "deleted",
        "moved" => "moved",
        "acked" if is_leased(before, read::whole(event, "at_ms")) => "deleted while it was leased",
        "acked" => "deleted",
        "expired" => "expired",
        "purged" => "deleted with all others of the queue",
        "imported" => "imported",
        "taken_over" => "consumer's node was lost",
        "promoted" => "delay ended by an operator",
        "rewritten" => "content replaced",
        other => other,
    }
}

/// Whether a lease holds at an instant. The history has one event for every deletion. Where a lease held it was its
/// receiver's or an operator's; where none did, an operator's or a receiver's that came late.
fn is_leased(before: &[Value], at_ms: u64) -> bool {
    let until = before.iter().fold(None, |until, event| match read::text(event, "event") {
        "leased" | "extended" => Some(read::whole_given(event, "until_ms").unwrap_or(u64::MAX)),
        // What is noted of a consumer, or of the shard, ends no lease.
        "failed" | "retried" | "taken_over" | "rewritten" | "imported" => until,
        "dead_lettered" if read::text(event, "reason") == "put_aside" => until,
        _ => None,
    });
    until.is_some_and(|until| until > at_ms)
}

fn because(reason: &str) -> &str {
    match reason {
        "expired" => "its time was over",
        "queue_deleted" => "the queue was deleted",
        "attempts_exhausted" => "it was leased as often as the queue allows",
        "put_aside" => "it failed as often as its consumer allows",
        "threw" => "the consumer threw",
        "timed_out" => "the consumer did not answer in time",
        "bad_reply" => "the consumer's answer is no answer",
        "status" => "the consumer answered with an error",
        "unreachable" => "the consumer cannot be reached",
        "shard" => "the node before handed it over, or was lost",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_says_whether_a_lease_holds() {
        let sent = json!({ "at_ms": 1, "event": "sent" });
        let leased = json!({ "at_ms": 10, "event": "leased", "until_ms": 40 });
        let endless = json!({ "at_ms": 10, "event": "leased" });
        let extended = json!({ "at_ms": 20, "event": "extended", "until_ms": 90 });
        let ended = json!({ "at_ms": 40, "event": "lease_ended" });
        let failed = json!({ "at_ms": 20, "event": "failed", "reason": "threw" });
        let put_aside = json!({ "at_ms": 20, "event": "dead_lettered", "reason": "put_aside" });
        let moved = json!({ "at_ms": 20, "event": "dead_lettered", "reason": "attempts_exhausted" });
        let (leased_then, unknown) = ("deleted while it was leased", "deleted");
        for (before, at, expected) in [
            (vec![], 30, unknown),
            (vec![&sent], 30, unknown),
            (vec![&sent, &leased], 39, leased_then),
            (vec![&sent, &leased], 40, unknown),
            (vec![&sent, &endless], 9_999, leased_then),
            (vec![&sent, &leased, &extended], 89, leased_then),
            (vec![&sent, &leased, &failed], 30, leased_then),
            (vec![&sent, &leased, &put_aside], 30, leased_then),
            (vec![&sent, &leased, &moved], 30, unknown),
            (vec![&sent, &leased, &ended], 41, unknown),
        ] {
            let before: Vec<Value> = before.into_iter().cloned().collect();
            let acked = json!({ "at_ms": at, "event": "acked" });
            assert_eq!(words(&acked, &before), expected, "{before:?} at {at}");
        }
    }
}
