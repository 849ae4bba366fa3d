//! The shard map: which node keeps which shard, in which database, and the buttons that hand one over or move it.

use kew_http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::done::see_done;
use super::forms::Form;
use super::system::table;
use super::{PageReply, Visit, read, text};

/// The map: nodes with their shards, then each shard with its figures.
pub(super) fn map(visit: &Visit<'_>, shards: &Value, nodes: &Value) -> Markup {
    let databases = read::whole(shards, "databases");
    let (shards, nodes) = (read::list(shards, "shards"), read::list(nodes, "nodes"));
    let rows: Vec<Vec<Markup>> = shards.iter().map(|shard| row(visit, shard, nodes, databases)).collect();
    let mut columns =
        vec!["Shard", "Owner", "State", "Epoch", "Append, median", "99th percentile", "Taken over"];
    if databases > 1 {
        columns.push("Database");
    }
    if may_move(visit, nodes) {
        columns.push("Hand over");
    }
    html! {
        h2 { "Shard map" }
        dl.map {
            @for node in nodes { (of_node(node, shards)) }
            @let without: Vec<&Value> = shards.iter().filter(|shard| read::given(shard, "owner").is_none()).collect();
            @if !without.is_empty() {
                div { dt { span.badge.warn { "no node" } } dd { @for shard in without { (chip(shard)) } } }
            }
        }
        @if may_move(visit, nodes) {
            p.quiet {
                "A shard that is handed over pauses for a moment: requests of its queues wait. It stays with its new node until a node joins or leaves."
            }
        }
        h2 { "Shards" }
        (table("Shards", &columns, &rows))
        h2 { "Nodes" }
        (table("Nodes", &["Node", "State", "Shards", "Heard of", "Address", "Version"], &nodes.iter().map(node_row).collect::<Vec<_>>()))
    }
}

/// Whether the visitor may hand shards over, and there is a node to hand one to.
fn may_move(visit: &Visit<'_>, nodes: &[Value]) -> bool {
    visit.frame.may_act() && nodes.len() > 1
}

/// A node with its shards.
fn of_node(node: &Value, shards: &[Value]) -> Markup {
    let name = read::text(node, "node");
    let own = shards.iter().filter(|shard| read::given(shard, "owner") == Some(name));
    let own: Vec<&Value> = own.collect();
    html! {
        div {
            dt { (text::isolated(name)) " " (state(read::text(node, "state"))) }
            dd {
                @for shard in &own { (chip(shard)) }
                @if own.is_empty() { span.quiet { "no shard" } }
            }
        }
    }
}

/// A shard in the map.
fn chip(shard: &Value) -> Markup {
    let (number, word) = (read::whole(shard, "shard"), read::text(shard, "state"));
    let is_well = word == "serving";
    html! {
        span.chip.warn[!is_well] title={ "Shard " (number) ": " (word) } {
            (number) @if !is_well { " " (word) }
        }
    }
}

fn state(word: &str) -> Markup {
    match word {
        "serving" => html! { span.badge.good { "serving" } },
        other => html! { span.badge.warn { (text::visible(other)) } },
    }
}

fn row(visit: &Visit<'_>, shard: &Value, nodes: &[Value], databases: u64) -> Vec<Markup> {
    let none = || html! { span.quiet { "–" } };
    let ms = |name: &str| match read::number(shard, name) {
        Some(ms) => html! { (ms) " ms" },
        None => none(),
    };
    let owner = read::given(shard, "owner");
    let mut row = vec![
        html! { (read::whole(shard, "shard")) },
        owner.map_or_else(none, text::isolated),
        html! {
            (state(read::text(shard, "state")))
            @if let Some(why) = read::given(shard, "reason") { " " (text::sentence(why)) }
        },
        html! { (read::whole(shard, "epoch")) },
        ms("append_ms_p50"),
        ms("append_ms_p99"),
        read::whole_given(shard, "taken_over_at_ms").map_or_else(none, text::instant),
    ];
    if databases > 1 {
        row.push(database(visit, shard, databases));
    }
    if may_move(visit, nodes) {
        row.push(owner.map_or_else(none, |owner| form(visit, read::whole(shard, "shard"), owner, nodes)));
    }
    row
}

