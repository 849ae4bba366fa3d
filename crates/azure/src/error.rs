//! What Azure calls a refusal: codes, statuses, texts and details, and which of the engine's errors is which.

use std::borrow::Cow;
use std::fmt;

use kew_core::RuleError;
use kew_engine::EngineError;
use kew_http::{Refusal, StatusCode};

/// A request that was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct WireError {
    code: Code,
    message: Cow<'static, str>,
    /// Elements that follow the message.
    details: Vec<(&'static str, String)>,
    /// What credentials the client should bring.
    challenge: Option<String>,
    /// For our log, never for the client.
    cause: Option<String>,
    /// Nothing was done: it is not known just now whether there is such a queue.
    is_unknown: bool,
}

impl WireError {
    /// An error with its usual text.
    pub fn new(code: Code) -> Self {
        let message = Cow::Borrowed(code.look().1);
        Self { code, message, details: Vec::new(), challenge: None, cause: None, is_unknown: false }
    }

    /// A query parameter has a value it may not have.
    pub(crate) fn bad_parameter(name: &str, value: impl fmt::Display, reason: &str) -> Self {
        Self::new(Code::InvalidQueryParameterValue)
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("Reason", reason)
    }

    /// A query parameter is outside its range.
    pub(crate) fn out_of_range(name: &str, value: impl fmt::Display, min: i64, max: i64) -> Self {
        Self::new(Code::OutOfRangeQueryParameterValue)
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
            .with("MinimumAllowed", min)
            .with("MaximumAllowed", max)
    }

    /// A query parameter that must be there is not.
    pub(crate) fn missing_parameter(name: &str) -> Self {
        Self::new(Code::MissingRequiredQueryParameter).with("QueryParameterName", name)
    }

    /// A header has a value it may not have.
    pub(crate) fn bad_header(name: &str, value: &str) -> Self {
        Self::new(Code::InvalidHeaderValue).with("HeaderName", name).with("HeaderValue", value)
    }

    /// A node of the body has a value it may not have.
    pub(crate) fn bad_node(name: &str, value: &str) -> Self {
        Self::new(Code::InvalidXmlNodeValue).with("XmlNodeName", name).with("XmlNodeValue", value)
    }

    /// The request is not genuine, for this reason.
    pub(crate) fn not_authentic(detail: impl fmt::Display) -> Self {
        Self::new(Code::AuthenticationFailed).with("AuthenticationErrorDetail", detail)
    }

    /// The same with one more element.
    pub(crate) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.details.push((name, value.to_string()));
        self
    }

    /// The same with another text.
    pub(crate) fn saying(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message = text.into();
        self
    }

    /// The same, asking for credentials.
    pub(crate) fn challenging(mut self, challenge: String) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Its status: 401 asks for other credentials, since clients sign in again on nothing else.
    pub fn status(&self) -> StatusCode {
        if self.challenge.is_some() { StatusCode::UNAUTHORIZED } else { self.code.status() }
    }

    /// What `WWW-Authenticate` says, if anything.
    pub(crate) fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    pub(crate) fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the client reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn details(&self) -> &[(&'static str, String)] {
        &self.details
    }

    /// Whether nothing was done since not every queue is known just now.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// What went wrong inside, when something did.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }
}

impl From<Code> for WireError {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

/// Writes the enum of codes with each one's status and text.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $status:literal $text:literal,)+) => {
        /// Azure's errors.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Its status and its text.
            fn look(self) -> (u16, &'static str) {
                match self {
                    $(Self::$name => ($status, $text),)+
                }
            }
        }
    };
}

codes! {
    /// A query parameter has a value it may not have.
    InvalidQueryParameterValue 400 "Value for one of the query parameters specified in the request URI is invalid.",
    /// A number is outside its range.
    OutOfRangeQueryParameterValue 400 "One of the query parameters specified in the request URI is outside the permissible range.",
    /// A query parameter is missing.
    MissingRequiredQueryParameter 400 "A query parameter that's mandatory for this request is not specified.",
    /// A header is missing.
    MissingRequiredHeader 400 "An HTTP header that's mandatory for this request is not specified.",
    /// A header has a value it may not have.
    InvalidHeaderValue 400 "The value for one of the HTTP headers is not in the correct format.",
    /// A queue's name has characters it may not have.
    InvalidResourceName 400 "The specified resource name contains invalid characters.",
    /// A queue's name is too short or too long.
    OutOfRangeInput 400 "The specified resource name length is not within the permissible limits.",
    /// The path leads nowhere.
    InvalidUri 400 "The requested URI does not represent any resource on the server.",
    /// The body is no XML document of the right kind.
    InvalidXmlDocument 400 "XML specified is not syntactically valid.",
    /// A node of the body has a value it may not have.
    InvalidXmlNodeValue 400 "The value for one of the XML nodes is not in the correct format.",
    /// Not the newest receipt of the message.
    PopReceiptMismatch 400 "The specified pop receipt did not match the pop receipt for a dequeued message.",
    /// The marker was never given out.
    InvalidMarker 400 "The specified marker is invalid.",
    /// Metadata without a name.
    EmptyMetadataKey 400 "The key for one of the metadata key-value pairs is empty.",
    /// Metadata whose name is no identifier.
    InvalidMetadata 400 "The specified metadata is invalid. It has characters that are not permitted.",
    /// Too much metadata.
    MetadataTooLarge 400 "The metadata specified exceeds the maximum permissible limit.",
    /// The request cannot be read.
    InvalidInput 400 "One of the request inputs is not valid.",
    /// The Authorization header is written wrongly.
    InvalidAuthenticationInfo 400 "Authentication information is not given in the correct format. Check the value of Authorization header.",
    /// The request has no credentials, and is asked for some.
    NoAuthenticationInformation 401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    /// The request is not genuine.
    AuthenticationFailed 403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    /// A signature that does not reach so far.
    AuthorizationPermissionMismatch 403 "This request is not authorized to perform this operation using this permission.",
    /// A signature for other services.
    AuthorizationServiceMismatch 403 "This request is not authorized to perform this operation using this service.",
    /// A signature for other kinds of resource.
    AuthorizationResourceTypeMismatch 403 "This request is not authorized to perform this operation using this resource type.",
    /// A signature for TLS only.
    AuthorizationProtocolMismatch 403 "This request is not authorized to perform this operation using this protocol.",
    /// A signature for other addresses.
    AuthorizationSourceIPMismatch 403 "This request is not authorized to perform this operation using this source IP.",
    /// The caller may not do this at all.
    AuthorizationFailure 403 "This request is not authorized to perform this operation.",
    /// No rule lets the web page's origin do this.
    CorsPreflightFailure 403 "CORS not enabled or no matching rule found for this request.",
    /// No such queue.
    QueueNotFound 404 "The specified queue does not exist.",
    /// No such message.
    MessageNotFound 404 "The specified message does not exist.",
    /// No such account.
    ResourceNotFound 404 "The specified resource does not exist.",
    /// The resource knows no such verb.
    UnsupportedHttpVerb 405 "The resource doesn't support specified Http Verb.",
    /// A queue of that name has other metadata.
    QueueAlreadyExists 409 "The specified queue already exists.",
    /// The queue is on its way out.
    QueueBeingDeleted 409 "The specified queue is being deleted.",
    /// No header says how long the body is.
    MissingContentLengthHeader 411 "Content-Length HTTP header is missing",
    /// Too large.
    RequestBodyTooLarge 413 "The request body is too large and exceeds the maximum permissible limit.",
    /// The server is not reached by this name.
    MisdirectedRequest 421 "The server is not reached by this host name.",
    /// A fault of the server.
    InternalError 500 "The server encountered an internal error. Please retry the request.",
    /// Later, perhaps.
    ServerBusy 503 "The server is busy.",
}

