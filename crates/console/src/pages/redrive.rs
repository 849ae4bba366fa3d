//! The workbench for dead letters: what is there and why, one message corrected and sent again, all of them moved back
//! as a task that can be watched and cancelled.

use std::collections::BTreeMap;

use kew_http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::ask::{of_message, of_queue};
use super::forms::Form;
use super::layout::{Head, see};
use super::message::{go_on, searching};
use super::messages::{self, preview};
use super::queue::{self, Tab};
use super::send::{self, Draft};
use super::trouble::Trouble;
use super::{PageReply, Visit, message_path, query_of, queue_path, read, text};

/// Messages that one page groups.
const LOOK_MAX: &str = "200";
/// Messages that are shown of each group.
const SHOWN_MAX: usize = 5;

/// `GET /queues/{q}/dead-letters`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let cursor = visit.asked("cursor").unwrap_or_default();
    let query = [("state", "visible"), ("limit", LOOK_MAX), ("cursor", cursor)];
    let found = visit.read(&of_queue(queue, "/messages"), &query).await?;
    let next = read::given(&found, "next");
    let now = visit.console.now().0;
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::DeadLetters).await)
        section aria-labelledby="all-title" {
            h2 #all-title { "Move messages back" }
            @if visit.frame.may_act() { (form(visit, queue, read::whole(&shown, "visible"))) }
            @else { p { "Your role is read-only: it moves nothing." } }
        }
        section aria-labelledby="groups-title" {
            h2 #groups-title { "By origin and reason" }
            @if next.is_some() || !cursor.is_empty() {
                p.quiet { "Of up to " (LOOK_MAX) " visible messages on each page, oldest first." }
            }
            (groups(visit, queue, (read::list(&found, "messages"), next.is_some()), now))
            @if let Some(next) = next {
                nav.pager aria-label="Pages" {
                    a rel="next" href={ (queue_path(queue)) "/dead-letters" (query_of(&[("cursor", next)])) } { "Next page" }
                }
            }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Dead letters of {queue}")).at("/"), &content))
}

fn form(visit: &Visit<'_>, queue: &str, visible: u64) -> Markup {
    html! {
        form.stack method="post" action={ (queue_path(queue)) "/redrive" } {
            (visit.frame.proof())
            p { (text::counted(visible, "message")) " can be moved now." }
            div.row {
                label {
                    "To" input name="to" maxlength="200" placeholder="where each came from" autocapitalize="off"
                        spellcheck="false" aria-describedby="to-help";
                }
                label {
                    "At most, messages a second"
                    input name="per_second" type="number" min="1" max="1000000" placeholder="as fast as possible";
                }
            }
            p.help #to-help {
                "A queue's name. Empty returns each message to the queue it came from. A message that was sent here, or \
                 whose queue was deleted, has none: it stays, and is counted."
            }
            details {
                summary { "Only some of them" }
                div.row {
                    @for (name, title, hint) in messages::ASKED {
                        label { (title) input name=(name) placeholder=(hint) maxlength="4096" autocapitalize="off" spellcheck="false"; }
                    }
                }
                p.help { "A message must fit everything that is given. One that is leased when its turn comes stays." }
            }
            div.row {
                button name="dry_run" value="true" { "Only count" }
                button.main { "Move them" }
            }
        }
    }
}

fn groups(visit: &Visit<'_>, queue: &str, (rows, has_more): (&[Value], bool), now: u64) -> Markup {
    let mut groups: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for row in rows {
        groups.entry((read::text(row, "origin"), read::text(row, "reason"))).or_default().push(row);
    }
    html! {
        @if groups.is_empty() && has_more { p.empty { "None of those looked at so far is visible." } }
        @else if groups.is_empty() { p.empty { "No message is visible here." } }
        @for ((origin, reason), rows) in &groups {
            h3 {
                (text::counted(rows.len() as u64, "message")) " "
                @if origin.is_empty() { "sent here" } @else {
                    "from " a href=(queue_path(origin)) { (text::isolated(origin)) } ", " (because(reason))
                }
            }
            div.wide tabindex="0" role="region" aria-label={ "Messages from " (if origin.is_empty() { queue } else { origin }) } {
                table.messages {
                    thead {
                        tr {
                            th scope="col" { "Message" }
                            th.number scope="col" { "Attempts" }
                            th.number scope="col" { "Age" }
                            th scope="col" { "Body" }
                            @if visit.frame.may_act() { th scope="col" { "Act" } }
                        }
                    }
                    tbody { @for row in rows.iter().take(SHOWN_MAX) { (line(visit, queue, row, now)) } }
                }
            }
            @if rows.len() > SHOWN_MAX { p.quiet { "and " (text::counted((rows.len() - SHOWN_MAX) as u64, "other")) } }
        }
    }
}

