//! `POST /queues/{id}/messages`: adds a message.

use kew_http::Reply;

use super::publish;
use crate::decode::message::Draft;
use crate::encode::metrics::Metrics;
use crate::error::WireError;
use crate::notes::Source;
use crate::{Context, encode};

pub(crate) async fn push(cx: &Context<'_>) -> Result<Reply, WireError> {
    let draft = Draft::read(&cx.request.body)?;
    let metrics = publish::one(cx.engine, cx.queue()?.id, draft, Source::Api).await?;
    Ok(reply(metrics))
}

/// What both ways of adding messages answer.
pub(super) fn reply(metrics: Metrics) -> Reply {
    let mut body = encode::opened();
    body.extend_from_slice(br#"{"metadata":{"metrics":"#);
    metrics.push_rest(&mut body);
    body.extend_from_slice(b"}}");
    encode::closed(body)
}
