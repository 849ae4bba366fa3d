//! Backing the store up: the form, and how far a backup is.

use kew_http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::json;

use super::forms::Form;
use super::layout::{Head, see};
use super::{PageReply, Visit, read, text};

/// The form, for those who may.
pub(super) fn form(visit: &Visit<'_>) -> Markup {
    html! {
        @if visit.frame.may_act() {
            h2 { "Backup" }
            p.quiet { "A copy of the store as it is at one moment, made while it is in use. The directory is on the server's machine, and missing or empty." }
            form.stack method="post" action="/store/backup" {
                (visit.frame.proof())
                label { "Directory, as an absolute path" input name="to" required maxlength="4096"; }
                label.check {
                    input type="checkbox" name="link" value="on";
                    " Give files that do not change any more a second name instead of copying them: quick, but damage to one is damage to both"
                }
                button { "Back up" }
            }
        }
    }
}

/// `POST /store/backup`.
pub(super) async fn begin(visit: &Visit<'_>) -> PageReply {
    let form = Form::read(visit)?;
    let body = json!({ "to": form.text("to").trim(), "link": form.given("link").is_some() });
    let begun = visit.change(Method::POST, "/store/backup", &body).await?;
    Ok(see(&format!("/store/backups/{}", read::text(&begun, "task"))))
}

/// `GET /store/backups/{task}`.
pub(super) async fn show(visit: &Visit<'_>, task: &str) -> PageReply {
    let path = format!("/store/backups/{}", kew_http::percent::encode(task.as_bytes()));
    let found = visit.read(&path, &[]).await?;
    let (state, bytes, of) =
        (read::text(&found, "state"), read::whole(&found, "bytes"), read::whole(&found, "of"));
    let content = html! {
        h1 { "Backup" }
        p { "To " code { (text::isolated(read::text(&found, "to"))) } }
        p {
            @match state {
                "done" => { span.badge.good { "done" } }
                "running" => { span.badge { "running" } }
                other => { span.badge.warn { (text::visible(other)) } }
            }
            " " (text::bytes(bytes)) " of " (text::bytes(of))
        }
        progress max=(of.max(1)) value=(bytes.min(of)) aria-label="Bytes that are in the backup" {}
        @if let Some(reason) = read::given(&found, "reason") { p { (text::sentence(reason)) } }
        @if state == "done" {
            p { (text::counted(read::whole(&found, "files"), "file")) ", " (read::whole(&found, "linked")) " of them linked. " code { "kew store backup --verify DIRECTORY" } " checks it." }
        }
        @if state == "running" { p { a href=(&*visit.frame.here) { "Look again" } } }
        p { a href="/store" { "Store" } }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of("Backup").at("/store"), &content))
}
