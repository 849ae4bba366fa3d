//! Receives while the room for replies is full: what is small is received, what is large waits for room.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kew_core::command::{DeleteQueue, Lease};
use kew_core::{DeduplicationId, GroupId, NewMessage, Policy, QueueId, Room, SMALL_BYTES, Text};
use kew_engine::EngineError;
use tokio::sync::Notify;

use crate::bench::{Bench, Waiting, bodies, body, rest, seconds};

/// A room that tests fill by hand.
#[derive(Debug, Default)]
struct HandRoom {
    is_full: AtomicBool,
    is_full_for_small: AtomicBool,
    taken: AtomicUsize,
    taken_at_most: AtomicUsize,
    refused: AtomicUsize,
    freed: Notify,
}

impl HandRoom {
    fn full() -> Arc<Self> {
        Arc::new(Self { is_full: AtomicBool::new(true), ..Self::default() })
    }

    fn is_freed(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        self.freed.notify_waiters();
    }
}

impl Room for HandRoom {
    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn is_full_for_small(&self) -> bool {
        self.is_full_for_small.load(Ordering::Relaxed)
    }

    fn freed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let for_small = self.is_full_for_small();
        Box::pin(async move {
            while if for_small { self.is_full_for_small() } else { self.is_full() } {
                self.freed.notified().await;
            }
        })
    }

    fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.taken_at_most.fetch_max(taken, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Ten messages, in this room, after this wait.
async fn receive(
    bench: &Bench,
    queue: QueueId,
    wait: Duration,
    room: &Arc<HandRoom>,
) -> Result<Vec<String>, EngineError> {
    let lease = Lease { max: 10, ..bench.lease_of(queue) };
    let leased = bench.engine.lease_within(lease, wait, Some(Arc::clone(room) as _)).await?;
    Ok(leased.iter().map(|leased| body(leased).clone()).collect())
}

fn waits_in(bench: &Bench, queue: QueueId, room: &Arc<HandRoom>) -> Waiting {
    let (engine, lease, room) = (Arc::clone(&bench.engine), bench.lease_of(queue), Arc::clone(room));
    tokio::spawn(async move { engine.lease_within(lease, seconds(20), Some(room as _)).await })
}

fn lacks_room<T: PartialEq>(answer: &Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Overloaded { what }) if what.contains("bytes of replies"))
}

async fn send_to_group(bench: &Bench, queue: QueueId, text: &str) {
    let set = |message: &mut NewMessage| {
        message.group = Some(GroupId(Text::from("g")));
        message.deduplication = Some(DeduplicationId(Text::from(message.id.to_string())));
    };
    bench.send_with(queue, text, set).await;
}

fn large() -> String {
    "x".repeat(usize::try_from(SMALL_BYTES).expect("64 KiB fit into the integer") + 1)
}

#[tokio::test]
async fn small_messages_are_received_while_there_is_no_room_for_large_ones() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let room = HandRoom::full();
    for wait in [Duration::ZERO, seconds(20)] {
        let half = "h".repeat(40 << 10);
        for body in ["a", &half, &half, "b"] {
            bench.send(queue, body).await;
        }
        assert_eq!(receive(&bench, queue, wait, &room).await, Ok(vec!["a".to_owned(), half.clone()]));
        assert_eq!(receive(&bench, queue, wait, &room).await, Ok(vec![half, "b".to_owned()]));
    }
    assert_eq!(room.taken_at_most.load(Ordering::Relaxed), (40 << 10) + 1);
    assert_eq!(room.taken.load(Ordering::Relaxed), 0, "what was answered is the caller's to count");
}

#[tokio::test]
async fn a_large_message_stays_and_its_receive_learns_that_there_is_no_room() {
    let bench = Bench::new().await;
    let fifo = bench.queue_with("q.fifo", Policy::fifo()).await.id;
    let queue = bench.queue("q").await;
    bench.send(queue, &large()).await;
    send_to_group(&bench, fifo, &large()).await;
    let room = HandRoom::full();
    for queue in [queue, fifo] {
        assert!(lacks_room(&receive(&bench, queue, Duration::ZERO, &room).await));
        let waiting = waits_in(&bench, queue, &room);
        rest().await;
        assert!(!waiting.is_finished());
        bench.advance(seconds(20)).await;
        assert!(lacks_room(&waiting.await.expect("the task ran to its end")));
        let leased = bench.lease(queue).await.expect("the message is still there");
        assert_eq!(leased.message.attempts, 1);
    }
}

#[tokio::test]
async fn where_nothing_may_be_leased_a_full_room_changes_nothing() {
    let bench = Bench::new().await;
    let empty = bench.queue("empty").await;
    let paused = bench.queue_with("paused", Policy { paused: true, ..Policy::standard() }).await.id;
    bench.send(paused, &large()).await;
    let locked = bench.queue_with("locked.fifo", Policy::fifo()).await.id;
    send_to_group(&bench, locked, "a").await;
    send_to_group(&bench, locked, "b").await;
    let held = bench.lease(locked).await.expect("a sent message is visible");
    let room = HandRoom::full();
    for queue in [empty, paused, locked] {
        assert_eq!(receive(&bench, queue, Duration::ZERO, &room).await, Ok(Vec::new()));
    }
    let waiting = waits_in(&bench, locked, &room);
    rest().await;
    bench.ack(&held).await.expect("the message is leased");
    assert_eq!(bodies(waiting).await, ["b"], "it stands in the line");
    let waiting = waits_in(&bench, empty, &room);
    rest().await;
    bench.advance(seconds(20)).await;
    assert_eq!(bodies(waiting).await, [""; 0]);
}