impl Code {
    /// Its status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.look().0).unwrap_or(StatusCode::BAD_REQUEST)
    }
}

impl From<EngineError> for WireError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rule(rule) => rule.into(),
            EngineError::TooManyQueues { .. } => Self::new(Code::ServerBusy).saying(error.to_string()),
            EngineError::Overloaded { .. }
            | EngineError::NoSpace
            | EngineError::FailStopped { .. }
            | EngineError::Unavailable { .. } => Self::new(Code::ServerBusy).because(error),
            EngineError::NotAllKnown => {
                Self { is_unknown: true, ..Self::new(Code::ServerBusy).because(error) }
            }
            EngineError::Damaged { .. } | EngineError::ClockNotVirtual => {
                Self::new(Code::InternalError).because(error)
            }
        }
    }
}

impl From<RuleError> for WireError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::QueueNotFound => Code::QueueNotFound.into(),
            RuleError::QueueExists(_) => Code::QueueAlreadyExists.into(),
            RuleError::MessageNotFound | RuleError::TokenOfOtherQueue => Code::MessageNotFound.into(),
            RuleError::TokenForged
            | RuleError::TokenStale
            | RuleError::LeaseEnded
            | RuleError::NotDelayed => Code::PopReceiptMismatch.into(),
            RuleError::LeaseTooLong { cap } => {
                let max = i64::try_from(cap.as_secs()).unwrap_or(i64::MAX);
                Self::out_of_range("visibilitytimeout", "", 0, max)
            }
            RuleError::DocumentTooLarge { .. } => Code::MetadataTooLarge.into(),
            RuleError::GroupMissing
            | RuleError::DeduplicationMissing
            | RuleError::DeduplicationNotAllowed
            | RuleError::DelayNotAllowed
            | RuleError::KindChange => Self::new(Code::InvalidInput).because(error),
            RuleError::TooManyInFlight | RuleError::FirstTooLarge | RuleError::VersionChanged => {
                Self::new(Code::ServerBusy).because(error)
            }
            RuleError::TaskNotFound | RuleError::TaskRunning | RuleError::TooManyTasks => {
                Self::new(Code::InternalError).because(error)
            }
        }
    }
}

impl From<Refusal> for WireError {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}

impl From<&Refusal> for WireError {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal {
            Refusal::HostMissing
            | Refusal::HostRepeated
            | Refusal::HostMalformed
            | Refusal::HostsDiffer
            | Refusal::BodyBroken
            | Refusal::BodyTooSlow => Code::InvalidInput,
            Refusal::AuthorizationRepeated => Code::InvalidAuthenticationInfo,
            Refusal::HostNotAllowed { .. } => Code::MisdirectedRequest,
            Refusal::CrossSite | Refusal::ForeignOrigin { .. } => Code::AuthorizationFailure,
            Refusal::MethodNotServed => Code::UnsupportedHttpVerb,
            Refusal::BodyTooLarge { bytes_max } => {
                return Self::new(Code::RequestBodyTooLarge).with("MaxLimit", bytes_max);
            }
            Refusal::BodiesTooLarge | Refusal::RepliesTooLarge | Refusal::MayNotAnswer => Code::ServerBusy,
        };
        Self::new(code).saying(refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mistake_of_a_client_has_a_status_that_sdks_retry() {
        for code in [Code::RequestBodyTooLarge, Code::InvalidInput, Code::UnsupportedHttpVerb] {
            assert!(!matches!(code.status().as_u16(), 408 | 429 | 500..), "{code:?}");
        }
        assert_eq!(Code::QueueNotFound.name(), "QueueNotFound");
        assert_eq!(Code::QueueNotFound.status(), StatusCode::NOT_FOUND);
    }
}