/// The database of a shard, and the form that moves it to another one, or leaves it where it is.
fn database(visit: &Visit<'_>, shard: &Value, databases: u64) -> Markup {
    let (number, lies) = (read::whole(shard, "shard"), read::whole(shard, "database"));
    let moving_to = read::whole_given(shard, "moving_to");
    html! {
        (lies)
        @if let Some(to) = moving_to { " " span.badge { "moving to " (to) } }
        @if visit.frame.may_act() {
            form.inline method="post" action={ "/shards/" (number) "/move" } {
                (visit.frame.proof())
                @if moving_to.is_some() {
                    input type="hidden" name="database" value=(lies);
                    button aria-label={ "Leave shard " (number) " in database " (lies) } { "Stop" }
                } @else {
                    select name="database" aria-label={ "The database to move shard " (number) " to" } {
                        @for other in (1..=databases).filter(|other| *other != lies) {
                            option value=(other) { (other) }
                        }
                    }
                    button aria-label={ "Move shard " (number) } { "Move" }
                }
            }
        }
    }
}

/// The form that hands a shard to another node.
fn form(visit: &Visit<'_>, shard: u64, owner: &str, nodes: &[Value]) -> Markup {
    let others = nodes.iter().filter(|node| {
        read::text(node, "node") != owner && matches!(read::text(node, "state"), "serving" | "failed")
    });
    html! {
        form.inline method="post" action={ "/shards/" (shard) "/hand-over" } {
            (visit.frame.proof())
            select name="to" aria-label={ "The node to hand shard " (shard) " to" } {
                option value="" { "the emptiest node" }
                @for node in others {
                    @let name = read::text(node, "node");
                    option value=(name) { (text::visible(name)) }
                }
            }
            button aria-label={ "Hand shard " (shard) " over" } { "Hand over" }
        }
    }
}

fn node_row(node: &Value) -> Vec<Markup> {
    let shards = read::list(node, "shards").iter().map(ToString::to_string).collect::<Vec<_>>();
    vec![
        text::isolated(read::text(node, "node")),
        state(read::text(node, "state")),
        html! { (shards.join(", ")) },
        match read::number(node, "heartbeat_age_seconds") {
            Some(age) if age < 1.0 => html! { "now" },
            Some(age) => html! { (text::age(Some(age))) " ago" },
            None => html! { span.quiet { "–" } },
        },
        match read::given(node, "address") {
            Some(address) => text::isolated(address),
            None => html! { span.quiet { "–" } },
        },
        text::isolated(read::text(node, "version")),
    ]
}

/// `POST /shards/{shard}/hand-over`.
pub(super) async fn hand_over(visit: &Visit<'_>, shard: &str) -> PageReply {
    let form = Form::read(visit)?;
    let to = form.given("to").map_or_else(|| json!({}), |to| json!({ "to": to }));
    let path = format!("/shards/{}/hand-over", kew_http::percent::encode(shard.as_bytes()));
    let handed = visit.change(Method::POST, &path, &to).await?;
    let is_done = read::is_set(&handed, "done");
    Ok(see_done(visit, "/store", if is_done { "handed_over" } else { "hands_over" }))
}

/// `POST /shards/{shard}/move`.
pub(super) async fn move_to_database(visit: &Visit<'_>, shard: &str) -> PageReply {
    let form = Form::read(visit)?;
    let database = form.given("database").unwrap_or_default();
    // What is no number is refused by the API, in its words.
    let database = database.parse::<u64>().map_or_else(|_| json!(database), Value::from);
    let path = format!("/shards/{}/move", kew_http::percent::encode(shard.as_bytes()));
    let moved = visit.change(Method::POST, &path, &json!({ "database": database })).await?;
    let done = match (read::is_set(&moved, "done"), moved["from"] == moved["to"]) {
        (_, true) => "stays_shard",
        (true, false) => "moved_shard",
        (false, false) => "moves_shard",
    };
    Ok(see_done(visit, "/store", done))
}
