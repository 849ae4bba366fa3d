//! What a request asks for: its verb, its place, and its `comp` and `restype`.

use kew_http::Method;

use crate::error::{Code, WireError};
use crate::params::Params;
use crate::target::Place;

/// The operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Lists queues by name.
    ListQueues,
    /// Shows the account's settings of this service.
    GetServiceProperties,
    /// Changes them.
    SetServiceProperties,
    /// Says how far the secondary endpoint is.
    GetServiceStats,
    /// Issues a key to sign with to who holds a token.
    GetUserDelegationKey,
    /// Asks what a web page may do.
    Preflight,
    /// Makes a queue, or finds the same one.
    CreateQueue,
    /// Deletes a queue with everything in it.
    DeleteQueue,
    /// Shows a queue's metadata and how many messages it has.
    GetQueueMetadata,
    /// Replaces a queue's metadata.
    SetQueueMetadata,
    /// Shows a queue's stored access policies.
    GetQueueAcl,
    /// Replaces them.
    SetQueueAcl,
    /// Adds a message.
    PutMessage,
    /// Leases messages.
    GetMessages,
    /// Shows messages.
    PeekMessages,
    /// Deletes all messages.
    ClearMessages,
    /// Deletes a message by its receipt.
    DeleteMessage,
    /// Gives a lease another end, and perhaps the message another text.
    UpdateMessage,
}

impl Operation {
    /// Whether its reply shows what is stored of one account or queue, messages aside: it is small.
    pub(crate) fn shows_settings(self) -> bool {
        matches!(self, Self::GetServiceProperties | Self::GetQueueMetadata | Self::GetQueueAcl)
    }

    /// Its name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ListQueues => "ListQueues",
            Self::GetServiceProperties => "GetServiceProperties",
            Self::SetServiceProperties => "SetServiceProperties",
            Self::GetServiceStats => "GetServiceStats",
            Self::GetUserDelegationKey => "GetUserDelegationKey",
            Self::Preflight => "Preflight",
            Self::CreateQueue => "CreateQueue",
            Self::DeleteQueue => "DeleteQueue",
            Self::GetQueueMetadata => "GetQueueMetadata",
            Self::SetQueueMetadata => "SetQueueMetadata",
            Self::GetQueueAcl => "GetQueueAcl",
            Self::SetQueueAcl => "SetQueueAcl",
            Self::PutMessage => "PutMessage",
            Self::GetMessages => "GetMessages",
            Self::PeekMessages => "PeekMessages",
            Self::ClearMessages => "ClearMessages",
            Self::DeleteMessage => "DeleteMessage",
            Self::UpdateMessage => "UpdateMessage",
        }
    }

    /// The operation a request means.
    pub(crate) fn of(method: &Method, place: &Place<'_>, params: &Params<'_>) -> Result<Self, WireError> {
        if method == Method::OPTIONS {
            return Ok(Self::Preflight);
        }
        match place {
            Place::Service => of_service(method, params),
            Place::Queue(_) => of_queue(method, params),
            Place::Messages(_) => of_messages(method, params),
            Place::Message(..) => match *method {
                Method::DELETE => Ok(Self::DeleteMessage),
                Method::PUT => Ok(Self::UpdateMessage),
                _ => Err(Code::UnsupportedHttpVerb.into()),
            },
        }
    }
}

fn of_service(method: &Method, params: &Params<'_>) -> Result<Operation, WireError> {
    let comp = params.filled("comp").ok_or_else(|| WireError::missing_parameter("comp"))?;
    let comp = comp.to_ascii_lowercase();
    if comp == "list" {
        return only(method, &[Method::GET], Operation::ListQueues);
    }
    if !matches!(comp.as_str(), "properties" | "stats" | "userdelegationkey") {
        return Err(unknown_comp(&comp));
    }
    match params.filled("restype") {
        Some(restype) if restype.eq_ignore_ascii_case("service") => {}
        Some(restype) => return Err(WireError::bad_parameter("restype", restype, "Only service is known.")),
        None => return Err(WireError::missing_parameter("restype")),
    }
    match (comp.as_str(), method.as_str()) {
        ("properties", "GET") => Ok(Operation::GetServiceProperties),
        ("properties", "PUT") => Ok(Operation::SetServiceProperties),
        ("stats", "GET") => Ok(Operation::GetServiceStats),
        ("userdelegationkey", "POST") => Ok(Operation::GetUserDelegationKey),
        _ => Err(Code::UnsupportedHttpVerb.into()),
    }
}

