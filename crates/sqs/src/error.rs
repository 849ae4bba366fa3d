//! What SQS calls a refusal: codes, statuses and texts, and which of the engine's errors is which.

use std::borrow::Cow;
use std::fmt;

use kew_core::RuleError;
use kew_engine::EngineError;
use kew_http::Refusal;
use kew_http::form::FormError;

/// Texts quote what was sent, and that may be megabytes: so much of it is told.
const MESSAGE_BYTES: usize = 4_096;

/// A request that was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct WireError {
    code: Code,
    message: Cow<'static, str>,
    /// For our log, never for the client.
    cause: Option<String>,
}

impl WireError {
    /// An error with its usual text.
    pub fn new(code: Code) -> Self {
        Self { code, message: Cow::Borrowed(code.usual_text()), cause: None }
    }

    /// A parameter that must be there is not.
    pub fn missing(name: &str) -> Self {
        Self::new(Code::MissingParameter).saying(format!("The request must contain the parameter {name}."))
    }

    /// A parameter has a value it may not have.
    pub fn invalid_value(name: &str, value: impl fmt::Display, reason: &str) -> Self {
        let text = format!("Value {value} for parameter {name} is invalid. Reason: {reason}");
        Self::new(Code::InvalidParameterValue).saying(text)
    }

    /// A receipt handle that this queue never gave out.
    pub fn bad_receipt(handle: &str) -> Self {
        let text = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        Self::new(Code::ReceiptHandleIsInvalid).saying(text)
    }

    /// The same with another text.
    pub fn saying(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.message = text.into();
        if self.message.len() > MESSAGE_BYTES {
            let text = self.message.to_mut();
            text.truncate(text.floor_char_boundary(MESSAGE_BYTES));
            text.push('…');
        }
        self
    }

    /// The same under another code.
    pub(crate) fn coded(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// The same, with what our log should say of it.
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

/// SQS's errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// No such queue.
    QueueDoesNotExist,
    /// The name is taken by a queue with other settings.
    QueueNameExists,
    /// A receipt handle that was never given out for this queue.
    ReceiptHandleIsInvalid,
    /// A parameter has a value it may not have.
    InvalidParameterValue,
    /// A parameter that must be there is not.
    MissingParameter,
    /// A queue attribute has a value it may not have.
    InvalidAttributeValue,
    /// A body holds characters it may not hold.
    InvalidMessageContents,
    /// No queue has an attribute of this name.
    InvalidAttributeName,
    /// Not signed in a way SQS reads.
    InvalidSecurity,
    /// An entry of a batch has an id it may not have.
    InvalidBatchEntryId,
    /// Two entries of a batch have the same id.
    BatchEntryIdsNotDistinct,
    /// A batch holds too many bytes.
    BatchRequestTooLong,
    /// A batch without entries.
    EmptyBatchRequest,
    /// A batch of too many entries.
    TooManyEntriesInBatchRequest,
    /// The message is not leased; never returned by default.
    MessageNotInflight,
    /// The queue was purged a moment ago.
    PurgeQueueInProgress,
    /// A queue of this name was deleted a moment ago.
    QueueDeletedRecently,
    /// The caller may not do this.
    AccessDenied,
    /// The request is not signed.
    MissingAuthenticationToken,
    /// The signature lacks a part, or is written wrongly.
    IncompleteSignature,
    /// Nobody has this access key.
    InvalidClientTokenId,
    /// The signature is not the right one.
    SignatureDoesNotMatch,
    /// A signed URL whose time is over.
    RequestExpired,
    /// Too many messages in flight.
    OverLimit,
    /// A bound of the server was reached; try again later.
    RequestThrottled,
    /// No such move task, or source of one.
    ResourceNotFound,
    /// The target names no action served here.
    UnknownOperation,
    /// The Query protocol's word for the same.
    InvalidAction,
    /// A query string or form that is not well formed, or too long a list.
    MalformedQueryString,
    /// Not HTTP as it should be.
    MalformedHttpRequest,
    /// A request for another host than this one.
    MisdirectedRequest,
    /// A body that came too slowly.
    RequestTimeout,
    /// A body beyond the server's bound.
    RequestEntityTooLarge,
    /// A path that is nothing of SQS.
    UnknownPath,
    /// The body cannot be read.
    Serialization,
    /// The store refuses for now; whether the request was done may be unknown.
    ServiceUnavailable,
    /// A fault of the server.
    InternalFailure,
}

/// Whose fault it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The client's.
    Sender,
    /// The server's.
    Receiver,
}

