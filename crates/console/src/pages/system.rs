//! What the server shows of itself: its store and shards, its settings, deliveries to push consumers, the audit log.

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::Head;
use super::{PageReply, Visit, backups, query_of, queue_path, read, shards, text};

/// Rows of a page.
const LIMIT: &str = "100";
const OUTCOMES: [(&str, &str); 4] =
    [("", "Any"), ("ok", "ok"), ("failed", "failed"), ("unreached", "unreached")];

/// `GET /store`.
pub(super) async fn store(visit: &Visit<'_>) -> PageReply {
    let store = visit.read("/store", &[]).await?;
    let shards = visit.read("/shards", &[]).await?;
    let nodes = visit.read("/nodes", &[]).await?;
    let is_fleet = read::list(&nodes, "nodes").iter().any(|node| read::given(node, "id").is_some());
    let counts = [
        ("queues", "Queues"),
        ("sent", "Sent"),
        ("leased", "Leases"),
        ("acked", "Deleted by receivers"),
        ("expired", "Expired"),
        ("deduplicated", "Deduplicated"),
        ("dead_lettered", "Dead-lettered"),
        ("dropped", "Dropped"),
        ("damaged_records", "Damaged records"),
    ];
    let content = html! {
        h1 { "Store" }
        (visit.frame.done())
        p { (read::text(&store, "kind")) " at " code { (text::isolated(read::text(&store, "place"))) } }
        dl.cards {
            div { dt { "Live" } dd { (text::bytes(read::whole(&store, "live_bytes"))) } }
            div { dt { "Dead" } dd { (text::bytes(read::whole(&store, "dead_bytes"))) } }
            @for (name, title) in counts { div { dt { (title) } dd { (text::count(read::whole(&store, name))) } } }
        }
        p.quiet { "Counts are of the time since the server started" @if is_fleet { ", and of the shards of the node that answers" } "." }
        (shards::map(visit, &shards, &nodes))
        (backups::form(visit))
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Store").at("/store"), &content))
}

/// `GET /config`.
pub(super) async fn config(visit: &Visit<'_>) -> PageReply {
    let config = visit.read("/config", &[]).await?;
    let row = |one: &Value| {
        vec![
            html! { code { "[" (read::text(one, "section")) "] " (read::text(one, "key")) } },
            match read::given(one, "value") {
                Some(value) => html! { code { (text::isolated(value)) } },
                None => html! { span.quiet { "not set" } },
            },
            match read::text(one, "origin") {
                "default" => html! { span.quiet { "default" } },
                other => html! { (text::isolated(other)) },
            },
        ]
    };
    let rows: Vec<Vec<Markup>> = read::list(&config, "settings").iter().map(row).collect();
    let content = html! {
        h1 { "Configuration" }
        p.quiet { "Every setting with its value and where that comes from. Secrets are hidden. " code { "kew serve --print-config" } " prints the same." }
        (table("Settings", &["Setting", "Value", "Origin"], &rows))
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Configuration").at("/config"), &content))
}

/// `GET /audit`.
pub(super) async fn audit(visit: &Visit<'_>) -> PageReply {
    let cursor = visit.asked("cursor").unwrap_or_default();
    let audit = visit.read("/audit", &[("limit", LIMIT), ("cursor", cursor)]).await?;
    let row = |one: &Value| {
        let times = read::whole(one, "times");
        vec![
            text::instant(read::whole(one, "at_ms")),
            text::isolated(read::text(one, "who")),
            html! { code { (read::text(one, "action")) } },
            text::isolated(read::text(one, "target")),
            html! {
                @match read::text(one, "outcome") {
                    "ok" => { "ok" }
                    code => { span.badge.warn { (text::visible(code)) } }
                }
                @if times > 1 { " × " (times) }
            },
        ]
    };
    let rows: Vec<Vec<Markup>> = read::list(&audit, "entries").iter().map(row).collect();
    let content = html! {
        h1 { "Audit log" }
        p.quiet { "Changes made through the console and the admin API since the server started, newest first." }
        (table("Changes", &["When", "Who", "What", "Of what", "Outcome"], &rows))
        (pager("/audit", cursor, read::given(&audit, "next")))
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Audit log").at("/audit"), &content))
}

/// `GET /push`.
pub(super) async fn push(visit: &Visit<'_>) -> PageReply {
    let asked = |name: &str| visit.asked(name).unwrap_or_default();
    let query = [
        ("queue", asked("queue")),
        ("consumer", asked("consumer")),
        ("outcome", asked("outcome")),
        ("max", LIMIT),
    ];
    let found = visit.read("/push/attempts", &query).await?;
    let circuits: Vec<Vec<Markup>> = read::list(&found, "circuits").iter().map(circuit).collect();
    let attempts: Vec<Vec<Markup>> = read::list(&found, "attempts").iter().map(attempt).collect();
    let content = html! {
        h1 { "Push consumers" }
        form.filter role="search" aria-label="Deliveries" {
            label { "Queue" input name="queue" value=(asked("queue")) maxlength="200"; }
            label { "Consumer" input name="consumer" value=(asked("consumer")) maxlength="200"; }
            label {
                "Outcome"
                select name="outcome" {
                    @for (value, title) in OUTCOMES { option value=(value) selected[value == asked("outcome")] { (title) } }
                }
            }
            button { "Search" }
        }
        @if !circuits.is_empty() {
            h2 { "Cannot be reached" }
            (table("Consumers that cannot be reached", &["Queue", "Consumer", "Target", "Since", "Tries", "Why"], &circuits))
        }
        h2 { "Latest deliveries" }
        (table("Deliveries", &["When", "Queue", "Consumer", "Target", "Outcome", "Messages", "Done", "Took", "Status or error"], &attempts))
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Push consumers").at("/push"), &content))
}

fn circuit(one: &Value) -> Vec<Markup> {
    vec![
        queue_of(one),
        text::isolated(read::text(one, "consumer")),
        text::isolated(read::text(one, "target")),
        text::instant(read::whole(one, "since_ms")),
        html! { (read::whole(one, "tries")) },
        text::isolated(read::text(one, "error")),
    ]
}

fn attempt(one: &Value) -> Vec<Markup> {
    let took = read::number(one, "took_ms").unwrap_or_default();
    vec![
        text::instant(read::whole(one, "at_ms")),
        queue_of(one),
        text::isolated(read::text(one, "consumer")),
        text::isolated(read::text(one, "target")),
        match read::text(one, "outcome") {
            "ok" => html! { span.badge.good { "ok" } },
            other => html! { span.badge.warn { (text::visible(other)) } },
        },
        html! { (read::whole(one, "messages")) },
        html! { (read::whole(one, "acked")) },
        html! { (took) " ms" },
        html! {
            @if let Some(status) = read::whole_given(one, "status") { (status) " " }
            (text::isolated(read::text(one, "error")))
        },
    ]
}

fn queue_of(one: &Value) -> Markup {
    let (account, region, name) =
        (read::text(one, "account"), read::text(one, "region"), read::text(one, "queue"));
    html! { a href=(queue_path(&format!("{account}:{region}:{name}"))) { (text::isolated(name)) } }
}

/// A table of rows that are written.
pub(super) fn table(name: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        @if rows.is_empty() { p.empty { "There is nothing to show." } } @else {
            div.wide tabindex="0" role="region" aria-label=(name) {
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}

fn pager(path: &str, cursor: &str, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            @if !cursor.is_empty() { a href=(path) { "First page" } }
            @if let Some(next) = next { a rel="next" href={ (path) (query_of(&[("cursor", next)])) } { "Next page" } }
        }
    }
}
