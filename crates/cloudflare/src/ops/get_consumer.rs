//! `GET /queues/{id}/consumers/{consumer}`: shows a consumer.

use kew_core::Queue;
use kew_http::Reply;
use kew_push::{Consumer, ConsumerId, document};

use crate::error::{Code, WireError};
use crate::{Context, encode};

pub(crate) fn get_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    let consumer = find(cx, &queue)?;
    Ok(encode::result(&encode::consumer::consumer(&queue, &consumer)))
}

/// The consumer that the path names.
pub(super) fn find(cx: &Context<'_>, queue: &Queue) -> Result<Consumer, WireError> {
    let id = ConsumerId::parse(cx.route.consumer());
    let found = document::consumers(queue).into_iter().find(|consumer| Some(consumer.id) == id);
    found.ok_or_else(|| Code::ConsumerNotFound.into())
}
