//! Acts that begin a moment later, so that they can be undone: dead letters that are moved, a message that is deleted.
//!
//! What waits is the form itself, in memory: at most 256 forms of 64 KiB each. When its moment is over it is followed
//! as if it were sent then, by the session that sent it. Until then nothing is changed: an undo, the end of that
//! session and the end of the server leave everything as it was. The form is checked when it is sent too: what would be
//! refused then does not wait, and the page says on how many messages it acts.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use kew_core::Entropy;
use kew_http::{HeaderName, HeaderValue, Reply, Request, StatusCode};
use maud::{Markup, html};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::ask::of_message;
use super::forms::Form;
use super::layout::{Head, guarded, see};
use super::message::MessageAct;
use super::places::{FormOp, form_at};
use super::trouble::Trouble;
use super::{PageReply, Visit, message_path, queue_path, read, redrive, text};
use crate::Console;
use crate::access::UNATTENDED;
use crate::api::copy_of;
use crate::error::ApiError;

/// Acts that are known; of those that have ended the oldest make room.
const ACTS_MAX: usize = 256;
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const LOCATION: HeaderName = HeaderName::from_static("location");
const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");

/// The acts that wait, and what became of those before.
pub(super) struct Later {
    /// How long an act waits; not at all where it is zero.
    window: Duration,
    /// Guards the acts, oldest first; held for look-ups only.
    acts: Mutex<VecDeque<Act>>,
}

struct Act {
    id: String,
    /// What will be done, as a sentence without its end.
    what: String,
    /// Where it was asked for.
    back: String,
    stage: Stage,
}

enum Stage {
    /// Begins then by the steady clock, or as soon as this is sent.
    Waiting(Duration, oneshot::Sender<()>),
    Running,
    Undone,
    Ended(Result<Answer, Trouble>),
}

/// The reply to a form that was followed.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    location: Option<String>,
    cookie: Option<String>,
    body: Bytes,
}

impl Later {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, acts: Mutex::default() }
    }

    /// Keeps one more act; refuses where all that are known still wait.
    fn put(&self, act: Act) -> Result<(), Trouble> {
        let mut acts = self.acts.lock();
        if acts.len() >= ACTS_MAX {
            let ended = acts.iter().position(|act| matches!(act.stage, Stage::Undone | Stage::Ended(_)));
            let full = || ApiError::unavailable("too many acts wait to begin: try again").retry_after(10);
            acts.remove(ended.ok_or_else(full)?);
        }
        acts.push_back(act);
        Ok(())
    }

    /// Asks something of an act, if it is known.
    fn with<T>(&self, id: &str, ask: impl FnOnce(&mut Act) -> T) -> Result<T, Trouble> {
        let mut acts = self.acts.lock();
        let act = acts.iter_mut().find(|act| act.id == id);
        let unknown = || Trouble::new(StatusCode::NOT_FOUND, "not_found", "this act is not known any more");
        act.map(ask).ok_or_else(unknown)
    }

    /// Marks an act as begun; says whether it was still to begin.
    fn begin(&self, id: &str) -> bool {
        let begun = self.with(id, |act| {
            let waits = matches!(act.stage, Stage::Waiting(..));
            if waits {
                act.stage = Stage::Running;
            }
            waits
        });
        begun.unwrap_or(false)
    }
}

impl Answer {
    fn of(reply: &Reply) -> Self {
        let text = |name: &HeaderName| {
            let value = reply.headers.get(name.as_str());
            value.and_then(|value| value.text().map(str::to_owned))
        };
        let (location, cookie) = (text(&LOCATION), text(&SET_COOKIE));
        Self { status: reply.status, location, cookie, body: reply.body.clone() }
    }

    fn reply(self) -> Reply {
        let reply = match &self.location {
            Some(location) => see(location),
            None => guarded(Reply::new(self.status, HTML, self.body)),
        };
        match self.cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
            Some(Ok(cookie)) => reply.with(SET_COOKIE, cookie),
            _ => reply,
        }
    }
}

/// What waits: as a sentence without its end, and where it was asked for.
type What = (String, String);

