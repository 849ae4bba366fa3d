//! `GET /queues/{id}`: shows a queue.

use kew_http::Reply;

use crate::error::WireError;
use crate::{Context, encode};

pub(crate) fn get_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    Ok(encode::result(&encode::queue::queue(&queue, &cx.producers())))
}
