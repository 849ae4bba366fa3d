//! CreateQueue: idempotent, as far as settings go.

use kew_core::command::CreateQueue;
use kew_core::{Policy, QueueKey};
use kew_engine::EngineError;
use kew_http::Reply;

use crate::error::WireError;
use crate::{Context, decode, limits};

pub(crate) async fn create_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::CreateQueue<'_> = cx.read()?;
    let name = request.queue_name.as_deref().ok_or_else(|| WireError::missing("QueueName"))?;
    limits::check_queue_name(name)?;
    let key = QueueKey::new(cx.caller.account, &cx.caller.region, name);
    let create = CreateQueue { key, policy: Policy::standard(), documents: Vec::new() };
    let queue = match cx.engine.create_queue(create).await {
        // Settings that are not given are not compared: it is the same queue. The store tells of it once it is durable.
        Err(EngineError::QueueExists(queue)) => queue,
        created => created?,
    };
    Ok(super::queue_url(cx, &queue))
}
