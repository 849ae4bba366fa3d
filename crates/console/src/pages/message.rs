//! One message: its body in every view, what happened to it and why, and what an operator can do to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_http::{HeaderName, HeaderValue, Method, Reply, StatusCode, percent};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::ask::of_message;
use super::body::{self, View, Window};
use super::commands::Message;
use super::done::see_done;
use super::forms::Form;
use super::layout::{Frame, Head, guarded, see};
use super::messages::{render, size, state};
use super::server_places::Places;
use super::trouble::Trouble;
use super::{PageReply, Visit, message_path, query_of, queue_path, read, story, text};

/// Characters of an attribute that the page shows.
const ATTRIBUTE_SHOWN_MAX: usize = 1_024;
const DISPOSITION: HeaderName = HeaderName::from_static("content-disposition");

/// What an operator does to a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageAct {
    Delete,
    Release,
    Extend,
    Promote,
}

impl MessageAct {
    fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::Promote => "promote",
        }
    }
}

/// `GET /messages?id=`: where a message is that is named by its id alone.
pub(super) async fn find(visit: &Visit<'_>) -> PageReply {
    let id = visit.asked("id").map(str::trim).filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Trouble::bad_form("give the id of a message, a UUID"))?;
    let path = format!("/messages/{}", percent::encode(id.as_bytes()));
    let found = visit.read(&path, &[("cursor", visit.asked("cursor").unwrap_or_default())]).await?;
    if let Some(next) = searching(&found) {
        return Ok(go_on(visit, &format!("/messages{}", query_of(&[("id", id), ("cursor", next)]))));
    }
    let Some(queue) = read::given(&found, "queue") else {
        return shown(visit, None, found).await;
    };
    // A message that took a search is found again from the same place on.
    let cursor = query_of(&[("cursor", visit.asked("cursor").unwrap_or_default())]);
    Ok(see(&format!("{}{cursor}", message_path(queue, read::text(&found, "id")))))
}

/// `GET /queues/{q}/messages/{id}`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str, id: &str) -> PageReply {
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = visit.read(&of_message(queue, id, ""), &[("cursor", cursor)]).await?;
    if let Some(next) = searching(&found) {
        return Ok(go_on(visit, &format!("{}{}", message_path(queue, id), query_of(&[("cursor", next)]))));
    }
    shown(visit, Some(queue), found).await
}

/// Where the search for a message goes on, if it is not finished.
pub(super) fn searching(found: &Value) -> Option<&str> {
    (read::text(found, "state") == "searching").then(|| read::text(found, "next"))
}

pub(super) fn go_on(visit: &Visit<'_>, next: &str) -> Reply {
    let content = html! {
        h1 { "Not found so far" }
        p { "The history does not know this message, so queues are searched. This part of the search found nothing." }
        p { a.button.main href=(next) { "Search on" } }
    };
    visit.frame.page(StatusCode::OK, &Head::of("Searching"), &content)
}

/// What a page of a message is written from.
struct Page {
    frame: Frame,
    queue: Option<String>,
    found: Value,
    view: Option<View>,
    from: usize,
    now: u64,
    places: Places,
    cursor: String,
}

async fn shown(visit: &Visit<'_>, queue: Option<&str>, found: Value) -> PageReply {
    let page = Page {
        frame: visit.frame.clone(),
        queue: queue.map(str::to_owned),
        view: visit.asked("view").and_then(View::named),
        from: visit.asked("from").and_then(|from| from.parse().ok()).unwrap_or_default(),
        now: visit.console.now().0,
        places: Places::of(&visit.console.settings, visit.request),
        cursor: visit.asked("cursor").unwrap_or_default().to_owned(),
        found,
    };
    render(move || page.write()).await
}

