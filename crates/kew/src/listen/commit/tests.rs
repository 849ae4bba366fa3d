//! Commits of an event loop, over a store that remembers them and the thread of each.

use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use kew_core::command::{Purge, Release};
use kew_core::outcome::Sent;
use kew_core::{QueueId, ReceiptRule, RuleError, Sequence};
use kew_store::{BatchNumber, Gate, StoreError};
use parking_lot::Mutex;

use super::pace::SLOW_SYNC;
use super::*;

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
    fn poll_open(&self, turn: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        if *self.open_through.lock() >= turn {
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
        let batch = BatchNumber(*self.gate.open_through.lock() + 1);
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
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
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
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
    for answer in [Rests::ForSync, Rests::ForWrite, Rests::ForWrite] {
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
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
    paced.note(Rests::ForWrite);
    paced.gather(16).await;
    assert_eq!(store.writes.load(Ordering::Relaxed), 0);
    assert_eq!(paced.waiting.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn slow_syncs_happen_on_another_thread() {
    let store = Recorder { slow: true, ..Recorder::default() };
    let commits = clients(store, 2, 10).await;
    let here = std::thread::current().id();
    assert_eq!(commits.first().map(|(_, thread)| *thread), Some(here), "the first is not known to be slow");
    assert!(commits.iter().skip(1).all(|(_, thread)| *thread != here), "{commits:?}");
}

#[tokio::test]
async fn commits_of_extensions_alone_are_no_syncs_and_stay_on_the_loop() {
    let took = Arc::new(Histogram::default());
    let release = Release { queue: QueueId(1), receipt: ReceiptRule::Any, entries: Vec::new() };
    for (extends, syncs) in [(true, 0), (false, 10)] {
        let store = Arc::new(Recorder { extends, ..Recorder::default() });
        let paced = Paced::new(Arc::clone(&store), Arc::clone(&took), None);
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
        let paced = Paced::new(Arc::new(store), Arc::default(), None);
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

/// A store whose appends end elsewhere, behind one that has ended. Its answers wait for nothing.
#[derive(Default)]
struct Far {
    target: u32,
    filled: AtomicU32,
    /// How many steps each append is of.
    appends: Mutex<Vec<u32>>,
    ring: Mutex<Option<Arc<Ring>>>,
}

impl Store for Far {
    fn step(&self, _: Timestamp, _: &Command) -> Submission {
        self.filled.fetch_add(1, Ordering::Relaxed);
        Submission::settled(Ok(Outcome::Done))
    }

    fn next_due(&self) -> Option<Timestamp> {
        None
    }

    fn newest_instant(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn commit(&self) -> bool {
        let filled = self.filled.swap(0, Ordering::Relaxed);
        if filled > 0 {
            self.appends.lock().push(filled);
        }
        filled > 0
    }

    fn hand_over(&self) -> Fill {
        if self.filled.load(Ordering::Relaxed) < self.target {
            return Fill::Waits { target: self.target };
        }
        self.commit();
        Fill::Enough
    }

    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        *self.ring.lock() = ring;
    }
}

/// The sizes of the appends when this number of steps come, each in a later pass than the one before.
async fn appends_of(target: u32, steps: u32) -> Vec<u32> {
    let store = Arc::new(Far { target, ..Far::default() });
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
    let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
    for _ in 0..steps {
        paced.step(Timestamp::ZERO, &COMMAND).await.expect("the step is taken");
        tokio::task::yield_now().await;
    }
    while store.filled.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
    committer.abort();
    std::mem::take(&mut *store.appends.lock())
}

#[tokio::test]
async fn what_fills_behind_an_append_leaves_when_it_is_full_or_no_more_comes() {
    for (target, steps, appends) in
        [(4, 8, vec![4, 4]), (4, 3, vec![3]), (4, 5, vec![4, 1]), (1, 3, vec![1; 3])]
    {
        // A machine that stands still between two steps looks as if no more came.
        let mut tries = Vec::new();
        for _ in 0..20 {
            tries.push(appends_of(target, steps).await);
        }
        let right = tries.iter().filter(|sizes| **sizes == appends).count();
        assert!(right >= 10, "{target}: {tries:?}");
        assert!(tries.iter().all(|sizes| sizes.iter().sum::<u32>() == steps), "{tries:?}");
    }
}

#[tokio::test]
async fn clients_that_come_again_are_waited_for_again() {
    let store = Arc::new(Far { target: 4, ..Far::default() });
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
    let mut pace = Pace::default();
    for _ in 0..6 {
        assert!(paced.hand_over_elsewhere(&mut pace).await, "appends end elsewhere");
    }
    assert_eq!(pace.patience(64), 4, "nothing came, six times");
    let steps = Arc::clone(&paced);
    let client = tokio::spawn(async move {
        for _ in 0..4 {
            steps.step(Timestamp::ZERO, &COMMAND).await.expect("the step is taken");
        }
    });
    assert!(paced.hand_over_elsewhere(&mut pace).await);
    client.await.expect("the client's task does not panic");
    assert_eq!(*store.appends.lock(), [4]);
    assert_eq!(pace.patience(64), 128);
}

#[tokio::test]
async fn a_store_learns_that_the_task_that_commits_has_ended() {
    let store = Arc::new(Far::default());
    let paced = Paced::new(Arc::clone(&store), Arc::default(), None);
    let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
    tokio::task::yield_now().await;
    let ring = store.ring.lock().clone().expect("it commits");
    assert!(ring());
    committer.abort();
    assert!(committer.await.is_err_and(|error| error.is_cancelled()));
    assert!(!ring(), "it has ended");
    let known = Arc::downgrade(&paced);
    drop(paced);
    assert!(known.upgrade().is_none(), "the store does not keep it");
}

#[test]
fn patience_is_halved_while_nothing_comes_and_whole_again_when_something_did() {
    let mut pace = Pace::default();
    let mut seen = vec![pace.patience(64)];
    for something_came in [false, false, true, false, false, false, false, false, false] {
        pace.filled(something_came);
        seen.push(pace.patience(64));
    }
    assert_eq!(seen, [128, 64, 32, 128, 64, 32, 16, 8, 4, 4]);
    assert_eq!(pace.patience(2), 1, "it is never without a look");
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