/// What a form will do that can be undone for a moment; nothing for all others. What would be refused now is refused.
pub(super) async fn undoable(
    visit: &Visit<'_>,
    op: FormOp,
    places: &[&str],
) -> Result<Option<What>, Trouble> {
    if visit.console.pages.later.window.is_zero() || !visit.frame.may_act() {
        return Ok(None);
    }
    match (op, places) {
        (FormOp::Redrive, [queue]) => {
            let form = Form::read(visit)?;
            if form.text("dry_run") == "true" {
                return Ok(None);
            }
            let back = format!("{}/dead-letters", queue_path(queue));
            Ok(Some((redrive::foretold(visit, queue, &form).await?, back)))
        }
        (FormOp::Act(MessageAct::Delete), [queue, id]) => {
            let form = Form::read(visit)?;
            if form.text("sure") != "yes" {
                return Ok(None);
            }
            let found = visit.read(&of_message(queue, id, ""), &[("cursor", form.text("cursor"))]).await?;
            if read::text(&found, "state") == "gone" {
                let message = format!("the message {id} is no longer in the queue {queue}");
                return Err(Trouble::new(StatusCode::NOT_FOUND, "message_not_found", message));
            }
            let what = format!("the message {id} of the queue {queue} is deleted");
            Ok(Some((what, message_path(queue, id))))
        }
        _ => Ok(None),
    }
}

/// Keeps the form until its moment is over, and leads to the page where it can be undone.
pub(super) fn keep(visit: &Visit<'_>, (what, back): What) -> PageReply {
    let console = visit.console.clone();
    let entropy: &dyn Entropy = &*console.settings.entropy;
    let id = format!("{:032x}", entropy.wide_bits());
    let window = console.pages.later.window;
    let due = console.settings.time.steady().saturating_add(window);
    let (begins, asked) = oneshot::channel();
    let stage = Stage::Waiting(due, begins);
    console.pages.later.put(Act { id: id.clone(), what, back, stage })?;
    let mut request = copy_of(visit.request);
    // When it is followed, no person asks.
    request.headers.insert(UNATTENDED, HeaderValue::from_static("1"));
    let path = format!("/later/{id}");
    tokio::spawn(async move {
        // An undo drops the other end, and the act is not waiting any more.
        let _begun_early = tokio::time::timeout(window, asked).await;
        if console.pages.later.begin(&id) {
            let running = console.clone();
            let followed = tokio::spawn(async move { running.follow_late(&request).await }).await;
            // It panicked: its own task says why in the log.
            let failed =
                |_| Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "an error of Kew's own"));
            let ended = followed.unwrap_or_else(failed);
            let _known = console.pages.later.with(&id, |act| act.stage = Stage::Ended(ended));
        }
    });
    Ok(see(&path))
}

impl Console {
    async fn follow_late(&self, request: &Request) -> Result<Answer, Trouble> {
        let visit = self.visit(request, self.frame(request))?;
        if visit.frame.visitor.is_none() {
            let message = "the session that asked for this has ended: nothing was changed";
            return Err(Trouble::new(StatusCode::CONFLICT, "session_ended", message));
        }
        let parts = visit.parts()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (op, places) = form_at(&parts).ok_or_else(|| Trouble::not_a_form(request.uri.path()))?;
        Box::pin(visit.follow(op, &places)).await.map(|reply| Answer::of(&reply))
    }
}

/// `GET /later/{id}`.
pub(super) fn show(visit: &Visit<'_>, id: &str) -> PageReply {
    let now = visit.console.settings.time.steady();
    let later = &visit.console.pages.later;
    let page =
        |title: &str, content: &Markup| Ok(visit.frame.page(StatusCode::OK, &Head::of(title), content));
    let (what, back, stage) = later.with(id, |act| {
        let stage = match &act.stage {
            Stage::Waiting(due, _) => Ok(Some(due.saturating_sub(now))),
            Stage::Running => Ok(None),
            Stage::Undone => Err(None),
            Stage::Ended(ended) => Err(Some(ended.clone())),
        };
        (text::sentence(&act.what), act.back.clone(), stage)
    })?;
    match stage {
        Ok(left) => page("Not yet", &waiting(visit, id, &what, left)),
        Err(Some(ended)) => ended.map(Answer::reply),
        Err(None) => page(
            "Undone",
            &html! {
                h1 { "Undone" }
                p { "This was not done, and nothing was changed: " (text::visible(&what)) }
                p { a href=(back) { "Back" } }
            },
        ),
    }
}

