//! What came of each batch that was brought to a target: the latest of each consumer, and counts of all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{QueueKey, Timestamp};
use parking_lot::Mutex;

use crate::ConsumerId;
use crate::traced::Traced;
use crate::verdict::Ending;

/// Attempts that are remembered of one consumer: a busy one leaves those of the others alone.
const REMEMBERED: usize = 64;
/// Consumers whose attempts are remembered; past them the consumer without an attempt for the longest time is
/// forgotten.
const CONSUMERS_MAX: usize = 256;

/// One batch brought to a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// When it left, in engine time.
    pub at: Timestamp,
    /// From which queue.
    pub queue: QueueKey,
    /// To which consumer.
    pub consumer: ConsumerId,
    /// What that is, for people.
    pub target: String,
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
    /// Its place in a trace, if it has one.
    pub trace: Option<Traced>,
}

/// The latest attempts, and how many there were.
#[derive(Debug, Default)]
pub struct Attempts {
    returned: AtomicU64,
    failed: AtomicU64,
    unreached: AtomicU64,
    /// Guards the latest of each consumer.
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    /// Attempts that were noted; the number of the next.
    noted: u64,
    /// The newest at the end, each with its number.
    rings: HashMap<ConsumerId, VecDeque<(u64, Arc<Attempt>)>>,
}

impl Attempts {
    /// How many ended like this since the start.
    pub fn count(&self, ending: Ending) -> u64 {
        self.counter(ending).load(Ordering::Relaxed)
    }

    /// The latest of all consumers, the newest first.
    pub fn latest(&self) -> Vec<Arc<Attempt>> {
        let latest = self.latest.lock();
        let mut all: Vec<(u64, Arc<Attempt>)> = latest.rings.values().flatten().cloned().collect();
        drop(latest);
        all.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        all.into_iter().map(|(_, attempt)| attempt).collect()
    }

    pub(crate) fn note(&self, attempt: Arc<Attempt>) {
        self.counter(attempt.ending).fetch_add(1, Ordering::Relaxed);
        let mut latest = self.latest.lock();
        let number = latest.noted;
        latest.noted += 1;
        if latest.rings.len() == CONSUMERS_MAX && !latest.rings.contains_key(&attempt.consumer) {
            latest.forget_one();
        }
        let ring = latest.rings.entry(attempt.consumer).or_default();
        let tries_again = |(_, last): &(u64, Arc<Attempt>)| {
            last.ending == Ending::Unreached && attempt.ending == Ending::Unreached
        };
        if ring.back().is_some_and(tries_again) {
            // Of many tries in vain the latest is kept: they would push out what was brought before.
            ring.pop_back();
        } else if ring.len() == REMEMBERED {
            ring.pop_front();
        }
        ring.push_back((number, attempt));
    }

    fn counter(&self, ending: Ending) -> &AtomicU64 {
        match ending {
            Ending::Returned => &self.returned,
            Ending::Failed => &self.failed,
            Ending::Unreached => &self.unreached,
        }
    }
}

impl Latest {
    /// Forgets the consumer without an attempt for the longest time.
    fn forget_one(&mut self) {
        let newest = |ring: &VecDeque<(u64, Arc<Attempt>)>| ring.back().map_or(0, |(number, _)| *number);
        let silent = self.rings.iter().min_by_key(|(_, ring)| newest(ring)).map(|(consumer, _)| *consumer);
        if let Some(silent) = silent {
            self.rings.remove(&silent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn attempt(at: u64, consumer: u32, ending: Ending) -> Arc<Attempt> {
        Arc::new(Attempt {
            at: Timestamp(at),
            queue: QueueKey::new(AccountId(0), "here", "a"),
            consumer: ConsumerId(u128::from(consumer).to_be_bytes()),
            target: String::new(),
            batch: String::new(),
            messages: 1,
            acked: 0,
            ending,
            took: Duration::ZERO,
            status: None,
            error: None,
            trace: None,
        })
    }

    #[test]
    fn latest_are_kept_for_each_consumer_and_all_are_counted() {
        let attempts = Attempts::default();
        attempts.note(attempt(7, 2, Ending::Failed));
        for at in 0..1_500 {
            attempts.note(attempt(at, 1, if at % 3 == 0 { Ending::Failed } else { Ending::Returned }));
        }
        assert_eq!((attempts.count(Ending::Failed), attempts.count(Ending::Returned)), (501, 1_000));
        let latest = attempts.latest();
        assert_eq!((latest.len(), latest[0].at), (REMEMBERED + 1, Timestamp(1_499)));
        assert_eq!(latest[REMEMBERED].at, Timestamp(7), "the busy one does not push the quiet one out");
    }

    #[test]
    fn of_tries_in_vain_the_latest_is_kept_and_all_are_counted() {
        let attempts = Attempts::default();
        attempts.note(attempt(1, 1, Ending::Failed));
        (2..=500).for_each(|at| attempts.note(attempt(at, 1, Ending::Unreached)));
        let at = |attempts: &Attempts| attempts.latest().iter().map(|one| one.at.0).collect::<Vec<_>>();
        assert_eq!((at(&attempts), attempts.count(Ending::Unreached)), (vec![500, 1], 499));
        attempts.note(attempt(501, 1, Ending::Returned));
        attempts.note(attempt(502, 1, Ending::Unreached));
        assert_eq!(at(&attempts), [502, 501, 500, 1]);
    }

    #[test]
    fn consumers_are_bounded_and_who_was_silent_longest_is_forgotten() {
        let attempts = Attempts::default();
        let most = u32::try_from(CONSUMERS_MAX).expect("the maximum of consumers fits into 32 bits");
        for consumer in 0..most {
            attempts.note(attempt(u64::from(consumer), consumer, Ending::Returned));
        }
        attempts.note(attempt(1_000, 0, Ending::Returned));
        attempts.note(attempt(1_001, most, Ending::Returned));
        let latest = attempts.latest();
        assert_eq!(latest.len(), CONSUMERS_MAX + 1);
        assert!(latest.iter().all(|attempt| attempt.at != Timestamp(1)), "the second was silent longest");
        assert!(latest.iter().any(|attempt| attempt.at == Timestamp(0)), "the first has spoken again");
    }
}
