//! The end of a turn: when to commit what the turn applied, and on which thread.
//!
//! Steps are applied as requests come; their answers wait until their batch is written and synced. A commit costs much
//! the same for one request as for sixty, so it pays to let a turn's requests share one, and never to wait for requests
//! that do not come. [`Paced`] sees every step on its way to the store and rings; its task gathers by looking at the
//! sockets again, never by sleeping: the group it hopes for is seven eighths of the largest of the last eight.
//! Where appends end later and elsewhere the store says how large a group it hopes for behind one that has ended.
//! While syncs are slow they happen on a thread of their own, so that nothing else waits for the disk; and so does
//! whatever takes longer than one sync: a new segment, or another thread's commit that has to end first.

mod pace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kew_core::command::Lease;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, Outcome, Pause, QueueId, Records, ShardId, Tally, Timestamp, Traffic};
use kew_http::Histogram;
use kew_store::{Elsewhere, Fill, Ring, Store, StoreError, Submission};
use tokio::sync::Notify;

use pace::Pace;

/// Looks at the sockets in a row that may bring nothing new.
const EMPTY_TURNS_MAX: u32 = 8;
/// The longest that the next append is let fill.
const FILLS_WITHIN: Duration = Duration::from_micros(500);

/// A store whose commits an event loop does.
pub struct Paced<S> {
    store: Arc<S>,
    /// Something may wait for a commit.
    rung: AtomicBool,
    bell: Notify,
    /// How many of the answers below may wait for no more than a write.
    leases: AtomicU32,
    lease_bell: Notify,
    /// Answers that surely wait for the next commit.
    waiting: AtomicU32,
    /// Whether one of them waits for a sync.
    syncs: AtomicBool,
    /// How long commits with a sync took.
    took: Arc<Histogram>,
    /// The same of this loop alone, where there are several.
    took_here: Option<Arc<Histogram>>,
    /// The task that commits has ended.
    is_over: AtomicBool,
}

/// Notes that the task that commits has ended, whatever ended it.
struct Committing<S>(Arc<Paced<S>>);

impl<S> Drop for Committing<S> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

impl<S: Store + 'static> Paced<S> {
    /// `store`, which must leave its commits to its caller. Commits with a sync are noted in `took`, and in `took_here`
    /// where that is another one.
    pub fn new(store: Arc<S>, took: Arc<Histogram>, took_here: Option<Arc<Histogram>>) -> Arc<Self> {
        Arc::new(Self {
            store,
            rung: AtomicBool::new(false),
            bell: Notify::new(),
            leases: AtomicU32::new(0),
            lease_bell: Notify::new(),
            waiting: AtomicU32::new(0),
            syncs: AtomicBool::new(false),
            took,
            took_here,
            is_over: AtomicBool::new(false),
        })
    }

    /// Commits whatever comes, for as long as it is polled. One task of the event loop that takes the steps.
    pub async fn commit_as_it_comes(self: Arc<Self>) {
        let _committing = Committing(Arc::clone(&self));
        let mut pace = Pace::default();
        let own = Arc::downgrade(&self);
        self.store.ring_when_free(Some(Arc::new(move || own.upgrade().is_some_and(|paced| paced.ring()))));
        loop {
            self.rings().await;
            if !self.hand_over_elsewhere(&mut pace).await {
                self.gather(pace.target()).await;
            }
            // Taken down before the commit: a step from another thread that comes too late for it rings again.
            self.rung.store(false, Ordering::SeqCst);
            let group = self.waiting.swap(0, Ordering::Relaxed);
            let syncs = self.syncs.swap(false, Ordering::Relaxed);
            self.leases.store(0, Ordering::SeqCst);
            let (begun, synced) = (Instant::now(), self.store.syncs());
            if (syncs && pace.is_slow()) || !self.store.commit_at_once(!pace.is_slow()) {
                self.commit_elsewhere().await;
            }
            // Not every commit that was expected to sync did, and some that were not did.
            if self.store.syncs() > synced {
                let took = begun.elapsed();
                pace.synced(took);
                self.took.record(took);
                if let Some(here) = &self.took_here {
                    here.record(took);
                }
            }
            pace.groups.note(group);
        }
    }

    async fn rings(&self) {
        while !self.rung.load(Ordering::SeqCst) {
            self.bell.notified().await;
        }
    }

    /// Lets the other tasks of the loop go on until enough answers wait for the sync, or no more come. Leases wait for
    /// a write only: a client that gets its answer now may come back with an ack that the same sync serves.
    async fn gather(&self, target: u32) {
        let (mut seen, mut empty_turns) = (self.waiting.load(Ordering::Relaxed), 0);
        while seen < target && empty_turns < EMPTY_TURNS_MAX {
            tokio::task::yield_now().await;
            let wrote = self.syncs.load(Ordering::Relaxed) && self.leases.load(Ordering::SeqCst) > 0;
            if wrote {
                self.write_leases();
            }
            let now = self.waiting.load(Ordering::Relaxed);
            empty_turns = if now == seen && !wrote { empty_turns + 1 } else { 0 };
            seen = now;
        }
    }

    /// Lets the other tasks of the loop go on while the store's next append would serve more, and more come. False
    /// where commits end before they return.
    async fn hand_over_elsewhere(&self, pace: &mut Pace) -> bool {
        let first = self.waiting.load(Ordering::Relaxed);
        let (mut begun, mut seen, mut empty_turns) = (None, first, 0);
        loop {
            let target = match self.store.hand_over() {
                Fill::ByCaller => return false,
                Fill::Enough => {
                    if seen > first {
                        pace.filled(true);
                    }
                    return true;
                }
                Fill::Waits { target } => target,
            };
            let begun = begun.get_or_insert_with(Instant::now);
            if empty_turns >= pace.patience(target) || begun.elapsed() >= FILLS_WITHIN {
                pace.filled(seen > first);
                return true;
            }
            if empty_turns > 0 {
                // Clients on this machine, and its database, may need the core.
                std::thread::yield_now();
            }
            tokio::task::yield_now().await;
            let now = self.waiting.load(Ordering::Relaxed);
            empty_turns = if now == seen { empty_turns + 1 } else { 0 };
            seen = now;
        }
    }

    /// Commits on another thread. Leases that come meanwhile are written, so that they need not wait for its sync.
    async fn commit_elsewhere(&self) {
        let store = Arc::clone(&self.store);
        let mut committed = tokio::task::spawn_blocking(move || store.commit());
        loop {
            tokio::select! {
                biased;
                ended = &mut committed => return ended.map_or_else(fall, |_waited| ()),
                () = self.leases() => self.write_leases(),
            }
        }
    }

    /// Waits for leases, and for those of the same turn.
    async fn leases(&self) {
        while self.leases.load(Ordering::SeqCst) == 0 {
            self.lease_bell.notified().await;
        }
        tokio::task::yield_now().await;
    }

    fn write_leases(&self) {
        let written = self.leases.swap(0, Ordering::SeqCst);
        self.store.write();
        // The next commit is not for them.
        let without = |waiting: u32| Some(waiting.saturating_sub(written));
        let _waiting = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, without);
    }

    fn note(&self, answer: Rests) {
        match answer {
            Rests::ForSync => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                self.syncs.store(true, Ordering::Relaxed);
            }
            Rests::ForWrite => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                if self.leases.fetch_add(1, Ordering::SeqCst) == 0 {
                    self.lease_bell.notify_one();
                }
            }
            Rests::ForCommit => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            Rests::Perhaps => {}
        }
    }

    /// What follows from a step.
    #[inline]
    fn follow(&self, command: &Command, submission: Submission) -> Submission {
        self.note(submission.peek().map_or(Rests::Perhaps, |outcome| Rests::of(command, outcome)));
        // Any step may have done due work, which somebody has to write down.
        self.ring();
        submission
    }

    /// Whether anybody hears it.
    fn ring(&self) -> bool {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.bell.notify_one();
        }
        !self.is_over.load(Ordering::SeqCst)
    }
}

