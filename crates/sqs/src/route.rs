//! Which protocol a request speaks and which action it means.
//!
//! The headers alone decide the protocol, so that a refusal of any kind can be worded in it; the action of a Query
//! request lies in its form and is looked for only after the caller is known.

use std::borrow::Cow;

use bytes::Bytes;
use kew_http::{HeaderName, Method, Request};

use crate::action::Action;
use crate::decode::query::Form;
use crate::error::{Code, WireError};

/// How a request and its reply are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// AWS JSON 1.0: the action in a header, a JSON object each way.
    Json,
    /// AWS Query: a form in, XML out.
    Query,
    /// The same for clients that ask for JSON: a form in, the XML's tree as JSON out.
    QueryJson,
}

impl Protocol {
    /// The protocol of a request.
    pub(crate) fn of(request: &Request) -> Self {
        if request.headers.contains(&TARGET) {
            return Self::Json;
        }
        match request.header("accept") {
            Some(accept) if accept.contains("application/json") => Self::QueryJson,
            Some(_) | None => Self::Query,
        }
    }
}

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TARGET_PREFIX: &str = "AmazonSQS.";

/// What a request asks for, ready to be decoded.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) action: Action,
    /// The members of the request as a JSON object, whichever protocol they came in.
    pub(crate) body: Bytes,
}

/// Whether a request's headers alone say that it sends a batch.
pub(crate) fn is_batch_of_sends(request: &Request) -> bool {
    request.header(&TARGET).and_then(|target| target.strip_prefix(TARGET_PREFIX))
        == Some(Action::SendMessageBatch.name())
}

/// The action a request names, and its members.
pub(crate) fn call(protocol: Protocol, request: &Request) -> Result<Call, WireError> {
    match protocol {
        Protocol::Json => json_call(request),
        Protocol::Query | Protocol::QueryJson => query_call(request),
    }
}

fn json_call(request: &Request) -> Result<Call, WireError> {
    if request.method != Method::POST {
        let text = format!("{} is not a method of the JSON protocol: use POST.", request.method);
        return Err(WireError::new(Code::UnknownOperation).saying(text));
    }
    let target = request.header(&TARGET).unwrap_or_default();
    let action = target.strip_prefix(TARGET_PREFIX).and_then(Action::named).ok_or_else(|| {
        let legible: String = target.chars().take(128).collect();
        WireError::new(Code::UnknownOperation).saying(format!("The operation {legible} is not known."))
    })?;
    Ok(Call { action, body: request.body.clone() })
}

fn query_call(request: &Request) -> Result<Call, WireError> {
    if request.method != Method::POST && request.method != Method::GET {
        let text = format!("{} is not a method of the Query protocol: use POST or GET.", request.method);
        return Err(WireError::new(Code::InvalidAction).saying(text));
    }
    let form = Form::read(request.uri.query().unwrap_or_default().as_bytes(), &request.body)?;
    let Some(name) = form.text("Action") else { return Err(Code::UnknownPath.into()) };
    let action =
        Action::named(name).filter(|action| queue_path(request).is_none() || !is_of_no_queue(*action));
    let action = action.ok_or_else(|| not_valid(name))?;
    Ok(Call { action, body: form.members(action)?.into() })
}

/// The name of the action of a request that got no reply. Read anew: only requests that are noted and whose clients
/// went away need it.
pub(crate) fn action_name(protocol: Protocol, request: &Request) -> Option<&'static str> {
    let action = match protocol {
        Protocol::Json => request.header(&TARGET)?.strip_prefix(TARGET_PREFIX).and_then(Action::named),
        Protocol::Query | Protocol::QueryJson => {
            let form = Form::read(request.uri.query().unwrap_or_default().as_bytes(), &request.body).ok()?;
            form.text("Action").and_then(Action::named)
        }
    };
    action.map(Action::name)
}

/// Actions that a queue's own URL does not serve.
fn is_of_no_queue(action: Action) -> bool {
    matches!(action, Action::CreateQueue | Action::ListQueues)
}

fn not_valid(name: &str) -> WireError {
    let legible: Cow<'_, str> = name.chars().take(128).collect();
    let text = format!("The action {legible} is not valid for this endpoint.");
    WireError::new(Code::InvalidAction).saying(text)
}

/// The path of a queue's URL, when the request was sent to one.
pub(crate) fn queue_path(request: &Request) -> Option<&str> {
    let path = request.uri.path();
    names_queue(path).then_some(path)
}

/// Whether a path ends in two parts that mean themselves. Signatures cover a path without its dots and doubled slashes,
/// so one that needs them could be made to mean another queue than the one that was signed.
fn names_queue(path: &str) -> bool {
    let means_itself = |part: &str| !matches!(part, "" | "." | "..");
    let mut parts = path.strip_suffix('/').unwrap_or(path).rsplit('/');
    parts.next().is_some_and(means_itself) && parts.next().is_some_and(means_itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_path_ends_in_two_parts_that_mean_themselves() {
        for path in ["/000000000000/orders", "/000000000000/orders/", "//000000000000/orders", "/queue/0/o"] {
            assert!(names_queue(path), "{path}");
        }
        for path in [
            "",
            "/",
            "//",
            "/orders",
            "/000000000000//orders",
            "/000000000000/./orders",
            "/000000000000/x/../orders",
            "/000000000000/orders/.",
            "/000000000000/orders/x/..",
            "/000000000000/orders//",
        ] {
            assert!(!names_queue(path), "{path}");
        }
    }
}
