//! `GET /queues/{id}/consumers`: a queue's consumers.

use kew_http::Reply;
use kew_push::document;

use crate::error::WireError;
use crate::{Context, encode, limits};

pub(crate) fn list_consumers(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    let consumers = document::consumers(&queue);
    let shown = consumers.iter().map(|consumer| encode::consumer::consumer(&queue, consumer)).collect();
    Ok(encode::list(shown, 1, limits::PER_PAGE, consumers.len()))
}
