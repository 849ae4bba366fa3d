//! Why a queue did not do what it was asked, by what the host does about it.

use std::fmt;

use kew_azure::client::read;
use kew_http::client::{Answer, ClientError};

use crate::project::Account;

/// A request that was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueueError {
    operation: &'static str,
    queue: String,
    /// The request's own name, which the server knows too.
    request: String,
    pub(crate) fault: Fault,
}

/// What stood in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// There is no such queue.
    QueueNotFound,
    /// The queue is on its way out.
    QueueBeingDeleted,
    /// The message is gone.
    MessageNotFound,
    /// Somebody else has the message now.
    ReceiptMismatch,
    /// The server cannot just now.
    Busy {
        /// Its status.
        status: u16,
        /// What it said.
        told: String,
    },
    /// The server does not let us in, or what lets us in cannot be had just now: tokens are renewed, files are
    /// replaced, keys and roles are set right.
    NotLetIn(String),
    /// The server was not reached; nothing was sent.
    Unreached(String),
    /// There is no answer at all, or none that ends.
    NoAnswer(String),
    /// The server does not do this, now or later.
    Refused {
        /// Its status; zero where it was not even asked.
        status: u16,
        /// What it said, and what may help.
        told: String,
    },
}

impl Fault {
    pub(super) fn of_client(error: &ClientError) -> Self {
        match error {
            ClientError::NotFound { .. } | ClientError::Refused { .. } | ClientError::Unsent(_) => {
                Self::Unreached(error.to_string())
            }
            ClientError::Broken(_) | ClientError::TimedOut { .. } | ClientError::ReplyTooLong { .. } => {
                Self::NoAnswer(error.to_string())
            }
            ClientError::BadAddress | ClientError::OutOfReach { .. } | ClientError::Trust(_) => {
                Self::Refused { status: 0, told: error.to_string() }
            }
        }
    }

    pub(super) fn of_answer(answer: &Answer, account: &Account) -> Self {
        let (code, message) = read::refusal(answer);
        let status = answer.status.as_u16();
        match (status, code.as_deref().unwrap_or_default()) {
            (404, "QueueNotFound") => Self::QueueNotFound,
            (404, "MessageNotFound") => Self::MessageNotFound,
            (409, "QueueBeingDeleted") => Self::QueueBeingDeleted,
            (400, "PopReceiptMismatch") => Self::ReceiptMismatch,
            (status, code) => {
                let message = message.unwrap_or_else(|| {
                    let text = String::from_utf8_lossy(&answer.body);
                    text.trim().chars().take(300).collect()
                });
                let first = message.lines().next().unwrap_or_default();
                let told = format!("{code} {first}").trim().to_owned();
                let setting = &account.setting;
                match status {
                    // Slow, too much at once, or not just now.
                    408 | 429 | 500.. => Self::Busy { status, told },
                    401 => Self::NotLetIn(format!(
                        "401 {told} (check the token or key in the app setting '{setting}'; one that was renewed is used at the next try where it comes from a file)"
                    )),
                    403 => Self::NotLetIn(format!(
                        "403 {told} (check the key or signature in the app setting '{setting}', and this machine's clock)"
                    )),
                    _ => Self::Refused { status, told },
                }
            }
        }
    }

    /// Whether the message is no longer this host's: gone, or somebody else's.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::QueueNotFound | Self::QueueBeingDeleted | Self::MessageNotFound | Self::ReceiptMismatch => {
                true
            }
            Self::Busy { .. }
            | Self::NotLetIn(_)
            | Self::Unreached(_)
            | Self::NoAnswer(_)
            | Self::Refused { .. } => false,
        }
    }

    /// Whether the message is too long for the queue it was put into.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self, Self::Refused { status: 413, .. })
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::NotLetIn(_) | Self::Unreached(_) | Self::NoAnswer(_) => true,
            Self::QueueNotFound
            | Self::QueueBeingDeleted
            | Self::MessageNotFound
            | Self::ReceiptMismatch
            | Self::Refused { .. } => false,
        }
    }
}

impl QueueError {
    pub(super) fn new(operation: &'static str, queue: &str, request: &str, fault: Fault) -> Self {
        Self { operation, queue: queue.to_owned(), request: request.to_owned(), fault }
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, queue, request, fault } = self;
        write!(f, "{operation} on queue '{queue}' (request {request}) ")?;
        match fault {
            Fault::QueueNotFound => f.write_str("found no such queue"),
            Fault::QueueBeingDeleted => f.write_str("found the queue being deleted"),
            Fault::MessageNotFound => f.write_str("found no such message"),
            Fault::ReceiptMismatch => f.write_str("found that somebody else has received the message"),
            Fault::Busy { status, told } => write!(f, "was answered {status} {told}"),
            Fault::NotLetIn(told) => write!(f, "was not let in: {told}"),
            Fault::Unreached(told) => write!(f, "found nobody there: {told}"),
            Fault::NoAnswer(told) => write!(f, "was not answered: {told}"),
            Fault::Refused { status: 0, told } => write!(f, "was not sent: {told}"),
            Fault::Refused { status, told } => write!(f, "was refused: {status} {told}"),
        }
    }
}
