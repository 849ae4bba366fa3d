//! A queue's settings as a form: each with its range and its default, from the table that the API checks them by.

use kew_http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::ask::of_queue;
use super::done::see_done;
use super::forms::Form;
use super::layout::Head;
use super::queue::{self, Tab};
use super::trouble::Trouble;
use super::{PageReply, Visit, queue_path, read, text};
use crate::api::{Field, Kind, SETTINGS};

/// What stands before the name of the field that holds what a setting was when the form was written.
const WAS: &str = "was.";
/// Settings that only FIFO queues have.
const OF_FIFO: [&str; 2] = ["deduplication_scope", "content_deduplication"];

/// `GET /queues/{q}/settings`.
pub(super) async fn form(visit: &Visit<'_>, queue: &str) -> PageReply {
    page(visit, queue, None).await
}

/// The page; after a refusal with what was typed, and why it was refused.
async fn page(visit: &Visit<'_>, queue: &str, refused: Option<(&Form, &Trouble)>) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let none = Map::new();
    let now = shown.get("settings").and_then(Value::as_object).unwrap_or(&none);
    let is_fifo = read::text(&shown, "kind") == "fifo";
    let path = queue_path(queue);
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Settings).await)
        section aria-labelledby="settings-title" {
            h2 #settings-title { "Settings" }
            @if let Some((_, trouble)) = refused { (trouble.alert()) }
            @if visit.frame.may_act() {
                form.stack method="post" action={ (path) "/settings" } {
                    (visit.frame.proof())
                    (fields(now, Some(is_fifo), refused.map(|(form, _)| form)))
                    button.main { "Save the settings" }
                }
            } @else { (as_table(now)) }
        }
        @if visit.frame.may_act() { (danger(visit, queue, &shown)) }
    };
    let head = Head::of(format!("Settings of {queue}")).at("/");
    let status = refused.map_or(StatusCode::OK, |(_, trouble)| trouble.status);
    Ok(visit.frame.page(status, &head, &content))
}

/// What cannot be undone, each behind the queue's name, typed.
fn danger(visit: &Visit<'_>, queue: &str, shown: &Value) -> Markup {
    let (name, path) = (read::text(shown, "name"), queue_path(queue));
    let all = read::whole(shown, "visible")
        .saturating_add(read::whole(shown, "in_flight"))
        .saturating_add(read::whole(shown, "delayed"));
    let acts = [
        ("purge", "Purge", "Deletes all messages of the queue, whatever they are doing."),
        ("delete", "Delete the queue", "Deletes the queue with all its messages and settings."),
    ];
    html! {
        section.danger aria-labelledby="danger-title" {
            h2 #danger-title { "What cannot be undone" }
            p { "The queue holds " strong { (text::counted(all, "message")) } " now." }
            @for (act, title, help) in acts {
                form.stack method="post" action={ (path) "/" (act) } {
                    (visit.frame.proof())
                    p { (help) }
                    label {
                        span { "Type " code { (text::isolated(name)) } " to confirm" }
                        input name="confirm" autocomplete="off" autocapitalize="off" spellcheck="false"
                            maxlength="200" required data-confirm=(name);
                    }
                    button.harm { (title) }
                }
            }
        }
    }
}

/// Fields for settings. `is_fifo` leaves out those that the queue does not have; of a new queue it is not known. What
/// was typed into a form that was refused stays.
pub(super) fn fields(now: &Map<String, Value>, is_fifo: Option<bool>, typed: Option<&Form>) -> Markup {
    let is_shown = |field: &&Field| is_fifo != Some(false) || !OF_FIFO.contains(&field.name);
    html! {
        div.settings {
            @for field in SETTINGS.iter().filter(is_shown) { (setting(field, now.get(field.name), typed)) }
        }
    }
}

