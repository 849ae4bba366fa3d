//! Publishing, over REST or a binding: the messages in one step, and the figures afterwards.

use kew_core::command::{FirstReceipts, Send};
use kew_core::{NewMessage, QueueId};
use kew_engine::Engine;

use crate::decode::message::{Draft, DraftBatch};
use crate::encode::metrics::Metrics;
use crate::error::WireError;
use crate::notes::Source;

/// Adds one message.
pub(crate) async fn one(
    engine: &Engine,
    queue: QueueId,
    draft: Draft,
    source: Source,
) -> Result<Metrics, WireError> {
    let message = draft.message(engine.message_id(), None, source);
    send(engine, queue, vec![message]).await
}

/// Adds all messages of a batch, or none.
pub(crate) async fn all(
    engine: &Engine,
    queue: QueueId,
    batch: DraftBatch,
    source: Source,
) -> Result<Metrics, WireError> {
    let delay = batch.delay;
    let drafts = batch.drafts.into_iter();
    let messages = drafts.map(|draft| draft.message(engine.message_id(), delay, source)).collect();
    send(engine, queue, messages).await
}

async fn send(engine: &Engine, queue: QueueId, messages: Vec<NewMessage>) -> Result<Metrics, WireError> {
    engine.send(Send { queue, messages, receipts: FirstReceipts::Untold }).await?;
    // What was sent is durable; the figures around it are a courtesy and wait for no disk.
    Ok(Metrics::of(&engine.counts_so_far(queue).await.unwrap_or_default()))
}
