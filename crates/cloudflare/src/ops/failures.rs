//! What a consumer's settings make of messages that fail: the queue's dead-letter rule, and the queue it names.

use kew_core::command::CreateQueue;
use kew_core::{DeadLetterRule, Policy, Queue, QueueKey, RuleError};
use kew_engine::EngineError;
use kew_push::Consumer;
use kew_push::consumer::rule_without_consumer;

use crate::Context;
use crate::decode::consumer::ConsumerBody;
use crate::documents::Document;
use crate::error::WireError;

/// The rule a queue has from when this consumer is written.
///
/// The last write wins, but one that names no dead-letter queue keeps the target of a rule that somebody else wrote,
/// and changes its limit alone. A puller that says nothing of failures drops nothing on a queue that SQS or Azure made:
/// senders there count on messages that stay until somebody deletes them, so without such a rule there is none.
pub(super) fn rule(queue: &Queue, body: &ConsumerBody, consumer: &Consumer) -> Option<DeadLetterRule> {
    let before = queue.policy.dead_letters.as_deref();
    let is_left_alone = body.leaves_failures_alone() && !Document::of(queue).made_here;
    if is_left_alone && rule_without_consumer(before).is_none() {
        return None;
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
    let create = CreateQueue {
        key: QueueKey { name: name.into(), ..queue.key.clone() },
        policy: Policy::standard(),
        documents: vec![Document::of_new_queue(Document::of(queue).jurisdiction).write()],
    };
    match cx.engine.create_queue(create).await {
        // Somebody else may have made it meanwhile.
        Ok(_) | Err(EngineError::Rule(RuleError::QueueExists(_))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
