//! What Cloudflare calls a refusal: codes, statuses and texts, and which of the engine's errors is which.

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
    /// Why, in the service's own chain of causes: a number and a text.
    chain: Option<(u32, &'static str)>,
    /// Of a request that never reached an operation: the status it has whatever its code.
    status: Option<StatusCode>,
    /// For our log, never for the client.
    cause: Option<String>,
    /// Nothing was done: it is not known just now whether there is such a queue.
    is_unknown: bool,
}

impl WireError {
    /// An error with its usual text.
    pub fn new(code: Code) -> Self {
        let message = Cow::Borrowed(code.look().2);
        Self { code, message, chain: None, status: None, cause: None, is_unknown: false }
    }

    /// The same with another text.
    pub(crate) fn saying(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message = text.into();
        self
    }

    /// The same with the service's own cause.
    pub(crate) fn caused_by(mut self, number: u32, text: &'static str) -> Self {
        self.chain = Some((number, text));
        self
    }

    pub(crate) fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The same error in replies to requests about messages: the service has two names for a queue that is not there.
    pub(crate) fn about_messages(mut self) -> Self {
        if self.code == Code::QueueNotFound {
            self.code = Code::NoSuchQueue;
            self.message = Cow::Borrowed(Code::NoSuchQueue.look().2);
        }
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status.unwrap_or_else(|| self.code.status())
    }

    /// What the client reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn chain(&self) -> Option<(u32, &'static str)> {
        self.chain
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

/// Writes the enum of codes with each one's number, status and text.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $number:literal $status:literal $text:literal,)+) => {
        /// Cloudflare's errors.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// Its number, its status and its text.
            fn look(self) -> (u32, u16, &'static str) {
                match self {
                    $(Self::$name => ($number, $status, $text),)+
                }
            }
        }
    };
}

codes! {
    /// The Authorization header is written wrongly.
    InvalidHeaders 6003 400 "Invalid request headers",
    /// The path leads nowhere.
    NoRoute 7003 404 "Could not route to this path, perhaps your object identifier is invalid?",
    /// There is no such Worker.
    ScriptNotFound 10007 404 "workers.api.error.script_not_found",
    /// A Worker that cannot be run.
    ScriptInvalid 10021 400 "The Worker cannot be run",
    /// A cron trigger that is none.
    CronInvalid 10100 400 "The cron trigger is invalid",
    /// There is no such secret.
    SecretNotFound 10056 404 "workers.api.error.secret_not_found",
    /// There is no such Worker, by the older name of its kind.
    ServiceNotFound 10090 404 "workers.api.error.service_not_found",
    /// There is no such version.
    VersionNotFound 10222 404 "workers.api.error.version_not_found",
    /// Workers are not run, or not for this client.
    WorkersRefused 10023 403 "This server runs no Workers: start it with --workers on",
    /// The caller has no permission for this.
    Authentication 10000 403 "Authentication error",
    /// A consumer without a type.
    ConsumerTypeMissing 10026 400 "The consumer needs a type: worker, http_pull or http_push",
    /// About messages: no such queue.
    NoSuchQueue 10104 404 "Queue does not exist",
    /// About messages: the token does not allow it.
    NotAuthorized 10106 403 "Not authorized",
    /// An id in the path that never was one.
    MalformedQueueId 10107 400 "Malformed queue id: it must be alphanumeric",
    /// A batch's delay out of range.
    InvalidBatchDelay 10202 400 "Batch delay must be a whole number of seconds from 0 to 86400",
    /// A message's content type or delay.
    InvalidMetadata 10203 400 "Invalid message metadata",
    /// A message that is too large.
    MessageTooLarge 10204 413 "Message size out of bounds: a body may have at most 128000 bytes",
    /// A batch that is too large.
    BatchTooLarge 10205 413 "Batch size in bytes out of bounds: all bodies together may have at most 256000 bytes",
    /// A batch of too many.
    BatchTooLong 10206 413 "Batch count out of bounds: at most 100 messages",
    /// JSON of another form than asked for.
    Schema 10207 400 "Request body does not match the schema",
    /// No JSON.
    NotJson 10208 400 "Request body is not valid JSON",
    /// Later, perhaps.
    Overloaded 10250 429 "Queue is overloaded: try again later",
    /// There is no room.
    NoSpace 10251 429 "Queue storage limit exceeded",
    /// About queues: no such queue.
    QueueNotFound 11000 404 "Queue not found",
    /// A consumer's Worker that takes no messages.
    QueueHandlerMissing 11001 400 "Queue handler is missing",
    /// A name no queue may have.
    InvalidQueueName 11003 400 "Invalid queue name: use 1 to 63 letters, digits and hyphens, beginning and ending with a letter or digit",
    /// A queue has one consumer.
    ConsumerExists 11004 409 "workers.api.error.consumer_exists",
    /// Something depends on the queue.
    QueueInUse 11005 409 "Queue is in use",
    /// No such consumer.
    ConsumerNotFound 11006 404 "Consumer not found",
    /// The name is taken.
    QueueExists 11009 409 "Queue name is already taken. Please use a different name and try again.",
    /// A consumer's settings.
    InvalidConsumerSettings 100127 400 "Invalid consumer settings",
    /// A queue's settings.
    InvalidQueueSettings 100128 400 "Invalid queue settings",
    /// The queue has no pull consumer.
    PullNotEnabled 0 405 "messages cannot be pulled unless http_pull mode is enabled",
    /// Delivery is paused.
    DeliveryPaused 0 409 "queue_delivery_paused",
    /// Refused before any operation.
    Refused 0 400 "Request refused",
    /// A fault of the server.
    Internal 15000 500 "Unknown Internal Error",
}

