//! The calendar of delayed messages: how many become visible when.

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::ask::of_queue;
use super::layout::Head;
use super::queue::{self, Tab};
use super::{PageReply, Visit, query_of, queue_path, read, text};

/// `GET /queues/{q}/delayed`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = visit.read(&of_queue(queue, "/delayed"), &[("cursor", cursor)]).await?;
    let (path, now) = (queue_path(queue), visit.console.now().0);
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Delayed))
        section aria-labelledby="delayed-title" {
            h2 #delayed-title { "When delayed messages become visible" }
            p.quiet {
                (text::counted(read::whole(&found, "messages"), "message")) " counted, by the minute for an hour, by the \
                 hour for two days, then by the day, in UTC. " a href={ (path) "?state=delayed" } { "The messages themselves" }
            }
            (calendar(read::list(&found, "slots"), read::given(&found, "next").is_some(), now))
            @if let Some(next) = read::given(&found, "next") {
                nav.pager aria-label="Pages" {
                    a rel="next" href={ (path) "/delayed" (query_of(&[("cursor", next)])) } { "Count further messages" }
                }
            }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Delayed messages of {queue}")).at("/"), &content))
}

fn calendar(slots: &[Value], has_more: bool, now: u64) -> Markup {
    let most = slots.iter().map(|slot| read::whole(slot, "messages")).max().unwrap_or(1);
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
                        @for slot in slots {
                            @let (from, messages) = (read::whole(slot, "from_ms"), read::whole(slot, "messages"));
                            @let length = read::whole(slot, "until_ms").saturating_sub(from) / 1_000;
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