fn setting(field: &Field, now: Option<&Value>, typed: Option<&Form>) -> Markup {
    let was = format!("{WAS}{}", field.name);
    let now = now.map(written).unwrap_or_default();
    let (value, before) = match typed {
        Some(form) => (form.text(field.name).to_owned(), form.text(&was).to_owned()),
        None => (now.clone(), now),
    };
    let help = format!("help-{}", field.name);
    html! {
        div.setting {
            label for=(field.name) { (field.name) }
            (control(field, &value, &help))
            input type="hidden" name=(was) value=(before);
            p.help id=(help) { (field.help) ". " (range(field)) }
        }
    }
}

fn control(field: &Field, value: &str, help: &str) -> Markup {
    let default = default_of(field);
    html! {
        @match field.kind {
            Kind::Whole(min, max) => {
                input id=(field.name) name=(field.name) type="number" inputmode="numeric" min=(min) max=(max)
                    value=(value) placeholder=(default) aria-describedby=(help);
            }
            Kind::Flag => { (choice(field.name, &["false", "true"], value, &default, help)) }
            Kind::Choice(words) => { (choice(field.name, words, value, &default, help)) }
            _ => {
                input id=(field.name) name=(field.name) maxlength="200" value=(value) placeholder=(default)
                    autocapitalize="off" spellcheck="false" aria-describedby=(help);
            }
        }
    }
}

fn choice(name: &str, words: &[&str], value: &str, default: &str, help: &str) -> Markup {
    html! {
        select id=(name) name=(name) aria-describedby=(help) {
            option value="" selected[value.is_empty()] { "default (" (default) ")" }
            @for word in words { option value=(word) selected[*word == value] { (word) } }
        }
    }
}

/// What a value looks like in a field; none is empty.
fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn default_of(field: &Field) -> String {
    let default = field.default.and_then(|text| serde_json::from_str::<Value>(text).ok());
    default.as_ref().map(written).filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned())
}

fn range(field: &Field) -> Markup {
    let default = default_of(field);
    html! {
        @if let Kind::Whole(min, max) = field.kind {
            "From " (text::count(min)) " to " (text::count(max)) ". "
        }
        "Default: " code { (default) } "; so is an empty field."
    }
}

fn as_table(now: &Map<String, Value>) -> Markup {
    html! {
        table.pairs {
            @for field in SETTINGS.iter() {
                @if let Some(value) = now.get(field.name) {
                    tr {
                        th scope="row" { (field.name) }
                        td { (text::isolated(&written(value))) }
                        td.quiet { (field.help) ". " (range(field)) }
                    }
                }
            }
        }
    }
}

/// The settings that a person changed in a form. What was not touched is not sent, so that it keeps what others have
/// set meanwhile.
pub(super) fn changed(form: &Form) -> Result<Map<String, Value>, Trouble> {
    let mut settings = Map::new();
    for field in SETTINGS {
        let text = form.text(field.name).trim();
        if text == form.text(&format!("{WAS}{}", field.name)) {
            continue;
        }
        let value = match field.kind {
            _ if text.is_empty() => Value::Null,
            Kind::Whole(..) => form.whole(field.name)?.into(),
            Kind::Flag => (text == "true").into(),
            _ => text.into(),
        };
        settings.insert(field.name.to_owned(), value);
    }
    Ok(settings)
}

/// `POST /queues/{q}/settings`.
pub(super) async fn take(visit: &Visit<'_>, queue: &str) -> PageReply {
    let form = Form::read(visit)?;
    let saved = match changed(&form) {
        Ok(settings) => {
            let body = json!({ "settings": settings });
            visit.change(Method::PATCH, &of_queue(queue, ""), &body).await
        }
        Err(trouble) => Err(trouble),
    };
    match saved {
        Ok(_) => Ok(see_done(visit, &format!("{}/settings", queue_path(queue)), "saved")),
        Err(trouble) if trouble.is_of_the_form() => page(visit, queue, Some((&form, &trouble))).await,
        Err(trouble) => Err(trouble),
    }
}
