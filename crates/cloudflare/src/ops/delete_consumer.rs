//! `DELETE /queues/{id}/consumers/{consumer}`: takes a consumer away, and the dead-letter rule if a consumer wrote it.

use kew_core::{Policy, Queue};
use kew_http::Reply;
use kew_push::consumer::rule_without_consumer;
use kew_push::document;
use serde_json::Value;

use super::get_consumer;
use crate::error::WireError;
use crate::{Context, QueueChange, encode};

pub(crate) async fn delete_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    let change = |now: &Queue| {
        get_consumer::find(cx, now)?;
        let dead_letters = rule_without_consumer(now.policy.dead_letters.as_deref()).map(Box::new);
        Ok(QueueChange {
            policy: Some(Policy { dead_letters, ..now.policy.clone() }),
            documents: vec![document::change(&[])],
            rename: None,
        })
    };
    cx.update(queue.id, change).await?;
    Ok(encode::result(&Value::Null))
}
