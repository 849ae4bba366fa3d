//! The consumers of queues that are pulled from, read once for each version of their queue: a pull should not cost the
//! reading of a document.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kew_core::{Queue, QueueId};
use kew_push::{Consumer, document};

/// Queues remembered at once; beyond that all are forgotten, and read again as they are asked for.
const QUEUES_MAX: usize = 10_000;

/// A queue's version, and the consumer it has.
type Read = (u64, Option<Arc<Consumer>>);

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    /// Guards the consumers, each with its queue's version; held for one look.
    known: Mutex<HashMap<QueueId, Read>>,
}

impl Consumers {
    /// The consumer of a queue, if it has one.
    pub(crate) fn of(&self, queue: &Queue) -> Option<Arc<Consumer>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, consumer)) = known.get(&queue.id)
            && *version == queue.version
        {
            return consumer.clone();
        }
        let consumer = document::consumer(queue).map(Arc::new);
        if known.len() >= QUEUES_MAX {
            known.clear();
        }
        known.insert(queue.id, (queue.version, consumer.clone()));
        consumer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{AccountId, Policy, QueueKey, Timestamp};
    use kew_push::{ConsumerId, Delivery, Pull};

    #[test]
    fn a_consumer_is_read_again_when_its_queue_has_changed() {
        let pull = Delivery::Pull(Pull::new());
        let consumer = Consumer::of(ConsumerId([1; 16]), Timestamp(1), pull);
        let (key, json) = document::change(std::slice::from_ref(&consumer));
        let mut queue = Queue {
            id: QueueId(1),
            key: QueueKey::new(AccountId(0), "r", "a"),
            policy: Policy::standard(),
            documents: json.map(|json| (key, json)).into_iter().collect(),
            version: 1,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        };
        let consumers = Consumers::default();
        assert_eq!(consumers.of(&queue).as_deref(), Some(&consumer));
        assert_eq!(consumers.of(&queue).as_deref(), Some(&consumer));
        queue.documents.clear();
        queue.version = 2;
        assert_eq!(consumers.of(&queue), None);
    }
}
