//! Messages of a lease that turn out not to be readable: they are back, and a receive that waits gets them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use kew_core::command::{CreateQueue, FirstReceipts, Lease, Send, Withdraw};
use kew_core::{Command, NewMessage, Outcome, Policy, Timestamp};
use kew_engine::{ClockKind, Engine, EngineError, Options};
use kew_store::{MemoryStore, Store, StoreError, Submission, Unread, Wait};

use crate::bench::{Dice, Hands, START, bodies, key, rest, seconds};

const UNREAD: StoreError = StoreError::Overloaded { what: "reads" };

/// A store that cannot read the messages of its first lease. It gives them back when the answer is due.
struct Unreadable {
    store: Arc<MemoryStore>,
    has_leased: AtomicBool,
    /// Set by the test when the read is over.
    is_read: Arc<AtomicBool>,
}

/// The messages of the first lease.
struct Reading {
    store: Arc<MemoryStore>,
    is_read: Arc<AtomicBool>,
    now: Timestamp,
    back: Withdraw,
}

impl Unread for Reading {
    fn poll_unread(&mut self, result: &mut Result<Outcome, StoreError>, _: &mut Context<'_>) -> Poll<()> {
        if !self.is_read.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        drop(self.store.step(self.now, &Command::Withdraw(self.back.clone())));
        *result = Err(UNREAD);
        Poll::Ready(())
    }

    fn bytes(&self) -> usize {
        1
    }
}

impl Store for Unreadable {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let submission = self.store.step(now, command);
        let Command::Lease(lease) = command else { return submission };
        let Some(Outcome::Leased(leased)) = submission.peek().cloned() else { return submission };
        if leased.is_empty() || self.has_leased.swap(true, Ordering::Relaxed) {
            return submission;
        }
        let back =
            Withdraw { queue: lease.queue, tokens: leased.iter().map(|leased| leased.token).collect() };
        let (store, is_read) = (Arc::clone(&self.store), Arc::clone(&self.is_read));
        let reading = Reading { store, is_read, now, back };
        let wait = Wait::Unread { first: Box::new(Wait::Nothing), unread: Box::new(reading) };
        Submission::new(Ok(Outcome::Leased(leased)), wait, submission.freed)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }
}

#[tokio::test]
async fn message_that_could_not_be_read_goes_to_a_receive_that_waits() {
    let dice = Arc::new(Dice(AtomicU64::new(1)));
    let is_read = Arc::new(AtomicBool::new(false));
    let store = Arc::new(MemoryStore::new(Arc::clone(&dice) as _));
    let store = Unreadable { store, has_leased: AtomicBool::new(false), is_read: Arc::clone(&is_read) };
    let options = Options { clock: ClockKind::Virtual, ..Options::default() };
    let hands = Arc::new(Hands(AtomicU64::new(START.0)));
    let engine = Engine::start(Arc::new(store), hands, dice, options).await.expect("the engine starts");
    let create = CreateQueue { key: key("q"), policy: Policy::standard(), documents: Vec::new() };
    let queue = engine.create_queue(create).await.expect("the queue is new").id;
    let message = NewMessage::text(engine.message_id(), "a".to_owned());
    let send = Send { queue, messages: vec![message], receipts: FirstReceipts::Told };
    engine.send(send).await.expect("the send is fine");

    let lease = Lease::of(queue, 1, engine.now());
    let mut first = pin!(engine.lease(lease.clone()));
    let polled = std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_ready())).await;
    assert!(!polled, "its message is being read");
    let waits = Arc::clone(&engine);
    let waiting = tokio::spawn(async move { waits.lease_waiting(lease, seconds(20)).await });
    rest().await;
    assert!(!waiting.is_finished(), "the only message is leased");

    is_read.store(true, Ordering::Relaxed);
    let refused = first.await.expect_err("its message could not be read");
    assert!(matches!(refused, EngineError::Overloaded { .. }), "{refused:?}");
    assert_eq!(bodies(waiting).await, ["a"]);
}
