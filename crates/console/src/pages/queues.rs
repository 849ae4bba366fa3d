//! The table of queues, page by page, and the form that makes one.

use std::collections::HashMap;

use kew_http::{Method, Reply, StatusCode};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::done::see_done;
use super::forms::Form;
use super::layout::Head;
use super::spark::{self, Spark};
use super::trouble::Trouble;
use super::{PageReply, Visit, query_of, queue_path, read, settings, text};

/// Queues of a page.
pub(super) const LIMIT: &str = "50";
/// Columns of figures: what live figures call them, their heading, and what that means.
const FIGURES: [(&str, &str, &str); 7] = [
    ("visible", "Visible", "Messages that may be leased"),
    ("in_flight", "In flight", "Messages that are leased"),
    ("delayed", "Delayed", "Messages hidden by a delay"),
    ("oldest", "Oldest", "Since the oldest message was sent"),
    ("sent", "Sent/s", "Messages sent or moved in each second, lately"),
    ("leased", "Leased/s", "Leases taken each second, lately"),
    ("acked", "Done/s", "Messages deleted, by a receipt or by an operator each second, lately"),
];

/// `GET /`.
pub(super) async fn list(visit: &Visit<'_>) -> PageReply {
    let prefix = visit.asked("prefix").unwrap_or_default();
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = page_of(visit, prefix, cursor).await?;
    let rows = read::list(&found, "queues");
    let next = read::given(&found, "next");
    let names: Vec<&str> = rows.iter().map(|row| read::text(row, "queue")).collect();
    let sparks = spark::of_queues(visit.console, &names).await;
    let content = html! {
        div.head {
            h1 { "Queues" }
            @if visit.frame.may_act() { a.button.main href="/new-queue" aria-keyshortcuts="w" { "New queue" } }
        }
        (visit.frame.done())
        form.filter role="search" aria-label="Queues" {
            label { "Name begins with" input name="prefix" type="search" value=(prefix) maxlength="200" aria-keyshortcuts="/"; }
            button { "Search" }
            @if !prefix.is_empty() { a href="/" { "All queues" } }
        }
        p.note hidden data-stale="" { "The list has changed. " a href=(visit.frame.here) { "Load it again" } }
        @if rows.is_empty() {
            (nothing(prefix, cursor, visit.frame.may_act()))
        } @else {
            (silent(read::list(&found, "silent")))
            (table(rows, &sparks))
        }
        (pager(prefix, cursor, next))
    };
    let stream = format!("/live/queues{}", query_of(&[("prefix", prefix), ("cursor", cursor)]));
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Queues").at("/").live(stream), &content))
}

/// One page of queues as the API shows it.
pub(super) async fn page_of(visit: &Visit<'_>, prefix: &str, cursor: &str) -> Result<Value, Trouble> {
    visit.read("/queues", &[("prefix", prefix), ("cursor", cursor), ("limit", LIMIT)]).await
}

fn nothing(prefix: &str, cursor: &str, may_act: bool) -> Markup {
    html! {
        p.empty {
            @if !cursor.is_empty() {
                "No more queues."
            } @else if !prefix.is_empty() {
                "No queue's name begins with " strong { (text::isolated(prefix)) } "."
            } @else {
                "There are no queues yet. "
                @if may_act { a href="/new-queue" { "Make one" } ", or send to one with an SDK." }
            }
        }
    }
}

/// Which nodes of a fleet did not tell the figures of their queues.
fn silent(nodes: &[Value]) -> Markup {
    let names: Vec<&str> = nodes.iter().filter_map(Value::as_str).collect();
    html! {
        @if !names.is_empty() {
            p.note role="status" {
                "Figures are missing: " strong { (text::isolated(&names.join(", "))) }
                @if names.len() == 1 { " does" } @else { " do" } " not answer. " a href="/store" { "Shards and nodes" }
            }
        }
    }
}

fn table(rows: &[Value], sparks: &HashMap<String, Spark>) -> Markup {
    let spark = |row: &Value| sparks.get(read::text(row, "queue")).cloned().unwrap_or_default();
    html! {
        div.wide tabindex="0" role="region" aria-label="Table of queues" {
            table.figures {
                thead {
                    tr {
                        th scope="col" { "Queue" }
                        @for (_, title, help) in FIGURES { th.number scope="col" title=(help) { (title) } }
                        th scope="col" title="Visible messages" { "5 minutes" }
                        th scope="col" { "Dead letters to" }
                    }
                }
                tbody { @for row in rows { (line(row, &spark(row))) } }
            }
        }
    }
}

