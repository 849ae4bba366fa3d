//! GetQueueUrl.

use kew_http::Reply;

use crate::error::WireError;
use crate::{Context, decode};

pub(crate) fn get_queue_url(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::GetQueueUrl<'_> = decode::read(&cx.request.body)?;
    let name = request.queue_name.as_deref().filter(|name| !name.is_empty());
    let queue = cx.queue_named(name.ok_or_else(|| WireError::missing("QueueName"))?)?;
    Ok(super::queue_url(cx, &queue))
}