impl Page {
    fn write(&self) -> Reply {
        let id = read::text(&self.found, "id");
        let is_gone = read::text(&self.found, "state") == "gone";
        let content = html! {
            nav.crumbs aria-label="Where this is" {
                a href="/" { "Queues" }
                @if let Some(queue) = &self.queue { " / " a href=(queue_path(queue)) { (text::isolated(queue)) } }
            }
            div.head { h1 { "Message " span.id { (id) } } }
            (self.frame.done())
            (self.facts())
            @if !is_gone && self.frame.may_act() { (self.acts()) }
            @if !is_gone { (self.content()) }
            (story::of_message(&self.found))
            @if !is_gone { (self.commands()) }
        };
        let head = Head::of(format!("Message {}", id.get(..8).unwrap_or(id))).at("/");
        self.frame.page(StatusCode::OK, &head, &content)
    }

    fn facts(&self) -> Markup {
        let (found, now) = (&self.found, self.now);
        let at = |name: &str| read::whole_given(found, name);
        let lease = found.get("lease").filter(|lease| lease.is_object());
        html! {
            dl.facts {
                (fact("State", html! { (state(found, now)) }))
                @if let Some(queue) = read::given(found, "queue").filter(|queue| self.queue.as_deref() != Some(*queue)) {
                    (fact("Now in", html! {
                        a href=(message_path(queue, read::text(found, "id"))) { (text::isolated(queue)) }
                    }))
                }
                @if let Some(sent) = at("sent_at_ms") { (fact("Sent", text::instant_from(sent, now))) }
                @if let Some(attempts) = at("attempts") { (fact("Attempts", html! { (text::count(attempts)) })) }
                @if let Some(lease) = lease {
                    @if let Some(by) = read::given(lease, "by") { (fact("Leased by", text::isolated(by))) }
                    @if let Some(since) = read::whole_given(lease, "since_ms") {
                        (fact("Leased", text::instant_from(since, now)))
                    }
                }
                @if at("sent_at_ms").is_some() {
                    (fact("Expires", at("expires_at_ms").map_or_else(|| html! { "never" }, |at| text::instant_from(at, now))))
                }
                @for (name, title) in [("group", "Group"), ("deduplication_id", "Deduplication id")] {
                    @if let Some(value) = read::given(found, name) { (fact(title, text::isolated(value))) }
                }
                @if let Some(origin) = read::given(found, "origin") {
                    (fact("Moved here from", html! {
                        a href=(queue_path(origin)) { (text::isolated(origin)) } " " (reason(read::text(found, "reason")))
                    }))
                }
                @if !self.is_gone() {
                    (fact("Content", html! { (read::text(found, "content_type")) ", " (text::bytes(size(found))) }))
                }
                (self.attributes())
            }
        }
    }

