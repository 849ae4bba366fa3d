//! What SQS calls a refusal: codes, statuses and texts, and which of the engine's errors is which.

use std::borrow::Cow;
use std::fmt;

use kew_core::RuleError;
use kew_engine::EngineError;
use kew_http::Refusal;
use kew_http::form::FormError;

/// Texts quote what was sent, and that may be megabytes: this many bytes of it are repeated.
const MESSAGE_BYTES: usize = 4_096;

/// A request that was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct WireError {
    code: Code,
    message: Cow<'static, str>,
    /// For our log, never for the client.
    cause: Option<String>,
    /// Nothing was done: it is not known just now whether there is such a queue.
    is_unknown: bool,
}

impl WireError {
    /// An error with its usual text.
    pub fn new(code: Code) -> Self {
        Self { code, message: Cow::Borrowed(code.usual_text()), cause: None, is_unknown: false }
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

/// Writes the enum of codes with each one's status, its name in the JSON protocol, its name in the Query protocol and
/// its usual text.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $status:literal $json:literal $query:literal $text:literal,)+) => {
        /// SQS's errors.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// How it looks on the wire.
            pub(crate) fn look(self) -> Look {
                match self {
                    $(Self::$name => Look { json: $json, query: $query, status: $status },)+
                }
            }

            fn usual_text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// No such queue.
    QueueDoesNotExist 400
        "com.amazonaws.sqs#QueueDoesNotExist" "AWS.SimpleQueueService.NonExistentQueue"
        "The specified queue does not exist.",
    /// The name is taken by a queue with other settings.
    QueueNameExists 400
        "com.amazonaws.sqs#QueueNameExists" "QueueAlreadyExists"
        "A queue already exists with the same name and a different value.",
    /// A receipt handle that was never given out for this queue.
    ReceiptHandleIsInvalid 404
        "com.amazonaws.sqs#ReceiptHandleIsInvalid" "ReceiptHandleIsInvalid"
        "The input receipt handle is invalid.",
    /// A parameter has a value it may not have.
    InvalidParameterValue 400
        "com.amazon.coral.service#InvalidParameterValueException" "InvalidParameterValue"
        "One or more parameters are invalid.",
    /// A parameter that must be there is not.
    MissingParameter 400
        "com.amazon.coral.service#MissingRequiredParameterException" "MissingParameter"
        "The request must contain a parameter that is missing.",
    /// A queue attribute has a value it may not have.
    InvalidAttributeValue 400
        "com.amazonaws.sqs#InvalidAttributeValue" "InvalidAttributeValue"
        "An attribute has an invalid value.",
    /// A body holds characters it may not hold.
    InvalidMessageContents 400
        "com.amazonaws.sqs#InvalidMessageContents" "InvalidMessageContents"
        "Invalid characters found.",
    /// No queue has an attribute of this name.
    InvalidAttributeName 400
        "com.amazonaws.sqs#InvalidAttributeName" "InvalidAttributeName"
        "Unknown Attribute.",
    /// Not signed in a way SQS reads.
    InvalidSecurity 403
        "com.amazonaws.sqs#InvalidSecurity" "InvalidSecurity"
        "The request was not made in a way that SQS can check.",
    /// An entry of a batch has an id it may not have.
    InvalidBatchEntryId 400
        "com.amazonaws.sqs#InvalidBatchEntryId" "AWS.SimpleQueueService.InvalidBatchEntryId"
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.",
    /// Two entries of a batch have the same id.
    BatchEntryIdsNotDistinct 400
        "com.amazonaws.sqs#BatchEntryIdsNotDistinct" "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
        "An id is repeated.",
    /// A batch holds too many bytes.
    BatchRequestTooLong 400
        "com.amazonaws.sqs#BatchRequestTooLong" "AWS.SimpleQueueService.BatchRequestTooLong"
        "The batch is too long.",
    /// A batch without entries.
    EmptyBatchRequest 400
        "com.amazonaws.sqs#EmptyBatchRequest" "AWS.SimpleQueueService.EmptyBatchRequest"
        "The batch has no entries.",
    /// A batch of too many entries.
    TooManyEntriesInBatchRequest 400
        "com.amazonaws.sqs#TooManyEntriesInBatchRequest" "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
        "The batch has too many entries.",
    /// The message is not leased; never returned by default.
    MessageNotInflight 400
        "com.amazonaws.sqs#MessageNotInflight" "AWS.SimpleQueueService.MessageNotInflight"
        "The message is not in flight.",
    /// The queue was purged a moment ago.
    PurgeQueueInProgress 403
        "com.amazonaws.sqs#PurgeQueueInProgress" "AWS.SimpleQueueService.PurgeQueueInProgress"
        "The queue was purged a moment ago.",
    /// A queue of this name was deleted a moment ago.
    QueueDeletedRecently 400
        "com.amazonaws.sqs#QueueDeletedRecently" "AWS.SimpleQueueService.QueueDeletedRecently"
        "A queue of this name was deleted a moment ago.",
    /// The caller may not do this.
    AccessDenied 403
        "com.amazon.coral.service#AccessDeniedException" "AccessDenied"
        "Access to the resource is denied.",
    /// The request is not signed.
    MissingAuthenticationToken 403
        "com.amazon.coral.service#MissingAuthenticationTokenException" "MissingAuthenticationToken"
        "Request is missing Authentication Token",
    /// The signature lacks a part, or is written wrongly.
    IncompleteSignature 400
        "com.amazon.coral.service#IncompleteSignatureException" "IncompleteSignature"
        "The request signature is incomplete.",
    /// No user has this access key.
    InvalidClientTokenId 403
        "com.amazon.coral.service#UnrecognizedClientException" "InvalidClientTokenId"
        "The security token included in the request is invalid.",
    /// The signature is not the right one.
    SignatureDoesNotMatch 403
        "com.amazon.coral.service#InvalidSignatureException" "SignatureDoesNotMatch"
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.",
    /// A signed URL whose time is over.
    RequestExpired 400
        "com.amazon.coral.service#RequestExpired" "RequestExpired"
        "Request has expired.",
    /// Too many messages in flight.
    OverLimit 403
        "com.amazonaws.sqs#OverLimit" "OverLimit"
        "Too many messages in flight: delete some, or let their visibility timeouts end.",
    /// A bound of the server was reached; try again later.
    RequestThrottled 403
        "com.amazonaws.sqs#RequestThrottled" "RequestThrottled"
        "The request was throttled: try again later.",
    /// No such move task, or source of one.
    ResourceNotFound 404
        "com.amazonaws.sqs#ResourceNotFoundException" "ResourceNotFoundException"
        "The resource does not exist.",
    /// The target names no action served here.
    UnknownOperation 400
        "com.amazon.coral.service#UnknownOperationException" "InvalidAction"
        "The operation is not known.",
    /// The Query protocol's word for the same.
    InvalidAction 400
        "com.amazon.coral.service#InvalidAction" "InvalidAction"
        "The action is not valid for this endpoint.",
    /// A query string or form that is not well formed, or too long a list.
    MalformedQueryString 400
        "com.amazon.coral.service#MalformedQueryStringException" "MalformedQueryString"
        "The query string contains a syntax error.",
    /// Not HTTP as it should be.
    MalformedHttpRequest 400
        "com.amazon.coral.service#MalformedHttpRequestException" "MalformedHttpRequest"
        "The request is not HTTP as it should be.",
    /// A request for another host than this one.
    MisdirectedRequest 421
        "com.amazon.coral.service#MisdirectedRequestException" "MisdirectedRequest"
        "The request is for another host.",
    /// A body that came too slowly.
    RequestTimeout 408
        "com.amazon.coral.service#RequestTimeoutException" "RequestTimeout"
        "The request came too slowly.",
    /// A body beyond the server's bound.
    RequestEntityTooLarge 413
        "com.amazon.coral.service#RequestEntityTooLargeException" "RequestEntityTooLarge"
        "The request is too large.",
    /// A path that is nothing of SQS.
    UnknownPath 404
        "com.amazon.coral.service#UnknownOperationException" "UnknownOperationException"
        "The operation is not known.",
    /// The body cannot be read.
    Serialization 400
        "com.amazon.coral.service#SerializationException" "SerializationException"
        "The request body cannot be read.",
    /// The store refuses for now; whether the request was done may be unknown.
    ServiceUnavailable 503
        "com.amazon.coral.service#ServiceUnavailableException" "ServiceUnavailable"
        "The service cannot do this now: try again later.",
    /// A fault of the server.
    InternalFailure 500
        "com.amazon.coral.service#InternalFailure" "InternalFailure"
        "The service failed.",
}

impl Code {
    /// The Query protocol's code without the family some have in front, as entries of batches tell it.
    pub(crate) fn short(self) -> &'static str {
        let query = self.look().query;
        query.strip_prefix("AWS.SimpleQueueService.").unwrap_or(query)
    }

