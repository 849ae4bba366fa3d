//! A queue as replies show it.

use kew_core::Queue;
use kew_push::document;
use serde_json::{Value, json};

use super::{consumer, instant};
use crate::documents::Document;
use crate::producers::Producers;
use crate::route;

/// Its object. Its lists and their settings are always there: clients read them without asking.
pub(crate) fn queue(queue: &Queue, producers: &Producers) -> Value {
    let consumers: Vec<Value> =
        document::consumers(queue).iter().map(|of| consumer::consumer(queue, of)).collect();
    let workers = producers.of_queue(&queue.key.name);
    let producers: Vec<Value> =
        workers.iter().map(|script| json!({ "type": "worker", "script": script })).collect();
    let policy = &queue.policy;
    let mut shown = json!({
        "queue_id": route::queue_id(queue.id),
        "queue_name": &*queue.key.name,
        "created_on": instant(queue.created_at),
        "modified_on": instant(queue.modified_at),
        "settings": {
            "delivery_delay": policy.delay.as_secs(),
            "delivery_paused": policy.paused,
            "message_retention_period": policy.retention.as_secs(),
        },
        "producers_total_count": producers.len(),
        "producers": producers,
        "consumers_total_count": consumers.len(),
        "consumers": consumers,
    });
    if let Some(jurisdiction) = Document::of(queue).jurisdiction {
        shown["jurisdiction"] = jurisdiction.into();
    }
    shown
}