fn line(row: &Value, spark: &Spark) -> Markup {
    let queue = read::text(row, "queue");
    let dead = read::given(row, "dead_letters_to");
    html! {
        tr {
            th scope="row" {
                a href=(queue_path(queue)) { (text::isolated(queue)) }
                (badges(row))
            }
            @for (figure, value) in figures(row) {
                td.number data-live={ (queue) "/" (figure) } { (value) }
            }
            td { (spark::drawn(spark, queue)) }
            td {
                @if let Some(dead) = dead { a href=(queue_path(dead)) { (text::isolated(dead)) } }
                @else { span.quiet { "–" } }
            }
        }
    }
}

/// What is special about a queue.
pub(super) fn badges(row: &Value) -> Markup {
    html! {
        @if read::text(row, "kind") == "fifo" { " " span.badge { "FIFO" } }
        @if read::is_set(row, "paused") { " " span.badge.warn { "paused" } }
    }
}

/// The figures of a queue as they are shown, each under the name that live figures call it. A dash stands for what its
/// node does not tell.
pub(super) fn figures(row: &Value) -> [(&'static str, String); 7] {
    let none = || text::age(None);
    let count = |name: &str| read::whole_given(row, name).map_or_else(none, text::count);
    let rate = |name: &str| read::number(row, name).map_or_else(none, text::rate);
    [
        ("visible", count("visible")),
        ("in_flight", count("in_flight")),
        ("delayed", count("delayed")),
        ("oldest", text::age(read::number(row, "oldest_age_seconds"))),
        ("sent", rate("sent_per_second")),
        ("leased", rate("leased_per_second")),
        ("acked", rate("acked_per_second")),
    ]
}

fn pager(prefix: &str, cursor: &str, next: Option<&str>) -> Markup {
    let first = query_of(&[("prefix", prefix)]);
    html! {
        @if next.is_some() || !cursor.is_empty() {
            nav.pager aria-label="Pages" {
                @if !cursor.is_empty() { a href={ "/" (first) } aria-keyshortcuts="b" { "First page" } }
                @if let Some(next) = next {
                    a rel="next" href={ "/" (query_of(&[("prefix", prefix), ("cursor", next)])) } aria-keyshortcuts="n" {
                        "Next page"
                    }
                }
            }
        }
    }
}

/// `GET /new-queue`.
pub(super) fn form(visit: &Visit<'_>) -> PageReply {
    Ok(form_page(visit, None))
}

/// The form; after a refusal with what was typed, and why it was refused.
fn form_page(visit: &Visit<'_>, refused: Option<(&Form, &Trouble)>) -> Reply {
    let typed = refused.map(|(form, _)| form);
    let content = html! {
        div.head { h1 { "New queue" } }
        @if let Some((_, trouble)) = refused { (trouble.alert()) }
        @if visit.frame.may_act() {
            form.stack method="post" action="/new-queue" {
                (visit.frame.proof())
                label {
                    "Name"
                    input name="name" maxlength="200" required aria-describedby="name-help"
                        value=(typed.map(|form| form.text("name")).unwrap_or_default());
                }
                p.help #name-help {
                    "1 to 80 letters, digits, hyphens and underscores. A name that ends in " code { ".fifo" }
                    " makes a FIFO queue. Azure clients see names in lower case with hyphens only, of 3 to 63 characters."
                }
                details open[typed.is_some()] {
                    summary { "Settings other than the defaults" }
                    (settings::fields(&Map::new(), None, typed))
                }
                button.main { "Make the queue" }
            }
        } @else { p { "Your role is read-only: it makes no queues." } }
    };
    let status = refused.map_or(StatusCode::OK, |(_, trouble)| trouble.status);
    visit.frame.page(status, &Head::of("New queue").at("/"), &content)
}

/// `POST /new-queue`.
pub(super) async fn create(visit: &Visit<'_>) -> PageReply {
    let form = Form::read(visit)?;
    let name = form.text("name").trim();
    let made = match settings::changed(&form) {
        Ok(settings) => {
            let body = json!({ "name": name, "settings": settings });
            visit.change_with_status(Method::POST, "/queues", body.to_string()).await
        }
        Err(trouble) => Err(trouble),
    };
    match made {
        Ok((status, made)) => {
            let done = if status == StatusCode::CREATED { "made" } else { "was_there" };
            Ok(see_done(visit, &queue_path(read::text(&made, "queue")), done))
        }
        Err(trouble) if trouble.is_of_the_form() => Ok(form_page(visit, Some((&form, &trouble)))),
        Err(trouble) => Err(trouble),
    }
}
