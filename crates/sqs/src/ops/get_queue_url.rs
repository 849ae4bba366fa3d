//! GetQueueUrl.

use kew_http::Reply;

use crate::error::WireError;
use crate::names::{self, Address};
use crate::{Context, decode};

pub(crate) fn get_queue_url(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::GetQueueUrl<'_> = cx.read()?;
    let name = request.queue_name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| WireError::missing("QueueName"))?;
    let account = request.queue_owner.as_deref().and_then(names::account);
    let queue = cx.queue_at(Address { account, name })?;
    Ok(super::queue_url(cx, &queue))
}
