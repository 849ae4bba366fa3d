//! What a request of the admin API was about, for those who note requests.

use kew_http::{Reply, Request, Subject, TRACEPARENT, TraceContext, short};
use serde_json::Value;

use crate::api::{BASE, Found, find};
use crate::{Console, access};

impl Console {
    /// What it was about: its key is the user, or `token`, or `open` where no proof is asked for.
    pub(crate) fn subject_of(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        let path = request.uri.path();
        let caller = access::identify(request, &self.settings, &self.login).ok();
        let (operation, queue) = match path.strip_prefix(BASE) {
            Some(below) => named(request, below),
            None => (of_page(path), None),
        };
        Subject {
            operation: Some(operation),
            queue,
            key: caller.map(|caller| short(&caller.name)),
            error: reply.and_then(error_code),
            trace: request.header(TRACEPARENT).and_then(TraceContext::of_w3c),
            ..Subject::of("admin")
        }
    }
}

fn of_page(path: &str) -> &'static str {
    match path {
        "/livez" => "Livez",
        "/readyz" => "Readyz",
        "/metrics" => "Metrics",
        _ => "Page",
    }
}

/// The operation at a path below the base, and the queue that the path names.
fn named(request: &Request, below: &str) -> (&'static str, Option<Box<str>>) {
    match find(&request.method, below) {
        Ok(Found::Route(route, parts)) => {
            let is_of_queue = route.path.starts_with("/queues/");
            (route.name, parts.first().filter(|_| is_of_queue).map(|name| short(name)))
        }
        Ok(Found::OtherMethods(_) | Found::Nothing) | Err(_) => ("Unknown", None),
    }
}

fn error_code(reply: &Reply) -> Option<Box<str>> {
    if !reply.status.is_client_error() && !reply.status.is_server_error() {
        return None;
    }
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    body.pointer("/error/code").and_then(Value::as_str).map(short)
}
