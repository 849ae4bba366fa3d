//! What holds messages of a queue back: groups that are locked, and deduplication ids whose windows are open.

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::ask::of_queue;
use super::layout::Head;
use super::queue::{self, Tab};
use super::trouble::Trouble;
use super::{PageReply, Visit, message_path, query_of, queue_path, read, text};

/// `GET /queues/{q}/groups`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let prefix = visit.asked("prefix").unwrap_or_default();
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = visit.read(&of_queue(queue, "/groups"), &[("prefix", prefix), ("cursor", cursor)]).await?;
    let first = first_send(visit, queue).await;
    let path = format!("{}/groups", queue_path(queue));
    let now = visit.console.now().0;
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Groups).await)
        section aria-labelledby="groups-title" {
            h2 #groups-title { "Groups" }
            form.filter action=(path) role="search" aria-label="Groups" {
                label { "Group begins with" input name="prefix" value=(prefix) maxlength="128"; }
                button { "Search" }
                @if !prefix.is_empty() { a href=(path) { "All groups" } }
            }
            (table(queue, read::list(&found, "groups"), now))
            @if let Some(next) = read::given(&found, "next") {
                nav.pager aria-label="Pages" {
                    a rel="next" href={ (path) (query_of(&[("prefix", prefix), ("cursor", next)])) } { "Next page" }
                }
            }
        }
        @if read::text(&shown, "kind") == "fifo" { (deduplication(visit, queue, &path, first, now)) }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Groups of {queue}")).at("/"), &content))
}

fn table(queue: &str, rows: &[Value], now: u64) -> Markup {
    html! {
        @if rows.is_empty() { p.empty { "No group has messages." } } @else {
            div.wide tabindex="0" role="region" aria-label="Table of groups" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Group" }
                            th.number scope="col" title="Messages that are not leased" { "Waiting" }
                            th scope="col" title="The leased message that the others wait for" { "Locked by" }
                            th scope="col" { "Until" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            tr {
                                th scope="row" { (text::isolated(read::text(row, "group"))) }
                                td.number { (text::count(read::whole(row, "waiting"))) }
                                td {
                                    @match read::given(row, "locked_by") {
                                        Some(id) => { a.id href=(message_path(queue, id)) { (id) } }
                                        None => { span.quiet { "–" } }
                                    }
                                }
                                td {
                                    @if let Some(until) = read::whole_given(row, "locked_until_ms") {
                                        (text::instant_from(until, now))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The first send of the id that is asked for; nothing where none is.
async fn first_send(visit: &Visit<'_>, queue: &str) -> Option<Result<Value, Trouble>> {
    let id = visit.asked("id")?;
    let group = visit.asked("group").unwrap_or_default();
    Some(visit.read(&of_queue(queue, "/deduplication"), &[("id", id), ("group", group)]).await)
}

fn deduplication(
    visit: &Visit<'_>,
    queue: &str,
    path: &str,
    first: Option<Result<Value, Trouble>>,
    now: u64,
) -> Markup {
    let asked = |name: &str| visit.asked(name).unwrap_or_default();
    html! {
        section aria-labelledby="ids-title" {
            h2 #ids-title { "A deduplication id" }
            p.help { "Ids are kept as hashes: one can be looked up and none listed. With deduplication_scope group, name the group too." }
            form.filter action=(path) role="search" aria-label="Deduplication id" {
                label { "Deduplication id" input name="id" value=(asked("id")) maxlength="128" required; }
                label { "Group" input name="group" value=(asked("group")) maxlength="128"; }
                button { "Look up" }
            }
            @match first {
                None => {}
                Some(Err(trouble)) => { p.trouble role="alert" { (text::visible(&text::sentence(&trouble.message))) } }
                Some(Ok(found)) => { (window(queue, read::list(&found, "ids"), now)) }
            }
        }
    }
}

fn window(queue: &str, ids: &[Value], now: u64) -> Markup {
    html! {
        @if ids.is_empty() { p.empty { "No window of this id is open: it may be sent." } }
        @for id in ids {
            p {
                "It was sent first as "
                a.id href=(message_path(queue, read::text(id, "message"))) { (read::text(id, "message")) }
                ". It may be sent anew from " (text::instant_from(read::whole(id, "until_ms"), now)) " on."
            }
        }
    }
}
