//! Queues by their names.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use kew_core::{Queue, QueueKey};

use super::parts::{Parts, ShortHash};

/// Each queue under its name.
#[derive(Default)]
pub(super) struct Names {
    queues: Parts<Named>,
    hasher: DefaultHashBuilder,
}

struct Named {
    hash: ShortHash,
    queue: Arc<Queue>,
}

impl Names {
    /// The names of all these queues.
    pub(super) fn of(queues: impl Iterator<Item = Arc<Queue>>) -> Self {
        let mut names = Self::default();
        queues.for_each(|queue| names.set(queue));
        names
    }

    fn hash(&self, key: &QueueKey) -> ShortHash {
        ShortHash::of(self.hasher.hash_one(key))
    }

    /// The queue of this name.
    pub(super) fn get(&self, key: &QueueKey) -> Option<&Arc<Queue>> {
        let hash = self.hash(key);
        let is_meant = |named: &Named| named.hash == hash && named.queue.key == *key;
        self.queues.find(hash.spread(), is_meant).map(|named| &named.queue)
    }

    /// A queue has its name from now on, whichever had it before.
    pub(super) fn set(&mut self, queue: Arc<Queue>) {
        let hash = self.hash(&queue.key);
        let is_meant = |named: &Named| named.hash == hash && named.queue.key == queue.key;
        match self.queues.find_mut(hash.spread(), is_meant) {
            Some(named) => named.queue = queue,
            None => {
                self.queues.insert_unique(hash.spread(), Named { hash, queue }, |named| named.hash.spread());
            }
        }
    }

    /// A queue is not named so any more, unless another queue has taken its name.
    pub(super) fn forget(&mut self, queue: &Queue) {
        let hash = self.hash(&queue.key);
        let is_meant = |named: &Named| named.queue.id == queue.id && named.queue.key == queue.key;
        self.queues.remove(hash.spread(), is_meant);
    }

    /// All queues, in any order.
    #[cfg(test)]
    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.iter().map(|named| &named.queue)
    }
}

#[cfg(test)]
mod tests {
    use kew_core::{AccountId, Policy, QueueId, Timestamp};

    use super::*;
    use crate::ledger::parts::PART;

    fn queue(id: u64, name: &str) -> Arc<Queue> {
        Arc::new(Queue {
            id: QueueId(id),
            key: QueueKey::new(AccountId(1), "here", name),
            policy: Policy::standard(),
            documents: Default::default(),
            version: 1,
            created_at: Timestamp(1),
            modified_at: Timestamp(1),
        })
    }

    fn found(names: &Names, name: &str) -> Option<u64> {
        names.get(&QueueKey::new(AccountId(1), "here", name)).map(|queue| queue.id.0)
    }

    #[test]
    fn name_is_of_the_queue_that_took_it_last() {
        let mut names = Names::of([queue(1, "a"), queue(2, "b")].into_iter());
        assert_eq!((found(&names, "a"), found(&names, "b"), found(&names, "c")), (Some(1), Some(2), None));
        names.set(queue(3, "a"));
        names.forget(&queue(1, "a"));
        assert_eq!((found(&names, "a"), names.queues().count()), (Some(3), 2));
        names.forget(&queue(3, "a"));
        assert_eq!((found(&names, "a"), names.queues().count()), (None, 1));
    }

    #[test]
    fn names_are_found_among_many_and_none_that_comes_moves_all_the_others() {
        let count = 9 * PART as u64;
        let names = Names::of((0..count).map(|number| queue(number, &format!("queue-{number}"))));
        assert!((0..count).all(|number| found(&names, &format!("queue-{number}")) == Some(number)));
        let (least, most) = names.queues.sizes();
        assert!(least > PART / 4 && most < 2 * PART, "{least} to {most} in each part");
    }
}