    /// Whether the client is to blame.
    pub(crate) fn is_of_sender(self) -> bool {
        self.look().fault() == Fault::Sender
    }
}

/// How a code looks on the wire.
pub(crate) struct Look {
    /// The JSON protocol's `__type`.
    pub(crate) json: &'static str,
    /// The Query protocol's code.
    pub(crate) query: &'static str,
    pub(crate) status: u16,
}

impl Look {
    /// Whose fault it is, by its status.
    pub(crate) fn fault(&self) -> Fault {
        if self.status < 500 { Fault::Sender } else { Fault::Receiver }
    }
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

/// What the listener refuses by itself, in our words.
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
            | Refusal::MethodNotServed
            | Refusal::BodyBroken => Code::MalformedHttpRequest,
            Refusal::AuthorizationRepeated => Code::IncompleteSignature,
            Refusal::HostNotAllowed { .. } => Code::MisdirectedRequest,
            Refusal::CrossSite | Refusal::ForeignOrigin { .. } => Code::AccessDenied,
            Refusal::BodyTooLarge { .. } => Code::RequestEntityTooLarge,
            Refusal::BodyTooSlow => Code::RequestTimeout,
            Refusal::BodiesTooLarge | Refusal::RepliesTooLarge | Refusal::MayNotAnswer => {
                Code::ServiceUnavailable
            }
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
        match error {
            EngineError::Rule(rule) => rule.into(),
            EngineError::TooManyQueues { .. } => Self::new(Code::OverLimit).saying(error.to_string()),
            EngineError::Overloaded { .. } => Self::new(Code::RequestThrottled).because(error),
            EngineError::NoSpace | EngineError::FailStopped { .. } | EngineError::Unavailable { .. } => {
                Self::new(Code::ServiceUnavailable).because(error)
            }
            EngineError::NotAllKnown => {
                Self { is_unknown: true, ..Self::new(Code::ServiceUnavailable).because(error) }
            }
            EngineError::Damaged { .. } | EngineError::ClockNotVirtual => {
                Self::new(Code::InternalFailure).because(error)
            }
        }
    }
}