#[tokio::test]
async fn nothing_is_received_when_small_replies_have_no_room_either() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, "a").await;
    let room = HandRoom::full();
    room.is_full_for_small.store(true, Ordering::Relaxed);
    assert!(lacks_room(&receive(&bench, queue, Duration::ZERO, &room).await));
    let waiting = waits_in(&bench, queue, &room);
    rest().await;
    assert!(!waiting.is_finished());
    room.is_full_for_small.store(false, Ordering::Relaxed);
    room.freed.notify_waiters();
    assert_eq!(bodies(waiting).await, ["a"], "there is room for what is small");
}

#[tokio::test]
async fn what_is_small_is_received_when_the_large_one_before_it_is_gone() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let room = HandRoom::full();
    let waiting = waits_in(&bench, queue, &room);
    rest().await;
    bench.send(queue, &large()).await;
    bench.send(queue, "b").await;
    rest().await;
    assert!(!waiting.is_finished());
    assert!(bench.lease(queue).await.is_some(), "who has room takes the large one");
    assert_eq!(bodies(waiting).await, ["b"]);
}

#[tokio::test]
async fn a_receive_that_lacks_room_ends_with_its_queue() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, &large()).await;
    let room = HandRoom::full();
    let waiting = waits_in(&bench, queue, &room);
    rest().await;
    assert!(!waiting.is_finished());
    bench.engine.delete_queue(DeleteQueue { queue, if_version: None }).await.expect("the queue is there");
    assert_eq!(bodies(waiting).await, [""; 0]);
}

#[tokio::test]
async fn a_long_poll_that_lacks_room_to_its_end_is_not_tried_again() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, &large()).await;
    let (engine, lease, room) = (Arc::clone(&bench.engine), bench.lease_of(queue), HandRoom::full());
    let in_room = Some(Arc::clone(&room) as Arc<dyn Room>);
    let waiting = tokio::spawn(async move {
        let never = std::future::pending::<Result<(), EngineError>>();
        engine.lease_when_free(lease, seconds(20), in_room, never).await
    });
    rest().await;
    bench.advance(seconds(20)).await;
    assert!(lacks_room(&waiting.await.expect("the task ran to its end")));
    assert_eq!(room.refused.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_receive_that_may_repeat_an_attempt_waits_for_whole_room() {
    let bench = Bench::new().await;
    let fifo = bench.queue_with("q.fifo", Policy::fifo()).await.id;
    send_to_group(&bench, fifo, "a").await;
    let room = HandRoom::full();
    let lease = || Lease { attempt: Some(Text::from("attempt")), ..bench.lease_of(fifo) };
    let in_room = || Some(Arc::clone(&room) as Arc<dyn Room>);
    assert!(lacks_room(&bench.engine.lease_within(lease(), Duration::ZERO, in_room()).await));
    room.is_freed();
    let first = bench.engine.lease_within(lease(), Duration::ZERO, in_room()).await;
    assert_eq!(first.as_ref().map(Vec::len), Ok(1));
    assert_eq!(bench.engine.lease_within(lease(), Duration::ZERO, in_room()).await, first);
}

#[tokio::test]
async fn those_who_wait_get_what_is_small_and_what_is_large_once_there_is_room() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let room = HandRoom::full();
    let first = waits_in(&bench, queue, &room);
    rest().await;
    bench.send(queue, "a").await;
    assert_eq!(bodies(first).await, ["a"]);
    let (second, third) = (waits_in(&bench, queue, &room), waits_in(&bench, queue, &room));
    rest().await;
    let free = bench.wait(queue, seconds(20)).await;
    bench.send(queue, &large()).await;
    assert_eq!(bodies(free).await, [large()], "who has room does not wait behind those who have none");
    bench.send(queue, &large()).await;
    rest().await;
    assert!(!second.is_finished() && !third.is_finished());
    let taken = bench.lease(queue).await.expect("the large message is still there");
    bench.ack(&taken).await.expect("the message is leased");
    bench.send(queue, "b").await;
    assert_eq!(bodies(second).await, ["b"], "it has kept its place");
    bench.send(queue, &large()).await;
    rest().await;
    assert!(!third.is_finished());
    room.is_freed();
    assert_eq!(bodies(third).await, [large()]);
}

#[tokio::test]
async fn a_large_message_costs_one_step_however_many_have_no_room() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    let room = HandRoom::full();
    let waiting: Vec<_> = (0..50).map(|_| waits_in(&bench, queue, &room)).collect();
    rest().await;
    let before = bench.store.step_count();
    bench.send(queue, &large()).await;
    rest().await;
    let steps = bench.store.step_count() - before;
    assert!(steps <= 52, "the send, a try, and one for each that comes back: {steps}");
    bench.send(queue, &large()).await;
    rest().await;
    assert_eq!(bench.store.step_count() - before - steps, 2, "the send and one try");
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
}

#[tokio::test]
async fn a_receive_that_lacks_room_is_tried_again_when_there_is_some() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    bench.send(queue, &large()).await;
    let room = HandRoom::full();
    let in_room = || Some(Arc::clone(&room) as Arc<dyn Room>);
    let never = async { Err(EngineError::NoSpace) };
    let refused = bench.engine.lease_when_free(bench.lease_of(queue), Duration::ZERO, in_room(), never).await;
    assert_eq!(refused, Err(EngineError::NoSpace), "the error is the caller's");
    let freed = async {
        room.is_freed();
        Ok::<_, EngineError>(())
    };
    let leased = bench.engine.lease_when_free(bench.lease_of(queue), Duration::ZERO, in_room(), freed).await;
    assert_eq!(leased.map(|leased| leased.len()), Ok(1));
}
