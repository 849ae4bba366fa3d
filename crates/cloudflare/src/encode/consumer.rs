//! A consumer as replies show it.

use kew_core::{DeadLetterAction, Queue};
use kew_push::{Consumer, Delivery, Target};
use serde_json::{Value, json};

use super::instant;
use crate::decode::consumer::kind;

/// Its object. Its dead-letter settings are those of the queue's rule, from whichever dialect; without one a
/// message may be tried again for ever, which `null` says.
pub(crate) fn consumer(queue: &Queue, consumer: &Consumer) -> Value {
    let rule = queue.policy.dead_letters.as_deref();
    let dead_letter_queue = match rule.map(|rule| &rule.then) {
        Some(DeadLetterAction::MoveTo(key)) => &*key.name,
        Some(DeadLetterAction::Drop) | None => "",
    };
    let max_retries = rule.map(|rule| rule.attempts_max.saturating_sub(1));
    let mut shown = json!({
        "consumer_id": consumer.id.to_string(),
        "created_on": instant(consumer.created_at),
        "queue_name": &*queue.key.name,
        "type": kind(&consumer.delivery),
        "dead_letter_queue": dead_letter_queue,
        "settings": {
            "batch_size": consumer.batch_size,
            "max_retries": max_retries,
            "retry_delay": consumer.retry_delay.as_secs(),
        },
    });
    match &consumer.delivery {
        Delivery::Pull(pull) => {
            shown["settings"]["visibility_timeout_ms"] = json!(pull.visibility_timeout.as_millis() as u64);
        }
        Delivery::Push(push) => {
            let settings = &mut shown["settings"];
            settings["max_wait_time_ms"] = json!(push.max_wait.as_millis() as u64);
            settings["max_concurrency"] = json!(push.max_concurrency);
            match &push.target {
                Target::Worker { script } => {
                    // The command line looks for one, the schema has the other.
                    shown["script"] = json!(script);
                    shown["script_name"] = json!(script);
                }
                Target::Webhook { url, timeout, .. } => {
                    settings["timeout_ms"] = json!(timeout.as_millis() as u64);
                    shown["url"] = json!(url.as_str());
                }
            }
        }
    }
    shown
}