fn line(visit: &Visit<'_>, queue: &str, row: &Value, now: u64) -> Markup {
    let path = message_path(queue, read::text(row, "id"));
    let age = now.saturating_sub(read::whole(row, "sent_at_ms")) / 1_000;
    html! {
        tr {
            th scope="row" { a.id href=(path) { (read::text(row, "id")) } }
            td.number { (text::count(read::whole(row, "attempts"))) }
            td.number { (text::length(age)) }
            td.body { (preview(row)) }
            @if visit.frame.may_act() {
                td { a href={ (path) "/resend" } aria-label={ "Correct and resend " (read::text(row, "id")) } { "Correct and resend" } }
            }
        }
    }
}

fn because(reason: &str) -> &str {
    match reason {
        "attempts_exhausted" => "leased too often",
        "redriven" => "redriven here",
        other => other,
    }
}

/// What a form orders, and what the API is asked for that.
struct Order {
    to: Option<String>,
    rate: Option<u64>,
    filter: Map<String, Value>,
}

impl Order {
    fn of(form: &Form) -> Result<Self, Trouble> {
        let to = form.given("to").map(str::trim).filter(|to| !to.is_empty());
        Ok(Self { to: to.map(str::to_owned), rate: form.whole("per_second")?, filter: filter(form)? })
    }

    fn body(&self, is_dry: bool) -> Value {
        let mut body = Map::from_iter([("dry_run".to_owned(), Value::from(is_dry))]);
        body.insert("to".to_owned(), self.to.as_deref().unwrap_or("origin").into());
        body.extend(self.rate.map(|rate| ("per_second".to_owned(), rate.into())));
        // Each for itself: one that has no queue to go back to keeps no other.
        if self.to.is_none() || !self.filter.is_empty() {
            body.insert("filter".to_owned(), Value::Object(self.filter.clone()));
        }
        Value::Object(body)
    }
}

/// How many messages a count found; of a very long queue at least.
fn found(counted: &Value) -> String {
    let is_part = counted.get("counted_all").and_then(Value::as_bool) == Some(false);
    let messages = text::counted(read::whole(counted, "matched"), "message");
    if is_part { format!("at least {messages}") } else { messages }
}

/// What fits and stays all the same, if anything does.
fn staying(counted: &Value) -> Option<String> {
    let stay = read::whole(counted, "cannot_move");
    (stay > 0).then(|| {
        format!("{} more fit and stay: no queue is there for them to go to", text::counted(stay, "message"))
    })
}

/// What a form will do, on how many messages, as a sentence without its end; or why it would be refused.
pub(super) async fn foretold(visit: &Visit<'_>, queue: &str, form: &Form) -> Result<String, Trouble> {
    let order = Order::of(form)?;
    let counted = visit.change(Method::POST, &of_queue(queue, "/redrive"), &order.body(true)).await?;
    let to =
        order.to.as_ref().map_or_else(|| "where each came from".to_owned(), |to| format!("the queue {to}"));
    let mut what = format!("{} of the queue {queue} will be moved to {to}", found(&counted));
    if let Some(stay) = staying(&counted) {
        what.push_str(&format!(" ({stay})"));
    }
    if let Some(rate) = order.rate {
        what.push_str(&format!(", at most {rate} each second"));
    }
    if !order.filter.is_empty() {
        let asked: Vec<String> =
            order.filter.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
        what.push_str(&format!("; only those that fit {}", asked.join(" ")));
    }
    Ok(what)
}

/// `POST /queues/{q}/redrive`.
pub(super) async fn start(visit: &Visit<'_>, queue: &str) -> PageReply {
    let form = Form::read(visit)?;
    let order = Order::of(&form)?;
    let body = order.body(form.text("dry_run") == "true");
    let started = visit.change(Method::POST, &of_queue(queue, "/redrive"), &body).await?;
    if let Some(task) = read::given(&started, "task") {
        return Ok(see(&format!("/redrives/{task}")));
    }
    let path = format!("{}/dead-letters", queue_path(queue));
    let content = html! {
        h1 { "Nothing was moved" }
        p {
            (text::sentence(&format!("{} would be moved from the queue {queue}", found(&started))))
            @if let Some(stay) = staying(&started) { " " (text::sentence(&stay)) }
        }
        p { a href=(path) { "Back to the dead letters" } }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("A count").at("/"), &content))
}

