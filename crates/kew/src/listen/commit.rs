//! The end of a pass: when to commit what the pass applied, and on which thread.
//!
//! Steps are applied as requests come; their answers wait until their batch is written and synced. A commit costs much
//! the same for one request as for sixty, so it pays to let a pass's requests share one, and never to wait for requests
//! that do not come. [`Paced`] sees every step on its way to the store and rings; its task gathers by looking at the
//! sockets again, never by sleeping: the group it hopes for is seven eighths of the largest of the last eight.
//! While syncs are slow they happen on a thread of their own, so that nothing else waits for the disk; and so does
//! whatever takes longer than one sync: a new segment, or another thread's commit that has to end first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, Departures, Outcome, QueueId, Records, Tally, Timestamp, Traffic};
use kew_http::Histogram;
use kew_store::{Store, StoreError, Submission};
use tokio::sync::Notify;

/// Looks at the sockets in a row that may bring nothing new.
const EMPTY_PASSES_MAX: u32 = 8;
/// Groups that are remembered.
const GROUPS: usize = 8;
/// A sync that takes longer than this on average does not happen on the event loop.
const SLOW_SYNC: Duration = Duration::from_micros(400);

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
}

impl<S: Store + 'static> Paced<S> {
    /// `store`, which must leave its commits to its caller. Commits with a sync are noted in `took`.
    pub fn new(store: Arc<S>, took: Arc<Histogram>) -> Arc<Self> {
        Arc::new(Self {
            store,
            rung: AtomicBool::new(false),
            bell: Notify::new(),
            leases: AtomicU32::new(0),
            lease_bell: Notify::new(),
            waiting: AtomicU32::new(0),
            syncs: AtomicBool::new(false),
            took,
        })
    }

    /// Commits whatever comes, for as long as it is polled. One task of the event loop that takes the steps.
    pub async fn commit_as_it_comes(self: Arc<Self>) {
        let mut pace = Pace::default();
        loop {
            self.rings().await;
            self.gather(pace.target()).await;
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
            }
            pace.grouped(group);
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
        let (mut seen, mut empty_passes) = (self.waiting.load(Ordering::Relaxed), 0);
        while seen < target && empty_passes < EMPTY_PASSES_MAX {
            tokio::task::yield_now().await;
            let wrote = self.syncs.load(Ordering::Relaxed) && self.leases.load(Ordering::SeqCst) > 0;
            if wrote {
                self.write_leases();
            }
            let now = self.waiting.load(Ordering::Relaxed);
            empty_passes = if now == seen && !wrote { empty_passes + 1 } else { 0 };
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

    /// Waits for leases, and for those of the same pass.
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

    fn note(&self, answer: Waits) {
        match answer {
            Waits::ForSync => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                self.syncs.store(true, Ordering::Relaxed);
            }
            Waits::ForWrite => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                if self.leases.fetch_add(1, Ordering::SeqCst) == 0 {
                    self.lease_bell.notify_one();
                }
            }
            Waits::ForCommit => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            Waits::Perhaps => {}
        }
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.bell.notify_one();
        }
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
        let submission = self.store.step(now, command);
        self.note(submission.peek().map_or(Waits::Perhaps, |outcome| Waits::of(command, outcome)));
        // Any step may have done due work, which somebody has to write down.
        self.ring();
        submission
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
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

    fn write(&self) {
        self.store.write();
    }
}

/// What an answer waits for.
enum Waits {
    ForSync,
    ForWrite,
    /// The commit, which syncs only if a body was replaced or something before it must be synced.
    ForCommit,
    /// Something it rests on, if anything: nothing to gather for.
    Perhaps,
}

impl Waits {
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

/// What the last commits were like, and what the next should be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    groups: [u32; GROUPS],
    next: usize,
    /// Smoothed over about eight syncs.
    sync: Duration,
}

impl Pace {
    /// How many answers to hope for: at one connection one, so that no answer waits for a client that is not there.
    pub fn target(&self) -> u32 {
        let largest = self.groups.iter().copied().max().unwrap_or_default();
        largest.saturating_sub(largest / 8).max(1)
    }

    /// Notes how many answers a commit released.
    pub fn grouped(&mut self, group: u32) {
        if let (1.., Some(slot)) = (group, self.groups.get_mut(self.next)) {
            *slot = group;
            self.next = (self.next + 1) % GROUPS;
        }
    }

    /// Notes how long a commit with a sync took. One that took long says little of the next, so none counts for more
    /// than twice the bound.
    pub fn synced(&mut self, took: Duration) {
        let took = took.min(SLOW_SYNC * 2);
        self.sync = if self.sync.is_zero() { took } else { (self.sync * 7 + took) / 8 };
    }

