//! One text for each region, shared by all queues in it: most stores have many queues in few regions.

use std::sync::Arc;

use hashbrown::HashSet;
use kew_core::{Queue, QueueKey};

/// Regions that are looked through for those of deleted queues at the earliest.
const TIDY_AT_LEAST: usize = 16;

/// The regions that queues were made in.
#[derive(Default)]
pub(crate) struct Regions {
    texts: HashSet<Arc<str>>,
    /// With this number, those that no queue names any more are forgotten first.
    tidy_at: usize,
}

impl Regions {
    /// The same key, its region's text shared.
    pub(crate) fn share(&mut self, key: QueueKey) -> QueueKey {
        if let Some(known) = self.texts.get(&key.region) {
            return QueueKey { region: known.clone(), ..key };
        }
        if self.texts.len() >= self.tidy_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.tidy_at = TIDY_AT_LEAST.max(2 * self.texts.len());
        }
        self.texts.insert(key.region.clone());
        key
    }

    /// The same queue, its region's text shared.
    pub(crate) fn share_of(&mut self, queue: Arc<Queue>) -> Arc<Queue> {
        match self.texts.get(&queue.key.region) {
            Some(known) if Arc::ptr_eq(known, &queue.key.region) => queue,
            _ => {
                let queue = Arc::unwrap_or_clone(queue);
                let key = self.share(queue.key);
                Arc::new(Queue { key, ..queue })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn key(region: &str, name: &str) -> QueueKey {
        QueueKey::new(AccountId(1), region, name)
    }

    #[test]
    fn queues_of_a_region_share_its_text() {
        let mut regions = Regions::default();
        let (one, other) = (regions.share(key("r", "a")), regions.share(key("r", "b")));
        assert!(Arc::ptr_eq(&one.region, &other.region));
        assert_eq!((one, other), (key("r", "a"), key("r", "b")));
    }

    #[test]
    fn regions_without_queues_are_forgotten() {
        let mut regions = Regions::default();
        let kept = regions.share(key("kept", "a"));
        for number in 0..1_000 {
            drop(regions.share(key(&format!("r{number}"), "a")));
            assert!(regions.texts.len() <= TIDY_AT_LEAST);
        }
        assert!(Arc::ptr_eq(&kept.region, &regions.share(key("kept", "b")).region));
    }
}