impl Fault {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "Sender",
            Self::Receiver => "Receiver",
        }
    }
}

/// How a code looks on the wire.
pub(crate) struct Look {
    /// The JSON protocol's `__type`.
    pub(crate) json: &'static str,
    /// The Query protocol's code.
    pub(crate) query: &'static str,
    pub(crate) status: u16,
    pub(crate) fault: Fault,
}

impl Code {
    pub(crate) fn look(self) -> Look {
        let (json, query, status) = match self {
            Self::QueueDoesNotExist => {
                ("com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400)
            }
            Self::QueueNameExists => ("com.amazonaws.sqs#QueueNameExists", "QueueAlreadyExists", 400),
            Self::ReceiptHandleIsInvalid => {
                ("com.amazonaws.sqs#ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
            }
            Self::InvalidParameterValue => {
                ("com.amazon.coral.service#InvalidParameterValueException", "InvalidParameterValue", 400)
            }
            Self::MissingParameter => {
                ("com.amazon.coral.service#MissingRequiredParameterException", "MissingParameter", 400)
            }
            Self::InvalidAttributeValue => {
                ("com.amazonaws.sqs#InvalidAttributeValue", "InvalidAttributeValue", 400)
            }
            Self::InvalidMessageContents => {
                ("com.amazonaws.sqs#InvalidMessageContents", "InvalidMessageContents", 400)
            }
            Self::OverLimit => ("com.amazonaws.sqs#OverLimit", "OverLimit", 403),
            Self::InvalidAttributeName => {
                ("com.amazonaws.sqs#InvalidAttributeName", "InvalidAttributeName", 400)
            }
            Self::InvalidSecurity => ("com.amazonaws.sqs#InvalidSecurity", "InvalidSecurity", 403),
            Self::InvalidBatchEntryId => {
                ("com.amazonaws.sqs#InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400)
            }
            Self::BatchEntryIdsNotDistinct => (
                "com.amazonaws.sqs#BatchEntryIdsNotDistinct",
                "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
                400,
            ),
            Self::BatchRequestTooLong => {
                ("com.amazonaws.sqs#BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", 400)
            }
            Self::EmptyBatchRequest => {
                ("com.amazonaws.sqs#EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400)
            }
            Self::TooManyEntriesInBatchRequest => (
                "com.amazonaws.sqs#TooManyEntriesInBatchRequest",
                "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
                400,
            ),
            Self::MessageNotInflight => {
                ("com.amazonaws.sqs#MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400)
            }
            Self::PurgeQueueInProgress => {
                ("com.amazonaws.sqs#PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403)
            }
            Self::QueueDeletedRecently => {
                ("com.amazonaws.sqs#QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400)
            }
            Self::AccessDenied => ("com.amazon.coral.service#AccessDeniedException", "AccessDenied", 403),
            Self::MissingAuthenticationToken => (
                "com.amazon.coral.service#MissingAuthenticationTokenException",
                "MissingAuthenticationToken",
                403,
            ),
            Self::IncompleteSignature => {
                ("com.amazon.coral.service#IncompleteSignatureException", "IncompleteSignature", 400)
            }
            Self::InvalidClientTokenId => {
                ("com.amazon.coral.service#UnrecognizedClientException", "InvalidClientTokenId", 403)
            }
            Self::SignatureDoesNotMatch => {
                ("com.amazon.coral.service#InvalidSignatureException", "SignatureDoesNotMatch", 403)
            }
            Self::RequestExpired => ("com.amazon.coral.service#RequestExpired", "RequestExpired", 400),
            Self::RequestThrottled => ("com.amazonaws.sqs#RequestThrottled", "RequestThrottled", 403),
            Self::ResourceNotFound => {
                ("com.amazonaws.sqs#ResourceNotFoundException", "ResourceNotFoundException", 404)
            }
            Self::UnknownOperation => {
                ("com.amazon.coral.service#UnknownOperationException", "InvalidAction", 400)
            }
            Self::InvalidAction => ("com.amazon.coral.service#InvalidAction", "InvalidAction", 400),
            Self::MalformedQueryString => {
                ("com.amazon.coral.service#MalformedQueryStringException", "MalformedQueryString", 400)
            }
            Self::MalformedHttpRequest => {
                ("com.amazon.coral.service#MalformedHttpRequestException", "MalformedHttpRequest", 400)
            }
            Self::MisdirectedRequest => {
                ("com.amazon.coral.service#MisdirectedRequestException", "MisdirectedRequest", 421)
            }
            Self::RequestTimeout => {
                ("com.amazon.coral.service#RequestTimeoutException", "RequestTimeout", 408)
            }
            Self::RequestEntityTooLarge => {
                ("com.amazon.coral.service#RequestEntityTooLargeException", "RequestEntityTooLarge", 413)
            }
            Self::UnknownPath => {
                ("com.amazon.coral.service#UnknownOperationException", "UnknownOperationException", 404)
            }
            Self::Serialization => {
                ("com.amazon.coral.service#SerializationException", "SerializationException", 400)
            }
            Self::ServiceUnavailable => {
                ("com.amazon.coral.service#ServiceUnavailableException", "ServiceUnavailable", 503)
            }
            Self::InternalFailure => ("com.amazon.coral.service#InternalFailure", "InternalFailure", 500),
        };
        Look { json, query, status, fault: if status < 500 { Fault::Sender } else { Fault::Receiver } }
    }

    /// The Query protocol's code without the family some have in front, as entries of batches tell it.
    pub(crate) fn short(self) -> &'static str {
        let query = self.look().query;
        query.strip_prefix("AWS.SimpleQueueService.").unwrap_or(query)
    }

    /// Whether the client is to blame.
    pub(crate) fn is_of_sender(self) -> bool {
        self.look().fault == Fault::Sender
    }

    fn usual_text(self) -> &'static str {
        match self {
            Self::QueueDoesNotExist => "The specified queue does not exist.",
            Self::QueueNameExists => "A queue already exists with the same name and a different value.",
            Self::ReceiptHandleIsInvalid => "The input receipt handle is invalid.",
            Self::InvalidParameterValue => "One or more parameters are invalid.",
            Self::MissingParameter => "The request must contain a parameter that is missing.",
            Self::InvalidAttributeValue => "An attribute has an invalid value.",
            Self::InvalidMessageContents => "Invalid characters found.",
            Self::InvalidAttributeName => "Unknown Attribute.",
            Self::InvalidSecurity => "The request was not made in a way that SQS can check.",
            Self::InvalidBatchEntryId => {
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
            }
            Self::BatchEntryIdsNotDistinct => "An id is repeated.",
            Self::BatchRequestTooLong => "The batch is too long.",
            Self::EmptyBatchRequest => "The batch has no entries.",
            Self::TooManyEntriesInBatchRequest => "The batch has too many entries.",
            Self::MessageNotInflight => "The message is not in flight.",
            Self::PurgeQueueInProgress => "The queue was purged a moment ago.",
            Self::QueueDeletedRecently => "A queue of this name was deleted a moment ago.",
            Self::AccessDenied => "Access to the resource is denied.",
            Self::MissingAuthenticationToken => "Request is missing Authentication Token",
            Self::IncompleteSignature => "The request signature is incomplete.",
            Self::InvalidClientTokenId => "The security token included in the request is invalid.",
            Self::SignatureDoesNotMatch => {
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
            }
            Self::RequestExpired => "Request has expired.",
            Self::OverLimit => {
                "Too many messages in flight: delete some, or let their visibility timeouts end."
            }
            Self::RequestThrottled => "The request was throttled: try again later.",
            Self::ResourceNotFound => "The resource does not exist.",
            Self::UnknownOperation | Self::UnknownPath => "The operation is not known.",
            Self::InvalidAction => "The action is not valid for this endpoint.",
            Self::MalformedQueryString => "The query string contains a syntax error.",
            Self::MalformedHttpRequest => "The request is not HTTP as it should be.",
            Self::MisdirectedRequest => "The request is for another host.",
            Self::RequestTimeout => "The request came too slowly.",
            Self::RequestEntityTooLarge => "The request is too large.",
            Self::Serialization => "The request body cannot be read.",
            Self::ServiceUnavailable => "The service cannot do this now: try again later.",
            Self::InternalFailure => "The service failed.",
        }
    }
}

/// What the listener refuses by itself, in our words.
impl From<&Refusal> for WireError {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal {
            Refusal::HostMissing
            | Refusal::HostRepeated
            | Refusal::HostMalformed
            | Refusal::HostsDiffer
            | Refusal::MethodNotServed
            | Refusal::BodyBroken => Code::MalformedHttpRequest,
            Refusal::HostNotAllowed { .. } => Code::MisdirectedRequest,
            Refusal::CrossSite | Refusal::ForeignOrigin { .. } => Code::AccessDenied,
            Refusal::BodyTooLarge { .. } => Code::RequestEntityTooLarge,
            Refusal::BodyTooSlow => Code::RequestTimeout,
            Refusal::BodiesTooLarge => Code::ServiceUnavailable,
        };
        Self::new(code).saying(refusal.to_string())
    }
}

impl From<FormError> for WireError {
    fn from(error: FormError) -> Self {
        Self::new(Code::MalformedQueryString).saying(format!("The parameters cannot be read: {error}."))
    }
}

impl From<EngineError> for WireError {
    fn from(error: EngineError) -> Self {
        let invalid = |text: &'static str| Self::new(Code::InvalidParameterValue).saying(text);
        match error {
            EngineError::QueueNotFound => Code::QueueDoesNotExist.into(),
            EngineError::QueueExists(_) => Code::QueueNameExists.into(),
            EngineError::VersionChanged => Self::new(Code::ServiceUnavailable).because(error),
            EngineError::TokenForged | EngineError::TokenOfOtherQueue => Code::ReceiptHandleIsInvalid.into(),
            EngineError::MessageNotFound => {
                invalid("Message does not exist or is not available for visibility timeout change.")
            }
            EngineError::TokenStale | EngineError::LeaseEnded => invalid("The receipt handle has expired."),
            EngineError::LeaseTooLong { .. } => {
                invalid("Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
            }
            EngineError::TooManyInFlight => Code::OverLimit.into(),
            EngineError::GroupMissing => Self::missing("MessageGroupId"),
            EngineError::DeduplicationMissing => invalid(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
            ),
            EngineError::DeduplicationNotAllowed | EngineError::DelayNotAllowed => {
                invalid("The request include parameter that is not valid for this queue type.")
            }
            EngineError::DocumentTooLarge { .. } | EngineError::KindChange => {
                Code::InvalidAttributeValue.into()
            }
            EngineError::TaskNotFound => Self::new(Code::ResourceNotFound).saying("Task does not exist."),
            EngineError::TaskRunning => invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
            ),
            EngineError::TooManyTasks => Self::new(Code::OverLimit)
                .saying("An account can have at most 100 active message movement tasks."),
            EngineError::Overloaded { .. } => Self::new(Code::RequestThrottled).because(error),
            EngineError::NoSpace | EngineError::FailStopped { .. } | EngineError::Unavailable { .. } => {
                Self::new(Code::ServiceUnavailable).because(error)
            }
            EngineError::Damaged { .. } | EngineError::ClockNotVirtual => {
                Self::new(Code::InternalFailure).because(error)
            }
        }
    }
}

impl From<RuleError> for WireError {
    fn from(error: RuleError) -> Self {
        EngineError::from(error).into()
    }
}