impl Code {
    /// Its number on the wire.
    pub fn number(self) -> u32 {
        self.look().0
    }

    /// Its status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.look().1).unwrap_or(StatusCode::BAD_REQUEST)
    }
}

impl From<EngineError> for WireError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Rule(rule) => rule.into(),
            EngineError::TooManyQueues { .. } => Self::new(Code::Overloaded).saying(error.to_string()),
            EngineError::NoSpace => Self::new(Code::NoSpace).because(error),
            EngineError::Overloaded { .. }
            | EngineError::FailStopped { .. }
            | EngineError::Unavailable { .. } => Self::new(Code::Overloaded).because(error),
            EngineError::NotAllKnown => {
                Self { is_unknown: true, ..Self::new(Code::Overloaded).because(error) }
            }
            EngineError::Damaged { .. } | EngineError::ClockNotVirtual => {
                Self::new(Code::Internal).because(error)
            }
        }
    }
}

impl From<RuleError> for WireError {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::QueueNotFound => Code::QueueNotFound.into(),
            RuleError::QueueExists(_) => Code::QueueExists.into(),
            // Leases and references are judged one by one and end in warnings; a whole request that fails by one
            // had none to name.
            RuleError::TokenForged
            | RuleError::TokenOfOtherQueue
            | RuleError::MessageNotFound
            | RuleError::TokenStale
            | RuleError::LeaseEnded
            | RuleError::NotDelayed
            | RuleError::LeaseTooLong { .. } => Self::new(Code::Schema).saying(error.to_string()),
            // Queues of groups have names that no request of this service can say.
            RuleError::GroupMissing
            | RuleError::DeduplicationMissing
            | RuleError::DeduplicationNotAllowed
            | RuleError::DelayNotAllowed => Self::new(Code::InvalidMetadata).saying(error.to_string()),
            RuleError::DocumentTooLarge { .. } | RuleError::KindChange => {
                Self::new(Code::InvalidQueueSettings).saying(error.to_string())
            }
            RuleError::TooManyInFlight | RuleError::FirstTooLarge | RuleError::VersionChanged => {
                Self::new(Code::Overloaded).because(error)
            }
            RuleError::TaskNotFound | RuleError::TaskRunning | RuleError::TooManyTasks => {
                Self::new(Code::Internal).because(error)
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
            Refusal::BodyTooLarge { .. } => Code::BatchTooLarge,
            Refusal::BodiesTooLarge | Refusal::RepliesTooLarge | Refusal::MayNotAnswer => Code::Overloaded,
            Refusal::AuthorizationRepeated => {
                return Self::new(Code::InvalidHeaders)
                    .caused_by(6_111, "Invalid format for Authorization header");
            }
            Refusal::HostMissing
            | Refusal::HostRepeated
            | Refusal::HostMalformed
            | Refusal::HostsDiffer
            | Refusal::HostNotAllowed { .. }
            | Refusal::CrossSite
            | Refusal::ForeignOrigin { .. }
            | Refusal::MethodNotServed
            | Refusal::BodyBroken
            | Refusal::BodyTooSlow => {
                return Self { status: Some(refusal.status()), ..Self::new(Code::Refused) }
                    .saying(refusal.to_string());
            }
        };
        Self::new(code).saying(refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mistake_of_a_client_has_a_status_that_says_try_again() {
        for code in [Code::Schema, Code::NotJson, Code::BatchTooLarge, Code::InvalidMetadata] {
            assert!(!matches!(code.status().as_u16(), 408 | 409 | 429 | 500..), "{code:?}");
        }
    }

    #[test]
    fn failures_of_the_server_say_whether_to_try_again_and_keep_their_cause_to_us() {
        let cause = || "disk".to_owned();
        for (error, number, status) in [
            (EngineError::NoSpace, 10_251, 429),
            (EngineError::Overloaded { what: "it" }, 10_250, 429),
            (EngineError::FailStopped { cause: cause() }, 10_250, 429),
            (EngineError::Unavailable { cause: cause() }, 10_250, 429),
            (RuleError::VersionChanged.into(), 10_250, 429),
            (EngineError::Damaged { what: cause() }, 15_000, 500),
        ] {
            let told = WireError::from(error);
            assert_eq!((told.code().number(), told.status().as_u16()), (number, status));
            assert!(told.cause().is_some() && !told.message().contains("disk"), "{told:?}");
        }
    }

    #[test]
    fn a_queue_that_is_not_there_has_two_names() {
        let error = WireError::from(RuleError::QueueNotFound);
        assert_eq!(error.code().number(), 11_000);
        assert_eq!(error.about_messages().code().number(), 10_104);
    }
}
