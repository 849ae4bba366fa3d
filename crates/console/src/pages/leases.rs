//! How long consumers keep messages, as a map of heat over time, and the visibility timeout that suits that.

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::ask::of_queue;
use super::layout::Head;
use super::queue::{self, Tab};
use super::{PageReply, Visit, queue_path, read, text};

/// Steps of heat beside none.
const HEATS: u64 = 4;

/// `GET /queues/{q}/leases`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let found = visit.read(&of_queue(queue, "/processing"), &[]).await?;
    let held = visit.read(&of_queue(queue, "/leases"), &[]).await?;
    let (messages, lapsed) = (read::whole(&found, "messages"), read::whole(&found, "lapsed"));
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Leases).await)
        section aria-labelledby="held-title" {
            h2 #held-title { "Who holds messages now" }
            (holders(queue, &held, visit.console.now().0))
        }
        section aria-labelledby="leases-title" {
            h2 #leases-title { "How long consumers keep messages" }
            @if messages == 0 && lapsed == 0 {
                p.empty { "The history remembers no message of this queue that a consumer has deleted." }
            } @else {
                (figures(&found, messages))
                (suggestion(visit, queue, &found))
                @if lapsed > 0 {
                    p.quiet {
                        "A message whose lease ran out counts as needing as long as it lasted, unless a consumer deleted it later."
                    }
                }
                (map(read::list(&found, "slots"), read::list(&found, "bounds_ms")))
            }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Leases of {queue}")).at("/"), &content))
}

/// Leases by consumer.
fn holders(queue: &str, held: &Value, now: u64) -> Markup {
    let consumers = read::list(held, "consumers");
    let all = read::whole(held, "leases");
    let shown: u64 = consumers.iter().map(|one| read::whole(one, "leases")).sum();
    if consumers.is_empty() {
        return html! { p.empty { "No message of this queue is in flight." } };
    }
    html! {
        div.wide tabindex="0" role="region" aria-label="Leases by consumer" {
            table {
                thead {
                    tr {
                        th scope="col" { "Consumer" }
                        th.number scope="col" { "Messages" }
                        th.number scope="col" { "Oldest since" }
                        th.number scope="col" { "First ends" }
                    }
                }
                tbody { @for one in consumers { (holder(one, now)) } }
            }
        }
        @if shown < all { p.quiet { "Other consumers hold " (text::count(all - shown)) " more." } }
        @if !read::is_set(held, "counted_all") { p.quiet { "Only the beginning of the queue was counted." } }
        p { a href={ (queue_path(queue)) "?state=in_flight" } { "Messages in flight" } }
    }
}

fn holder(one: &Value, now: u64) -> Markup {
    let since = read::whole_given(one, "since_ms").map(|since| now.saturating_sub(since) / 1_000);
    html! {
        tr {
            th scope="row" {
                @match read::given(one, "by") {
                    Some(by) => (text::isolated(by)),
                    None => span.quiet { "not remembered" },
                }
            }
            td.number { (text::count(read::whole(one, "leases"))) }
            td.number { @if let Some(since) = since { (text::length(since)) } @else { "–" } }
            td.number {
                @match read::whole_given(one, "until_ms") {
                    Some(until) => span data-until=(until) data-now=(now) { (text::distance(until, now)) },
                    None => "no end",
                }
            }
        }
    }
}

fn figures(found: &Value, messages: u64) -> Markup {
    let took = |name: &str| text::span(read::whole(found, name));
    html! {
        dl.cards {
            div { dt { "Messages deleted" } dd { (text::count(messages)) } }
            div { dt { "Kept, median" } dd { (took("p50_ms")) } }
            div { dt { "99 % kept at most" } dd { (took("p99_ms")) } }
            div { dt { "Leases that ran out" } dd { (text::count(read::whole(found, "lapsed"))) } }
            div { dt { "Visibility timeout" } dd { (text::length(read::whole(found, "visibility_seconds"))) } }
        }
        p.quiet { "From the lease to the deletion, of the messages that the history remembers: up to 50,000 events, since the server started." }
    }
}

/// What the visibility timeout might be: twice what 99 % of the messages need.
fn suggestion(visit: &Visit<'_>, queue: &str, found: &Value) -> Markup {
    let now = read::whole(found, "visibility_seconds");
    html! {
        @match read::whole_given(found, "suggested_seconds") {
            None => { p { "Too few messages were deleted yet to suggest a visibility timeout." } }
            Some(fits) if fits == now => { p { "The visibility timeout suits that: it is about twice what 99 % of the messages need." } }
            Some(fits) => {
                p {
                    "A visibility timeout of " strong { (text::length(fits)) } " would suit that: about twice what 99 % of the messages need. "
                    @if fits < now { "Messages of consumers that die would come again sooner." }
                    @else { "Fewer messages would be delivered again while they are still worked on." }
                }
                @if visit.frame.may_act() {
                    form method="post" action={ (queue_path(queue)) "/settings" } {
                        (visit.frame.proof())
                        input type="hidden" name="visibility_seconds" value=(fits);
                        input type="hidden" name="was.visibility_seconds" value=(now);
                        button { "Set the visibility timeout to " (text::length(fits)) }
                    }
                }
            }
        }
    }
}

fn map(slots: &[Value], bounds: &[Value]) -> Markup {
    let counts = |slot: &Value| -> Vec<u64> {
        read::list(slot, "counts").iter().map(|count| count.as_u64().unwrap_or_default()).collect()
    };
    let columns: Vec<(u64, Vec<u64>)> =
        slots.iter().map(|slot| (read::whole(slot, "from_ms"), counts(slot))).collect();
    let most = columns.iter().flat_map(|(_, counts)| counts).copied().max().unwrap_or_default().max(1);
    html! {
        div.wide tabindex="0" role="region" aria-label="Messages by when they were deleted and how long they were kept" {
            table.heat {
                thead {
                    tr {
                        th scope="col" { "Kept less than" }
                        @for (place, (from, _)) in columns.iter().enumerate() {
                            @let before = place.checked_sub(1).and_then(|place| columns.get(place));
                            th.number scope="col" { (text::moment(*from, before.map(|(before, _)| *before))) }
                        }
                    }
                }
                tbody {
                    @for row in (0..bounds.len()).rev() {
                        tr {
                            th scope="row" { (label(bounds, row)) }
                            @for (_, counts) in &columns {
                                @let count = counts.get(row).copied().unwrap_or_default();
                                td class={ "number heat-" (heat(count, most)) } { @if count > 0 { (text::count(count)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Which times a row has: the last one those that no other has.
fn label(bounds: &[Value], row: usize) -> String {
    let bound = |row: usize| text::span(bounds.get(row).and_then(Value::as_u64).unwrap_or_default());
    if row > 0 && row + 1 == bounds.len() { format!("{} or more", bound(row - 1)) } else { bound(row) }
}

/// How warm a count is: 0 of none, the highest of the most.
fn heat(count: u64, most: u64) -> u64 {
    count.saturating_mul(HEATS).div_ceil(most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_has_all_times_that_no_other_has() {
        let bounds = [100, 1_000, 900_000, 43_200_000].map(Value::from);
        let labels: Vec<String> = (0..4).map(|row| label(&bounds, row)).collect();
        assert_eq!(labels, ["100 ms", "1 s", "15 min", "15 min or more"]);
    }

    #[test]
    fn a_single_message_is_seen_beside_many() {
        assert_eq!([0, 1, 250, 251, 1_000].map(|count| heat(count, 1_000)), [0, 1, 1, 2, 4]);
    }
}
