//! Receipt handles: which ones an action accepts, and what SQS says of each that does not do.

use kew_core::{LeaseToken, Queue, ReceiptRule, RuleError};
use kew_http::receipt;

use crate::decode::Text;
use crate::error::WireError;

/// Which receipts of a message may still be used.
pub(crate) fn rule(queue: &Queue) -> ReceiptRule {
    // FIFO order would break if a message could be settled after it became another consumer's turn.
    if queue.policy.kind.is_fifo() { ReceiptRule::Unexpired } else { ReceiptRule::Any }
}

/// The handle a request gives, and the token in it.
pub(crate) fn read<'h>(handle: Option<&'h Text<'_>>) -> Result<(&'h str, LeaseToken), WireError> {
    let handle: Option<&str> = handle.map(|handle| &**handle).filter(|handle| !handle.is_empty());
    let handle = handle.ok_or_else(|| WireError::missing("ReceiptHandle"))?;
    let token = receipt::read(handle).ok_or_else(|| WireError::bad_receipt(handle))?;
    Ok((handle, token))
}

/// How a deletion ended. What is gone already, deleted or expired, counts as deleted.
pub(crate) fn deleted(handle: &str, result: Result<(), RuleError>) -> Result<(), WireError> {
    match result {
        Ok(()) | Err(RuleError::MessageNotFound) => Ok(()),
        Err(error) => Err(refusal(handle, error)),
    }
}

/// Why a change of visibility to this number of seconds was not made.
pub(crate) fn change_refusal(handle: &str, seconds: u32, error: RuleError) -> WireError {
    match error {
        RuleError::MessageNotFound => WireError::invalid_value(
            "ReceiptHandle",
            handle,
            "Message does not exist or is not available for visibility timeout change.",
        ),
        RuleError::LeaseTooLong { .. } => WireError::invalid_value(
            "VisibilityTimeout",
            seconds,
            "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
        ),
        error => refusal(handle, error),
    }
}

/// What is wrong with a handle, whatever it was for.
fn refusal(handle: &str, error: RuleError) -> WireError {
    match error {
        RuleError::TokenForged | RuleError::TokenOfOtherQueue => WireError::bad_receipt(handle),
        RuleError::TokenStale | RuleError::LeaseEnded => {
            WireError::invalid_value("ReceiptHandle", handle, "The receipt handle has expired.")
        }
        // These speak of other things than receipts.
        other @ (RuleError::QueueNotFound
        | RuleError::QueueExists(_)
        | RuleError::VersionChanged
        | RuleError::MessageNotFound
        | RuleError::NotDelayed
        | RuleError::LeaseTooLong { .. }
        | RuleError::TooManyInFlight
        | RuleError::FirstTooLarge
        | RuleError::GroupMissing
        | RuleError::DeduplicationMissing
        | RuleError::DeduplicationNotAllowed
        | RuleError::DelayNotAllowed
        | RuleError::DocumentTooLarge { .. }
        | RuleError::KindChange
        | RuleError::TaskNotFound
        | RuleError::TaskRunning
        | RuleError::TooManyTasks) => other.into(),
    }
}
