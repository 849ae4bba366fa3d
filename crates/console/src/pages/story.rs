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
                ol.timeline { @for event in events { (moment(event)) } }
            }
        }
    }
}

/// One event in words.
fn moment(event: &Value) -> Markup {
    let by = read::given(event, "by");
    let until = read::whole_given(event, "until_ms");
    html! {
        li {
            (text::instant(read::whole(event, "at_ms"))) " "
            strong { (words(read::text(event, "event"), read::text(event, "reason"))) }
            @if let Some(by) = by { " by " (text::isolated(by)) }
            @if let Some(until) = until { " until " (text::instant(until)) }
            @if let Some(why) = read::given(event, "reason") { ", because " (because(why)) }
            @if let Some(detail) = read::given(event, "detail") { ", " (text::isolated(detail)) }
            @if let Some(queue) = read::given(event, "queue") { span.quiet { " in " (text::isolated(queue)) } }
        }
    }
}

fn words<'e>(event: &'e str, reason: &str) -> &'e str {
    match event {
        "taken_over" if reason == "shard" => "the queue's shard taken over",
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
        "acked" => "deleted by its receiver",
        "expired" => "expired",
        "purged" => "deleted with all others of the queue",
        "imported" => "imported",
        "taken_over" => "consumer's node was lost",
        "promoted" => "delay ended by an operator",
        "rewritten" => "content replaced",
        other => other,
    }
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
