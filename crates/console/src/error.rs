//! What the admin API refuses, and how that is worded: a status, and `{"error":{"code","message"}}`.
//!
//! The one place where an error of the engine becomes a status of HTTP.

use kew_core::RuleError;
use kew_engine::EngineError;
use kew_http::{HeaderName, HeaderValue, Refusal, Reply, StatusCode};
use serde_json::json;

/// The content type of everything the API answers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CACHE_CONTROL: HeaderName = HeaderName::from_static("cache-control");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const RETRY_AFTER: HeaderName = HeaderName::from_static("retry-after");

/// A request that is not answered as asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_seconds: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after_seconds: None }
    }

    /// The request is malformed: a parameter, a member or the body itself.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn queue_not_found(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "queue_not_found", format!("there is no queue {name}"))
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// The same, with the number of seconds after which to try again.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn reply(&self) -> Reply {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let reply = Reply::new(self.status, JSON, body.to_string()).with(CACHE_CONTROL, NO_STORE);
        match self.retry_after_seconds {
            Some(seconds) => reply.with(RETRY_AFTER, HeaderValue::from(seconds)),
            None => reply,
        }
    }

    /// The same refusal as a plain line of text, which older routes answer.
    pub(crate) fn of_text(reply: &Reply) -> Self {
        let message = String::from_utf8_lossy(&reply.body).trim_end().to_owned();
        Self::new(reply.status, code_of(reply.status), message)
    }
}

/// The code of a refusal that has none of its own.
fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "bad_request",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        405 => "method_not_allowed",
        415 => "not_json",
        421 => "host_not_allowed",
        503 => "unavailable",
        _ => "failed",
    }
}

/// A reply with a JSON body, which no cache keeps.
pub(crate) fn answer(status: StatusCode, body: &serde_json::Value) -> Reply {
    Reply::new(status, JSON, body.to_string()).with(CACHE_CONTROL, NO_STORE)
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.status();
        let code = if status == StatusCode::SERVICE_UNAVAILABLE { "overloaded" } else { code_of(status) };
        Self::new(status, code, refusal.to_string())
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Rule(rule) => rule.into(),
            EngineError::TooManyQueues { .. } => Self::conflict("too_many_queues", message),
            EngineError::NoSpace => Self::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", message),
            EngineError::Overloaded { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            }
            EngineError::FailStopped { .. } | EngineError::Unavailable { .. } | EngineError::NotAllKnown => {
                Self::unavailable(message)
            }
            EngineError::Damaged { .. } => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged", message),
            EngineError::ClockNotVirtual => Self::new(StatusCode::NOT_FOUND, "clock_not_virtual", message),
        }
    }
}

impl From<RuleError> for ApiError {
    fn from(rule: RuleError) -> Self {
        let message = rule.to_string();
        let (status, code) = match rule {
            RuleError::QueueNotFound => (StatusCode::NOT_FOUND, "queue_not_found"),
            RuleError::QueueExists(_) => (StatusCode::CONFLICT, "queue_exists"),
            RuleError::VersionChanged => (StatusCode::CONFLICT, "queue_changed"),
            RuleError::TokenForged | RuleError::TokenOfOtherQueue => (StatusCode::BAD_REQUEST, "bad_receipt"),
            RuleError::MessageNotFound => (StatusCode::NOT_FOUND, "message_not_found"),
            RuleError::TokenStale => (StatusCode::CONFLICT, "receipt_stale"),
            RuleError::LeaseEnded => (StatusCode::CONFLICT, "lease_ended"),
            RuleError::NotDelayed => (StatusCode::CONFLICT, "not_delayed"),
            RuleError::LeaseTooLong { .. } => (StatusCode::BAD_REQUEST, "lease_too_long"),
            RuleError::TooManyInFlight => (StatusCode::CONFLICT, "too_many_in_flight"),
            RuleError::FirstTooLarge => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            RuleError::GroupMissing => (StatusCode::BAD_REQUEST, "group_missing"),
            RuleError::DeduplicationMissing => (StatusCode::BAD_REQUEST, "deduplication_missing"),
            RuleError::DeduplicationNotAllowed => (StatusCode::BAD_REQUEST, "deduplication_not_allowed"),
            RuleError::DelayNotAllowed => (StatusCode::BAD_REQUEST, "delay_not_allowed"),
            RuleError::DocumentTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "document_too_large"),
            RuleError::KindChange => (StatusCode::CONFLICT, "kind_change"),
            RuleError::TaskNotFound => (StatusCode::NOT_FOUND, "task_not_found"),
            RuleError::TaskRunning => (StatusCode::CONFLICT, "task_running"),
            RuleError::TooManyTasks => (StatusCode::CONFLICT, "too_many_tasks"),
        };
        Self::new(status, code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_engine_has_a_status_and_a_code() {
        let error = ApiError::from(EngineError::Rule(RuleError::QueueNotFound));
        let reply = error.reply();
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
        let expected = r#"{"error":{"code":"queue_not_found","message":"no such queue"}}"#;
        assert_eq!(String::from_utf8_lossy(&reply.body), expected);
    }

    #[test]
    fn a_refusal_in_text_becomes_one_in_json() {
        let error = ApiError::of_text(&Reply::text(StatusCode::UNAUTHORIZED, "who are \"you\"?"));
        assert_eq!(error, ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", "who are \"you\"?"));
    }
}