/// What the messages have to fit, as the API takes it.
fn filter(form: &Form) -> Result<Map<String, Value>, Trouble> {
    let mut filter = Map::new();
    for (name, _, _) in messages::ASKED {
        let value = match name {
            "min_attempts" | "older_than_seconds" => form.whole(name)?.map(Value::from),
            _ => form.given(name).map(Value::from),
        };
        filter.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(filter)
}

/// `GET /redrives/{task}`.
pub(super) async fn task(visit: &Visit<'_>, task: &str) -> PageReply {
    let path = format!("/redrives/{}", kew_http::percent::encode(task.as_bytes()));
    let shown = visit.read(&path, &[]).await?;
    let (source, state) = (read::text(&shown, "source"), read::text(&shown, "state"));
    let (is_running, title) = (state == "running", title(state));
    let content = html! {
        nav.crumbs aria-label="Where this is" {
            a href="/" { "Queues" } " / " a href=(queue_path(source)) { (text::isolated(source)) }
        }
        div.head {
            h1 { (title) }
            (badge(state))
            @if is_running && visit.frame.may_act() {
                form method="post" action={ (path) "/cancel" } { (visit.frame.proof()) button.harm { "Cancel" } }
            }
        }
        div data-refresh=[is_running.then_some("2")] { (progress(&shown)) }
        @if is_running { p { a href=(path) { "Load again" } } }
        @else { p { a href={ (queue_path(source)) "/dead-letters" } { "Back to the dead letters" } } }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(title).at("/"), &content))
}

