//! DeleteMessage: by any receipt of the message, and again without complaint.

use kew_core::command::Ack;
use kew_core::{ReceiptRule, RuleError};
use kew_http::Reply;

use crate::error::{Code, WireError};
use crate::{Context, decode, encode};

pub(crate) async fn delete_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::DeleteMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let handle = request.receipt_handle.as_deref().filter(|handle| !handle.is_empty());
    let handle = handle.ok_or_else(|| WireError::missing("ReceiptHandle"))?;
    let token = encode::read_receipt(handle).ok_or_else(|| WireError::bad_receipt(handle))?;
    // FIFO order would break if a message could be deleted after it became another consumer's turn.
    let receipt = if queue.policy.kind.is_fifo() { ReceiptRule::Unexpired } else { ReceiptRule::Any };
    let acked = cx.engine.ack(Ack { queue: queue.id, receipt, tokens: vec![token] }).await?;
    match acked.into_iter().next().ok_or(Code::InternalFailure)? {
        // It is deleted already, or has expired.
        Ok(()) | Err(RuleError::MessageNotFound) => Ok(cx.done()),
        Err(RuleError::TokenForged | RuleError::TokenOfOtherQueue) => Err(WireError::bad_receipt(handle)),
        Err(RuleError::TokenStale | RuleError::LeaseEnded) => {
            Err(WireError::invalid_value("ReceiptHandle", handle, "The receipt handle has expired."))
        }
        Err(error) => Err(error.into()),
    }
}
