//! DeleteMessageBatch: each entry for itself.

use kew_core::command::Ack;
use kew_http::Reply;
use serde::Deserialize;

use crate::batch::{self, Done, Entries, Entry, Fates};
use crate::decode::Text;
use crate::error::{Code, WireError};
use crate::{Context, receipts};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteMessageBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    entries: Option<Entries<DeleteEntry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteEntry<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
}

impl Entry for DeleteEntry<'_> {
    const KIND: &'static str = "DeleteMessageBatchRequestEntry";

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

pub(crate) async fn delete_message_batch(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: DeleteMessageBatch<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let entries = batch::check(request.entries)?;
    let read: Vec<_> = entries.iter().map(|entry| receipts::read(entry.receipt_handle.as_ref())).collect();
    let tokens: Vec<_> = read.iter().flatten().map(|(_, token)| *token).collect();
    let acked = if tokens.is_empty() {
        Vec::new()
    } else {
        cx.engine.ack(Ack { queue: queue.id, receipt: receipts::rule(&queue), tokens }).await?
    };
    let mut acked = acked.into_iter();
    let fates = entries.iter().zip(read).map(|(entry, read)| {
        let done = read.and_then(|(handle, _)| {
            let acked = acked.next().ok_or(Code::InternalFailure)?;
            receipts::deleted(handle, acked).map(|()| Done)
        });
        (entry.id(), done)
    });
    Ok(cx.result(&Fates::of("DeleteMessageBatchResultEntry", fates)))
}
