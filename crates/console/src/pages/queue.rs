//! One queue: its figures, what can be done to its deliveries, and its messages.

use kew_http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::ask::of_queue;
use super::done::see_done;
use super::forms::Form;
use super::layout::Head;
use super::spark::Spark;
use super::trouble::Trouble;
use super::{PageReply, Visit, messages, query_of, queue_path, queues, read, spark, text};

/// Which part of a queue a page shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Messages,
    Send,
    DeadLetters,
    Delayed,
    Leases,
    Groups,
    Charts,
    Settings,
}

/// All parts: where they are below the queue, what they are called, and the letters that the script follows.
const TABS: [(Tab, &str, &str, &str); 8] = [
    (Tab::Messages, "", "Messages", "m"),
    (Tab::Send, "/send", "Send", "e"),
    (Tab::DeadLetters, "/dead-letters", "Dead letters", "d"),
    (Tab::Delayed, "/delayed", "Delayed", "y"),
    (Tab::Leases, "/leases", "Leases", "i"),
    (Tab::Groups, "/groups", "Groups", "g"),
    (Tab::Charts, "/charts", "Charts", "h"),
    (Tab::Settings, "/settings", "Settings", "t"),
];

/// `GET /queues/{q}`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let top = top(visit, queue, &shown, Tab::Messages).await;
    let found = messages::list(visit, queue, &shown).await?;
    let content = html! {
        (top)
        p.note hidden data-stale=(mark(&shown)) {
            "The queue has changed. " a href=(visit.frame.here) { "Load it again" }
        }
        (found)
    };
    let stream = format!("/live/queue{}", query_of(&[("q", queue)]));
    Ok(visit.frame.page(StatusCode::OK, &Head::of(queue).at("/").live(stream), &content))
}

/// What the page of a queue was written from, beside the figures that live. Where this changes, the page shows what is
/// not so any more: whether the queue is paused, its settings, and messages that are all on one page.
pub(super) fn mark(shown: &Value) -> String {
    let seen = |name: &str| read::whole(shown, name).min(messages::LIMIT + 1);
    let is_paused = read::is_set(shown, "paused");
    let counts = [seen("visible"), seen("in_flight"), seen("delayed")];
    format!("{is_paused} {} {counts:?}", read::whole(shown, "modified_at_ms"))
}

/// What every page of a queue begins with.
pub(super) async fn top(visit: &Visit<'_>, queue: &str, shown: &Value, tab: Tab) -> Markup {
    let path = queue_path(queue);
    let spark = spark::of_queue(visit.console, queue).await;
    html! {
        nav.crumbs aria-label="Where this is" { a href="/" { "Queues" } }
        div.head {
            h1 { (text::isolated(queue)) (queues::badges(shown)) }
            @if visit.frame.may_act() { (pause(visit, &path, read::is_set(shown, "paused"))) }
        }
        (visit.frame.done())
        (figures(&spark, queue, shown))
        nav.tabs aria-label="Parts of the queue" {
            @for (place, below, name, key) in TABS.iter().copied().filter(|(place, ..)| has_tab(shown, *place, tab)) {
                a href={ (path) (below) } aria-current=[(place == tab).then_some("page")] aria-keyshortcuts=(key) { (name) }
            }
        }
    }
}

/// Whether a queue has a part: dead letters only where they go to or are, or who asked for them at its address.
fn has_tab(shown: &Value, place: Tab, tab: Tab) -> bool {
    place != Tab::DeadLetters || tab == Tab::DeadLetters || read::is_set(shown, "takes_dead_letters")
}

fn pause(visit: &Visit<'_>, path: &str, is_paused: bool) -> Markup {
    let (act, title) =
        if is_paused { ("resume", "Resume deliveries") } else { ("pause", "Pause deliveries") };
    html! {
        form method="post" action={ (path) "/" (act) } { (visit.frame.proof()) button { (title) } }
    }
}

fn figures(spark: &Spark, queue: &str, shown: &Value) -> Markup {
    let titles = ["Visible", "In flight", "Delayed", "Oldest", "Sent/s", "Leased/s", "Done/s"];
    let bytes = text::bytes(read::whole(shown, "body_bytes"));
    html! {
        dl.cards {
            @for ((figure, value), title) in queues::figures(shown).iter().zip(titles) {
                div { dt { (title) } dd data-live={ (queue) "/" (figure) } { (value) } }
            }
            div { dt { "Bodies" } dd data-live={ (queue) "/bytes" } { (bytes) } }
            div.drawn { dt { "Visible, 5 minutes" } dd { (spark::drawn(spark, queue)) } }
        }
        p.quiet {
            @if let Some(dead) = read::given(shown, "dead_letters_to") {
                "After " (text::counted(read::whole(shown, "max_attempts"), "lease"))
                " a message goes to " a href=(queue_path(dead)) { (text::isolated(dead)) } ". "
            }
            "It is in " a href="/store" { "shard " (read::whole(shown, "shard")) } ". "
            a href={ "/push" (query_of(&[("queue", read::text(shown, "name"))])) } { "Deliveries to push consumers" }
        }
    }
}

/// `POST /queues/{q}/pause` and `/resume`.
pub(super) async fn set_paused(visit: &Visit<'_>, queue: &str, is_paused: bool) -> PageReply {
    Form::read(visit)?;
    let (below, done) = if is_paused { ("/pause", "paused") } else { ("/resume", "resumed") };
    visit.change(Method::POST, &of_queue(queue, below), &json!({})).await?;
    Ok(see_done(visit, &queue_path(queue), done))
}

/// `POST /queues/{q}/purge`.
pub(super) async fn purge(visit: &Visit<'_>, queue: &str) -> PageReply {
    let form = Form::read(visit)?;
    let body = json!({ "confirm": form.text("confirm").trim() });
    visit.change(Method::POST, &of_queue(queue, "/purge"), &body).await?;
    Ok(see_done(visit, &queue_path(queue), "purged"))
}

/// `POST /queues/{q}/delete`.
pub(super) async fn delete(visit: &Visit<'_>, queue: &str) -> PageReply {
    let form = Form::read(visit)?;
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let name = read::text(&shown, "name");
    if form.text("confirm").trim() != name {
        let message = format!("to delete the queue, type its name, {name}");
        return Err(Trouble::new(StatusCode::CONFLICT, "not_confirmed", message));
    }
    visit.change(Method::DELETE, &of_queue(queue, ""), &json!({})).await?;
    Ok(see_done(visit, "/", "removed"))
}
