//! The messages of a queue, in every state and without consuming any; what is searched for stands in the address.

use maud::{Markup, html};
use serde_json::Value;

use super::ask::of_queue;
use super::layout::Frame;
use super::trouble::Trouble;
use super::{Visit, message_path, query_of, queue_path, read, text};

/// Messages of a page.
pub(super) const LIMIT: u64 = 50;
/// Characters of a body that the list shows.
const PREVIEW: usize = 160;
/// What a search may name, in the API's own words, with a title and a hint.
pub(super) const ASKED: [(&str, &str, &str); 5] = [
    ("text", "Text in the body", "letter by letter"),
    ("json", "JSON value", "$.order.id=17"),
    ("group", "Group", "exactly"),
    ("min_attempts", "Attempts, at least", "0"),
    ("older_than_seconds", "Older than, seconds", "0"),
];
const STATES: [(&str, &str); 4] =
    [("any", "Any state"), ("visible", "Visible"), ("in_flight", "In flight"), ("delayed", "Delayed")];

/// The list of messages, on a page of the queue.
pub(super) async fn list(visit: &Visit<'_>, queue: &str, shown: &Value) -> Result<Markup, Trouble> {
    let state = visit.asked("state").unwrap_or("any");
    let limit = LIMIT.to_string();
    let mut query = vec![("state", state), ("limit", &*limit)];
    query.extend(ASKED.iter().filter_map(|(name, _, _)| Some((*name, visit.asked(name)?))));
    let mut narrowed: Vec<(&str, &str)> =
        query.iter().copied().filter(|(name, _)| *name != "limit").collect();
    query.extend(visit.asked("cursor").map(|cursor| ("cursor", cursor)));
    let found = match visit.read(&of_queue(queue, "/messages"), &query).await {
        Ok(found) => found,
        // What was typed into the search is corrected where it was typed.
        Err(trouble) if trouble.status.as_u16() == 400 => {
            return Ok(html! {
                (search(visit, queue, state))
                p.trouble role="alert" { (text::visible(&text::sentence(&trouble.message))) }
            });
        }
        Err(trouble) => return Err(trouble),
    };
    let has_groups = read::text(shown, "kind") == "fifo";
    let now = visit.console.now().0;
    let queue_name = queue.to_owned();
    let next = read::given(&found, "next").map(str::to_owned);
    let is_narrow = narrowed.len() > 1 || state != "any";
    let has_cursor = visit.asked("cursor").is_some();
    let table = render(move || table(&queue_name, &found, (has_groups, now))).await?;
    let first = query_of(&narrowed);
    narrowed.extend(next.as_deref().map(|next| ("cursor", next)));
    Ok(html! {
        section aria-labelledby="messages-title" {
            h2.hidden #messages-title { "Messages" }
            (search(visit, queue, state))
            @match table {
                Some(table) => (table),
                None => (nothing(next.is_some(), is_narrow)),
            }
            (pager(&visit.frame, queue, (&first, has_cursor), next.as_ref().map(|_| query_of(&narrowed))))
        }
    })
}

/// Writes what may be large on a thread that may be busy.
pub(super) async fn render<T: Send + 'static>(
    write: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    let written = tokio::task::spawn_blocking(write).await;
    written.map_err(|_| crate::error::ApiError::unavailable("the server is stopping").into())
}

fn search(visit: &Visit<'_>, queue: &str, state: &str) -> Markup {
    let is_narrow = ASKED.iter().any(|(name, _, _)| visit.asked(name).is_some());
    html! {
        form.filter action=(queue_path(queue)) role="search" aria-label="Messages of the queue" {
            label {
                "State"
                select name="state" {
                    @for (value, title) in STATES { option value=(value) selected[value == state] { (title) } }
                }
            }
            @for (name, title, hint) in ASKED {
                label {
                    (title)
                    input name=(name) value=(visit.asked(name).unwrap_or_default()) placeholder=(hint) maxlength="4096"
                        aria-keyshortcuts=[(name == "text").then_some("/")];
                }
            }
            button { "Search" }
            @if is_narrow || state != "any" { a href=(queue_path(queue)) { "All messages" } }
        }
    }
}

