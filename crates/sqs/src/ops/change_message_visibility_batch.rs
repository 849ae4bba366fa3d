//! ChangeMessageVisibilityBatch: each entry for itself.

use kew_http::Reply;
use serde::Deserialize;

use super::change_message_visibility::{Change, extend};
use crate::Context;
use crate::batch::{self, Done, Entries, Entry, Fates};
use crate::decode::Text;
use crate::error::{Code, WireError};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeMessageVisibilityBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    entries: Option<Entries<ChangeEntry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeEntry<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
    visibility_timeout: Option<i64>,
}

impl Entry for ChangeEntry<'_> {
    const KIND: &'static str = "ChangeMessageVisibilityBatchRequestEntry";

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

pub(crate) async fn change_message_visibility_batch(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: ChangeMessageVisibilityBatch<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let entries = batch::check(request.entries)?;
    let changes: Vec<_> = entries
        .iter()
        .map(|entry| Change::read(entry.receipt_handle.as_ref(), entry.visibility_timeout))
        .collect();
    let extensions: Vec<_> = changes.iter().flatten().map(Change::extension).collect();
    let extended =
        if extensions.is_empty() { Vec::new() } else { cx.engine.extend(extend(&queue, extensions)).await? };
    let mut extended = extended.into_iter();
    let fates = entries.iter().zip(changes).map(|(entry, change)| {
        let done = change.and_then(|change| {
            let extended = extended.next().ok_or(Code::InternalFailure)?;
            change.ended(extended).map(|()| Done)
        });
        (entry.id(), done)
    });
    Ok(cx.result(&Fates::of("ChangeMessageVisibilityBatchResultEntry", fates)))
}
