//! SendMessageBatch: what is wrong with the whole is refused; what is wrong with an entry fails that entry alone.

use kew_core::command::{FirstReceipts, Send};
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::batch::{self, Entries, Entry, Fates};
use crate::decode::Text;
use crate::error::{Code, WireError};
use crate::limits;
use crate::message::draft::{Accepted, Company, Draft};
use crate::message::message_attributes::Given;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendMessageBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    entries: Option<Entries<SendEntry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    message_body: Option<Text<'a>>,
    delay_seconds: Option<i64>,
    #[serde(borrow)]
    message_attributes: Option<Given<'a>>,
    #[serde(borrow)]
    message_system_attributes: Option<Given<'a>>,
    #[serde(borrow)]
    message_group_id: Option<Text<'a>>,
    #[serde(borrow)]
    message_deduplication_id: Option<Text<'a>>,
}

impl Entry for SendEntry<'_> {
    const KIND: &'static str = "SendMessageBatchRequestEntry";

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

pub(crate) async fn send_message_batch(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: SendMessageBatch<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let entries: Vec<_> = batch::check(request.entries)?.into_iter().map(SendEntry::draft).collect();
    check_size(entries.iter().map(|(_, draft)| draft.size()).sum())?;
    for (_, draft) in &entries {
        // Alone a missing group is a missing parameter; in a batch it is a wrong one.
        draft.check_fifo(&queue).map_err(|error| error.coded(Code::InvalidParameterValue))?;
    }
    let mut messages = Vec::with_capacity(entries.len());
    let mut checked = Vec::with_capacity(entries.len());
    let mut ids = Vec::with_capacity(entries.len());
    for (id, draft) in entries {
        ids.push(id);
        checked.push(draft.check(cx, &queue, Company::Batch).map(|checked| {
            messages.push(checked.message);
            checked.hashes
        }));
    }
    let sent = if messages.is_empty() {
        Vec::new()
    } else {
        cx.engine.send(Send { queue: queue.id, messages, receipts: FirstReceipts::Untold }).await?
    };
    let mut sent = sent.into_iter();
    let fates = ids.iter().zip(checked).map(|(id, hashes)| {
        let accepted = hashes.and_then(|hashes| {
            let sent = sent.next().ok_or(Code::InternalFailure)?;
            Ok(Accepted::new(sent, hashes, &queue))
        });
        (id.as_deref().unwrap_or_default(), accepted)
    });
    Ok(cx.result(&Fates::of("SendMessageBatchResultEntry", fates)))
}

impl<'a> SendEntry<'a> {
    fn draft(self) -> (Option<Text<'a>>, Draft<'a>) {
        let draft = Draft {
            body: self.message_body,
            delay_seconds: self.delay_seconds,
            attributes: self.message_attributes,
            system_attributes: self.message_system_attributes,
            group: self.message_group_id,
            deduplication: self.message_deduplication_id,
        };
        (self.id, draft)
    }
}

/// The bound holds for the whole batch, however large messages of this queue may be.
fn check_size(bytes: usize) -> Result<(), WireError> {
    let most = limits::BATCH_BYTES;
    if bytes <= most {
        return Ok(());
    }
    let text = format!("Batch requests cannot be longer than {most} bytes. You have sent {bytes} bytes.");
    Err(WireError::new(Code::BatchRequestTooLong).saying(text))
}
