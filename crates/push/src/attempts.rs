//! What came of each batch that was brought to a target: the latest of them, and counts of all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{QueueKey, Timestamp};
use parking_lot::Mutex;

use crate::ConsumerId;
use crate::verdict::Ending;

/// Attempts that are remembered.
const REMEMBERED: usize = 1_000;

/// One batch brought to a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// When it left, in engine time.
    pub at: Timestamp,
    /// From which queue.
    pub queue: QueueKey,
    /// To which consumer.
    pub consumer: ConsumerId,
    /// Which delivery it was: 32 hex digits.
    pub batch: String,
    /// Messages in it.
    pub messages: u32,
    /// Messages that are done.
    pub acked: u32,
    /// How it ended.
    pub ending: Ending,
    /// How long it took, in real time.
    pub took: Duration,
    /// The status of the reply, where there was one.
    pub status: Option<u16>,
    /// What went wrong, for people.
    pub error: Option<String>,
}

/// The latest attempts, and how many there were.
#[derive(Debug, Default)]
pub struct Attempts {
    returned: AtomicU64,
    failed: AtomicU64,
    /// Guards the latest, the newest at the end.
    latest: Mutex<VecDeque<Arc<Attempt>>>,
}

impl Attempts {
    /// How many ended like this since the start.
    pub fn count(&self, ending: Ending) -> u64 {
        self.counter(ending).load(Ordering::Relaxed)
    }

    /// The latest, the newest first.
    pub fn latest(&self) -> Vec<Arc<Attempt>> {
        self.latest.lock().iter().rev().map(Arc::clone).collect()
    }

    pub(crate) fn note(&self, attempt: Arc<Attempt>) {
        self.counter(attempt.ending).fetch_add(1, Ordering::Relaxed);
        let mut latest = self.latest.lock();
        if latest.len() == REMEMBERED {
            latest.pop_front();
        }
        latest.push_back(attempt);
    }

    fn counter(&self, ending: Ending) -> &AtomicU64 {
        match ending {
            Ending::Returned => &self.returned,
            Ending::Failed => &self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn attempt(at: u64, ending: Ending) -> Arc<Attempt> {
        Arc::new(Attempt {
            at: Timestamp(at),
            queue: QueueKey::new(AccountId(0), "here", "a"),
            consumer: ConsumerId([0; 16]),
            batch: String::new(),
            messages: 1,
            acked: 0,
            ending,
            took: Duration::ZERO,
            status: None,
            error: None,
        })
    }

    #[test]
    fn latest_are_kept_and_all_are_counted() {
        let attempts = Attempts::default();
        for at in 0..1_500 {
            attempts.note(attempt(at, if at % 3 == 0 { Ending::Failed } else { Ending::Returned }));
        }
        assert_eq!((attempts.count(Ending::Failed), attempts.count(Ending::Returned)), (500, 1_000));
        let latest = attempts.latest();
        assert_eq!((latest.len(), latest.first().map(|newest| newest.at)), (1_000, Some(Timestamp(1_499))));
    }
}
