//! The form that sends a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::ask::of_queue;
use super::done::see_done;
use super::forms::{Form, lines};
use super::layout::Head;
use super::messages::render;
use super::queue::{self, Tab};
use super::trouble::Trouble;
use super::{PageReply, Visit, message_path, queue_path, read, redrive, templates, text};

/// Attributes that an empty form has rows for, and the most that a message has.
const ATTRIBUTES: usize = 5;
const ATTRIBUTES_MAX: usize = 10;
/// Text that is sent as Base64 of it.
const TEXT_BASE64: &str = "text-base64";
const CONTENT_TYPES: [(&str, &str); 5] = [
    ("text", "text"),
    (TEXT_BASE64, "text, sent as Base64 (Azure)"),
    ("json", "JSON"),
    ("bytes", "bytes, written in Base64"),
    ("v8", "v8, written in Base64"),
];
const ATTRIBUTE_TYPES: [&str; 3] = ["String", "Number", "Binary"];

/// What stands in the form at first.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) body: String,
    pub(super) content_type: String,
    pub(super) group: String,
    pub(super) deduplication_id: String,
    pub(super) delay_seconds: String,
    /// Names, types and values.
    pub(super) attributes: Vec<(String, String, String)>,
    /// The message that the new one stands for: its queue and its id.
    pub(super) original: Option<(String, String)>,
    /// Where the search for that message went on, if it took one.
    pub(super) cursor: String,
}

/// `GET /queues/{q}/send`.
pub(super) async fn form(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let (chosen, is_fifo) = (visit.asked("template").unwrap_or_default(), is_fifo(&shown));
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Send).await)
        section aria-labelledby="send-title" {
            h2 #send-title { "Send a message" }
            @if visit.frame.may_act() {
                (templates::choice(queue, chosen, is_fifo))
                (fields(visit, queue, &shown, &templates::draft(chosen, is_fifo)))
            }
            @else { p { "Your role is read-only: it sends nothing." } }
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Send to {queue}")).at("/"), &content))
}

fn is_fifo(shown: &Value) -> bool {
    read::text(shown, "kind") == "fifo"
}

/// The form with a draft in it.
pub(super) fn fields(visit: &Visit<'_>, queue: &str, shown: &Value, draft: &Draft) -> Markup {
    let is_fifo = is_fifo(shown);
    // What is sent again may be empty like the message that it stands for.
    let may_be_empty = draft.original.is_some() && draft.body.is_empty();
    html! {
        form.stack.send method="post" action={ (queue_path(queue)) "/send" } {
            (visit.frame.proof())
            label { "Body" textarea name="body" rows="8" spellcheck="false" required[!may_be_empty] {
                // A browser drops one line end here.
                "\n" (draft.body)
            } }
            div.row {
                label {
                    "Content type"
                    select name="content_type" {
                        @for (value, title) in CONTENT_TYPES {
                            option value=(value) selected[value == draft.content_type] { (title) }
                        }
                    }
                }
                @if is_fifo {
                    label { "Group" input name="group" maxlength="128" value=(draft.group) required; }
                    label { "Deduplication id" input name="deduplication_id" maxlength="128" value=(draft.deduplication_id); }
                } @else {
                    @if !draft.group.is_empty() {
                        label { "Group" input name="group" maxlength="128" value=(draft.group); }
                    }
                    label {
                        "Delay in seconds"
                        input name="delay_seconds" type="number" min="0" max="86400" placeholder="the queue's"
                            value=(draft.delay_seconds);
                    }
                }
            }
            details open[!draft.attributes.is_empty()] {
                summary { "Attributes" }
                p.help { "SQS shows them, with the content type text. Values of type Binary are written in Base64." }
                @for number in 1..=ATTRIBUTES.max(draft.attributes.len()) {
                    (attribute(number, draft.attributes.get(number - 1)))
                }
            }
            @if let Some((from, id)) = &draft.original { (original(from, id, &draft.cursor)) }
            button.main { "Send" }
        }
    }
}

/// The message that the new one stands for, and whether it is deleted then.
fn original(queue: &str, id: &str, cursor: &str) -> Markup {
    html! {
        input type="hidden" name="original_queue" value=(queue);
        input type="hidden" name="original" value=(id);
        @if !cursor.is_empty() { input type="hidden" name="cursor" value=(cursor); }
        label.check {
            input type="checkbox" name="delete_original" value="yes" checked;
            " Delete the original once this is sent"
        }
    }
}

