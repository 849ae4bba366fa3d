//! `DELETE /queues/{id}`: a queue, its consumer and its messages, unless another queue's consumer or a
//! deployed Worker counts on it.

use kew_core::command::DeleteQueue;
use kew_http::Reply;
use kew_push::document;
use serde_json::Value;

use crate::error::{Code, WireError};
use crate::{Context, encode};

pub(crate) async fn delete_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    cx.settings.scripts.check_known()?;
    cx.engine.check_knows_all()?;
    let sources = cx.engine.dead_letter_sources(&queue.key, None, usize::MAX);
    let source = sources.iter().find(|source| source.id != queue.id && document::consumer(source).is_some());
    if let Some(source) = source {
        let text = format!(
            "Queue {} cannot be deleted: it serves as dead letter queue for consumers of {}",
            queue.key.name, source.key.name
        );
        return Err(WireError::new(Code::QueueInUse).saying(text));
    }
    cx.follow_workers().await?;
    cx.producers().check_none_of(&queue, "deleted")?;
    cx.engine.delete_queue(DeleteQueue { queue: queue.id, if_version: None }).await?;
    Ok(encode::result(&Value::Null))
}
