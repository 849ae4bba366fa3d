//! `PUT /queues/{id}`: a queue's name and settings in the place of what they were.

use kew_core::command::UpdateQueue;
use kew_core::{Queue, QueueKey};
use kew_http::Reply;

use crate::decode::queue::QueueBody;
use crate::error::WireError;
use crate::{Context, encode};

pub(crate) async fn replace_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = QueueBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let change = |now: &Queue| {
        Ok(UpdateQueue {
            queue: now.id,
            if_version: None,
            policy: Some(body.settings.replaced(&now.policy)),
            documents: Vec::new(),
            rename: renamed(&now.key, body.name.as_deref()),
        })
    };
    let queue = cx.update(queue.id, change).await?;
    Ok(encode::result(&encode::queue::queue(&queue)))
}

/// A queue's new name, where it is another one.
pub(super) fn renamed(key: &QueueKey, name: Option<&str>) -> Option<QueueKey> {
    let name = name.filter(|name| *name != &*key.name)?;
    Some(QueueKey { name: name.into(), ..key.clone() })
}
