//! `PATCH /queues/{id}`: changes what is given and nothing else.

use kew_core::Queue;
use kew_core::command::UpdateQueue;
use kew_http::Reply;

use super::replace_queue::renamed;
use crate::decode::queue::QueueBody;
use crate::error::WireError;
use crate::{Context, encode};

pub(crate) async fn patch_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = QueueBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let change = |now: &Queue| {
        Ok(UpdateQueue {
            queue: now.id,
            if_version: None,
            policy: Some(body.settings.merged(&now.policy)),
            documents: Vec::new(),
            rename: renamed(&now.key, body.name.as_deref()),
        })
    };
    let queue = cx.update(queue.id, change).await?;
    Ok(encode::result(&encode::queue::queue(&queue)))
}