/// How far a task is, and why it ended as it did.
fn progress(shown: &Value) -> Markup {
    let (moved, left) = (read::whole(shown, "moved"), read::whole(shown, "left"));
    let (source, to) = (read::text(shown, "source"), read::text(shown, "to"));
    let all = moved.saturating_add(left);
    let asked = shown.get("filter").and_then(Value::as_object).into_iter().flatten();
    let asked: Vec<(&str, String)> = asked.map(|(name, value)| (name.as_str(), plain(value))).collect();
    html! {
        p {
            "From " a href=(queue_path(source)) { (text::isolated(source)) } " to "
            @if to == "origin" { "where each came from" } @else { a href=(queue_path(to)) { (text::isolated(to)) } }
            ": " strong { (text::count(moved)) } " moved, " strong { (text::count(left)) } " left."
        }
        @if !asked.is_empty() {
            p.quiet {
                "Only messages that fit:"
                @for (name, value) in &asked { " " code { (name) "=" (text::isolated(value)) } }
            }
        }
        // Nothing to move is all of it.
        progress max=(all.max(1)) value=(if all == 0 { 1 } else { moved }) aria-label="Messages moved" {}
        @if let Some(why) = read::given(shown, "reason") {
            @if read::text(shown, "state") == "failed" { p.trouble role="alert" { (text::sentence(why)) } }
            @else { p.note { (text::sentence(why)) } }
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn title(state: &str) -> &'static str {
    match state {
        "running" => "Messages are being moved",
        "cancelled" => "The move was cancelled",
        "failed" => "The move failed",
        _ => "Messages were moved",
    }
}

fn badge(state: &str) -> Markup {
    html! {
        @match state {
            "done" => { span.badge.good { "done" } }
            "running" => { span.badge.busy { "running" } }
            other => { span.badge.warn { (text::visible(other)) } }
        }
    }
}

/// `POST /redrives/{task}/cancel`.
pub(super) async fn cancel(visit: &Visit<'_>, task: &str) -> PageReply {
    Form::read(visit)?;
    let path = format!("/redrives/{}", kew_http::percent::encode(task.as_bytes()));
    visit.change(Method::POST, &format!("{path}/cancel"), &json!({})).await?;
    Ok(see(&path))
}

/// `GET /queues/{q}/messages/{id}/resend`, with the queue that is to get it, if not the one it came from.
pub(super) async fn resend_form(visit: &Visit<'_>, queue: &str, id: &str) -> PageReply {
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = visit.read(&of_message(queue, id, ""), &[("cursor", cursor)]).await?;
    if let Some(next) = searching(&found) {
        let path = format!("{}/resend", message_path(queue, id));
        return Ok(go_on(visit, &format!("{path}{}", query_of(&[("cursor", next)]))));
    }
    if read::text(&found, "state") == "gone" {
        return Ok(see(&format!("{}{}", message_path(queue, id), query_of(&[("cursor", cursor)]))));
    }
    let wanted = visit.asked("to").map(str::trim).or(read::given(&found, "origin")).unwrap_or(queue);
    let (target, shown) = target_of_resend(visit, wanted, queue).await?;
    if found.get("readable").and_then(Value::as_bool) == Some(false) {
        let message = "the message cannot be read from the store, so it cannot be corrected";
        return Err(Trouble::new(StatusCode::CONFLICT, "unreadable", message));
    }
    let draft = draft_of_resend(&found, queue, cursor);
    let content = html! {
        nav.crumbs aria-label="Where this is" {
            a href="/" { "Queues" } " / " a href=(queue_path(queue)) { (text::isolated(queue)) }
        }
        h1 { "Correct and resend" }
        @if target != wanted {
            p.note role="alert" { "There is no queue " (text::isolated(wanted)) " any more. Say where the new message goes, or send it to this queue." }
        }
        p { "A new message goes to " a href=(queue_path(target)) { (text::isolated(target)) } "." }
        (elsewhere(&format!("{}/resend", message_path(queue, id)), cursor))
        @if is_odd(&draft) {
            p.note {
                "The message has control characters, which a form does not keep as they are. The commands on the "
                a href=(message_path(queue, id)) { "page of the message" } " keep them."
            }
        }
        @if visit.frame.may_act() { (send::fields(visit, target, &shown, &draft)) }
        @else { p { "Your role is read-only: it sends nothing." } }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Correct and resend").at("/"), &content))
}

/// The queue that gets the new message, with what the admin API shows of it.
async fn target_of_resend<'a>(
    visit: &Visit<'_>,
    wanted: &'a str,
    queue: &'a str,
) -> Result<(&'a str, Value), Trouble> {
    match visit.read(&of_queue(wanted, ""), &[]).await {
        Ok(shown) => Ok((wanted, shown)),
        // It may still go elsewhere.
        Err(trouble) if trouble.status == StatusCode::NOT_FOUND => {
            Ok((queue, visit.read(&of_queue(queue, ""), &[]).await?))
        }
        Err(trouble) => Err(trouble),
    }
}

/// A message of a queue as the form shows it at first.
fn draft_of_resend(found: &Value, queue: &str, cursor: &str) -> Draft {
    let (body, content_type) = match read::given(found, "body") {
        Some(body) => (body, read::text(found, "content_type")),
        // What a form holds in Base64 is sent as bytes or as v8: of a text that is no UTF-8 only its bytes are kept.
        None => {
            let is_v8 = read::text(found, "content_type") == "v8";
            (read::text(found, "body_base64"), if is_v8 { "v8" } else { "bytes" })
        }
    };
    Draft {
        body: body.to_owned(),
        content_type: content_type.to_owned(),
        group: read::text(found, "group").to_owned(),
        attributes: send::attributes_of(found),
        original: Some((queue.to_owned(), read::text(found, "id").to_owned())),
        cursor: cursor.to_owned(),
        ..Draft::default()
    }
}

/// The form that names another queue for the new message.
fn elsewhere(path: &str, cursor: &str) -> Markup {
    html! {
        details {
            summary { "Send it to another queue" }
            form.filter action=(path) {
                @if !cursor.is_empty() { input type="hidden" name="cursor" value=(cursor); }
                label { "Queue" input name="to" maxlength="200" required autocapitalize="off" spellcheck="false"; }
                button { "Choose" }
            }
        }
    }
}

/// Whether a form would change some text of a message.
fn is_odd(draft: &Draft) -> bool {
    let has_odd = |text: &str| text.chars().any(|one| one.is_control() && !matches!(one, '\n' | '\t'));
    has_odd(&draft.body) || draft.attributes.iter().any(|(_, _, value)| has_odd(value))
}

/// Deletes the message that a new one stands for, once that is sent: a failure in between leaves both.
pub(super) async fn delete_original(visit: &Visit<'_>, form: &Form) -> Result<(), Trouble> {
    let (Some(queue), Some(id), "yes") =
        (form.given("original_queue"), form.given("original"), form.text("delete_original"))
    else {
        return Ok(());
    };
    let body = form.given("cursor").map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    visit.change(Method::POST, &of_message(queue, id, "/delete"), &body).await.map(drop)
}
