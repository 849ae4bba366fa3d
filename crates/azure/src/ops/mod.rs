//! The operations: parameters and body to a checked request, one step down, our words to theirs.

mod acl;
mod delegation_key;
mod list;
mod message;
mod messages;
mod queue;
mod service;

use kew_http::Reply;

use crate::error::{Code, WireError};
use crate::operation::Operation;
use crate::{Context, cors, limits};

/// The table of operations.
pub(crate) async fn perform(cx: &Context<'_>) -> Result<Reply, WireError> {
    if cx.request.body.len() > limits::BODY_BYTES {
        return Err(WireError::new(Code::RequestBodyTooLarge).with("MaxLimit", limits::BODY_BYTES));
    }
    if cx.operation.shows_settings() {
        cx.request.room.free_for_small().await?;
    }
    match cx.operation {
        Operation::ListQueues => {
            // With everybody's metadata it is large.
            cx.request.room.free().await?;
            list::list_queues(cx)
        }
        Operation::GetServiceProperties => service::properties(cx).await,
        Operation::SetServiceProperties => service::set_properties(cx).await,
        Operation::GetServiceStats => service::stats(cx),
        Operation::GetUserDelegationKey => delegation_key::issue(cx).await,
        Operation::Preflight => cors::preflight(cx).await,
        Operation::CreateQueue => queue::create(cx).await,
        Operation::DeleteQueue => queue::delete(cx).await,
        Operation::GetQueueMetadata => queue::metadata(cx).await,
        Operation::SetQueueMetadata => queue::set_metadata(cx).await,
        Operation::GetQueueAcl => acl::show(cx),
        Operation::SetQueueAcl => acl::set(cx).await,
        Operation::PutMessage => messages::put(cx).await,
        Operation::GetMessages => messages::get(cx).await,
        Operation::PeekMessages => messages::peek(cx).await,
        Operation::ClearMessages => messages::clear(cx).await,
        Operation::DeleteMessage => message::delete(cx).await,
        Operation::UpdateMessage => message::update(cx).await,
    }
}