fn attribute(number: usize, given: Option<&(String, String, String)>) -> Markup {
    let (name, word, value) = given.map_or(("", "", ""), |(name, word, value)| (name, word, value));
    html! {
        fieldset.row {
            legend { "Attribute " (number) }
            label { "Name" input name={ "name." (number) } maxlength="256" value=(name); }
            label {
                "Type"
                select name={ "type." (number) } {
                    // One with a label behind a dot stays as it is.
                    @if !word.is_empty() && !ATTRIBUTE_TYPES.contains(&word) { option selected { (word) } }
                    @for one in ATTRIBUTE_TYPES { option selected[one == word] { (one) } }
                }
            }
            // One line of text would lose the ends of lines.
            @if value.contains('\n') {
                label { "Value" textarea name={ "value." (number) } rows="3" maxlength="262144" spellcheck="false" { "\n" (value) } }
            } @else {
                label { "Value" input name={ "value." (number) } maxlength="262144" value=(value); }
            }
        }
    }
}

/// `POST /queues/{q}/send`.
pub(super) async fn take(visit: &Visit<'_>, queue: &str) -> PageReply {
    let form = Form::read_large(visit).await?;
    // A megabyte is written on a thread that may be busy.
    let (message, form) = render(move || (message(&form).map(|message| message.to_string()), form)).await?;
    let path = of_queue(queue, "/messages");
    let sent = match visit.change_as_written(Method::POST, &path, message?).await {
        Ok(sent) => sent,
        // What was typed is corrected where it was typed.
        Err(trouble) if matches!(trouble.status.as_u16(), 400 | 413) => {
            return again(visit, queue, &form, &trouble).await;
        }
        Err(trouble) => return Err(trouble),
    };
    let done = match read::is_set(&sent, "duplicate") {
        // Nothing was sent, so the original is still needed.
        true => "repeated",
        // The new message is there: whatever hinders the deletion is no reason to send it once more.
        false if redrive::delete_original(visit, &form).await.is_err() => "sent_beside",
        false => "sent",
    };
    Ok(see_done(visit, &message_path(queue, read::text(&sent, "id")), done))
}

/// The form once more, with what was typed and what is wrong with it.
async fn again(visit: &Visit<'_>, queue: &str, form: &Form, trouble: &Trouble) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let original = form.given("original_queue").zip(form.given("original"));
    let draft = Draft {
        body: lines(form.text("body")),
        content_type: form.text("content_type").to_owned(),
        group: form.text("group").to_owned(),
        deduplication_id: form.text("deduplication_id").to_owned(),
        delay_seconds: form.text("delay_seconds").to_owned(),
        attributes: attributes_of(&json!({ "attributes": attributes(form) })),
        original: original.map(|(queue, id)| (queue.to_owned(), id.to_owned())),
        cursor: form.text("cursor").to_owned(),
    };
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Send).await)
        section aria-labelledby="send-title" {
            h2 #send-title { "Send a message" }
            p.trouble role="alert" { (text::visible(&text::sentence(&trouble.message))) }
            (fields(visit, queue, &shown, &draft))
        }
    };
    Ok(visit.frame.page(trouble.status, &Head::of(format!("Send to {queue}")).at("/"), &content))
}

/// The attributes of a message: names, types and values.
pub(super) fn attributes_of(found: &Value) -> Vec<(String, String, String)> {
    let all = found.get("attributes").and_then(Value::as_object).into_iter().flatten();
    let one = |(name, one): (&String, &Value)| {
        (name.clone(), read::text(one, "type").to_owned(), read::text(one, "value").to_owned())
    };
    all.map(one).take(ATTRIBUTES_MAX).collect()
}

/// The message of a form, as the API takes it.
fn message(form: &Form) -> Result<Value, Trouble> {
    let mut message = Map::new();
    let mut put = |name: &str, value: Value| message.insert(name.to_owned(), value);
    let content_type = form.given("content_type").unwrap_or("text");
    let is_encoded_here = content_type == TEXT_BASE64;
    put("content_type", if is_encoded_here { "text" } else { content_type }.into());
    if is_encoded_here {
        put("body", STANDARD.encode(lines(form.text("body"))).into());
    } else if matches!(content_type, "bytes" | "v8") {
        let encoded: String = form.text("body").chars().filter(|one| !one.is_whitespace()).collect();
        put("body_base64", encoded.into());
    } else {
        put("body", lines(form.text("body")).into());
    }
    for name in ["group", "deduplication_id"] {
        if let Some(text) = form.given(name) {
            put(name, text.into());
        }
    }
    if let Some(seconds) = form.whole("delay_seconds")? {
        put("delay_seconds", seconds.into());
    }
    let attributes = attributes(form);
    if !attributes.is_empty() {
        put("attributes", Value::Object(attributes));
    }
    Ok(Value::Object(message))
}

fn attributes(form: &Form) -> Map<String, Value> {
    let one = |number: usize| {
        let name = form.given(&format!("name.{number}"))?;
        let data_type = form.given(&format!("type.{number}")).unwrap_or("String");
        let value = lines(form.text(&format!("value.{number}")));
        Some((name.to_owned(), json!({ "type": data_type, "value": value })))
    };
    (1..=ATTRIBUTES_MAX).filter_map(one).collect()
}
