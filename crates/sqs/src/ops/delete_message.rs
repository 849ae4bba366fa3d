//! DeleteMessage: by any receipt of the message, and again without complaint.

use kew_core::command::Ack;
use kew_http::Reply;
use serde::Deserialize;

use crate::decode::Text;
use crate::error::{Code, WireError};
use crate::{Context, receipts};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteMessage<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
}

pub(crate) async fn delete_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: DeleteMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let (handle, token) = receipts::read(request.receipt_handle.as_ref())?;
    let ack = Ack { queue: queue.id, receipt: receipts::rule(&queue), tokens: vec![token] };
    let acked = cx.engine.ack(ack).await?.into_iter().next().ok_or(Code::InternalFailure)?;
    receipts::deleted(handle, acked)?;
    Ok(cx.done())
}