impl From<RuleError> for WireError {
    fn from(error: RuleError) -> Self {
        let invalid = |text: &'static str| Self::new(Code::InvalidParameterValue).saying(text);
        match error {
            RuleError::QueueNotFound => Code::QueueDoesNotExist.into(),
            RuleError::QueueExists(_) => Code::QueueNameExists.into(),
            RuleError::VersionChanged => Self::new(Code::ServiceUnavailable).because(error),
            RuleError::TokenForged | RuleError::TokenOfOtherQueue => Code::ReceiptHandleIsInvalid.into(),
            RuleError::MessageNotFound => {
                invalid("Message does not exist or is not available for visibility timeout change.")
            }
            RuleError::TokenStale | RuleError::LeaseEnded | RuleError::NotDelayed => {
                invalid("The receipt handle has expired.")
            }
            RuleError::LeaseTooLong { .. } => {
                invalid("Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
            }
            RuleError::TooManyInFlight => Code::OverLimit.into(),
            RuleError::FirstTooLarge => Code::ServiceUnavailable.into(),
            RuleError::GroupMissing => Self::missing("MessageGroupId"),
            RuleError::DeduplicationMissing => invalid(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
            ),
            RuleError::DeduplicationNotAllowed | RuleError::DelayNotAllowed => {
                invalid("The request include parameter that is not valid for this queue type.")
            }
            RuleError::DocumentTooLarge { .. } | RuleError::KindChange => Code::InvalidAttributeValue.into(),
            RuleError::TaskNotFound => Self::new(Code::ResourceNotFound).saying("Task does not exist."),
            RuleError::TaskRunning => invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
            ),
            RuleError::TooManyTasks => Self::new(Code::OverLimit)
                .saying("An account can have at most 100 active message movement tasks."),
        }
    }
}