    /// Whether the next sync is better done elsewhere.
    pub fn is_slow(&self) -> bool {
        self.sync > SLOW_SYNC
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::command::{Purge, Release};
    use kew_core::outcome::Sent;
    use kew_core::{QueueId, ReceiptRule, RuleError, Sequence};
    use kew_store::{Gate, StoreError};
    use parking_lot::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::task::{Context, Poll, Waker};
    use std::thread::ThreadId;

    /// A command whose records are synced.
    const COMMAND: Command = Command::Purge(Purge { queue: QueueId(1) });

    /// Sends that wait for a commit; commits are remembered.
    #[derive(Default)]
    struct Recorder {
        gate: Arc<RecorderGate>,
        commits: Mutex<Vec<(u32, ThreadId)>>,
        writes: AtomicU32,
        slow: bool,
        /// Every commit takes more than one write and one sync.
        long: bool,
        /// Its steps give leases another end, which no commit syncs.
        extends: bool,
        syncs: AtomicU64,
        /// The commit that panics, by its number.
        falls_at: Option<usize>,
    }

    #[derive(Default)]
    struct RecorderGate {
        open_through: Mutex<u64>,
        pending: Mutex<(u32, Vec<Waker>)>,
    }

    impl Gate for RecorderGate {
        fn poll_open(&self, batch: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
            if *self.open_through.lock() >= batch {
                return Poll::Ready(Ok(()));
            }
            self.pending.lock().1.push(cx.waker().clone());
            Poll::Pending
        }
    }

    impl Store for Recorder {
        fn step(&self, _: Timestamp, _: &Command) -> Submission {
            self.gate.pending.lock().0 += 1;
            let sent = Sent {
                id: Default::default(),
                sequence: Sequence(1),
                sent_at: Timestamp::ZERO,
                visible_at: Timestamp::ZERO,
                expires_at: None,
                token: None,
                duplicate: false,
            };
            let batch = *self.gate.open_through.lock() + 1;
            if self.extends {
                let refused = vec![Err(RuleError::QueueNotFound)];
                return Submission::applied(Outcome::Extended(refused), batch, Arc::clone(&self.gate) as _);
            }
            Submission::applied(Outcome::Sent(vec![sent]), batch, Arc::clone(&self.gate) as _)
        }

        fn next_due(&self) -> Option<Timestamp> {
            None
        }

        fn newest_instant(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn commit(&self) -> bool {
            if self.slow {
                std::thread::sleep(SLOW_SYNC * 2);
            }
            let number = self.commits.lock().len();
            assert!(self.falls_at.is_none_or(|fatal| fatal != number), "commit {number} falls");
            let (group, wakers) = std::mem::take(&mut *self.gate.pending.lock());
            self.commits.lock().push((group, std::thread::current().id()));
            *self.gate.open_through.lock() += 1;
            self.syncs.fetch_add(u64::from(!self.extends), Ordering::Relaxed);
            wakers.into_iter().for_each(Waker::wake);
            group > 0
        }

        fn commit_at_once(&self, _may_sync: bool) -> bool {
            if !self.long {
                self.commit();
            }
            !self.long
        }

        fn syncs(&self) -> u64 {
            self.syncs.load(Ordering::Relaxed)
        }

        fn write(&self) {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs this number of clients on one event loop; each sends this number of messages, one after the other.
    async fn clients(store: Recorder, clients: usize, sends: usize) -> Vec<(u32, ThreadId)> {
        let store = Arc::new(store);
        let paced = Paced::new(Arc::clone(&store), Arc::default());
        let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let paced = Arc::clone(&paced);
                tokio::spawn(async move {
                    for _ in 0..sends {
                        // They come in different passes.
                        for _ in 0..client % 4 {
                            tokio::task::yield_now().await;
                        }
                        paced.step(Timestamp::ZERO, &COMMAND).await.expect("the step is committed");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("the client's task does not panic");
        }
        committer.abort();
        std::mem::take(&mut *store.commits.lock())
    }

    #[tokio::test]
    async fn one_client_never_waits_for_another() {
        let commits = clients(Recorder::default(), 1, 20).await;
        assert_eq!(commits.len(), 20, "{commits:?}");
    }

    #[tokio::test]
    async fn many_clients_share_commits_although_they_come_in_different_passes() {
        let commits = clients(Recorder::default(), 16, 50).await;
        let settled = &commits[20..commits.len() - 20];
        assert!(settled.iter().all(|(group, _)| *group >= 14), "{commits:?}");
    }

    #[tokio::test]
    async fn leases_are_written_while_sends_gather_for_their_sync() {
        let store = Arc::new(Recorder::default());
        let paced = Paced::new(Arc::clone(&store), Arc::default());
        for answer in [Waits::ForSync, Waits::ForWrite, Waits::ForWrite] {
            paced.note(answer);
        }
        paced.gather(16).await;
        assert_eq!(store.writes.load(Ordering::Relaxed), 1, "both in one");
        assert_eq!(paced.waiting.load(Ordering::Relaxed), 1, "the send waits on");
        assert!(store.commits.lock().is_empty());
    }

    #[tokio::test]
    async fn leases_alone_are_left_to_the_commit_which_syncs_nothing_then() {
        let store = Arc::new(Recorder::default());
        let paced = Paced::new(Arc::clone(&store), Arc::default());
        paced.note(Waits::ForWrite);
        paced.gather(16).await;
        assert_eq!(store.writes.load(Ordering::Relaxed), 0);
        assert_eq!(paced.waiting.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn clients_that_left_are_not_waited_for_long() {
        let mut pace = Pace::default();
        pace.grouped(64);
        assert_eq!(pace.target(), 56);
        for _ in 0..GROUPS {
            pace.grouped(2);
        }
        assert_eq!(pace.target(), 2);
    }

    #[test]
    fn the_target_is_seven_eighths_and_at_least_one() {
        for (largest, target) in [(0, 1), (1, 1), (2, 2), (7, 7), (8, 7), (16, 14), (64, 56)] {
            let mut pace = Pace::default();
            pace.grouped(largest);
            assert_eq!(pace.target(), target, "{largest}");
        }
    }

    #[tokio::test]
    async fn slow_syncs_happen_on_another_thread() {
        let store = Recorder { slow: true, ..Recorder::default() };
        let commits = clients(store, 2, 10).await;
        let here = std::thread::current().id();
        assert_eq!(
            commits.first().map(|(_, thread)| *thread),
            Some(here),
            "the first is not known to be slow"
        );
        assert!(commits.iter().skip(1).all(|(_, thread)| *thread != here), "{commits:?}");
    }

    #[tokio::test]
    async fn commits_of_extensions_alone_are_no_syncs_and_stay_on_the_loop() {
        let took = Arc::new(Histogram::default());
        let release = Release { queue: QueueId(1), receipt: ReceiptRule::Any, entries: Vec::new() };
        for (extends, syncs) in [(true, 0), (false, 10)] {
            let store = Arc::new(Recorder { extends, ..Recorder::default() });
            let paced = Paced::new(Arc::clone(&store), Arc::clone(&took));
            let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
            for _ in 0..10 {
                let command = if extends { Command::Release(release.clone()) } else { COMMAND };
                paced.step(Timestamp::ZERO, &command).await.expect("the step is committed");
            }
            committer.abort();
            assert_eq!(took.distribution().count, syncs, "extensions: {extends}");
        }
    }

    #[tokio::test]
    async fn a_commit_that_takes_more_than_a_sync_happens_on_another_thread() {
        let store = Recorder { long: true, ..Recorder::default() };
        let commits = clients(store, 2, 10).await;
        let here = std::thread::current().id();
        assert!(commits.iter().all(|(_, thread)| *thread != here), "{commits:?}");
    }

    #[tokio::test]
    async fn a_commit_that_panics_ends_the_task_wherever_it_happened() {
        for (slow, falls_at) in [(false, 0), (true, 0), (true, 5)] {
            let store = Recorder { slow, falls_at: Some(falls_at), ..Recorder::default() };
            let paced = Paced::new(Arc::new(store), Arc::default());
            let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
            let client = tokio::spawn(async move {
                loop {
                    let _sent = paced.step(Timestamp::ZERO, &COMMAND).await;
                }
            });
            let ended = committer.await.expect_err("it does not go on");
            let panic = ended.into_panic();
            let text = panic.downcast_ref::<String>().map(String::as_str);
            assert_eq!(text, Some(format!("commit {falls_at} falls").as_str()));
            client.abort();
        }
    }

    #[test]
    fn one_slow_sync_among_fast_ones_changes_nothing() {
        let mut pace = Pace::default();
        pace.synced(Duration::from_micros(100));
        pace.synced(Duration::from_micros(200_000));
        assert!(!pace.is_slow());
        for _ in 0..20 {
            pace.synced(Duration::from_micros(2_000));
        }
        assert!(pace.is_slow());
        for _ in 0..40 {
            pace.synced(Duration::from_micros(100));
        }
        assert!(!pace.is_slow());
    }
}
