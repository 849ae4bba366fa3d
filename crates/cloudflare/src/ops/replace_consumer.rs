//! `PUT /queues/{id}/consumers/{consumer}`: a consumer's settings in the place of what they were. What is not given returns
//! to its default: the last write wins, and there is no merge.

use kew_core::command::UpdateQueue;
use kew_core::{Policy, Queue};
use kew_http::Reply;
use kew_push::document;

use super::{failures, get_consumer};
use crate::decode::consumer::ConsumerBody;
use crate::error::{Code, WireError};
use crate::{Context, encode};

pub(crate) async fn replace_consumer(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = ConsumerBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let before = get_consumer::find(cx, &queue)?;
    if !body.is_of_type(&before) {
        let text = "a consumer keeps its type: remove it and add another";
        return Err(WireError::new(Code::InvalidConsumerSettings).saying(text));
    }
    body.check_against(&queue)?;
    failures::make_dead_letter_queue(cx, &queue, &body).await?;
    let consumer = body.consumer(before.id, before.created_at);
    let change = |now: &Queue| {
        get_consumer::find(cx, now)?;
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
