//! Whether the target of a consumer can be reached, and how long it is left alone when it cannot.
//!
//! A target that cannot be reached opens the circuit: nothing is leased for its consumer until a pause of real time is
//! over. Then one batch tries again. Each further try that fails doubles the pause; the first that reaches the target
//! closes the circuit. Batches that leave between two openings belong to one round, and only what a batch of the
//! present round finds counts: of a hundred that fail together one opens the circuit, and a reply to a request that was
//! made long ago says nothing of the present.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{QueueId, QueueKey, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ConsumerId;

/// The first pause; it doubles up to the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Which openings of a circuit a batch left between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Round(u64);

/// What a batch has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing.
    None,
    /// The target cannot be reached any more.
    Opened,
    /// It still cannot be reached.
    StillOpen,
    /// It can be reached again.
    Closed,
}

/// The circuit of one consumer.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    round: Round,
    /// Tries that failed since it opened; 0 while it is closed.
    tries: u32,
    /// When the next try may leave, in real time; `None` while it is closed, or when the pause is over.
    rests_until: Option<Instant>,
}

impl Circuit {
    /// The round that a batch leaving now belongs to.
    pub(crate) fn round(&self) -> Round {
        self.round
    }

    /// Whether the target could not be reached when it was last tried.
    pub(crate) fn is_open(&self) -> bool {
        self.tries > 0
    }

    /// Until when nothing leaves, in real time.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// The pause is over: one batch may try.
    pub(crate) fn rested(&mut self) {
        self.rests_until = None;
    }

    /// A batch of this round did not reach the target. `chance` shortens the pause by up to a quarter, so that
    /// consumers of one target do not all come back at once.
    pub(crate) fn missed(&mut self, round: Round, now: Instant, chance: u64) -> Turn {
        if round != self.round {
            return Turn::None;
        }
        self.round.0 += 1;
        let pause = PAUSE_MIN.saturating_mul(1 << self.tries.min(10)).min(PAUSE_MAX);
        let per_mille = u32::try_from(1_000 - chance % 251).unwrap_or(1_000);
        self.rests_until = Some(now + pause * per_mille / 1_000);
        self.tries = self.tries.saturating_add(1);
        if self.tries == 1 { Turn::Opened } else { Turn::StillOpen }
    }

    /// A batch of this round reached the target, whatever became of it there.
    pub(crate) fn reached(&mut self, round: Round) -> Turn {
        if round != self.round || !self.is_open() {
            return Turn::None;
        }
        (self.tries, self.rests_until) = (0, None);
        Turn::Closed
    }

    /// The target is another one: what is under way belongs to no round any more.
    pub(crate) fn forget(&mut self) {
        *self = Self { round: Round(self.round.0 + 1), ..Self::default() };
    }

    /// Tries that failed since it opened.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }
}

/// A circuit that is open, for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCircuit {
    /// Which queue waits.
    pub queue: QueueKey,
    /// For which consumer.
    pub consumer: ConsumerId,
    /// What that is, for people.
    pub target: String,
    /// Since when, in engine time.
    pub since: Timestamp,
    /// Tries that failed since then.
    pub tries: u32,
    /// The pause between the latest try and the next, in real time.
    pub pause: Duration,
    /// Why the latest failed.
    pub error: String,
}

/// All circuits that are open: at most one for each queue with a consumer.
#[derive(Debug, Default)]
pub struct Circuits {
    /// Guards those that are open.
    open: Mutex<HashMap<QueueId, Arc<OpenCircuit>>>,
}

impl Circuits {
    /// Those that are open, the longest open first.
    pub fn open(&self) -> Vec<Arc<OpenCircuit>> {
        let mut open: Vec<_> = self.open.lock().values().cloned().collect();
        open.sort_by(|one, other| (one.since, &one.queue).cmp(&(other.since, &other.queue)));
        open
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// A try failed. Returns what is known of the circuit now.
    pub(crate) fn missed(&self, queue: QueueId, latest: OpenCircuit) -> Arc<OpenCircuit> {
        let mut open = self.open.lock();
        let since = open.get(&queue).map_or(latest.since, |known| known.since);
        let latest = Arc::new(OpenCircuit { since, ..latest });
        open.insert(queue, Arc::clone(&latest));
        latest
    }

    /// It is closed, or there is nothing to bring there any more. Returns what was known of it.
    pub(crate) fn closed(&self, queue: QueueId) -> Option<Arc<OpenCircuit>> {
        self.open.lock().remove(&queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(circuit: &Circuit, now: Instant) -> Option<Duration> {
        circuit.rests_until().map(|until| until - now)
    }

    #[test]
    fn pauses_double_from_a_tenth_of_a_second_to_ten_and_begin_anew_after_the_target_was_reached() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        let mut pauses = Vec::new();
        for number in 0..9 {
            let turn = circuit.missed(circuit.round(), now, 0);
            assert_eq!(turn, if number == 0 { Turn::Opened } else { Turn::StillOpen });
            pauses.push(pause(&circuit, now).map(|pause| pause.as_millis()));
        }
        let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000].map(Some);
        assert_eq!((pauses.as_slice(), circuit.tries()), (&expected[..], 9));
        circuit.rested();
        assert_eq!((circuit.is_open(), circuit.rests_until()), (true, None), "one batch may try");
        assert_eq!(circuit.reached(circuit.round()), Turn::Closed);
        assert_eq!(circuit.reached(circuit.round()), Turn::None);
        circuit.missed(circuit.round(), now, 0);
        assert_eq!(pause(&circuit, now), Some(PAUSE_MIN));
    }

    #[test]
    fn chance_shortens_a_pause_by_a_quarter_at_most() {
        let now = Instant::now();
        for chance in (0..10_000).chain([u64::MAX]) {
            let mut circuit = Circuit::default();
            circuit.missed(circuit.round(), now, chance);
            let pause = pause(&circuit, now).expect("an open circuit has a pause");
            assert!((PAUSE_MIN * 3 / 4..=PAUSE_MIN).contains(&pause), "{pause:?} for {chance}");
        }
    }

    #[test]
    fn batches_that_fail_together_open_it_once_and_what_left_before_says_nothing_of_the_present() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        let before = circuit.round();
        assert_eq!(circuit.missed(before, now, 0), Turn::Opened);
        for _ in 0..250 {
            assert_eq!(circuit.missed(before, now, 0), Turn::None);
        }
        assert_eq!((circuit.tries(), pause(&circuit, now)), (1, Some(PAUSE_MIN)));
        assert_eq!(circuit.reached(before), Turn::None, "it left before the circuit opened");
        assert!(circuit.is_open());
    }
}
