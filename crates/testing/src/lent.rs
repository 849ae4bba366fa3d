//! A store that is taken from its node, as the shard of an owner whose tenure ends.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use kew_core::{Command, QueueId, Timestamp};
use kew_store::{BatchNumber, Gate, MemoryStore, Store, StoreError, Submission};
use tokio::sync::Notify;

use crate::{CountingEntropy, Wrap, Wrapped};

/// A store in memory. It takes steps also while it is away, as those of an owner may that were begun before.
pub type LentStore = Wrapped<MemoryStore, Lent>;

/// Whether a store is away.
#[derive(Debug, Default)]
pub struct Lent {
    is_away: AtomicBool,
    is_suspended: AtomicBool,
    is_elsewhere: AtomicBool,
    /// Guards what becomes of the next answer about documents that were put.
    next: Mutex<NextDocuments>,
}

/// What becomes of the next answer about documents that were put. They are put in any case.
#[derive(Debug, Default)]
enum NextDocuments {
    #[default]
    Answered,
    Lost,
    /// The same, and those after these are refused.
    LostThenRefused,
    /// They are not put, other than all else says here.
    Refused,
    Held(Arc<Notify>),
}

impl LentStore {
    /// An empty store that is there.
    pub fn new() -> Arc<Self> {
        let store = MemoryStore::new(Arc::new(CountingEntropy::default()));
        Arc::new(Self { store, wrap: Lent::default() })
    }

    /// From now on its node may not answer for it, or may again.
    pub fn set_away(&self, is_away: bool) {
        self.wrap.is_away.store(is_away, Ordering::Release);
    }

    /// From now on its database takes no writes, or takes them again: a lease is taken and its answer refused, and what
    /// ends leases is refused.
    pub fn suspend(&self, is_suspended: bool) {
        self.wrap.is_suspended.store(is_suspended, Ordering::Release);
    }

    /// From now on another node keeps all its queues.
    pub fn set_elsewhere(&self) {
        self.wrap.is_elsewhere.store(true, Ordering::Release);
    }

    /// The next documents are put, and the answer is that this is not known.
    pub fn lose_next_documents(&self) {
        *self.wrap.next.lock().unwrap_or_else(PoisonError::into_inner) = NextDocuments::Lost;
    }

    /// The same, and the documents after those are not put.
    pub fn lose_next_documents_and_refuse_those_after(&self) {
        *self.wrap.next.lock().unwrap_or_else(PoisonError::into_inner) = NextDocuments::LostThenRefused;
    }

    /// The next documents are put, and that is answered when it is rung.
    pub fn hold_next_documents(&self) -> Arc<Notify> {
        let rung = Arc::<Notify>::default();
        *self.wrap.next.lock().unwrap_or_else(PoisonError::into_inner) =
            NextDocuments::Held(Arc::clone(&rung));
        rung
    }
}

fn takes_no_writes() -> StoreError {
    StoreError::Unavailable { cause: "the database takes no writes".to_owned() }
}

/// A gate that is never opened for what waits at it.
struct Suspended;

impl Gate for Suspended {
    fn poll_open(&self, _turn: u64, _cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Poll::Ready(Err(takes_no_writes()))
    }
}

/// A step that was taken, and whose answer is refused.
fn refused_late(mut taken: Submission) -> Submission {
    match Pin::new(&mut taken).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(outcome)) => Submission::applied(outcome, BatchNumber(1), Arc::new(Suspended)),
        Poll::Ready(refused) => Submission::settled(refused),
        Poll::Pending => panic!("a store in memory answers at once"),
    }
}

impl<S: Store> Wrap<S> for Lent {
    fn step(&self, store: &S, now: Timestamp, command: &Command) -> Submission {
        if self.is_suspended.load(Ordering::Acquire) {
            match command {
                Command::Lease(_) => return refused_late(store.step(now, command)),
                Command::Ack(_) | Command::Release(_) | Command::Withdraw(_) => {
                    return Submission::settled(Err(takes_no_writes()));
                }
                _ => {}
            }
        }
        if !matches!(command, Command::PutDocuments(_)) {
            return store.step(now, command);
        }
        let next = std::mem::take(&mut *self.next.lock().unwrap_or_else(PoisonError::into_inner));
        let failed =
            |cause: &str| Submission::settled(Err(StoreError::Unavailable { cause: cause.to_owned() }));
        if matches!(next, NextDocuments::Refused) {
            return failed("the test wants it");
        }
        let taken = store.step(now, command);
        match next {
            NextDocuments::Answered | NextDocuments::Refused => taken,
            NextDocuments::Lost => failed("the answer was lost"),
            NextDocuments::LostThenRefused => {
                *self.next.lock().unwrap_or_else(PoisonError::into_inner) = NextDocuments::Refused;
                failed("the answer was lost")
            }
            NextDocuments::Held(rung) => Submission::remote(async move {
                rung.notified().await;
                taken.await
            }),
        }
    }

    fn keeps(&self, store: &S, queue: QueueId) -> bool {
        !self.is_elsewhere.load(Ordering::Acquire) && store.keeps(queue)
    }

    fn may_answer(&self, _store: &S) -> bool {
        !self.is_away.load(Ordering::Acquire)
    }
}
