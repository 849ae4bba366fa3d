//! DeleteQueue: everything in it goes, waiting receives end, and its name is held for a while.

use kew_core::command::DeleteQueue;
use kew_core::{Pause, RuleError};
use kew_engine::EngineError;
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::error::WireError;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

pub(crate) async fn delete_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    // Begun before the deletion: the client may leave while it is made, and then this code does not go on.
    let (pause, until) = (Pause::Name(queue.key.clone()), cx.engine.now().plus(cx.settings.name_hold));
    cx.engine.note_pause(&pause, until);
    match cx.engine.delete_queue(DeleteQueue { queue: queue.id, if_version: None }).await {
        Ok(_messages) => {}
        // Somebody else deleted it a moment ago: the name is held all the same.
        Err(error @ EngineError::Rule(RuleError::QueueNotFound)) => return Err(error.into()),
        Err(error) => {
            cx.engine.end_pause(&pause);
            return Err(error.into());
        }
    }
    cx.engine.share_pause(&pause, until).await;
    Ok(cx.done())
}
