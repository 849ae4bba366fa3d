//! PurgeQueue: every message goes, received or not, and so do the ids a FIFO queue remembers. Once a minute.

use kew_core::Pause;
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
    let interval = cx.settings.purge_interval;
    let (pause, until) = (Pause::Purge(queue.id), cx.engine.now().plus(interval));
    // Begun before the purge, so that of two at once only one is done.
    if !cx.engine.begin_pause(&pause, until) {
        let (name, seconds) = (&queue.key.name, interval.as_secs());
        let text = format!("Only one PurgeQueue operation on {name} is allowed every {seconds} seconds.");
        return Err(WireError::new(Code::PurgeQueueInProgress).saying(text));
    }
    if let Err(error) = cx.engine.purge(Purge { queue: queue.id }).await {
        cx.engine.end_pause(&pause);
        return Err(error.into());
    }
    cx.engine.share_pause(&pause, until).await;
    Ok(cx.done())
}
