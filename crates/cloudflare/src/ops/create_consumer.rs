//! `POST /queues/{id}/consumers`: gives a queue its consumer. A queue has one.

use kew_core::command::UpdateQueue;
use kew_core::{Policy, Queue};
use kew_http::Reply;
use kew_push::{ConsumerId, document};

use super::failures;
use crate::decode::consumer::ConsumerBody;
use crate::error::{Code, WireError};
use crate::{Context, encode};

pub(crate) async fn create_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = ConsumerBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    refuse_second(&queue)?;
    body.check_against(&queue)?;
    failures::make_dead_letter_queue(cx, &queue, &body).await?;
    let consumer = body.consumer(ConsumerId(cx.engine.message_id().0), cx.now());
    let change = |now: &Queue| {
        refuse_second(now)?;
        let dead_letters = failures::rule(now, &body, &consumer);
        Ok(UpdateQueue {
            queue: now.id,
            if_version: None,
            policy: Some(Policy { dead_letters, ..now.policy.clone() }),
            documents: vec![document::change(std::slice::from_ref(&consumer))],
            rename: None,
        })
    };
    let queue = cx.update(queue.id, change).await?;
    Ok(encode::result(&encode::consumer::consumer(&queue, &consumer)))
}

fn refuse_second(queue: &Queue) -> Result<(), WireError> {
    if document::consumer(queue).is_some() { Err(Code::ConsumerExists.into()) } else { Ok(()) }
}
