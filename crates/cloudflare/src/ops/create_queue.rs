//! `POST /queues`: makes a queue.

use kew_core::command::CreateQueue;
use kew_core::{Policy, QueueKey};
use kew_http::Reply;

use crate::decode::queue::QueueBody;
use crate::documents::Document;
use crate::error::{Code, WireError};
use crate::{Context, encode};

pub(crate) async fn create_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = QueueBody::read(&cx.request.body)?;
    let name = body.name.ok_or(Code::InvalidQueueName)?;
    let create = CreateQueue {
        key: QueueKey::new(cx.caller.account, &cx.settings.region, &name),
        policy: body.settings.merged(&Policy::standard()),
        documents: vec![Document::of_new_queue(body.jurisdiction).write()],
    };
    let queue = cx.engine.create_queue(create).await?;
    Ok(encode::result(&encode::queue::queue(&queue, &cx.producers())))
}
