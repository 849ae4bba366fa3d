//! `GET /queues/{id}/metrics`: how many messages there are.

use kew_http::Reply;

use crate::encode::metrics::Metrics;
use crate::error::WireError;
use crate::{Context, encode};

pub(crate) async fn queue_metrics(cx: &Context<'_>) -> Result<Reply, WireError> {
    let counts = cx.engine.counts(cx.queue()?.id).await?;
    Ok(encode::result(&Metrics::of(&counts).rest()))
}