fn nothing(has_more: bool, is_narrow: bool) -> Markup {
    html! {
        p.empty {
            @if has_more { "None found so far; more messages follow on the next page." }
            @else if is_narrow { "No message fits the search." }
            @else { "The queue is empty." }
        }
    }
}

fn table(queue: &str, found: &Value, (has_groups, now): (bool, u64)) -> Option<Markup> {
    let rows = read::list(found, "messages");
    if rows.is_empty() {
        return None;
    }
    Some(html! {
        div.wide tabindex="0" role="region" aria-label="Table of messages" {
            table.messages {
                thead {
                    tr {
                        th scope="col" { "Message" }
                        th scope="col" { "State" }
                        th.number scope="col" title="How often it was leased" { "Attempts" }
                        th.number scope="col" { "Age" }
                        @if has_groups { th scope="col" { "Group" } }
                        th.number scope="col" { "Size" }
                        th scope="col" { "Body" }
                    }
                }
                tbody { @for row in rows { (line(queue, row, (has_groups, now))) } }
            }
        }
    })
}

fn line(queue: &str, row: &Value, (has_groups, now): (bool, u64)) -> Markup {
    let id = read::text(row, "id");
    let age = now.saturating_sub(read::whole(row, "sent_at_ms")) / 1_000;
    html! {
        tr {
            th scope="row" { a.id href=(message_path(queue, id)) { (id) } }
            td {
                (state(row, now))
                @if let Some(by) = row.get("lease").and_then(|lease| read::given(lease, "by")) {
                    " " span.quiet { "by " (text::isolated(by)) }
                }
            }
            td.number { (text::count(read::whole(row, "attempts"))) }
            td.number { (text::length(age)) }
            @if has_groups { td { (text::isolated(read::text(row, "group"))) } }
            td.number { (text::bytes(size(row))) }
            td.body { (preview(row)) }
        }
    }
}

/// What a message is doing, and until when.
pub(super) fn state(row: &Value, now: u64) -> Markup {
    let until = read::whole_given(row, "visible_at_ms");
    html! {
        @match read::text(row, "state") {
            "visible" => { span.badge.good { "visible" } }
            "in_flight" => { span.badge.busy { "in flight" } }
            "delayed" => { span.badge { "delayed" } }
            "gone" => { span.badge.warn { "gone" } }
            other => { span.badge { (other) } }
        }
        @if let Some(until) = until {
            " " span.quiet data-until=(until) data-now=(now) { (text::distance(until, now)) }
        }
    }
}

/// Bytes of a body.
pub(super) fn size(row: &Value) -> u64 {
    match (read::given(row, "body"), read::given(row, "body_base64")) {
        (Some(body), _) => body.len() as u64,
        (None, Some(encoded)) => {
            let padding = encoded.bytes().rev().take_while(|byte| *byte == b'=').count();
            (encoded.len() / 4 * 3).saturating_sub(padding) as u64
        }
        (None, None) => 0,
    }
}

/// The beginning of a body on one line.
pub(super) fn preview(row: &Value) -> Markup {
    if row.get("readable").and_then(Value::as_bool) == Some(false) {
        return html! { span.warn { "cannot be read from the store" } };
    }
    let is_text = read::given(row, "body").is_some();
    let whole = read::given(row, "body").unwrap_or_else(|| read::text(row, "body_base64"));
    let (beginning, has_more) = text::beginning(whole, PREVIEW);
    html! {
        @if !is_text { span.badge { (read::text(row, "content_type")) } " " }
        code { (text::isolated(beginning)) @if has_more { "…" } }
    }
}

fn pager(frame: &Frame, queue: &str, (first, has_cursor): (&str, bool), next: Option<String>) -> Markup {
    let path = queue_path(queue);
    html! {
        nav.pager aria-label="Pages" {
            a href=(frame.here) aria-keyshortcuts="r" { "Load again" }
            @if has_cursor { a href={ (path) (first) } aria-keyshortcuts="b" { "First page" } }
            @if let Some(next) = next { a rel="next" href={ (path) (next) } aria-keyshortcuts="n" { "Next page" } }
        }
    }
}