fn waiting(visit: &Visit<'_>, id: &str, what: &str, left: Option<Duration>) -> Markup {
    let form = |act: &str, button: Markup| {
        html! { form method="post" action={ "/later/" (id) "/" (act) } { (visit.frame.proof()) (button) } }
    };
    html! {
        @match left {
            Some(left) => {
                @let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                h1 { "Not done yet" }
                p { (text::visible(what)) " This begins " strong data-until=(left_ms) data-now="0" data-over="now" { (text::distance(left_ms, 0)) } "." }
                @if visit.frame.may_act() {
                    div.acts role="group" aria-label="Before it begins" {
                        (form("undo", html! { button.main aria-keyshortcuts="u" { "Undo" } }))
                        (form("begin", html! { button { "Begin now" } }))
                    }
                }
            }
            None => { h1 { "It has begun" } p { (text::visible(what)) } }
        }
        p data-refresh="2" data-due=[left.map(|left| left.as_millis().to_string())] { a href=(&*visit.frame.here) { "Load again" } }
        p.quiet { "Until it begins nothing is changed. It waits in the memory of the server: if that stops or your session ends before, it is not done." }
    }
}

/// `POST /later/{id}/undo`.
pub(super) fn undo(visit: &Visit<'_>, id: &str) -> PageReply {
    let what = decide(visit, id, |stage| *stage = Stage::Undone)?;
    let (at, who) = (visit.console.now(), visit.frame.visitor.as_ref().map_or("", |visitor| &visitor.name));
    visit.console.audit.note(at, who, "undo", &what, "ok");
    Ok(see(&format!("/later/{id}")))
}

/// `POST /later/{id}/begin`.
pub(super) fn begin_now(visit: &Visit<'_>, id: &str) -> PageReply {
    decide(visit, id, |stage| {
        // The task that waits takes it from there; until then it can still be undone.
        if let Stage::Waiting(due, begins) = std::mem::replace(stage, Stage::Running) {
            *stage = Stage::Waiting(due, oneshot::channel().0);
            let _waits = begins.send(());
        }
    })?;
    Ok(see(&format!("/later/{id}")))
}

/// Changes the stage of an act that has not begun, for an operator; what the act is.
fn decide(visit: &Visit<'_>, id: &str, change: impl FnOnce(&mut Stage)) -> Result<String, Trouble> {
    Form::read(visit)?;
    if !visit.frame.may_act() {
        return Err(Trouble::new(StatusCode::FORBIDDEN, "read_only", "your role may look but not change"));
    }
    visit.console.pages.later.with(id, |act| match act.stage {
        Stage::Waiting(..) => {
            change(&mut act.stage);
            Ok(act.what.clone())
        }
        Stage::Running | Stage::Undone | Stage::Ended(_) => {
            let message = "this has begun or was undone already";
            Err(Trouble::new(StatusCode::CONFLICT, "too_late", message))
        }
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(number: usize, stage: Stage) -> Act {
        Act { id: number.to_string(), what: String::new(), back: String::new(), stage }
    }

    #[test]
    fn acts_are_bounded_and_none_that_waits_makes_room() {
        let later = Later::new(Duration::from_secs(10));
        let waiting = || Stage::Waiting(Duration::ZERO, oneshot::channel().0);
        for number in 0..ACTS_MAX {
            let stage = if number == 7 { Stage::Undone } else { waiting() };
            assert!(later.put(act(number, stage)).is_ok());
        }
        assert!(later.put(act(300, waiting())).is_ok(), "the one that was undone makes room");
        assert!(later.with("7", |_| ()).is_err() && later.with("0", |_| ()).is_ok());
        let refused = later.put(act(301, waiting())).map_err(|trouble| trouble.status.as_u16());
        assert_eq!(refused, Err(503));
    }

    #[test]
    fn an_act_begins_once_and_not_after_it_was_undone() {
        let later = Later::new(Duration::from_secs(10));
        for number in 0..2 {
            let stage = Stage::Waiting(Duration::ZERO, oneshot::channel().0);
            assert!(later.put(act(number, stage)).is_ok());
        }
        assert!(later.begin("0") && !later.begin("0"));
        assert!(later.with("1", |act| act.stage = Stage::Undone).is_ok());
        assert!(!later.begin("1") && !later.begin("2"));
    }
}
