//! What a consumer's settings make of messages that fail: the queue's dead-letter rule, and the queue it names.

use kew_core::command::CreateQueue;
use kew_core::{DeadLetterRule, Policy, Queue, QueueKey};
use kew_engine::EngineError;
use kew_push::Consumer;
use kew_push::consumer::rule_without_consumer;

use crate::Context;
use crate::decode::consumer::ConsumerBody;
use crate::documents::Document;
use crate::error::WireError;

/// The rule a queue has from when this consumer is written.
///
/// A puller that says nothing of failures leaves a rule that somebody else wrote as it is. It drops nothing on a queue that
/// SQS or Azure made either: whoever sends there counts on messages that stay until somebody deletes them.
pub(super) fn rule(queue: &Queue, body: &ConsumerBody, consumer: &Consumer) -> Option<DeadLetterRule> {
    let before = queue.policy.dead_letters.as_ref();
    if body.leaves_failures_alone() {
        let theirs = rule_without_consumer(before);
        if theirs.is_some() || !Document::of(queue).made_here {
            return theirs;
        }
    }
    Some(consumer.dead_letter_rule(&queue.key, before))
}

/// Makes the dead-letter queue that is named, where there is none, in the queue's own jurisdiction.
pub(super) async fn make_dead_letter_queue(
    cx: &Context<'_>,
    queue: &Queue,
    body: &ConsumerBody,
) -> Result<(), WireError> {
    let Some(name) = body.dead_letter_queue().filter(|name| cx.queue_named(name).is_none()) else {
        return Ok(());
    };
    cx.check_room_for_a_queue()?;
    let create = CreateQueue {
        key: QueueKey { name: name.into(), ..queue.key.clone() },
        policy: Policy::standard(),
        documents: vec![Document::of_new_queue(Document::of(queue).jurisdiction).write()],
    };
    match cx.engine.create_queue(create).await {
        Ok(_) | Err(EngineError::QueueExists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
