//! `POST` and `GET /queues/{id}/purge`: deletes all messages, delayed and leased ones too; says when that was done
//! last.
//!
//! A purge is one step and over when it is answered.

use kew_core::Queue;
use kew_core::command::Purge;
use kew_http::Reply;
use serde_json::{Value, json};

use crate::decode::settle::check_purge;
use crate::documents::Document;
use crate::error::WireError;
use crate::{Context, QueueChange, encode};

pub(crate) async fn purge_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    check_purge(&cx.request.body)?;
    let queue = cx.queue()?;
    cx.engine.purge(Purge { queue: queue.id }).await?;
    let purged_at_ms = Some(cx.now().0);
    let change = |now: &Queue| {
        let (key, json) = Document { purged_at_ms, ..Document::of(now) }.write();
        Ok(QueueChange { documents: vec![(key, Some(json))], ..QueueChange::default() })
    };
    let queue = cx.update(queue.id, change).await?;
    let mut shown = encode::queue::queue(&queue, &cx.producers());
    if let (Value::Object(shown), Value::Object(status)) = (&mut shown, status(&Document::of(&queue))) {
        shown.extend(status);
    }
    Ok(encode::result(&shown))
}

pub(crate) fn purge_status(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    Ok(encode::result(&status(&Document::of(&queue))))
}

/// Both are texts in the service's schema; of a queue that never was purged, empty ones.
fn status(document: &Document) -> Value {
    match document.purged_at() {
        Some(at) => json!({ "completed": "true", "started_at": encode::instant(at) }),
        None => json!({ "completed": "", "started_at": "" }),
    }
}
