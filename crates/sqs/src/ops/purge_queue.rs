//! PurgeQueue: every message goes, received or not, and so do the ids a FIFO queue remembers. Once a minute.

use kew_core::command::Purge;
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::error::{Code, WireError};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

pub(crate) async fn purge_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let purges = &cx.pauses.purges;
    // Begun before the purge, so that of two at once only one is done.
    if !purges.begin(&queue.id, cx.engine.now()) {
        let (name, seconds) = (&queue.key.name, purges.seconds());
        let text = format!("Only one PurgeQueue operation on {name} is allowed every {seconds} seconds.");
        return Err(WireError::new(Code::PurgeQueueInProgress).saying(text));
    }
    if let Err(error) = cx.engine.purge(Purge { queue: queue.id }).await {
        purges.forget(&queue.id);
        return Err(error.into());
    }
    Ok(cx.done())
}
