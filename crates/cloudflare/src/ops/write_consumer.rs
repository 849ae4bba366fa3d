//! `POST /queues/{id}/consumers` and `PUT …/{consumer}`: gives a queue its consumer, which it has one of, or another in
//! the place of what it was.
//!
//! Settings that are not given have their defaults, also when a consumer is written again: the last write wins, and
//! there is no merge. What that means for messages that fail is in `failures`.

use kew_core::{Policy, Queue};
use kew_http::Reply;
use kew_push::{Consumer, ConsumerId, document};

use super::{failures, get_consumer, scripts};
use crate::decode::consumer::ConsumerBody;
use crate::error::{Code, WireError};
use crate::{Context, QueueChange, encode};

pub(crate) async fn create_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = ConsumerBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let id = ConsumerId(cx.engine.message_id().0);
    write(cx, &queue, &body, |now| match document::consumer(now) {
        Some(_) => Err(Code::ConsumerExists.into()),
        None => Ok(body.consumer(id, cx.now())),
    })
    .await
}

pub(crate) async fn replace_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = ConsumerBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    write(cx, &queue, &body, |now| {
        let before = get_consumer::find(cx, now)?;
        if !body.is_of_type(&before) {
            let text = "a consumer keeps its type: remove it and add another";
            return Err(WireError::new(Code::InvalidConsumerSettings).saying(text));
        }
        Ok(body.consumer(before.id, before.created_at))
    })
    .await
}

/// Writes what `next` makes of the queue as it is then. It is asked first, so that a dead-letter queue is not made for
/// a consumer that will be refused.
async fn write(
    cx: &Context<'_>,
    queue: &Queue,
    body: &ConsumerBody,
    next: impl Fn(&Queue) -> Result<Consumer, WireError>,
) -> Result<Reply, WireError> {
    let next = |now: &Queue| {
        let consumer = next(now)?;
        body.check_against(now)?;
        Ok::<_, WireError>(consumer)
    };
    let consumer = next(queue)?;
    scripts::check_consumer(cx, &consumer).await?;
    failures::make_dead_letter_queue(cx, queue, body).await?;
    let change = |now: &Queue| {
        let consumer = next(now)?;
        let dead_letters = failures::rule(now, body, &consumer).map(Box::new);
        Ok(QueueChange {
            policy: Some(Policy { dead_letters, ..now.policy.clone() }),
            documents: vec![document::change(std::slice::from_ref(&consumer))],
            rename: None,
        })
    };
    let queue = cx.update(queue.id, change).await?;
    Ok(encode::result(&encode::consumer::consumer(&queue, &consumer)))
}
