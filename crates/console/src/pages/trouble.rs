//! Why a page is not shown or a form not followed, as a page that says what to do.

use kew_http::{HeaderName, HeaderValue, Reply, StatusCode};
use maud::{Markup, html};
use serde_json::Value;

use super::layout::{Frame, Head};
use super::text;
use crate::error::ApiError;

const RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");
/// Characters of a reason that are shown.
const SHOWN_MAX: usize = 1_000;

/// A request of the console that is not answered as asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trouble {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    retry_after: Option<String>,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), retry_after: None }
    }

    pub(super) fn nothing_at(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {path}"))
    }

    pub(super) fn not_a_form(path: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("{path} takes no form"))
    }

    pub(super) fn bad_form(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// A refusal of the API.
    pub(super) fn of_reply(reply: &Reply) -> Self {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let member = |name: &str| body.pointer(name).and_then(Value::as_str).map(str::to_owned);
        let retry_after = reply.headers.get(RETRY_AFTER).and_then(|value| value.text().map(str::to_owned));
        Self {
            status: reply.status,
            code: member("/error/code").unwrap_or_else(|| "failed".to_owned()),
            message: member("/error/message")
                .unwrap_or_else(|| String::from_utf8_lossy(&reply.body).into_owned()),
            retry_after,
        }
    }

    /// The page that says so.
    pub(super) fn page(&self, frame: &Frame) -> Reply {
        let reply = frame.page(self.status, &Head::of(self.title()), &self.words(frame));
        match self.retry_after.as_deref().map(HeaderValue::from_str) {
            Some(Ok(seconds)) => reply.with(RETRY_AFTER, seconds),
            _ => reply,
        }
    }

    /// Whether what was typed is the reason, so that it is corrected where it was typed.
    pub(super) fn is_of_the_form(&self) -> bool {
        matches!(self.status.as_u16(), 400 | 409 | 413)
    }

    /// The reason, above the form that it is about.
    pub(super) fn alert(&self) -> Markup {
        let shown: String = self.message.chars().take(SHOWN_MAX).collect();
        html! { p.trouble role="alert" { (text::visible(&text::sentence(&shown))) } }
    }

    fn words(&self, frame: &Frame) -> Markup {
        html! {
            h1 { (self.title()) }
            (self.alert())
            p { (self.advice(frame)) }
            p.quiet { "Status " (self.status.as_u16()) ", code " code { (text::visible(&self.code)) } "." }
        }
    }

    fn title(&self) -> &'static str {
        match self.status.as_u16() {
            400 | 413 | 415 => "This was not understood",
            401 => "Sign in first",
            403 => "This is not allowed",
            404 => "There is nothing here",
            405 => "Nothing to do here",
            409 => "This cannot be done now",
            421 => "This name is not served",
            429 => "Too many attempts",
            503 | 507 => "Not available now",
            _ => "This failed",
        }
    }

    /// What to do.
    fn advice(&self, frame: &Frame) -> Markup {
        match self.code.as_str() {
            "cross_site" => html! {
                "You came here from a page of another site. If you meant to, "
                a href=(frame.here) { "open this page itself" } "."
            },
            "csrf" => html! {
                "The form is older than your session. Go back, load its page again and send it once more."
            },
            "read_only" => html! {
                "Your role is read-only. Ask an operator, or sign in as one."
            },
            "host_not_allowed" => html! { "Use the server's address, or list the name in its settings." },
            "queue_not_found" | "message_not_found" | "not_found" | "task_not_found" => html! {
                "It may have been deleted meanwhile. " a href="/" { "All queues" }
            },
            "not_confirmed" => html! { "Go back and type the queue's name exactly." },
            "not_sure" => html! { "Go back and check the box beside the button." },
            _ => match self.status.as_u16() {
                400 | 413 | 415 => {
                    html! { "Go back and correct it: your browser keeps what you have typed." }
                }
                429 => html! { "Wait until the time named above has passed." },
                503 | 507 => html! {
                    "Try again in a moment. " a href="/readyz" { "/readyz" } " says whether the server serves."
                },
                _ => html! { a href="/" { "All queues" } },
            },
        }
    }
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        Self::of_reply(&error.reply())
    }
}