/// A commit that panicked may have left anything half done: the panic goes on here, and the loop ends with it.
fn fall(error: tokio::task::JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
    // Otherwise it was cancelled, which only the end of the runtime does.
}

impl<S: Store + 'static> Store for Paced<S> {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.follow(command, self.store.step(now, command))
    }

    fn step_in(&self, shard: ShardId, now: Timestamp, command: &Command) -> Submission {
        self.follow(command, self.store.step_in(shard, now, command))
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn record_time(&self, now: Timestamp) -> Submission {
        let submission = self.store.record_time(now);
        self.ring();
        submission
    }

    fn commit(&self) -> bool {
        self.store.commit()
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.store.commit_at_once(may_sync)
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.store.expiry_hold()
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

    fn waits(&self, queues: &[QueueId]) -> Vec<kew_core::Waits> {
        self.store.waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.store.take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.store.traffic(queues)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }

    fn may_answer(&self) -> bool {
        self.store.may_answer()
    }

    fn may_answer_for(&self, queue: QueueId) -> bool {
        self.store.may_answer_for(queue)
    }

    fn keeps(&self, queue: QueueId) -> bool {
        self.store.keeps(queue)
    }

    fn shard_of(&self, queue: QueueId) -> ShardId {
        self.store.shard_of(queue)
    }

    fn sees(&self, queue: QueueId) -> bool {
        self.store.sees(queue)
    }

    fn health_for(&self, queue: QueueId) -> Result<(), StoreError> {
        self.store.health_for(queue)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.store.know_others(elsewhere);
    }

    fn knows_all(&self) -> bool {
        self.store.knows_all()
    }

    fn define(&self, command: &Command) -> Option<Submission> {
        self.store.define(command)
    }

    fn share(&self, pause: &Pause, until: Timestamp) -> Option<Submission> {
        self.store.share(pause, until)
    }

    fn lease_elsewhere(&self, lease: &Lease, wait: Duration) -> Option<Submission> {
        self.store.lease_elsewhere(lease, wait)
    }

    fn write(&self) {
        self.store.write();
    }
}

/// What an answer waits for.
enum Rests {
    ForSync,
    ForWrite,
    /// The commit, which syncs only if a body was replaced or something before it must be synced.
    ForCommit,
    /// Something it rests on, if anything: nothing to gather for.
    Perhaps,
}

impl Rests {
    fn of(command: &Command, outcome: &Outcome) -> Self {
        match (command.records(), outcome) {
            (Records::Synced, _) => Self::ForSync,
            (Records::Written, Outcome::Leased(leases)) if leases.is_empty() => Self::Perhaps,
            (Records::Written, Outcome::Leased(_)) => Self::ForWrite,
            (Records::Written, _) => Self::ForCommit,
            (Records::Nothing, _) => Self::Perhaps,
        }
    }
}

#[cfg(test)]
mod tests;
