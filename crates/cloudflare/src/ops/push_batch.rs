//! `POST /queues/{id}/messages/batch`: adds several messages, all or none.

use kew_http::Reply;

use super::{publish, push};
use crate::Context;
use crate::decode::message::DraftBatch;
use crate::error::WireError;
use crate::notes::Source;

pub(crate) async fn push_batch(cx: &Context<'_>) -> Result<Reply, WireError> {
    let batch = DraftBatch::read(&cx.request.body)?;
    let metrics = publish::all(cx.engine, cx.queue()?.id, batch, Source::Api).await?;
    Ok(push::reply(metrics))
}
