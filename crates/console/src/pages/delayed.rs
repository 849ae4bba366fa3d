//! The calendar of delayed messages: how many become visible when.

use std::collections::BTreeMap;

use kew_http::StatusCode;
use maud::{Markup, html};

use super::ask::of_queue;
use super::layout::Head;
use super::queue::{self, Tab};
use super::trouble::Trouble;
use super::{PageReply, Visit, query_of, queue_path, read, text};

/// Parts of a long queue that one page counts: about a million messages.
const PARTS_MAX: usize = 10;

/// `GET /queues/{q}/delayed`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = counted(visit, queue, cursor).await?;
    let (path, now) = (queue_path(queue), visit.console.now().0);
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Delayed).await)
        section aria-labelledby="delayed-title" {
            h2 #delayed-title { "When delayed messages become visible" }
            p.quiet {
                (text::counted(found.messages, "message")) " counted"
                @if found.next.is_some() || !cursor.is_empty() { " on this page, which shows a part of them" }
                ": by the minute to the end of the next hour, by the hour for two days or more, then by the day, in UTC. " a href={ (path) "?state=delayed" } { "The messages themselves" }
            }
            (calendar(&found, now))
            @if let Some(next) = &found.next {
                nav.pager aria-label="Pages" {
                    a rel="next" href={ (path) "/delayed" (query_of(&[("cursor", next)])) } { "Count further messages" }
                }
            }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Delayed messages of {queue}")).at("/"), &content))
}

/// What the API counted, some parts of it together.
#[derive(Default)]
struct Counted {
    /// Messages by the beginning and the end of their slot.
    slots: BTreeMap<(u64, u64), u64>,
    messages: u64,
    /// Where further messages begin.
    next: Option<String>,
}

/// Counts from a cursor on, part after part: a page shows all messages of a queue that is not very long.
async fn counted(visit: &Visit<'_>, queue: &str, cursor: &str) -> Result<Counted, Trouble> {
    let mut all = Counted { next: Some(cursor.to_owned()), ..Counted::default() };
    for _ in 0..PARTS_MAX {
        let Some(cursor) = all.next.take() else { break };
        let found = visit.read(&of_queue(queue, "/delayed"), &[("cursor", &cursor)]).await?;
        for slot in read::list(&found, "slots") {
            let place = (read::whole(slot, "from_ms"), read::whole(slot, "until_ms"));
            *all.slots.entry(place).or_default() += read::whole(slot, "messages");
        }
        all.messages += read::whole(&found, "messages");
        all.next = read::given(&found, "next").map(str::to_owned);
    }
    Ok(all)
}

fn calendar(found: &Counted, now: u64) -> Markup {
    let (slots, has_more) = (&found.slots, found.next.is_some());
    let most = slots.values().copied().max().unwrap_or(1);
    html! {
        @if slots.is_empty() && has_more { p.empty { "None of those looked at so far is delayed." } }
        @else if slots.is_empty() { p.empty { "No message is delayed." } } @else {
            div.wide tabindex="0" role="region" aria-label="Calendar of delayed messages" {
                table.calendar {
                    thead {
                        tr {
                            th scope="col" { "From" }
                            th scope="col" { "For" }
                            th scope="col" { "Begins" }
                            th.number scope="col" { "Messages" }
                            th scope="col" { "Share of the most" }
                        }
                    }
                    tbody {
                        @for ((from, until), messages) in slots {
                            @let (from, messages, length) = (*from, *messages, until.saturating_sub(*from) / 1_000);
                            tr {
                                th scope="row" { (text::instant(from)) }
                                td { (text::length(length)) }
                                td.quiet { @if from > now { (text::distance(from, now)) } @else { "now" } }
                                td.number { (text::count(messages)) }
                                td { meter min="0" max=(most) value=(messages) aria-label=(text::counted(messages, "message")) {} }
                            }
                        }
                    }
                }
            }
        }
    }
}