    /// The attributes; a long one is cut, and can be had as a file.
    fn attributes(&self) -> Markup {
        let all = self.found.get("attributes").and_then(Value::as_object).filter(|all| !all.is_empty());
        let Some(all) = all else { return html! {} };
        let path = self.queue.as_ref().map(|queue| message_path(queue, read::text(&self.found, "id")));
        let file = |name: &str| {
            let query = query_of(&[("name", name), ("cursor", &self.cursor)]);
            path.as_ref().map(|path| format!("{path}/attribute{query}"))
        };
        html! {
            div.whole {
                dt { "Attributes" }
                dd {
                    table.pairs.attributes {
                        @for (name, one) in all {
                            @let value = read::text(one, "value");
                            @let (beginning, has_more) = text::beginning(value, ATTRIBUTE_SHOWN_MAX);
                            tr {
                                th scope="row" { (text::isolated(name)) }
                                td {
                                    (text::isolated(beginning))
                                    @if has_more {
                                        "… " span.quiet { (text::bytes(value.len() as u64)) }
                                        @if let Some(file) = file(name) { " " a href=(file) { "Download" } }
                                    }
                                }
                                td.quiet { (text::isolated(read::text(one, "type"))) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        read::text(&self.found, "state") == "gone"
    }

    fn acts(&self) -> Markup {
        let Some(queue) = &self.queue else { return html! {} };
        let path = message_path(queue, read::text(&self.found, "id"));
        let state = read::text(&self.found, "state");
        let form = |act: MessageAct, inner: Markup| {
            html! {
                form method="post" action={ (path) "/" (act.name()) } {
                    (self.frame.proof())
                    input type="hidden" name="cursor" value=(self.cursor);
                    (inner)
                }
            }
        };
        html! {
            div.acts role="group" aria-label="What can be done to this message" {
                @if state == "in_flight" {
                    (form(MessageAct::Release, html! { button title="Ends the lease now" { "Release" } }))
                    (form(MessageAct::Extend, html! {
                        label { "End the lease in" input name="seconds" type="number" min="0" max="43200" value="60" required; " s" }
                        button { "Extend" }
                    }))
                }
                @if state == "delayed" {
                    (form(MessageAct::Promote, html! { button title="Ends the delay now" { "Promote" } }))
                }
                a.button href={ (path) "/resend" (query_of(&[("cursor", &self.cursor)])) } { "Correct and resend" }
                (form(MessageAct::Delete, html! {
                    label.check { input type="checkbox" name="sure" value="yes" required; " I am sure" }
                    button.harm { "Delete" }
                }))
            }
        }
    }

    fn content(&self) -> Markup {
        let Some(queue) = &self.queue else { return html! {} };
        let (bytes, base64) = bytes_of(&self.found);
        let view = self.view.unwrap_or_else(|| View::usual(&bytes));
        let path = message_path(queue, read::text(&self.found, "id"));
        let at = |view: View, from: usize| {
            let from = if from == 0 { String::new() } else { from.to_string() };
            format!("{path}{}", query_of(&[("view", view.name()), ("from", &from), ("cursor", &self.cursor)]))
        };
        html! {
            section aria-labelledby="body-title" {
                div.head {
                    h2 #body-title { "Body" }
                    nav.tabs aria-label="Views of the body" {
                        @for one in View::ALL {
                            a href=(at(one, 0)) aria-current=[(one == view).then_some("page")] { (one.title()) }
                        }
                    }
                    a href={ (path) "/body" (query_of(&[("cursor", &self.cursor)])) } { "Download" }
                }
                @match body::window(&bytes, &base64, view, self.from) {
                    Ok(window) => {
                        (cut(&window, |from| at(view, from)))
                        pre.body tabindex="0" role="region" aria-label="Body of the message" {
                            code dir="ltr" { (window.shown) }
                        }
                    }
                    Err(why) => { p.empty { (text::sentence(why)) } }
                }
            }
        }
    }

    fn commands(&self) -> Markup {
        let Some(queue) = &self.queue else { return html! {} };
        let (bytes, base64) = bytes_of(&self.found);
        let message = Message::of(&self.found, (queue, &self.cursor), (&bytes, &base64));
        let all = message.commands(&self.places);
        html! {
            section aria-labelledby="commands-title" {
                h2 #commands-title { "As a command" }
                @for note in message.notes(&self.places) { p.quiet { (note) } }
                @for command in all {
                    details {
                        summary { (command.title) }
                        div.copy {
                            pre tabindex="0" role="region" aria-label=(command.title) { code { (command.text) } }
                            button type="button" hidden data-copy="" { "Copy" }
                        }
                    }
                }
            }
        }
    }
}

fn fact(title: &str, value: Markup) -> Markup {
    html! { div { dt { (title) } dd { (value) } } }
}

fn reason(word: &str) -> Markup {
    html! {
        @match word {
            "attempts_exhausted" => { span.quiet { "(leased too often)" } }
            "redriven" => { span.quiet { "(redriven)" } }
            _ => {}
        }
    }
}

/// A body's bytes, and the same in Base64.
fn bytes_of(found: &Value) -> (Vec<u8>, String) {
    match (read::given(found, "body"), read::given(found, "body_base64")) {
        (Some(body), _) => (body.as_bytes().to_vec(), STANDARD.encode(body)),
        (None, Some(encoded)) => (STANDARD.decode(encoded).unwrap_or_default(), encoded.to_owned()),
        (None, None) => (Vec::new(), String::new()),
    }
}

/// Says what part of a long body is shown, and leads to the others.
fn cut(window: &Window, at: impl Fn(usize) -> String) -> Markup {
    html! {
        @if window.end < window.whole || window.begin > 0 {
            nav.pager aria-label="Parts of the body" {
                span.note {
                    "Bytes " (text::count(window.begin as u64)) " to " (text::count(window.end as u64)) " of "
                    (text::count(window.whole as u64))
                }
                @if window.begin > 0 {
                    a href=(at(window.begin.saturating_sub(window.size))) { "Part before" }
                }
                @if window.end < window.whole { a rel="next" href=(at(window.end)) { "Next part" } }
            }
        }
    }
}

/// `GET /queues/{q}/messages/{id}/body`: the bytes themselves, as a file.
pub(super) async fn download(visit: &Visit<'_>, queue: &str, id: &str) -> PageReply {
    let found = kept(visit, queue, id).await?;
    render(move || file(read::text(&found, "id"), bytes_of(&found).0)).await
}

/// `GET /queues/{q}/messages/{id}/attribute?name=`: the value of one attribute, as a file.
pub(super) async fn download_attribute(visit: &Visit<'_>, queue: &str, id: &str) -> PageReply {
    let found = kept(visit, queue, id).await?;
    let name = visit.asked("name").unwrap_or_default();
    let one = found.get("attributes").and_then(|all| all.get(name));
    let one = one.ok_or_else(|| Trouble::nothing_at(visit.request.uri.path()))?;
    let (value, is_binary) = (read::text(one, "value"), read::text(one, "type").starts_with("Binary"));
    let decoded = if is_binary { STANDARD.decode(value).ok() } else { None };
    Ok(file(read::text(&found, "id"), decoded.unwrap_or_else(|| value.as_bytes().to_vec())))
}

/// A message that is there.
async fn kept(visit: &Visit<'_>, queue: &str, id: &str) -> Result<Value, Trouble> {
    let cursor = visit.asked("cursor").unwrap_or_default();
    let found = visit.read(&of_message(queue, id, ""), &[("cursor", cursor)]).await?;
    if searching(&found).is_some() || read::text(&found, "state") == "gone" {
        return Err(Trouble::new(StatusCode::NOT_FOUND, "message_not_found", "the message is gone"));
    }
    Ok(found)
}

/// Bytes that others sent: never a page of ours, whatever they look like.
fn file(name: &str, bytes: Vec<u8>) -> Reply {
    let reply = Reply::new(StatusCode::OK, HeaderValue::from_static("application/octet-stream"), bytes);
    let file = format!("attachment; filename=\"{name}.bin\"");
    let file = HeaderValue::from_str(&file).unwrap_or(HeaderValue::from_static("attachment"));
    guarded(reply).with(DISPOSITION, file)
}

/// `POST /queues/{q}/messages/{id}/…`.
pub(super) async fn act(visit: &Visit<'_>, queue: &str, id: &str, act: MessageAct) -> PageReply {
    let form = Form::read(visit)?;
    if act == MessageAct::Delete && form.text("sure") != "yes" {
        let message = "to delete the message, say that you are sure";
        return Err(Trouble::new(StatusCode::CONFLICT, "not_sure", message));
    }
    let mut body = json!({});
    if let Some(members) = body.as_object_mut() {
        members.extend(form.given("cursor").map(|cursor| ("cursor".to_owned(), cursor.into())));
        if act == MessageAct::Extend {
            members.insert("seconds".to_owned(), form.whole("seconds")?.into());
        }
    }
    visit.change(Method::POST, &of_message(queue, id, &format!("/{}", act.name())), &body).await?;
    let cursor = query_of(&[("cursor", form.text("cursor"))]);
    let (place, done) = match act {
        MessageAct::Delete => (queue_path(queue), "deleted"),
        MessageAct::Release => (message_path(queue, id) + &cursor, "released"),
        MessageAct::Extend => (message_path(queue, id) + &cursor, "extended"),
        MessageAct::Promote => (message_path(queue, id) + &cursor, "promoted"),
    };
    Ok(see_done(visit, &place, done))
}