fn of_queue(method: &Method, params: &Params<'_>) -> Result<Operation, WireError> {
    let is_read = method == Method::GET || method == Method::HEAD;
    match params.filled("comp").map(str::to_ascii_lowercase).as_deref() {
        None if method == Method::PUT => Ok(Operation::CreateQueue),
        None if method == Method::DELETE => Ok(Operation::DeleteQueue),
        None if is_read => Err(WireError::missing_parameter("comp")),
        Some("metadata") if is_read => Ok(Operation::GetQueueMetadata),
        Some("metadata") => only(method, &[Method::PUT], Operation::SetQueueMetadata),
        Some("acl") if is_read => Ok(Operation::GetQueueAcl),
        Some("acl") => only(method, &[Method::PUT], Operation::SetQueueAcl),
        Some(comp) => Err(unknown_comp(comp)),
        None => Err(Code::UnsupportedHttpVerb.into()),
    }
}

fn of_messages(method: &Method, params: &Params<'_>) -> Result<Operation, WireError> {
    match *method {
        Method::POST => Ok(Operation::PutMessage),
        Method::GET => of_get(params),
        Method::DELETE => Ok(Operation::ClearMessages),
        _ => Err(Code::UnsupportedHttpVerb.into()),
    }
}

/// A get hides what it returns, so a request that may have meant a peek is none.
fn of_get(params: &Params<'_>) -> Result<Operation, WireError> {
    match params.text("peekonly") {
        None => Ok(Operation::GetMessages),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(Operation::GetMessages),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(Operation::PeekMessages),
        Some(text) => Err(WireError::bad_parameter("peekonly", text, "The value must be true or false.")),
    }
}

fn only(method: &Method, allowed: &[Method], operation: Operation) -> Result<Operation, WireError> {
    if allowed.contains(method) { Ok(operation) } else { Err(Code::UnsupportedHttpVerb.into()) }
}

fn unknown_comp(comp: &str) -> WireError {
    WireError::bad_parameter("comp", comp, "The value is not known here.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(method: &str, place: &Place<'_>, query: &str) -> Result<Operation, Code> {
        let method = method.parse().expect("the methods of this table are valid");
        let params = Params::read(query).expect("a query within the bounds is read");
        Operation::of(&method, place, &params).map_err(|error| error.code())
    }

    #[test]
    fn verb_place_and_comp_tell_the_operation() {
        let (queue, messages) = (Place::Queue("abc".into()), Place::Messages("abc".into()));
        for (method, place, query, expected) in [
            ("GET", &Place::Service, "comp=LIST", Ok(Operation::ListQueues)),
            ("PUT", &Place::Service, "restype=service&comp=properties", Ok(Operation::SetServiceProperties)),
            (
                "POST",
                &Place::Service,
                "restype=service&comp=userdelegationkey",
                Ok(Operation::GetUserDelegationKey),
            ),
            ("GET", &Place::Service, "comp=properties", Err(Code::MissingRequiredQueryParameter)),
            ("GET", &Place::Service, "", Err(Code::MissingRequiredQueryParameter)),
            ("GET", &Place::Service, "comp=other", Err(Code::InvalidQueryParameterValue)),
            ("POST", &Place::Service, "comp=list", Err(Code::UnsupportedHttpVerb)),
            ("PUT", &queue, "timeout=30", Ok(Operation::CreateQueue)),
            ("HEAD", &queue, "comp=acl", Ok(Operation::GetQueueAcl)),
            ("POST", &queue, "", Err(Code::UnsupportedHttpVerb)),
            ("GET", &messages, "peekonly=true", Ok(Operation::PeekMessages)),
            ("GET", &messages, "PeekOnly=True", Ok(Operation::PeekMessages)),
            ("GET", &messages, "peekonly=false", Ok(Operation::GetMessages)),
            ("GET", &messages, "peekonly=yes", Err(Code::InvalidQueryParameterValue)),
            ("GET", &messages, "peekonly=", Err(Code::InvalidQueryParameterValue)),
            ("PATCH", &messages, "", Err(Code::UnsupportedHttpVerb)),
            ("OPTIONS", &messages, "", Ok(Operation::Preflight)),
        ] {
            assert_eq!(operation(method, place, query), expected, "{method} {place:?} {query}");
        }
    }
}
