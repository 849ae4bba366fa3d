//! The store on a log in PostgreSQL: it answers only while this node owns the shard.
//!
//! Whether it does is looked at before a step, and again at the very moment its answer is given out: what was ready
//! before the node was stopped, or before its tenure ended, is refused after that. A client that is refused then does
//! not know whether its step was done, as after a cut connection.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, QueueId, Tally, Timestamp, Traffic, Waits};
use kew_store::{Elsewhere, Fill, Gate, Ring, Store, StoreError, Submission, Through};
use kew_store_log::LogStore;

use crate::Tenure;
use crate::planted::Planted;

/// A store whose answers count only while its shard is owned.
pub struct PgStore {
    store: Arc<LogStore>,
    tenure: Arc<Tenure>,
    /// The store's gate, for its owner only.
    gate: Arc<dyn Gate>,
}

/// A gate that opens only while the shard is owned.
struct OwnersGate {
    gate: Arc<dyn Gate>,
    tenure: Arc<Tenure>,
}

impl OwnersGate {
    fn look(&self, opened: Result<(), StoreError>) -> Poll<Result<(), StoreError>> {
        Poll::Ready(opened.and_then(|()| may_answer(&self.tenure)))
    }
}

impl Gate for OwnersGate {
    fn poll_open(&self, turn: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let opened = ready!(self.gate.poll_open(turn, cx));
        self.look(opened)
    }

    fn poll_through(&self, wanted: Through, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let opened = ready!(self.gate.poll_through(wanted, cx));
        self.look(opened)
    }
}

/// Whether an answer may be given out now.
fn may_answer(tenure: &Tenure) -> Result<(), StoreError> {
    let is_unchecked = Planted::AnswersUnchecked.is_there() || Planted::ProgressAfterTenure.is_there();
    if tenure.is_held_or_looks() || is_unchecked {
        return Ok(());
    }
    Err(StoreError::Unavailable { cause: tenure.refusal().unwrap_or_default() })
}

impl PgStore {
    /// Puts the tenure before a store.
    pub fn new(store: Arc<LogStore>, tenure: Arc<Tenure>) -> Self {
        let gate = Arc::new(OwnersGate { gate: store.gate(), tenure: Arc::clone(&tenure) });
        Self { store, tenure, gate }
    }

    /// The store behind it.
    pub fn log(&self) -> &Arc<LogStore> {
        &self.store
    }
}

impl Store for PgStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        if let Some(cause) = self.tenure.refusal() {
            return Submission::settled(Err(StoreError::Unavailable { cause }));
        }
        let submission = self.store.step(now, command).behind(&self.gate);
        // A step whose answer waits for nothing may have taken long too.
        match may_answer(&self.tenure) {
            Err(error) if submission.waits_for_nothing() => {
                Submission::settled(Err(error)).freeing(submission.freed)
            }
            _ => submission,
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.store.expiry_hold()
    }

    fn commit(&self) -> bool {
        self.store.commit()
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.store.commit_at_once(may_sync)
    }

    fn hand_over(&self) -> Fill {
        self.store.hand_over()
    }

    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.store.ring_when_free(ring);
    }

    fn syncs(&self) -> u64 {
        self.store.syncs()
    }

    fn tally(&self) -> Tally {
        self.store.tally()
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.store.tallies(queues)
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.store.waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.store.take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.store.traffic(queues)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.store.know_others(elsewhere);
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()?;
        match self.tenure.refusal() {
            None => Ok(()),
            Some(cause) => Err(StoreError::Unavailable { cause }),
        }
    }

    fn may_answer(&self) -> bool {
        may_answer(&self.tenure).is_ok()
    }

    fn write(&self) {
        self.store.write();
    }
}
