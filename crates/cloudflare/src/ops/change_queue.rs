//! `PUT` and `PATCH /queues/{id}`: a queue's name and settings in the place of what they were, or what is given alone.

use kew_core::{DeadLetterAction, Policy, Queue, QueueKey};
use kew_http::Reply;

use crate::decode::queue::{QueueBody, QueueSettings};
use crate::error::{Code, WireError};
use crate::producers::Producers;
use crate::{Context, QueueChange, encode};

/// What is not given is what it is by default.
pub(crate) async fn replace_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    change_queue(cx, QueueSettings::replaced).await
}

/// What is not given stays.
pub(crate) async fn patch_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    change_queue(cx, QueueSettings::merged).await
}

async fn change_queue(
    cx: &Context<'_>,
    policy: fn(QueueSettings, &Policy) -> Policy,
) -> Result<Reply, WireError> {
    let body = QueueBody::read(&cx.request.body)?;
    cx.follow_workers().await?;
    let producers = cx.producers();
    let change = |now: &Queue| {
        let rename = renamed(now, body.name.as_deref(), &producers)?;
        let policy = Some(policy(body.settings, &now.policy));
        Ok(QueueChange { policy, rename, ..QueueChange::default() })
    };
    let queue = cx.update(cx.queue()?.id, change).await?;
    Ok(encode::result(&encode::queue::queue(&queue, &producers)))
}

/// A queue's new name, where it is another one. Workers are bound to the name they were deployed with, so it stays
/// while there are any. Nor can it be the name of the queue that takes its dead letters, which is free where that queue
/// has been deleted: messages would then fail round and round.
fn renamed(queue: &Queue, name: Option<&str>, producers: &Producers) -> Result<Option<QueueKey>, WireError> {
    let Some(name) = name.filter(|name| *name != &*queue.key.name) else { return Ok(None) };
    producers.check_none_of(queue, "renamed")?;
    let renamed = QueueKey { name: name.into(), ..queue.key.clone() };
    let rule = queue.policy.dead_letters.as_deref();
    if rule.is_some_and(|rule| rule.then == DeadLetterAction::MoveTo(renamed.clone())) {
        let text =
            format!("the dead letters of {} go to {name}, and a queue cannot take its own", queue.key.name);
        return Err(WireError::new(Code::InvalidQueueSettings).saying(text));
    }
    Ok(Some(renamed))
}
